//! Which server a command talks to.

use ff_sdk::{BackendConfig, Client};

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
    pub(crate) fn backend(&self) -> BackendConfig {
        BackendConfig::server(&self.url, self.token.as_deref())
    }

    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        let connected = Client::connect(self.backend()).await;
        connected.map_err(|error| {
            Failure::from(format!(
                "{error}\nIs a server running at {}? Start one with: flowfabric serve",
                self.url
            ))
        })
    }
}

/// Runs a command's future to its end.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
