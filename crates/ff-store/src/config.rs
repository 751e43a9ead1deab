//! Which store, with which options: written by people, read from files, made by programs.

#[cfg(any(feature = "embedded", feature = "valkey"))]
use std::path::PathBuf;

#[cfg(feature = "embedded")]
use ff_backend_embedded::{EmbeddedConfig, MemoryLimit, Storage, SyncMode};
#[cfg(feature = "valkey")]
use ff_backend_valkey::{Durability, ValkeyConfig};

/// Which store, with which options.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoreConfig {
    /// In this process: in a directory, or in memory and gone when it is closed.
    #[cfg(feature = "embedded")]
    Embedded(EmbeddedConfig),
    /// On a Valkey server or cluster.
    #[cfg(feature = "valkey")]
    Valkey(Box<ValkeyConfig>),
}

impl StoreConfig {
    /// A store in this process that is gone when it is closed.
    #[cfg(feature = "embedded")]
    pub fn memory() -> Self {
        Self::Embedded(EmbeddedConfig::in_memory())
    }

    /// A store in this process, with a journal in a directory. That is made if it does not exist.
    #[cfg(feature = "embedded")]
    pub fn directory(path: impl Into<PathBuf>, sync: SyncMode) -> Self {
        Self::Embedded(EmbeddedConfig::in_directory(path)).with_sync(sync)
    }

    /// A store on Valkey, by its URL.
    #[cfg(feature = "valkey")]
    pub fn valkey(url: &str) -> Result<Self, String> {
        let config = ValkeyConfig::parse(url).map_err(|error| error.to_string())?;
        Ok(Self::Valkey(Box::new(config)))
    }

    /// Reads what people write: a `valkey://…` URL, `memory:`, or a directory.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            #[cfg(feature = "valkey")]
            url if url.contains("://") => Self::valkey(url),
            #[cfg(feature = "embedded")]
            "memory:" => Ok(Self::memory()),
            #[cfg(feature = "embedded")]
            path if !path.is_empty() => Ok(Self::directory(path, SyncMode::Always)),
            _ => Err("a store is a directory or a URL like valkey://host:6379/".to_owned()),
        }
    }

    /// True if it is in this process.
    pub const fn is_embedded(&self) -> bool {
        match self {
            #[cfg(feature = "embedded")]
            Self::Embedded(_) => true,
            #[cfg(feature = "valkey")]
            Self::Valkey(_) => false,
        }
    }

    /// The same store, with another sync mode if it has one.
    #[cfg(feature = "embedded")]
    pub fn with_sync(mut self, mode: SyncMode) -> Self {
        if let Self::Embedded(EmbeddedConfig { storage: Storage::Directory { sync, .. }, .. }) =
            &mut self
        {
            *sync = mode;
        }
        self
    }

    /// The same store, with another memory limit if it is in this process.
    #[cfg(feature = "embedded")]
    pub fn with_memory_limit(mut self, limit: MemoryLimit) -> Self {
        if let Self::Embedded(config) = &mut self {
            config.memory_limit = limit;
        }
        self
    }

    /// The same store, with another place for its backups if it has files.
    #[cfg(feature = "embedded")]
    pub fn with_backup_directory(mut self, directory: Option<PathBuf>) -> Self {
        if let Self::Embedded(config) = &mut self {
            config.backup_directory = directory;
        }
        self
    }

    /// The same store, with whom to trust and who we are over TLS: files with the authorities, our
    /// certificate and its key. Only a Valkey with TLS has any.
    #[cfg(feature = "valkey")]
    pub fn with_valkey_files(
        mut self,
        ca: Option<PathBuf>,
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
    ) -> Result<Self, String> {
        if certificate.is_some() != key.is_some() {
            return Err("valkey_cert and valkey_key go together".to_owned());
        }
        if ca.is_none() && certificate.is_none() {
            return Ok(self);
        }
        let tls = match &mut self {
            Self::Valkey(config) => config.tls.as_mut(),
            #[cfg(feature = "embedded")]
            Self::Embedded(_) => None,
        };
        let rule = "valkey_ca, valkey_cert and valkey_key are for a store like valkeys://host";
        let tls = tls.ok_or_else(|| rule.to_owned())?;
        (tls.ca_file, tls.certificate_file, tls.key_file) = (ca, certificate, key);
        Ok(self)
    }

    /// The same store, with another word on when a call that changes something counts as done.
    /// Only Valkey has replicas to wait for.
    #[cfg(feature = "valkey")]
    pub fn with_durability(mut self, durability: Durability) -> Result<Self, String> {
        match &mut self {
            Self::Valkey(config) => config.durability = durability,
            #[cfg(feature = "embedded")]
            Self::Embedded(_) if durability == Durability::Primary => {}
            #[cfg(feature = "embedded")]
            Self::Embedded(_) => {
                return Err("durability = replica is for a store like valkey://host".to_owned());
            }
        }
        Ok(self)
    }

    /// The same store, if it does not lose acknowledged work when it restarts. What Valkey keeps on
    /// disk is seen when it is connected to, and again after every failover and restart.
    pub fn require_durable(mut self) -> Result<Self, String> {
        match &mut self {
            #[cfg(feature = "embedded")]
            Self::Embedded(config) => match config.storage {
                Storage::Memory => Err("require_durable: a store in memory keeps nothing"),
                Storage::Directory { sync: SyncMode::Off, .. } => {
                    Err("require_durable: the journal must be synced, always or everysec")
                }
                Storage::Directory { .. } => Ok(()),
            },
            #[cfg(feature = "valkey")]
            Self::Valkey(config) => {
                config.require_durable = true;
                Ok(())
            }
        }
        .map_err(|error: &str| error.to_owned())?;
        Ok(self)
    }
}

/// For a person: where the data is.
impl std::fmt::Display for StoreConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            #[cfg(feature = "embedded")]
            Self::Embedded(config) => match &config.storage {
                Storage::Memory => f.write_str("embedded, in memory: gone when the server ends"),
                Storage::Directory { path, sync } => {
                    write!(f, "embedded in {} (sync {sync})", path.display())
                }
            },
            #[cfg(feature = "valkey")]
            Self::Valkey(config) => {
                let kind = if config.cluster { "valkey cluster" } else { "valkey" };
                let addresses: Vec<_> = config.addresses.iter().map(ToString::to_string).collect();
                write!(f, "{kind} at {}", addresses.join(", "))?;
                match config.durability {
                    Durability::Primary => Ok(()),
                    Durability::Replica => f.write_str(", answers when a replica has it, too"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_directory_or_a_url() {
        for (text, shown) in [
            ("memory:", "embedded, in memory: gone when the server ends"),
            ("./data", "embedded in ./data (sync always)"),
            ("valkey://h:1/", "valkey at h:1"),
            ("valkey-cluster://a:1,b:2", "valkey cluster at a:1, b:2"),
        ] {
            let store = StoreConfig::parse(text).expect(text);
            assert_eq!(store.to_string(), shown);
        }
        for wrong in ["", "http://h/", "valkey://"] {
            assert!(StoreConfig::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_store_that_must_be_durable_is_synced() {
        let directory = |sync| StoreConfig::directory("d", sync).require_durable();
        assert!(directory(SyncMode::Off).expect_err("not synced").contains("everysec"));
        assert!(directory(SyncMode::EverySec).is_ok());
        assert!(StoreConfig::memory().require_durable().is_err());
        let valkey = StoreConfig::parse("valkey://h/").and_then(StoreConfig::require_durable);
        assert!(matches!(valkey, Ok(StoreConfig::Valkey(config)) if config.require_durable));
    }

    #[test]
    fn only_valkey_has_replicas_to_wait_for() {
        let with = |text: &str| StoreConfig::parse(text)?.with_durability(Durability::Replica);
        let valkey = with("valkey://h:1/").expect("it may have replicas");
        assert_eq!(valkey.to_string(), "valkey at h:1, answers when a replica has it, too");
        assert!(with("./data").expect_err("it has none").contains("durability"));
        assert!(StoreConfig::memory().with_durability(Durability::Primary).is_ok());
    }

    #[test]
    fn certificates_are_for_a_valkey_with_tls() {
        let files = |url: &str, ca: &str, certificate: Option<&str>, key: Option<&str>| {
            let (certificate, key) = (certificate.map(PathBuf::from), key.map(PathBuf::from));
            StoreConfig::parse(url)?.with_valkey_files(Some(ca.into()), certificate, key)
        };
        let store = files("valkeys://h/", "ca", Some("cert"), Some("key"));
        let Ok(StoreConfig::Valkey(config)) = store else { panic!("{store:?}") };
        let tls = config.tls.expect("it has TLS");
        assert_eq!(tls.ca_file, Some("ca".into()));
        assert_eq!((tls.certificate_file, tls.key_file), (Some("cert".into()), Some("key".into())));
        assert!(files("valkey://h/", "ca", None, None).is_err(), "plain");
        assert!(files("./data", "ca", None, None).is_err(), "embedded");
        assert!(files("valkeys://h/", "ca", Some("cert"), None).is_err(), "no key");
    }

    #[test]
    fn only_a_directory_has_a_sync_mode() {
        let store = StoreConfig::directory("d", SyncMode::Always).with_sync(SyncMode::Off);
        assert_eq!(store.to_string(), "embedded in d (sync off)");
        let memory = StoreConfig::memory();
        assert_eq!(memory.clone().with_sync(SyncMode::Off).to_string(), memory.to_string());
        assert!("sometimes".parse::<SyncMode>().is_err());
    }
}
