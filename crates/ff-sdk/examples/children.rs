//! A task that adds tasks: a book is counted chapter by chapter, side by side, and the handler of
//! the book goes on with their results when the last of them is done.
//!
//! `cargo run -p ff-sdk --example children` keeps everything in memory. Give it a directory or a
//! URL instead, and kill it wherever you like: no chapter is counted by two tasks.

use std::error::Error;
use std::time::Duration;

use ff_sdk::{
    BackendConfig, Client, Connection, Context, GraphTask, Kind, SdkError, TaskError, Worker,
};

const COUNT_BOOK: Kind<Vec<String>, usize> = Kind::new("count_book");
const COUNT: Kind<String, usize> = Kind::new("count").retries(3);

const BOOK: [&str; 3] = [
    "It was a dark and stormy night.",
    "The rain fell in torrents, except at occasional intervals.",
    "Then it stopped.",
];

/// The task of one chapter. Its name makes it the same in every attempt.
fn chapter((at, text): (usize, &String)) -> Result<GraphTask, SdkError> {
    COUNT.task(format!("chapter {}", at + 1), text)
}

/// Adds a child for each chapter, and waits for them. It is run twice: the second time they are
/// there.
async fn count_book(context: Context, book: Vec<String>) -> Result<usize, TaskError> {
    let chapters = book.iter().enumerate().map(chapter);
    context.add_children(chapters.collect::<Result<Vec<_>, _>>()?).await?;
    if context.has_open_children() {
        context.wait_children().await;
    }
    let mut words = 0;
    for child in context.children() {
        let count = child.result_of(&COUNT).await?;
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
        .handle(&COUNT_BOOK, count_book)
        .handle(&COUNT, count)
        .build()?;
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());

    let client = Client::new(&connection);
    let book = BOOK.map(str::to_owned).to_vec();
    let words = client.call(&COUNT_BOOK, book).timeout(Duration::from_secs(60)).await?;
    println!("the book: {words} words");

    stop.shutdown();
    running.await??;
    connection.close().await;
    Ok(())
}
