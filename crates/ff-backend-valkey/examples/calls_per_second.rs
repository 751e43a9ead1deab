//! Measures empty function calls: `cargo run --release -p ff-backend-valkey --example
//! calls_per_second -- [callers] [connections] [url]`. Without a URL a server is started for it.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ff_backend_valkey::{ValkeyConfig, ValkeyHost};
use ff_core::partition::Partition;
use ff_script::args::Args;
use ff_script::host::{Function, Host};
use ff_script::library::Library;
use ff_test_valkey::{Valkey, ValkeyOptions};

const MEASURED: Duration = Duration::from_secs(5);
const NOOP: Function = Function { wire_name: "ff_noop_v1", read_only: false };
const SOURCE: &str = "#!lua name=ff_calls_per_second
redis.register_function{function_name='ff_version_v1', flags={'no-writes'},
  callback=function() return {1,'OK','1','calls-per-second'} end}
redis.register_function('ff_noop_v1', function() return {1,'OK'} end)";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let callers: u64 = words.next().as_deref().unwrap_or("64").parse()?;
    let connections: usize = words.next().as_deref().unwrap_or("1").parse()?;
    let server = Valkey::start(ValkeyOptions::default())?;
    let mut config = ValkeyConfig::parse(&words.next().unwrap_or_else(|| server.url()))?;
    config.connections = connections;
    let library = Library {
        name: "ff_calls_per_second",
        version: 1,
        hash: "calls-per-second".to_owned(),
        source: SOURCE.to_owned(),
    };
    let host = Arc::new(ValkeyHost::connect(config, library).await?);
    let (cpu_before, start) = (cpu_time_us(), Instant::now());
    let calls = run(&host, callers, start + MEASURED).await;
    let (elapsed, cpu) = (start.elapsed(), cpu_time_us() - cpu_before);
    println!(
        "{callers} callers, {connections} connections: {:.0} calls/s, {:.2} µs of client CPU each",
        calls as f64 / elapsed.as_secs_f64(),
        cpu as f64 / calls as f64,
    );
    Ok(())
}

async fn run(host: &Arc<ValkeyHost>, callers: u64, deadline: Instant) -> u64 {
    let calls = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let (host, calls) = (Arc::clone(host), Arc::clone(&calls));
            let partition = Partition::flow(u16::try_from(caller % 256).unwrap_or(0));
            tokio::spawn(async move {
                while Instant::now() < deadline {
                    let args: Args =
                        [b"0191-execution-id".as_slice(), b"lease"].into_iter().collect();
                    host.call(NOOP, partition, args).await.expect("the server is up");
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("callers do not panic");
    }
    calls.load(Ordering::Relaxed)
}

/// User and system time of this process, from the kernel's clock ticks of 10 ms.
fn cpu_time_us() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
    let ticks = |field: usize| fields.get(field).and_then(|it| it.parse::<u64>().ok()).unwrap_or(0);
    (ticks(12) + ticks(13)) * 10_000
}
