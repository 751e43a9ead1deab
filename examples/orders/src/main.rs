//! A shop that charges cards: each order is an execution, charged by a worker, and retried by its
//! kind's policy.
//!
//! `cargo run -p orders` runs shop and worker in one process, with a store in memory. To run them
//! apart, start `flowfabric serve`, then `cargo run -p orders -- worker http://localhost:7480` in
//! one terminal and `cargo run -p orders -- shop http://localhost:7480` in another. Several
//! addresses with commas in between are servers of one deployment: when one is gone, the next is
//! asked.

mod kinds;
mod worker;

use anyhow::bail;
use ff_sdk::{BackendConfig, Client, Connection};

use kinds::{CHARGE, Order};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().unwrap_or_else(|| "both".to_owned());
    let store = arguments.next().unwrap_or_else(|| "memory:".to_owned());
    let mut backend = BackendConfig::parse(&store)?;
    // Servers fire timers. Where a store is used without one, the workers do.
    backend.run_engine = role != "shop";
    let connection = Connection::open(backend).await?;
    match role.as_str() {
        "both" => both(&connection).await?,
        "shop" => shop(&Client::new(&connection)).await,
        "worker" => {
            worker::worker(&connection)?.run_until(tokio::signal::ctrl_c()).await?;
        }
        other => bail!("{other} is neither shop nor worker"),
    }
    connection.close().await;
    Ok(())
}

async fn both(connection: &Connection) -> anyhow::Result<()> {
    let worker = worker::worker(connection)?;
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    shop(&Client::new(connection)).await;
    stop.shutdown();
    running.await??;
    Ok(())
}

async fn shop(client: &Client) {
    for (number, item, cents) in [(1, "shoes", 7900), (2, "a free lunch", -100), (3, "tea", 450)] {
        let order = Order { number, item: item.to_owned(), cents };
        match client.call(&CHARGE, order).await {
            Ok(receipt) => println!("order {number}: {}", receipt.text),
            Err(error) => println!("order {number}: {error}"),
        }
    }
}
