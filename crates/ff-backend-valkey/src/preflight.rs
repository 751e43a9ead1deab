//! What a server must be before anything is entrusted to it: new enough, never evicting, and
//! durable where that is required.

use ff_core::backend_error::{BackendErrorKind, Retry};
use ff_script::value::Value;

use crate::config::ValkeyConfig;
use crate::connection::Connection;
use crate::errors::{Failure, Remedy};
use crate::persistence::Persistence;

const OLDEST_VALKEY: (u32, u32) = (7, 2);
const OLDEST_REDIS: (u32, u32) = (7, 0);

/// Refuses servers that are too old, or that would throw state away. Answers what is kept on disk.
pub(crate) async fn inspect(
    connection: &Connection,
    config: &ValkeyConfig,
    known: Option<Persistence>,
) -> Result<Persistence, Failure> {
    // INFO rather than CONFIG GET, which many deployments forbid.
    let reply = connection.run(&redis::cmd("INFO")).await?;
    let text = match &reply {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes),
        _ => "".into(),
    };
    let refused = |(kind, what): (BackendErrorKind, String)| {
        let message = format!("{} {what}", connection.address);
        Failure::new(kind, Retry::Never, Remedy::GiveUp, message)
    };
    check(&text, config.cluster).map_err(refused)?;
    let kept = Persistence::of(connection, &text, known).await?;
    if config.require_durable && !kept.is_durable() {
        let what = format!(
            "is not durable, which the setting require_durable asks for ({kept}): {}",
            kept.advice()
        );
        return Err(refused((BackendErrorKind::Resource, what)));
    }
    Ok(kept)
}

fn check(info: &str, cluster: bool) -> Result<(), (BackendErrorKind, String)> {
    let version = check_version(info).map_err(|what| (BackendErrorKind::Protocol, what));
    version
        .and_then(|()| check_mode(info, cluster).map_err(|it| (BackendErrorKind::Cluster, it)))
        .and_then(|()| check_eviction(info).map_err(|it| (BackendErrorKind::Resource, it)))
}

fn check_version(info: &str) -> Result<(), String> {
    let (name, version, oldest) = match field(info, "valkey_version") {
        Some(version) => ("Valkey", version, OLDEST_VALKEY),
        None => ("Redis", field(info, "redis_version").unwrap_or_default(), OLDEST_REDIS),
    };
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found >= oldest {
        return Ok(());
    }
    Err(format!(
        "runs {name} {version:?}: update it, Valkey 7.2 and Redis 7.0 are the oldest that work"
    ))
}

fn check_mode(info: &str, cluster: bool) -> Result<(), String> {
    let mode = field(info, "server_mode").or_else(|| field(info, "redis_mode"));
    match mode {
        Some("cluster") if !cluster => {
            Err("is part of a cluster: use valkey-cluster:// or valkeys-cluster://".to_owned())
        }
        _ => Ok(()),
    }
}

fn check_eviction(info: &str) -> Result<(), String> {
    let limited = field(info, "maxmemory").is_some_and(|bytes| bytes != "0");
    match field(info, "maxmemory_policy") {
        Some(policy) if limited && policy != "noeviction" => Err(format!(
            "evicts keys when memory is full (maxmemory-policy {policy}), which would lose work: \
             set it with CONFIG SET maxmemory-policy noeviction, and in the server's configuration"
        )),
        _ => Ok(()),
    }
}

/// The value of a line of INFO.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n";

    #[test]
    fn old_servers_are_refused() {
        for (version, good) in [
            ("redis_version:7.2.4\r\nvalkey_version:8.0.1\r\n", true),
            ("redis_version:7.2.4\r\nvalkey_version:7.2.5\r\n", true),
            ("redis_version:7.0.0\r\n", true),
            ("redis_version:6.2.14\r\n", false),
            ("", false),
        ] {
            assert_eq!(check(&format!("{version}{GOOD}"), false).is_ok(), good, "{version:?}");
        }
    }

    #[test]
    fn eviction_is_refused_only_where_it_can_happen() {
        for (memory, good) in [
            ("maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", true),
            ("maxmemory:100\r\nmaxmemory_policy:noeviction\r\n", true),
            ("maxmemory:100\r\nmaxmemory_policy:volatile-ttl\r\n", false),
        ] {
            let info = format!("valkey_version:8.0.1\r\n{memory}");
            assert_eq!(check(&info, false).is_ok(), good, "{memory:?}");
        }
    }

    #[test]
    fn a_cluster_must_be_addressed_as_one() {
        let info = format!("valkey_version:8.0.1\r\nserver_mode:cluster\r\n{GOOD}");
        assert!(check(&info, true).is_ok());
        assert!(check(&info, false).is_err());
    }
}
