//! Which server a command talks to.

use ff_sdk::{
    BackendConfig, BackendErrorKind, Client, Code, Connection, EngineError, FlowFabricAdminClient,
    SdkError,
};

use crate::failure::Failure;

/// The server, for every command that needs one.
#[derive(clap::Args, Clone)]
pub(crate) struct Remote {
    /// Address of the server.
    #[arg(long, env = "FLOWFABRIC_URL", default_value = "http://127.0.0.1:7480", global = true)]
    url: String,
    /// Bearer token, if the server wants one.
    #[arg(long, env = "FLOWFABRIC_TOKEN", hide_env_values = true, global = true)]
    token: Option<String>,
}

impl Remote {
    /// A server that is not the one of the command line.
    pub(crate) fn at(url: String) -> Self {
        Self { url, token: None }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        Ok(Client::new(&self.connect().await?))
    }

    /// A client of what only a server can do.
    pub(crate) fn admin(&self) -> Result<FlowFabricAdminClient, Failure> {
        let admin = match &self.token {
            Some(token) => FlowFabricAdminClient::with_token(&self.url, token),
            None => FlowFabricAdminClient::new(&self.url),
        };
        admin.map_err(|error| self.explain(&error))
    }

    /// Reaches the server, or says what to do about it.
    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        let config = BackendConfig::server(&self.url, self.token.as_deref());
        Connection::open(config).await.map_err(|error| self.explain(&error))
    }

    fn explain(&self, error: &SdkError) -> Failure {
        let url = &self.url;
        if error.engine().and_then(EngineError::code) == Some(Code::Unauthorized) {
            let hint = "give it with --token or FLOWFABRIC_TOKEN";
            return Failure::from(format!("{url} wants a bearer token that it knows: {hint}"));
        }
        if let SdkError::Config { message, .. } = error {
            return Failure::from(format!("--url, FLOWFABRIC_URL or the token: {message}"));
        }
        match error.backend_kind() {
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
            _ => Failure::from(error),
        }
    }
}

/// Runs a command's future to its end.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
