//! Whether the right function library runs on a server, and what is done if not.

use ff_core::backend_error::{BackendErrorKind, Retry};
use ff_core::limits;
use ff_script::audit::deployment_key;
use ff_script::library::Library;
use ff_script::value::Value;

use crate::connection::Connection;
use crate::errors::{Failure, Remedy};

/// Answers `[1, "OK", version, hash]` of the library that is loaded.
const VERSION_FUNCTION: &str = "ff_version_v1";

/// Another host may load another version at the same time; after this many rounds the newest won.
const ROUNDS: usize = 4;

/// Loads the library where it is missing or older than ours.
pub(crate) struct Loader {
    library: Library,
}

/// The library that a server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Loaded {
    version: u64,
    hash: String,
}

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Use,
    Load,
    Refuse,
}

impl Loader {
    pub(crate) fn new(library: Library) -> Self {
        Self { library }
    }

    /// Looks at the library and loads ours if it is missing or older.
    pub(crate) async fn check(&self, connection: &Connection) -> Result<(), Failure> {
        for _ in 0..ROUNDS {
            let loaded = loaded_on(connection).await?;
            match action(&self.library, loaded.as_ref()) {
                Action::Use => return Ok(()),
                Action::Load => {
                    check_format(connection).await?;
                    self.load(connection, loaded.as_ref()).await?;
                }
                Action::Refuse => return Err(self.foreign(connection, loaded.as_ref())),
            }
        }
        let message = format!(
            "{} does not keep the library it was given: another program seems to load its own \
             under the same name; stop it",
            connection.address
        );
        Err(Failure::new(BackendErrorKind::ScriptNotLoaded, Retry::Never, Remedy::GiveUp, message))
    }

    async fn load(&self, connection: &Connection, old: Option<&Loaded>) -> Result<(), Failure> {
        let Library { name, version, .. } = &self.library;
        let replaces = old.map(|old| old.version);
        let address = &connection.address;
        tracing::info!(%address, name, version, ?replaces, "loads the library");
        let mut command = redis::cmd("FUNCTION");
        command.arg("LOAD").arg("REPLACE").arg(&self.library.source);
        let doing = || format!("loading the function library {name}");
        match connection.run(&command).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.error.kind == BackendErrorKind::Protocol => {
                let message = failure.context(&doing()).error.message;
                let kind = BackendErrorKind::ScriptNotLoaded;
                Err(Failure::new(kind, Retry::Never, Remedy::GiveUp, message))
            }
            Err(failure) => Err(failure.context(&doing())),
        }
    }

    fn foreign(&self, connection: &Connection, loaded: Option<&Loaded>) -> Failure {
        let Library { name, version, hash, .. } = &self.library;
        let theirs = loaded.map_or("none", |loaded| loaded.hash.as_str());
        let message = format!(
            "{} runs another library {name} of the same version {version}: its hash is {theirs}, \
             ours is {hash}. Run the same build everywhere; if the one on the server is not \
             wanted, remove it with FUNCTION DELETE {name} and start again",
            connection.address
        );
        Failure::new(BackendErrorKind::ScriptNotLoaded, Retry::Never, Remedy::GiveUp, message)
    }
}

/// A library that takes the data for something else than it is must not even be loaded: servers
/// that fit may be at work. Only the server of the first partition has the record.
async fn check_format(connection: &Connection) -> Result<(), Failure> {
    let mut command = redis::cmd("HMGET");
    command.arg(deployment_key()).arg("flow").arg("format");
    let found = match connection.run(&command).await {
        Ok(Value::Array(parts)) => parts,
        Ok(_) => return Ok(()),
        Err(failure) if failure.error.kind == BackendErrorKind::Cluster => return Ok(()),
        Err(failure) => return Err(failure.context("looking for the store's format")),
    };
    let text = |at: usize| {
        let bytes = found.get(at).and_then(Value::as_bytes);
        bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    let format = text(1).unwrap_or_else(|| "0".to_owned());
    let ours = limits::STORE_FORMAT_OLDEST..=limits::STORE_FORMAT;
    if text(0).is_none() || format.parse().is_ok_and(|format| ours.contains(&format)) {
        return Ok(());
    }
    let message = format!(
        "{} holds data in format {format}, ours is {}: use the version that wrote it, or start \
         with an empty store",
        connection.address,
        limits::STORE_FORMAT
    );
    Err(Failure::new(BackendErrorKind::Protocol, Retry::Never, Remedy::GiveUp, message))
}

async fn loaded_on(connection: &Connection) -> Result<Option<Loaded>, Failure> {
    let mut command = redis::cmd("FCALL_RO");
    command.arg(VERSION_FUNCTION).arg(0);
    match connection.run(&command).await {
        Ok(reply) => parse(&reply).map(Some).ok_or_else(|| {
            let message = format!("{} has a strange {VERSION_FUNCTION}", connection.address);
            let kind = BackendErrorKind::ScriptNotLoaded;
            Failure::new(kind, Retry::Never, Remedy::GiveUp, message)
        }),
        Err(failure) if failure.remedy == Remedy::LoadLibrary => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn parse(reply: &Value) -> Option<Loaded> {
    let Value::Array(parts) = reply else { return None };
    let [Value::Int(1), _, version, hash] = parts.as_slice() else { return None };
    let text = |value: &Value| Some(std::str::from_utf8(value.as_bytes()?).ok()?.to_owned());
    Some(Loaded { version: text(version)?.parse().ok()?, hash: text(hash)? })
}

fn action(ours: &Library, loaded: Option<&Loaded>) -> Action {
    match loaded {
        None => Action::Load,
        Some(loaded) if loaded.version < ours.version => Action::Load,
        Some(loaded) if loaded.version > ours.version => Action::Use,
        Some(loaded) if loaded.hash == ours.hash => Action::Use,
        Some(_) => Action::Refuse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_or_older_library_is_replaced() {
        let ours = Library {
            name: "flowfabric_v1",
            version: 5,
            hash: "ours".to_owned(),
            source: String::new(),
        };
        let loaded = |version, hash: &str| Some(Loaded { version, hash: hash.to_owned() });
        for (found, expected) in [
            (None, Action::Load),
            (loaded(4, "theirs"), Action::Load),
            (loaded(4, "ours"), Action::Load),
            (loaded(5, "ours"), Action::Use),
            (loaded(5, "theirs"), Action::Refuse),
            (loaded(6, "theirs"), Action::Use),
        ] {
            assert_eq!(action(&ours, found.as_ref()), expected, "{found:?}");
        }
    }
}
