//! A worker with one handler, a client that submits to it, and a result.
//!
//! `cargo run -p ff-sdk --example hello` runs it on a store inside the process. Give it a
//! directory, `valkey://localhost` or `http://localhost:7480` to run the same on a store that
//! stays.

use std::error::Error;
use std::time::Duration;

use ff_sdk::{BackendConfig, Client, Connection, Context, TaskError, Worker};

async fn greet(context: Context, name: String) -> Result<String, TaskError> {
    println!("attempt {}: greeting {name}", context.attempt());
    Ok(format!("hello, {name}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let connection = Connection::open(BackendConfig::parse(&store)?).await?;

    let worker = Worker::builder("greeter").connection(&connection).on("greet", greet).build()?;
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());

    let client = Client::new(&connection);
    for name in ["Ada", "Grace"] {
        let id = client.submit("greet", name).await?.execution_id();
        let greeting: String = client.await_result(&id, Duration::from_secs(10)).await?;
        println!("result: {greeting}");
    }

    stop.shutdown();
    running.await??;
    connection.close().await;
    Ok(())
}
