//! What a server keeps on disk, and how surely.

use std::fmt;

use ff_core::backend_error::BackendErrorKind;
use ff_script::value::Value;

use crate::connection::Connection;
use crate::errors::Failure;
use crate::preflight::field;

/// What a server keeps on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// Every write goes to an append-only file.
    AppendOnly {
        /// When the file is synced: `always`, `everysec` or `no`. Absent if the user may not ask.
        fsync: Option<String>,
    },
    /// There is no append-only file.
    Otherwise {
        /// Whether snapshots are made now and then. Absent if the user may not ask.
        snapshots: Option<bool>,
    },
}

impl Persistence {
    /// What INFO says, and what CONFIG GET adds where the user may run it. What was known stays
    /// true while INFO says the same.
    pub(crate) async fn of(
        connection: &Connection,
        info: &str,
        known: Option<Self>,
    ) -> Result<Self, Failure> {
        let append_only = field(info, "aof_enabled") == Some("1");
        if let Some(known) = known
            && matches!(known, Self::AppendOnly { .. }) == append_only
        {
            return Ok(known);
        }
        if append_only {
            return Ok(Self::AppendOnly { fsync: setting(connection, "appendfsync").await? });
        }
        let points = setting(connection, "save").await?;
        Ok(Self::Otherwise { snapshots: points.map(|points| !points.is_empty()) })
    }

    /// True if what was acknowledged is known to be on disk within a second.
    pub fn is_durable(&self) -> bool {
        match self {
            Self::AppendOnly { fsync } => {
                matches!(fsync.as_deref(), Some("always" | "everysec"))
            }
            Self::Otherwise { .. } => false,
        }
    }

    /// What makes a server durable that is not, or not known to be.
    pub(crate) fn advice(&self) -> &'static str {
        match self {
            Self::AppendOnly { fsync: None } => {
                "allow the user to ask with ACL SETUSER <user> +config|get"
            }
            Self::AppendOnly { .. } => {
                "set it with CONFIG SET appendfsync everysec, and in the server's configuration"
            }
            Self::Otherwise { .. } => {
                "set it with CONFIG SET appendonly yes, and in the server's configuration"
            }
        }
    }
}

impl fmt::Display for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AppendOnly { fsync } => match fsync.as_deref() {
                Some("always") => "append-only file, synced always",
                Some("everysec") => {
                    "append-only file, synced every second: a power cut may lose the last one"
                }
                Some(_) => {
                    "append-only file, synced by the system: a power cut may lose half a minute"
                }
                None => "append-only file, synced no one knows when: CONFIG GET is not allowed",
            },
            Self::Otherwise { snapshots } => match snapshots {
                Some(true) => "snapshots only: a restart loses what came after the last one",
                Some(false) => "nothing on disk: a restart loses everything",
                None => "no append-only file: a restart loses what is in no snapshot",
            },
        })
    }
}

/// A setting of the server; nothing if the user may not ask, or there is no such command.
async fn setting(connection: &Connection, name: &str) -> Result<Option<String>, Failure> {
    let reply = connection.run(redis::cmd("CONFIG").arg("GET").arg(name)).await;
    match reply {
        Ok(Value::Array(parts)) => {
            let value = parts.get(1).and_then(Value::as_bytes);
            Ok(value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
        }
        Ok(_) => Ok(None),
        Err(failure) => match failure.error.kind {
            BackendErrorKind::Auth | BackendErrorKind::Protocol => Ok(None),
            _ => Err(failure),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_synced_append_only_file_is_durable() {
        let file =
            |fsync: Option<&str>| Persistence::AppendOnly { fsync: fsync.map(str::to_owned) };
        for (kept, durable) in [
            (file(Some("always")), true),
            (file(Some("everysec")), true),
            (file(Some("no")), false),
            (file(None), false),
            (Persistence::Otherwise { snapshots: Some(true) }, false),
            (Persistence::Otherwise { snapshots: Some(false) }, false),
            (Persistence::Otherwise { snapshots: None }, false),
        ] {
            assert_eq!(kept.is_durable(), durable, "{kept}");
        }
    }
}
