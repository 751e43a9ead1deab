//! Ten thousand executions: submitted with few calls, worked on side by side, each exactly once.
//!
//! `cargo run --release -p ff-sdk --example batch` keeps its data in a directory of its own, synced
//! before anything is acknowledged. Give it `memory:`, another directory or a URL instead.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ff_sdk::{BackendConfig, Client, Connection, Context, TaskError, Worker};

const COUNT: u64 = 10_000;

/// What the handlers share: how many have run, and the sum of their inputs.
#[derive(Default)]
struct Totals {
    runs: AtomicU64,
    sum: AtomicU64,
}

async fn square(context: Context<Arc<Totals>>, number: u64) -> Result<u64, TaskError> {
    context.state().runs.fetch_add(1, Ordering::Relaxed);
    context.state().sum.fetch_add(number, Ordering::Relaxed);
    Ok(number * number)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("flowfabric-batch-{}", std::process::id()));
    let store = std::env::args().nth(1).unwrap_or_else(|| directory.display().to_string());
    let connection = Connection::open(BackendConfig::parse(&store)?).await?;
    let client = Client::new(&connection);

    let begun = Instant::now();
    let submissions = (1..=COUNT).map(|number| client.submit("square", &number).lane("batch"));
    let ids = client.submit_many(submissions).await.into_iter();
    let ids = ids.map(|answer| answer.map(|created| created.execution_id()));
    let ids = ids.collect::<Result<Vec<_>, _>>()?;
    println!("submitted {} executions in {}", ids.len(), rate(begun.elapsed()));

    let totals = Arc::new(Totals::default());
    let worker = Worker::builder("calculator")
        .connection(&connection)
        .lane("batch")
        .state(Arc::clone(&totals))
        .concurrency(64)
        .on("square", square)
        .build()?;
    let stop = worker.shutdown_handle();
    let begun = Instant::now();
    let running = tokio::spawn(worker.run());

    let mut sum_of_squares = 0;
    for id in &ids {
        sum_of_squares += client.await_result::<u64>(id, Duration::from_secs(60)).await?;
    }
    println!("completed {} executions in {}", ids.len(), rate(begun.elapsed()));
    println!("the squares of 1 to {COUNT} add up to {sum_of_squares}");
    println!("handlers ran {} times", totals.runs.load(Ordering::Relaxed));

    stop.shutdown();
    running.await??;
    connection.close().await;
    if directory.exists() {
        std::fs::remove_dir_all(&directory)?;
    }
    Ok(())
}

fn rate(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    format!("{seconds:.2} s ({:.0} per second)", COUNT as f64 / seconds)
}
