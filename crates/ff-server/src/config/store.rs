//! Where the data is: a directory of our own, or Valkey.

use std::path::PathBuf;

use ff_backend_embedded::SyncMode;
use ff_backend_valkey::{TlsOptions, ValkeyConfig};
use serde::Deserialize;

/// The directory of a server that is told none.
const DEFAULT_DIR: &str = "flowfabric-data";

/// Where the data is.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "StoreFile")]
pub enum StoreConfig {
    /// In this process and nowhere else: gone when the server ends.
    Memory,
    /// In this process, with a journal in a directory.
    Embedded {
        /// The directory. It is made if it does not exist.
        dir: PathBuf,
        /// When a call counts as done.
        sync: SyncMode,
    },
    /// On Valkey.
    Valkey(Box<ValkeyConfig>),
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self::Embedded { dir: PathBuf::from(DEFAULT_DIR), sync: SyncMode::Always }
    }
}

impl StoreConfig {
    /// Reads what people write: a `valkey://…` URL, `memory:`, or a directory.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.contains("://") {
            let config = ValkeyConfig::parse(text).map_err(|error| error.to_string())?;
            return Ok(Self::Valkey(Box::new(config)));
        }
        match text {
            "" => Err("a store is a directory or a URL like valkey://host:6379/".to_owned()),
            "memory:" => Ok(Self::Memory),
            dir => Ok(Self::Embedded { dir: PathBuf::from(dir), sync: SyncMode::Always }),
        }
    }
}

impl StoreConfig {
    /// The same store, if it does not lose acknowledged work when it restarts. What Valkey keeps on
    /// disk is seen when it is connected to, and again after every failover and restart.
    pub fn require_durable(self) -> Result<Self, String> {
        match self {
            Self::Memory => Err("require_durable: a store in memory keeps nothing".to_owned()),
            Self::Embedded { sync: SyncMode::Off, .. } => {
                Err("require_durable: the journal must be synced, always or everysec".to_owned())
            }
            Self::Embedded { .. } => Ok(self),
            Self::Valkey(mut config) => {
                config.require_durable = true;
                Ok(Self::Valkey(config))
            }
        }
    }
}

/// The store in a file: a directory or a URL, not both.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoreFile {
    dir: Option<PathBuf>,
    sync: Option<String>,
    url: Option<String>,
    username: Option<String>,
    password: Option<String>,
    ca_file: Option<PathBuf>,
    certificate_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    require_durable: Option<bool>,
}

impl TryFrom<StoreFile> for StoreConfig {
    type Error = String;

    fn try_from(file: StoreFile) -> Result<Self, String> {
        match (&file.dir, &file.url) {
            (Some(_), Some(_)) => Err("store: give dir or url, not both".to_owned()),
            (None, None) => Err("store: give dir or url".to_owned()),
            (Some(dir), None) => file.embedded(dir.clone()),
            (None, Some(url)) => file.valkey(url),
        }
    }
}

impl StoreFile {
    fn embedded(&self, dir: PathBuf) -> Result<StoreConfig, String> {
        let sync = self.sync.as_deref().map_or(Ok(SyncMode::Always), parse_sync)?;
        self.durable(StoreConfig::Embedded { dir, sync })
    }

    fn durable(&self, store: StoreConfig) -> Result<StoreConfig, String> {
        if self.require_durable == Some(true) { store.require_durable() } else { Ok(store) }
    }

    fn valkey(&self, url: &str) -> Result<StoreConfig, String> {
        if self.sync.is_some() {
            return Err("store: sync is for a directory; Valkey has its own appendfsync".to_owned());
        }
        let mut config = ValkeyConfig::parse(url).map_err(|error| format!("store: {error}"))?;
        if let Some(password) = &self.password {
            config = config.with_credentials(self.username.as_deref(), password);
        }
        if let Some(tls) = &mut config.tls {
            *tls = TlsOptions {
                ca_file: self.ca_file.clone(),
                certificate_file: self.certificate_file.clone(),
                key_file: self.key_file.clone(),
                insecure: false,
            };
        }
        self.durable(StoreConfig::Valkey(Box::new(config)))
    }
}

/// The words of the setting.
pub(crate) fn parse_sync(word: &str) -> Result<SyncMode, String> {
    match word {
        "always" => Ok(SyncMode::Always),
        "everysec" => Ok(SyncMode::EverySec),
        "off" => Ok(SyncMode::Off),
        other => Err(format!("store: sync is always, everysec or off, not {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<StoreConfig, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn a_store_is_a_directory_or_a_url() {
        assert!(matches!(StoreConfig::parse("memory:"), Ok(StoreConfig::Memory)));
        assert!(matches!(StoreConfig::parse("./data"), Ok(StoreConfig::Embedded { .. })));
        assert!(matches!(StoreConfig::parse("valkey://h:1/"), Ok(StoreConfig::Valkey(_))));
        for wrong in ["", "http://h/", "valkey://"] {
            assert!(StoreConfig::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_names_one_store_only() {
        let everysec = read(r#"{"dir":"d","sync":"everysec"}"#).expect("valid");
        assert!(matches!(everysec, StoreConfig::Embedded { sync: SyncMode::EverySec, .. }));
        assert!(read(r#"{"url":"valkeys://h/","ca_file":"ca.pem"}"#).is_ok());
        for wrong in [
            "{}",
            r#"{"dir":"d","url":"valkey://h/"}"#,
            r#"{"dir":"d","sync":"sometimes"}"#,
            r#"{"url":"valkey://h/","sync":"always"}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_store_that_must_be_durable_is_synced() {
        let off = read(r#"{"dir":"d","sync":"off","require_durable":true}"#);
        assert!(off.expect_err("not synced").contains("everysec"));
        assert!(read(r#"{"dir":"d","sync":"off","require_durable":false}"#).is_ok());
        assert!(read(r#"{"dir":"d","require_durable":true}"#).is_ok());
        assert!(StoreConfig::Memory.require_durable().is_err());
        let valkey = read(r#"{"url":"valkey://h/","require_durable":true}"#).expect("valid");
        assert!(matches!(valkey, StoreConfig::Valkey(config) if config.require_durable));
    }

    #[test]
    fn a_password_is_not_printed() {
        let store = read(r#"{"url":"valkey://h/","password":"canary"}"#).expect("valid");
        assert!(!format!("{store:?}").contains("canary"));
    }
}
