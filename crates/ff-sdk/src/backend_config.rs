//! Where executions live: inside this process, on Valkey, or behind a server.

use std::fmt;
use std::time::Duration;

#[cfg(feature = "embedded")]
use ff_backend_embedded::EmbeddedConfig;
#[cfg(feature = "valkey")]
use ff_backend_valkey::{Address, ValkeyConfig};
use ff_core::partition::PartitionConfig;
#[cfg(any(feature = "embedded", feature = "valkey"))]
use ff_store::StoreConfig;

use crate::error::SdkError;
use crate::http::certificates;

/// Where executions live and how to get there. Made by one of its functions and then edited field
/// by field.
///
/// ```
/// use ff_sdk::BackendConfig;
///
/// let mut on_valkey = BackendConfig::valkey("localhost", 6379);
/// on_valkey.run_engine = true; // no server is running next to this Valkey
/// # let _ = on_valkey;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackendConfig {
    /// What to connect to.
    pub connection: BackendConnection,
    /// The partition counts. Absent: those of the deployment that is found there, or the default
    /// ones for a new deployment. A server knows its own.
    pub partitions: Option<PartitionConfig>,
    /// Whether timers (delays, lapsed leases, deadlines) are fired by this process. Always needed
    /// by somebody: on for the embedded store, off for Valkey, where servers do it; a server does
    /// it itself.
    pub run_engine: bool,
}

/// What to connect to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BackendConnection {
    /// A store: inside this process, or on Valkey.
    #[cfg(any(feature = "embedded", feature = "valkey"))]
    Store(StoreConfig),
    /// A FlowFabric server over HTTP.
    Server(ServerConnection),
}

/// A FlowFabric server over HTTP.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerConnection {
    /// Its address, as in `https://flowfabric.example:7480`. Several servers of one deployment are
    /// separated by commas: when one is gone, the next is asked.
    pub url: String,
    /// How long a call that no server received is tried again before it fails.
    pub patience: Duration,
    token: Option<String>,
    authorities: Option<Vec<u8>>,
}

/// A server that is started again is back within that time.
const PATIENCE: Duration = Duration::from_secs(3);

impl ServerConnection {
    /// A server by its address, with its bearer token if it wants one.
    pub fn new(url: impl Into<String>, token: Option<&str>) -> Self {
        let (url, token) = (url.into(), token.map(str::to_owned));
        Self { url, patience: PATIENCE, token, authorities: None }
    }

    /// Trusts the certificate authorities in these bytes of a PEM file, and nobody else: for a
    /// server whose certificate was signed by somebody whom this machine does not know, or by
    /// itself.
    pub fn trusting(mut self, pem: impl Into<Vec<u8>>) -> Result<Self, SdkError> {
        let pem = pem.into();
        certificates(&pem).map_err(|error| SdkError::config("backend_config", "ca", error))?;
        self.authorities = Some(pem);
        Ok(self)
    }

    pub(crate) fn authorities(&self) -> Option<&[u8]> {
        self.authorities.as_deref()
    }

    /// The bearer token, if one was given.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }
}

impl fmt::Debug for ServerConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "***");
        f.debug_struct("ServerConnection")
            .field("url", &self.url)
            .field("token", &token)
            .finish_non_exhaustive()
    }
}

impl BackendConfig {
    fn new(connection: BackendConnection, run_engine: bool) -> Self {
        Self { connection, partitions: None, run_engine }
    }

    /// A store in a directory of this machine, inside this process. Nothing to install; what is
    /// acknowledged is on the disk.
    #[cfg(feature = "embedded")]
    pub fn embedded(directory: impl Into<std::path::PathBuf>) -> Self {
        Self::embedded_with(EmbeddedConfig::in_directory(directory))
    }

    /// A store inside this process that is gone when it is closed. Each one that is opened is
    /// another one: open a [`crate::Connection`] to share it.
    #[cfg(feature = "embedded")]
    pub fn embedded_in_memory() -> Self {
        Self::embedded_with(EmbeddedConfig::in_memory())
    }

    /// A store inside this process with settings of your own.
    #[cfg(feature = "embedded")]
    pub fn embedded_with(config: EmbeddedConfig) -> Self {
        Self::new(BackendConnection::Store(StoreConfig::Embedded(config)), true)
    }

    /// A Valkey server without TLS and password.
    #[cfg(feature = "valkey")]
    pub fn valkey(host: impl Into<String>, port: u16) -> Self {
        let mut config = ValkeyConfig::parse("valkey://localhost").expect("a valid URL");
        config.addresses = vec![Address { host: host.into(), port }];
        Self::valkey_with(config)
    }

    /// A Valkey server or cluster by its URL: `valkey://user:password@host:6379`, `valkeys://` for
    /// TLS, `valkey-cluster://host,host` for a cluster.
    #[cfg(feature = "valkey")]
    pub fn valkey_url(url: &str) -> Result<Self, SdkError> {
        let config = ValkeyConfig::parse(url)
            .map_err(|error| SdkError::config("backend_config", "url", error))?;
        Ok(Self::valkey_with(config))
    }

    /// A Valkey server or cluster with settings of your own.
    #[cfg(feature = "valkey")]
    pub fn valkey_with(config: ValkeyConfig) -> Self {
        let store = StoreConfig::Valkey(Box::new(config));
        Self::new(BackendConnection::Store(store), false)
    }

    /// A FlowFabric server, with its bearer token if it wants one.
    pub fn server(url: impl Into<String>, token: Option<&str>) -> Self {
        ServerConnection::new(url, token).into()
    }

    /// Reads what people write: the URL of a server (`http://…`, `https://…`) or of Valkey
    /// (`valkey://…` and its kin), `memory:`, or a directory.
    ///
    /// ```
    /// # use ff_sdk::BackendConfig;
    /// for text in ["http://localhost:7480", "valkey://localhost", "memory:", "./data"] {
    ///     BackendConfig::parse(text)?;
    /// }
    /// # Ok::<(), ff_sdk::SdkError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, SdkError> {
        match text.split_once("://").map(|(scheme, _)| scheme) {
            Some("http" | "https") => Ok(Self::server(text, None)),
            _ => Self::store(text),
        }
    }

    #[cfg(any(feature = "embedded", feature = "valkey"))]
    fn store(text: &str) -> Result<Self, SdkError> {
        let store = StoreConfig::parse(text)
            .map_err(|error| SdkError::config("backend_config", "url", error))?;
        let run_engine = store.is_embedded();
        Ok(Self::new(BackendConnection::Store(store), run_engine))
    }

    #[cfg(not(any(feature = "embedded", feature = "valkey")))]
    fn store(_: &str) -> Result<Self, SdkError> {
        Err(SdkError::config("backend_config", "url", "must be the URL of a server"))
    }

    /// Checks what can be checked without connecting.
    pub(crate) fn validate(&self) -> Result<(), SdkError> {
        let zero = |counts: PartitionConfig| {
            counts.num_flow_partitions == 0
                || counts.num_budget_partitions == 0
                || counts.num_quota_partitions == 0
        };
        if self.partitions.is_some_and(zero) {
            let message = "every partition count must be at least 1";
            return Err(SdkError::config("backend_config", "partitions", message));
        }
        Ok(())
    }
}

impl From<ServerConnection> for BackendConfig {
    fn from(server: ServerConnection) -> Self {
        Self::new(BackendConnection::Server(server), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_printed() {
        let config = BackendConfig::server("http://localhost:7480", Some("canary"));
        assert!(!format!("{config:?}").contains("canary"));
    }

    #[test]
    fn no_partitions_at_all_are_refused_by_name() {
        let mut config = BackendConfig::server("http://localhost:7480", None);
        config.partitions = Some(PartitionConfig { num_flow_partitions: 0, ..Default::default() });
        let error = config.validate().expect_err("no partitions").to_string();
        assert_eq!(
            error,
            "config: backend_config.partitions: every partition count must be at least 1"
        );
    }

    #[cfg(feature = "valkey")]
    #[test]
    fn a_wrong_url_is_refused_by_name_and_not_repeated() {
        let error = BackendConfig::valkey_url("http://user:canary@host").expect_err("wrong scheme");
        assert!(error.to_string().starts_with("config: backend_config.url: "), "{error}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
}
