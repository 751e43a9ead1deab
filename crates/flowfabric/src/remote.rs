//! Which server a command talks to.

use std::path::PathBuf;
use std::time::Duration;

use ff_sdk::{
    BackendConfig, BackendErrorKind, Client, Code, Connection, EngineError, FlowFabricAdminClient,
    SdkError, ServerConnection,
};

use crate::failure::Failure;

/// The server, for every command that needs one.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "Every command")]
pub(crate) struct Remote {
    /// Address of the server.
    #[arg(long, env = "FLOWFABRIC_URL", default_value = "http://127.0.0.1:7480", global = true)]
    url: String,
    /// Bearer token, if the server wants one.
    #[arg(long, env = "FLOWFABRIC_TOKEN", hide_env_values = true, global = true)]
    token: Option<String>,
    /// File with the certificate authorities to trust, or with the server's own certificate, in
    /// PEM form [default: those of this machine].
    #[arg(long, value_name = "FILE", env = "FLOWFABRIC_CA", global = true)]
    ca: Option<PathBuf>,
}

/// Somebody at a terminal does not want to wait for a server that is not there.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long each server that takes connections has for its first answer: it may have much to do,
/// and one that was stopped answers nobody. More than a request waits, so that the next one is
/// asked.
const FIRST_ANSWER: Duration = Duration::from_secs(6);

impl Remote {
    /// A server that is not the one of the command line.
    pub(crate) fn at(url: String) -> Self {
        Self { url, token: None, ca: None }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        Ok(Client::new(&self.connect().await?))
    }

    /// A client of what only a server can do.
    pub(crate) fn admin(&self) -> Result<FlowFabricAdminClient, Failure> {
        FlowFabricAdminClient::of(&self.server()?).map_err(|error| self.explain(&error))
    }

    fn server(&self) -> Result<ServerConnection, Failure> {
        let server = ServerConnection::new(&self.url, self.token.as_deref());
        let Some(file) = &self.ca else { return Ok(server) };
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::not_understood(format!("--ca or FLOWFABRIC_CA: {}: {error}", file.display()))
        };
        let pem = std::fs::read(file).map_err(|error| wrong(&error))?;
        server.trusting(pem).map_err(|error| match error {
            SdkError::Config { message, .. } => wrong(&message),
            error => wrong(&error),
        })
    }

    /// Reaches the server, or says what to do about it.
    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        let mut server = self.server()?;
        server.patience = PATIENCE;
        self.open(server).await
    }

    /// The same for somebody who stays, and waits for a server that is started again.
    pub(crate) async fn connect_for_long(&self) -> Result<Connection, Failure> {
        // Whether there is one at all is seen at once.
        self.connect().await?.close().await;
        self.open(self.server()?).await
    }

    async fn open(&self, server: ServerConnection) -> Result<Connection, Failure> {
        let limit = FIRST_ANSWER * self.url.split(',').count() as u32;
        let opening = Connection::open(BackendConfig::from(server));
        match tokio::time::timeout(limit, opening).await {
            Ok(opened) => opened.map_err(|error| self.explain(&error)),
            Err(_) => Err(self.silent(limit)),
        }
    }

    fn silent(&self, limit: Duration) -> Failure {
        let (url, seconds) = (&self.url, limit.as_secs());
        Failure::unreachable(format!(
            "{url} takes connections, but has not answered within {seconds} s: is the server \
             stopped, or is it something else?"
        ))
    }

    fn explain(&self, error: &SdkError) -> Failure {
        let url = &self.url;
        if error.engine().and_then(EngineError::code) == Some(Code::Unauthorized) {
            let hint = "give it with --token or FLOWFABRIC_TOKEN";
            return Failure::from(format!("{url} wants a bearer token that it knows: {hint}"));
        }
        if let SdkError::Config { message, .. } = error {
            if message.starts_with("must look like") {
                let said = format!("--url or FLOWFABRIC_URL: {url:?} {message}");
                return Failure::not_understood(said);
            }
            let said = format!("--url, FLOWFABRIC_URL or the token: {message}");
            return Failure::not_understood(said);
        }
        match error.backend_kind() {
            Some(BackendErrorKind::Auth) => {
                let said = words(error);
                let named = said.contains("certificate");
                let hint = if named { " (with --ca or FLOWFABRIC_CA)" } else { "" };
                Failure::unreachable(format!("{said}{hint}"))
            }
            Some(BackendErrorKind::Transport | BackendErrorKind::Timeout) => {
                // The causes follow each other; the last one is the reason.
                let causes = error.to_string();
                let reason = causes.rsplit(": ").next().unwrap_or_default();
                Failure::unreachable(format!(
                    "no server answers at {url}: {reason}\n\
                     Start one with `flowfabric serve`, or name another with --url or \
                     FLOWFABRIC_URL."
                ))
            }
            // It has a word for what it refuses.
            Some(BackendErrorKind::Protocol) if words(error).starts_with("forbidden_host: ") => {
                Failure::from(format!("{url}: {}", words(error)))
            }
            Some(BackendErrorKind::Protocol) => Failure::from(format!(
                "what answers at {url} is no FlowFabric: {}\n\
                 The address has no path, as in http://host:7480.",
                words(error)
            )),
            _ => Failure::of(error),
        }
    }
}

/// What a server that was reached is like, without what we were doing.
fn words(error: &SdkError) -> String {
    match error {
        SdkError::Backend(source) | SdkError::BackendContext { source, .. } => {
            source.message.clone()
        }
        other => other.to_string(),
    }
}

/// Runs a command's future to its end.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
