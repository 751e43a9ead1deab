//! What is to be told about an open store, besides its contents.

use ff_backend_embedded::{BackupError, BackupReport, EmbeddedHost, Stats};
use ff_backend_valkey::ValkeyHost;
use ff_core::backend_error::BackendError;
use ff_script::host::Host as _;
use ff_store::{Store, StoreHost};

fn embedded(store: &Store) -> Option<&EmbeddedHost> {
    match store.host() {
        StoreHost::Embedded(host) => Some(host),
        StoreHost::Valkey { .. } => None,
    }
}

fn valkey(store: &Store) -> Option<&ValkeyHost> {
    match store.host() {
        StoreHost::Embedded(_) => None,
        StoreHost::Valkey { host, .. } => Some(host),
    }
}

/// What Valkey keeps on disk, for the banner.
pub(crate) fn kept(store: &Store) -> Option<String> {
    let mut kept = valkey(store)?.persistence();
    let same = kept.windows(2).all(|pair| pair[0].1 == pair[1].1);
    if same {
        kept.truncate(1);
        return kept.pop().map(|(_, kept)| kept.to_string());
    }
    let of_each = kept.iter().map(|(address, kept)| format!("{address}: {kept}"));
    Some(of_each.collect::<Vec<_>>().join("; "))
}

/// How often Valkey was found to have lost acknowledged work, and whether all of it is durable.
pub(crate) fn losses(store: &Store) -> Option<(u64, bool)> {
    let host = valkey(store)?;
    let durable = host.persistence().iter().all(|(_, kept)| kept.is_durable());
    Some((host.losses(), durable))
}

/// What an operator should know although the store works. Anybody may read it, so it names no
/// server.
pub(crate) fn warnings(store: &Store) -> Vec<String> {
    let Some(host) = valkey(store) else { return Vec::new() };
    let told = host.noticed_losses().pop().map(|loss| {
        let (count, at) = (host.losses(), loss.noticed_at);
        format!("the store has lost acknowledged work ({count} times, last at {at}): {loss}")
    });
    told.into_iter().collect()
}

/// What the embedded store did so far.
pub(crate) fn stats(store: &Store) -> Option<Stats> {
    embedded(store).map(EmbeddedHost::stats)
}

/// Whether the store takes work, in all its parts. Of Valkey, calls tell but for those that no
/// replica confirms.
pub(crate) async fn ready(store: &Store) -> Result<(), BackendError> {
    match store.host() {
        StoreHost::Embedded(host) => host.ready().await,
        StoreHost::Valkey { host, .. } => host.replication_trouble().map_or(Ok(()), unconfirmed),
    }
}

/// Anybody may read it, so it names no server.
fn unconfirmed(trouble: BackendError) -> Result<(), BackendError> {
    let message = "no replica of the store confirms what is written";
    Err(BackendError { message: message.to_owned(), ..trouble })
}

/// Copies a store in this process, which has files, while it runs.
pub(crate) async fn backup(store: &Store, name: &str) -> Result<BackupReport, BackupError> {
    match embedded(store) {
        Some(host) => host.backup(name).await,
        None => Err(BackupError::NoFiles),
    }
}

/// Why the store has stopped itself, if it has.
pub(crate) fn stop_reason(store: &Store) -> Option<&str> {
    embedded(store)?.stop_reason()
}
