//! What a server can be told.

mod authority;
mod limits;
mod public_url;

pub use authority::Authority;
pub(crate) use authority::HostName;
pub use limits::Limits;
pub use public_url::PublicUrl;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use ff_backend_embedded::SyncMode;
use ff_core::duration;
use ff_core::limits::DELAY_MS_MAX;
use ff_core::partition::PartitionConfig;
use ff_script::backend::WaitpointSecrets;
use ff_store::StoreConfig;

/// The port of a server that is told none.
const DEFAULT_PORT: u16 = 7480;
/// The directory of a server that is told none.
const DEFAULT_DIR: &str = "flowfabric-data";

/// Everything a server can be told.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where to listen. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where the data is.
    pub store: StoreConfig,
    /// Who may use the API. Without any token everybody may, so such a server listens on loopback
    /// only.
    pub tokens: Vec<Token>,
    /// Further names by which clients and pages may reach the server: those of a proxy in front of
    /// it. One without a port stands for every port.
    pub allowed_hosts: Vec<Authority>,
    /// The server's address as people see it, for the links that are sent to them; if absent, the
    /// address it listens on, unless that is all of them.
    pub public_url: Option<PublicUrl>,
    /// Certificate and key; without them connections are plain.
    pub tls: Option<TlsFiles>,
    /// How much of everything.
    pub limits: Limits,
    /// The number of flow partitions of a new deployment, 256 if absent; an existing one must have
    /// it, unless it is absent.
    pub partitions: Option<u16>,
    /// Listen beyond loopback although no token is set. Everybody who reaches the port can then
    /// read and change everything.
    pub allow_insecure: bool,
    /// Answer `/metrics` without a token.
    pub open_metrics: bool,
    /// Tell the log about every request: its method, path, status, time and id.
    pub access_log: bool,
    /// What signs waitpoint tokens where nothing does yet, and for how long a replaced key, of
    /// tokens or of links, is accepted.
    pub waitpoint_secrets: WaitpointSecrets,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
            store: StoreConfig::directory(DEFAULT_DIR, SyncMode::Always),
            tokens: Vec::new(),
            allowed_hosts: Vec::new(),
            public_url: None,
            tls: None,
            limits: Limits::default(),
            partitions: None,
            allow_insecure: false,
            open_metrics: false,
            access_log: false,
            waitpoint_secrets: WaitpointSecrets::default(),
        }
    }
}

impl ServerConfig {
    pub(crate) fn partition_config(&self) -> Option<PartitionConfig> {
        let with =
            |count| PartitionConfig { num_flow_partitions: count, ..PartitionConfig::default() };
        self.partitions.map(with)
    }

    /// Checks what can be checked before anything is touched. Answers what is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.partitions == Some(0) {
            return Err("partitions must be at least 1".to_owned());
        }
        if self.tokens.iter().any(|token| token.0.len() < TOKEN_BYTES_MIN) {
            return Err(format!("tokens: each must have at least {TOKEN_BYTES_MIN} characters"));
        }
        if self.tokens.iter().any(|token| !token.0.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err("a token must be printable ASCII without blanks".to_owned());
        }
        if !self.listen.ip().is_loopback() && self.tokens.is_empty() && !self.allow_insecure {
            return Err(format!(
                "listening on {} without a token lets everybody in: set a token, listen on \
                 127.0.0.1, or allow it explicitly (allow_insecure)",
                self.listen
            ));
        }
        if self.waitpoint_secrets.grace_ms > DELAY_MS_MAX {
            return Err(format!(
                "waitpoint_grace must be at most {}",
                duration::text(DELAY_MS_MAX)
            ));
        }
        self.limits.check()
    }
}

/// Shorter ones can be guessed.
const TOKEN_BYTES_MIN: usize = 8;

/// A bearer token. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

/// The files of a server that speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM file with the certificate and those between it and a known authority.
    pub certificate_file: PathBuf,
    /// PEM file with the certificate's key.
    pub key_file: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listening_on(address: &str) -> ServerConfig {
        ServerConfig { listen: address.parse().expect("an address"), ..ServerConfig::default() }
    }

    #[test]
    fn a_server_that_is_told_nothing_starts() {
        let config = ServerConfig::default();
        assert_eq!(config.listen.to_string(), "127.0.0.1:7480");
        assert_eq!(config.partitions, None);
        assert_eq!(config.check(), Ok(()));
    }

    #[test]
    fn a_server_beyond_loopback_needs_a_token_or_an_explicit_word() {
        let open = listening_on("0.0.0.0:1");
        assert!(open.check().expect_err("open").contains("without a token"));
        let allowed = ServerConfig { allow_insecure: true, ..open.clone() };
        assert_eq!(allowed.check(), Ok(()));
        let guarded = ServerConfig { tokens: vec![Token("12345678".to_owned())], ..open };
        assert_eq!(guarded.check(), Ok(()));
        assert_eq!(listening_on("[::1]:1").check(), Ok(()));
    }

    #[test]
    fn tokens_are_long_enough_printable_and_never_printed() {
        let with = |token: &str| ServerConfig {
            tokens: vec![Token(token.to_owned())],
            ..ServerConfig::default()
        };
        for wrong in ["", "short", "with blanks", "zeilenende\n"] {
            assert!(with(wrong).check().is_err(), "{wrong:?}");
        }
        assert!(!format!("{:?}", with("canary-secret")).contains("canary"));
    }
}
