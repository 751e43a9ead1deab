//! Where the store is and how to reach it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use ff_core::partition::PartitionConfig;

use crate::durability::Durability;

const DEFAULT_PORT: u16 = 6379;

/// How to reach a Valkey server or cluster.
#[derive(Clone, Debug)]
pub struct ValkeyConfig {
    /// The server, or some nodes of the cluster.
    pub addresses: Vec<Address>,
    /// True for a cluster, whose nodes are then asked who serves what.
    pub cluster: bool,
    /// TLS and whom to trust; without it the connection is plain.
    pub tls: Option<TlsOptions>,
    /// The ACL user; the default user if absent.
    pub username: Option<String>,
    password: Option<Secret>,
    /// How long a new connection may take, TLS and authentication included.
    pub connect_timeout: Duration,
    /// How long an answer may take before the call counts as lost. Generous: a late answer costs
    /// the caller a question, a premature retry costs the store a second run.
    pub response_timeout: Duration,
    /// How long a call that certainly was not applied is tried again before it fails.
    pub retry_time: Duration,
    /// How often the library on every master is checked in the background.
    pub check_interval: Duration,
    /// How many partitions there are to receive wake-ups from.
    pub partitions: PartitionConfig,
    /// Refuse servers that may lose acknowledged work when they restart: those without an
    /// append-only file that is synced at least every second, or that do not tell.
    pub require_durable: bool,
    /// When a call that changes something counts as done.
    pub durability: Durability,
    /// How long a replica may take to confirm what it has, with [`Durability::Replica`]. Longer
    /// than a second, in which a new one says nothing yet, and less than `response_timeout`.
    pub replica_timeout: Duration,
    /// Connections per server for calls. One carries many calls at a time.
    pub connections: usize,
}

impl ValkeyConfig {
    /// A configuration with the default limits for this URL:
    /// `valkey://user:password@host:port/`, `valkeys://…` for TLS, and
    /// `valkey-cluster://host:port,host:port/`, `valkeys-cluster://…` for a cluster.
    pub fn parse(url: &str) -> Result<Self, ConfigError> {
        let (scheme, rest) = url.split_once("://").ok_or(ConfigError::MissingScheme)?;
        let (tls, cluster) = parse_scheme(scheme)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !matches!(path, "" | "0") {
            return Err(ConfigError::Database);
        }
        let (credentials, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        let addresses = hosts.split(',').map(Address::parse).collect::<Result<Vec<_>, _>>()?;
        if !cluster && addresses.len() > 1 {
            return Err(ConfigError::SeveralHosts);
        }
        let mut config = Self::new(addresses, cluster, tls.then(TlsOptions::default));
        config.username = Some(percent_decode(user)?).filter(|user| !user.is_empty());
        config.password = Some(Secret(percent_decode(password)?)).filter(|it| !it.0.is_empty());
        Ok(config)
    }

    fn new(addresses: Vec<Address>, cluster: bool, tls: Option<TlsOptions>) -> Self {
        Self {
            addresses,
            cluster,
            tls,
            username: None,
            password: None,
            connect_timeout: Duration::from_secs(2),
            response_timeout: Duration::from_secs(5),
            retry_time: Duration::from_secs(3),
            check_interval: Duration::from_secs(60),
            partitions: PartitionConfig::default(),
            require_durable: false,
            durability: Durability::default(),
            replica_timeout: Duration::from_secs(2),
            connections: 1,
        }
    }

    /// Sets user and password, for those who keep them apart from the URL.
    pub fn with_credentials(mut self, username: Option<&str>, password: &str) -> Self {
        self.username = username.map(str::to_owned);
        self.password = Some(Secret(password.to_owned()));
        self
    }

    /// Sets the number of flow partitions.
    pub fn with_flow_partitions(mut self, count: u16) -> Self {
        self.partitions.num_flow_partitions = count;
        self
    }

    /// Sets how many partitions there are of each family.
    pub fn with_partitions(mut self, partitions: PartitionConfig) -> Self {
        self.partitions = partitions;
        self
    }

    /// Sets when a call that changes something counts as done.
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    pub(crate) fn password(&self) -> Option<&str> {
        self.password.as_ref().map(|secret| secret.0.as_str())
    }
}

/// TLS: whom to trust and who we are.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// PEM file with the certificate authorities to trust; the system's if absent.
    pub ca_file: Option<PathBuf>,
    /// PEM file with our certificate, for servers that want to know their clients.
    pub certificate_file: Option<PathBuf>,
    /// PEM file with the key of our certificate.
    pub key_file: Option<PathBuf>,
    /// Trust every server. For tests only: it gives away what TLS is for.
    pub insecure: bool,
}

/// A server's host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// Name or IP address, IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Address {
    fn parse(text: &str) -> Result<Self, ConfigError> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        if host.is_empty() {
            return Err(ConfigError::MissingHost);
        }
        let port = match port {
            Some(port) => port.parse().map_err(|_| ConfigError::Port)?,
            None => DEFAULT_PORT,
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Why a URL is not one of ours. Never repeats the URL, which may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is no `://`.
    #[error("a store's URL looks like valkey://host:6379/")]
    MissingScheme,
    /// The part before `://` is unknown.
    #[error(
        "the URL's scheme is none of valkey, valkeys (TLS), valkey-cluster, valkeys-cluster (TLS)"
    )]
    UnknownScheme,
    /// A host name is empty.
    #[error("the URL names no host, or an empty one")]
    MissingHost,
    /// A port is not a number.
    #[error("a port in the URL is not a number from 0 to 65535")]
    Port,
    /// Several hosts without a cluster.
    #[error("several hosts make a cluster: write valkey-cluster:// or valkeys-cluster://")]
    SeveralHosts,
    /// A database was chosen.
    #[error("only database 0 can be used: wake-ups and clusters know no other")]
    Database,
    /// A `%` is not followed by two hexadecimal digits, or the result is not UTF-8.
    #[error("user and password must be percent-encoded UTF-8")]
    Encoding,
}

#[derive(Clone)]
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Whether TLS and whether a cluster. The other server's scheme names are taken as well.
fn parse_scheme(scheme: &str) -> Result<(bool, bool), ConfigError> {
    match scheme {
        "valkey" | "redis" => Ok((false, false)),
        "valkeys" | "rediss" => Ok((true, false)),
        "valkey-cluster" | "redis-cluster" => Ok((false, true)),
        "valkeys-cluster" | "rediss-cluster" => Ok((true, true)),
        _ => Err(ConfigError::UnknownScheme),
    }
}

fn percent_decode(text: &str) -> Result<String, ConfigError> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' { hex_pair(&mut bytes)? } else { byte });
    }
    String::from_utf8(decoded).map_err(|_| ConfigError::Encoding)
}

fn hex_pair(bytes: &mut impl Iterator<Item = u8>) -> Result<u8, ConfigError> {
    let mut digit = || {
        let byte = bytes.next().ok_or(ConfigError::Encoding)?;
        let value = char::from(byte).to_digit(16).ok_or(ConfigError::Encoding)?;
        u8::try_from(value).map_err(|_| ConfigError::Encoding)
    };
    Ok(digit()? * 16 + digit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_who_and_how() {
        let config = ValkeyConfig::parse("valkeys://ann:p%40ss@[::1]:7000/").expect("it is a URL");
        assert_eq!(config.addresses[0].to_string(), "[::1]:7000");
        assert_eq!(config.username.as_deref(), Some("ann"));
        assert_eq!(config.password(), Some("p@ss"));
        assert!(config.tls.is_some() && !config.cluster);

        let config = ValkeyConfig::parse("valkey-cluster://a:1,b").expect("it is a URL");
        let addresses: Vec<String> = config.addresses.iter().map(Address::to_string).collect();
        assert_eq!(addresses, ["a:1", "b:6379"]);
        assert!(config.cluster && config.tls.is_none() && config.password().is_none());
    }

    #[test]
    fn a_wrong_url_is_refused_with_its_reason() {
        for (url, error) in [
            ("localhost:6379", ConfigError::MissingScheme),
            ("http://localhost", ConfigError::UnknownScheme),
            ("valkey://", ConfigError::MissingHost),
            ("valkey-cluster://a,,b", ConfigError::MissingHost),
            ("valkey://a:b", ConfigError::Port),
            ("valkey://a:1,b:2", ConfigError::SeveralHosts),
            ("valkey://a/3", ConfigError::Database),
            ("valkey://u:%zz@a", ConfigError::Encoding),
            ("valkey://u:%f@a", ConfigError::Encoding),
        ] {
            assert_eq!(ValkeyConfig::parse(url).err(), Some(error), "{url}");
        }
    }

    #[test]
    fn the_password_is_not_printed() {
        let config = ValkeyConfig::parse("valkey://u:canary@a").expect("it is a URL");
        assert!(!format!("{config:?}").contains("canary"));
    }
}
