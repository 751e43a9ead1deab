//! Whether a server can be trusted with calls: asked on every new connection before its first call,
//! because behind the same address there may be another server by now, or the same one with other
//! settings, an older library and other users.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ff_script::library::Library;

use crate::config::{Address, ValkeyConfig};
use crate::connection::Connection;
use crate::errors::Failure;
use crate::loader::Loader;
use crate::persistence::Persistence;
use crate::{permissions, preflight};

/// Looks at servers, and remembers what they keep on disk.
pub(crate) struct Verifier {
    config: ValkeyConfig,
    loader: Loader,
    kept: Mutex<BTreeMap<Address, Persistence>>,
}

impl Verifier {
    pub(crate) fn new(config: ValkeyConfig, library: Library) -> Self {
        Self { config, loader: Loader::new(library), kept: Mutex::default() }
    }

    /// Makes sure, once per connection, that its server can be trusted. True if that was news.
    pub(crate) async fn verify(&self, connection: &Arc<Connection>) -> Result<bool, Failure> {
        if connection.is_verified() {
            return Ok(false);
        }
        let _turn = connection.verifying.lock().await;
        if connection.is_verified() {
            return Ok(false);
        }
        self.look_at(connection, None).await?;
        let user = self.config.username.as_deref().unwrap_or("default");
        permissions::check(connection, user).await?;
        connection.set_verified(true);
        Ok(true)
    }

    /// Looks at what can change while a connection lasts: settings and library.
    pub(crate) async fn check(&self, connection: &Connection) -> Result<(), Failure> {
        self.look_at(connection, self.kept_by(&connection.address)).await
    }

    async fn look_at(
        &self,
        connection: &Connection,
        known: Option<Persistence>,
    ) -> Result<(), Failure> {
        let kept = preflight::inspect(connection, &self.config, known).await?;
        self.remember(&connection.address, kept);
        self.loader.check(connection).await
    }

    /// What this server was last seen to keep on disk.
    pub(crate) fn kept_by(&self, address: &Address) -> Option<Persistence> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(address).cloned()
    }

    fn remember(&self, address: &Address, now: Persistence) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let before = kept.insert(address.clone(), now.clone());
        if before.as_ref() == Some(&now) {
            return;
        }
        if now.is_durable() {
            tracing::info!(%address, "keeps {now}");
        } else {
            tracing::warn!(%address, "may lose acknowledged work: {now}; {}", now.advice());
        }
    }
}
