//! Measures lifecycles (create, claim, complete) per second.
//!
//! ```sh
//! cargo run --release --example throughput -- <memory|off|everysec|always> \
//!     <callers> <shards> <seconds>
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost, Storage, SyncMode};
use ff_core::partition::Partition;
use ff_script::args::Args;
use ff_script::host::{Function, Host};
use ff_script::library::Library;
use ff_script::value::Value;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize, default: &str| {
        arguments.get(index).cloned().unwrap_or_else(|| default.to_owned())
    };
    let mode = argument(0, "memory");
    let callers: u64 = argument(1, "64").parse().expect("callers is a number");
    let shards: usize = argument(2, "1").parse().expect("shards is a number");
    let seconds: f64 = argument(3, "5").parse().expect("seconds is a number");
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let storage = |sync| Storage::Directory { path: directory.path().join("data"), sync };
    let storage = match mode.as_str() {
        "memory" => Storage::Memory,
        "off" => storage(SyncMode::Off),
        "everysec" => storage(SyncMode::EverySec),
        _ => storage(SyncMode::Always),
    };
    let config = EmbeddedConfig { shards, storage, ..EmbeddedConfig::in_memory() };
    let host = Arc::new(EmbeddedHost::open(config, &library()).expect("the store opens"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made");
    let (lifecycles, took) = runtime.block_on(measure(&host, callers, shards as u64, seconds));
    println!("{mode}, {callers} callers, {shards} shards: {:.0} lifecycles/s", lifecycles / took);
    println!("{:?}", host.stats());
}

async fn measure(host: &Arc<EmbeddedHost>, callers: u64, shards: u64, seconds: f64) -> (f64, f64) {
    let done = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let start = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let (host, done, stop) = (Arc::clone(host), Arc::clone(&done), Arc::clone(&stop));
            tokio::spawn(async move {
                let partition = Partition::flow((caller % (shards * 4)) as u16);
                for round in 0u64.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    lifecycle(&host, partition, caller, round).await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    tokio::time::sleep(std::time::Duration::from_secs_f64(seconds)).await;
    let result = (done.load(Ordering::Relaxed) as f64, start.elapsed().as_secs_f64());
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("no caller panics");
    }
    result
}

async fn lifecycle(host: &EmbeddedHost, partition: Partition, caller: u64, round: u64) {
    let id = format!("{caller:08x}{round:024x}");
    let lane = format!("lane{caller}");
    call(host, "create", partition, &[&id, "ns", &lane, "kind", "0", "me", "{}", "input"]).await;
    let claimed = call(host, "claim", partition, &[&lane, "w", "w1", "3000000", &id, "1"]).await;
    let Value::Array(claimed) = claimed else { panic!("claim answers a list") };
    let Value::Array(grant) = &claimed[2] else { panic!("claim answers a grant") };
    let lease = String::from_utf8_lossy(grant[1].as_bytes().expect("a lease id")).into_owned();
    let done = call(host, "complete", partition, &[&id, &lease, "1", "result"]).await;
    assert!(matches!(&done, Value::Array(values) if values[0] == Value::Int(1)), "{done:?}");
}

async fn call(
    host: &EmbeddedHost,
    name: &'static str,
    partition: Partition,
    args: &[&str],
) -> Value {
    let function = Function { wire_name: name, read_only: false };
    let args: Args = args.iter().map(|argument| argument.as_bytes()).collect();
    host.call(function, partition, args).await.expect("the call succeeds")
}

fn library() -> Library {
    let source = include_str!("lifecycle.lua").to_owned();
    Library { name: "throughput", version: 1, hash: String::new(), source }
}
