//! A task that adds tasks: a book is counted chapter by chapter, side by side, and the handler of
//! the book goes on with their results when the last of them is done.
//!
//! `cargo run -p ff-sdk --example children` keeps everything in memory. Give it a directory or a
//! URL instead, and kill it wherever you like: no chapter is counted by two tasks.

use std::error::Error;
use std::time::Duration;

use ff_sdk::{
    BackendConfig, Client, Connection, Context, CreateExecution, ExecutionKind, GraphTask,
    TaskError, Worker,
};

const BOOK: [&str; 3] = [
    "It was a dark and stormy night.",
    "The rain fell in torrents, except at occasional intervals.",
    "Then it stopped.",
];

/// The task of one chapter. Its name makes it the same in every attempt.
fn chapter(number: usize, text: &str) -> GraphTask {
    let mut count = CreateExecution::new(ExecutionKind::new("count"));
    count.payload_text = Some(serde_json::Value::from(text).to_string());
    GraphTask::new(format!("chapter {number}"), count)
}

/// Adds a child for each chapter, and waits for them. It is run twice: the second time they are
/// there.
async fn count_book(context: Context, book: Vec<String>) -> Result<usize, TaskError> {
    let chapters = book.iter().enumerate().map(|(at, text)| chapter(at + 1, text));
    context.add_children(chapters).await?;
    if context.has_open_children() {
        return Err(TaskError::wait_children());
    }
    let mut words = 0;
    for child in context.children() {
        let count: usize = child.result().await?;
        println!("{}: {count} words", child.name());
        words += count;
    }
    Ok(words)
}

async fn count(_: Context, text: String) -> Result<usize, TaskError> {
    Ok(text.split_whitespace().count())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let connection = Connection::open(BackendConfig::parse(&store)?).await?;
    let worker = Worker::builder("counter")
        .connection(&connection)
        .on("count_book", count_book)
        .on("count", count)
        .build()?;
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());

    let client = Client::new(&connection);
    let book = client.submit("count_book", &BOOK).await?.execution_id();
    let words: usize = client.await_result(&book, Duration::from_secs(60)).await?;
    println!("the book: {words} words");

    stop.shutdown();
    running.await??;
    connection.close().await;
    Ok(())
}
