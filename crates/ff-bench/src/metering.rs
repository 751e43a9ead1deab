//! What the store and its callers spent, between two moments.

use std::collections::BTreeMap;
use std::sync::Arc;

use ff_backend_valkey::ValkeyHost;
use ff_script::value::Value;

use crate::Failure;
use crate::store::{Inside, Store};
use crate::threads;

/// Processor time spent so far, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// Inside the store: on Valkey the time inside function calls, by the server's own account; in
    /// the embedded store that of its threads.
    pub(crate) store_us: Option<f64>,
    /// By callers and connections, in this process.
    pub(crate) client_us: Option<f64>,
}

impl Spent {
    /// What the store and its callers spent since they were started.
    pub(crate) async fn so_far(store: &Store) -> Result<Self, Failure> {
        Self::so_far_on(store.valkey()).await
    }

    /// The same on a Valkey, or, if there is none, in the embedded store of this process.
    pub(crate) async fn so_far_on(valkey: Option<&Arc<ValkeyHost>>) -> Result<Self, Failure> {
        let times = threads::times();
        let store_us = match valkey {
            None => times.map(|times| times.store_us),
            Some(host) => Some(time_in_functions_us(host).await?),
        };
        Ok(Self { store_us, client_us: times.map(|times| times.client_us) })
    }

    /// What was spent since that moment, for each of so many things.
    pub(crate) fn each_since(self, before: Self, count: u64) -> Self {
        let each = |now: Option<f64>, before: Option<f64>| Some((now? - before?) / count as f64);
        Self {
            store_us: each(self.store_us, before.store_us),
            client_us: each(self.client_us, before.client_us),
        }
    }
}

/// Memory that the data takes: by the server's account, or what this process occupies.
pub(crate) async fn memory_bytes(store: &Store) -> Result<Option<f64>, Failure> {
    match &store.inside {
        Inside::Embedded(_) => Ok(threads::resident_bytes().map(|bytes| bytes as f64)),
        Inside::Valkey(host) => sum_of(host, b"memory", used_memory).await.map(Some),
    }
}

/// Processor time of the servers so far, all that they do included.
pub(crate) async fn process_us(host: &ValkeyHost) -> Result<f64, Failure> {
    sum_of(host, b"cpu", used_cpu_us).await
}

fn used_cpu_us(info: &str) -> Option<f64> {
    let seconds = |name: &str| line(info, name)?.parse::<f64>().ok();
    Some((seconds("used_cpu_user:")? + seconds("used_cpu_sys:")?) * 1e6)
}

/// Includes the commands that functions run.
async fn time_in_functions_us(host: &ValkeyHost) -> Result<f64, Failure> {
    sum_of(host, b"commandstats", fcall_us).await
}

/// How often each command was called, by functions too.
pub(crate) async fn calls_by_command(host: &ValkeyHost) -> Result<BTreeMap<String, f64>, Failure> {
    let mut calls = BTreeMap::new();
    for info in infos(host, b"commandstats").await? {
        for (name, count) in info.1.lines().filter_map(command_calls) {
            *calls.entry(name.to_owned()).or_default() += count;
        }
    }
    Ok(calls)
}

fn command_calls(line: &str) -> Option<(&str, f64)> {
    let (name, counters) = line.strip_prefix("cmdstat_")?.split_once(':')?;
    let calls = counters.split(',').find_map(|it| it.strip_prefix("calls="))?;
    Some((name, calls.parse().ok()?))
}

async fn sum_of(
    host: &ValkeyHost,
    section: &[u8],
    read: fn(&str) -> Option<f64>,
) -> Result<f64, Failure> {
    let mut sum = 0.0;
    for (address, text) in infos(host, section).await? {
        sum += read(&text).ok_or_else(|| format!("{address} has no such INFO: {text}"))?;
    }
    Ok(sum)
}

/// What every master says about itself.
async fn infos(host: &ValkeyHost, section: &[u8]) -> Result<Vec<(String, String)>, Failure> {
    let mut infos = Vec::new();
    for (address, answer) in host.raw_on_all_masters(&[b"INFO", section]).await? {
        let Value::Bytes(bytes) = answer else {
            return Err(format!("{address} answers INFO with something else").into());
        };
        infos.push((address, String::from_utf8_lossy(&bytes).into_owned()));
    }
    Ok(infos)
}

fn used_memory(info: &str) -> Option<f64> {
    line(info, "used_memory:")?.parse().ok()
}

/// A server that ran no function yet has no such line.
fn fcall_us(info: &str) -> Option<f64> {
    let Some(counters) = line(info, "cmdstat_fcall:") else { return Some(0.0) };
    counters.split(',').find_map(|it| it.strip_prefix("usec="))?.parse().ok()
}

fn line<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_account_is_read() {
        let info = "# Commandstats\r\ncmdstat_fcall_ro:calls=9,usec=5,usec_per_call=1.0\r\n\
                    cmdstat_fcall:calls=3,usec=120,usec_per_call=40.00\r\n";
        assert_eq!(fcall_us(info), Some(120.0));
        assert_eq!(fcall_us("# Commandstats\r\n"), Some(0.0));
        let calls: Vec<_> = info.lines().filter_map(command_calls).collect();
        assert_eq!(calls, [("fcall_ro", 9.0), ("fcall", 3.0)]);
        assert_eq!(used_cpu_us("used_cpu_sys:0.5\r\nused_cpu_user:1.25\r\n"), Some(1_750_000.0));
        assert_eq!(used_memory("used_memory_rss:7\r\nused_memory:42\r\n"), Some(42.0));
    }
}
