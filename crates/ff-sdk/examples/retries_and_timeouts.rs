//! What happens when things go wrong: retries with a pause, an attempt that takes too long, a
//! failure that no retry can mend, a panic, and an input that cannot be read.
//!
//! `cargo run -p ff-sdk --example retries_and_timeouts`

use std::error::Error;
use std::time::Duration;

use ff_sdk::{
    AwaitError, BackendConfig, Backoff, Client, Connection, Context, RetryPolicy, Submission,
    TaskError, Worker,
};

/// Fails twice, then succeeds.
async fn flaky(context: Context, (): ()) -> Result<String, TaskError> {
    match context.attempt() {
        1 | 2 => Err(TaskError::retry("the network hiccuped")),
        attempt => Ok(format!("worked at attempt {attempt}")),
    }
}

/// Hangs the first time: the attempt's time runs out and the next one succeeds.
async fn slow(context: Context, (): ()) -> Result<String, TaskError> {
    if context.attempt() == 1 {
        context.progress(10, "this will take for ever").await?;
        std::future::pending::<()>().await;
    }
    Ok("quick at last".to_owned())
}

/// Knows that trying again is useless.
async fn charge(_: Context, cents: i64) -> Result<i64, TaskError> {
    if cents < 0 {
        return Err(TaskError::fail("a charge cannot be negative").with_category("bad_request"));
    }
    Ok(cents)
}

/// Has a bug.
async fn buggy(_: Context, items: Vec<u32>) -> Result<u32, TaskError> {
    Ok(items[3])
}

fn three_retries(submission: Submission) -> Submission {
    let backoff = Backoff::Fixed { delay_ms: 50 };
    submission
        .retry(RetryPolicy { max_retries: 3, backoff, ..RetryPolicy::default() })
        .attempt_timeout(Duration::from_millis(300))
}

async fn tell(client: &Client, what: &str, submission: Submission) -> Result<(), Box<dyn Error>> {
    let id = three_retries(submission).await?.execution_id();
    let outcome = match client.await_result_raw(&id, Duration::from_secs(30)).await {
        Ok(result) => format!("completed: {}", String::from_utf8_lossy(&result)),
        Err(AwaitError::Failed(failure)) => {
            format!("failed as {}: {}", failure.category, failure.reason)
        }
        Err(other) => return Err(other.into()),
    };
    let attempts = client.describe(&id).await?.map_or(0, |seen| seen.total_attempt_count);
    println!("{what:<18} {attempts} attempt(s), {outcome}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The panic is part of the story; its backtrace is not.
    std::panic::set_hook(Box::new(|_| {}));
    let connection = Connection::open(BackendConfig::embedded_in_memory()).await?;
    let worker = Worker::builder("trouble")
        .connection(&connection)
        .on("flaky", flaky)
        .on("slow", slow)
        .on("charge", charge)
        .on("buggy", buggy)
        .build()?;
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());

    let client = Client::new(&connection);
    tell(&client, "flaky", client.submit("flaky", &())).await?;
    tell(&client, "slow", client.submit("slow", &())).await?;
    tell(&client, "charge of -5", client.submit("charge", &-5)).await?;
    tell(&client, "charge of \"five\"", client.submit("charge", "five")).await?;
    tell(&client, "buggy", client.submit("buggy", &[1, 2, 3])).await?;

    stop.shutdown();
    running.await??;
    Ok(())
}
