//! A media pipeline: a clip is split, its parts are encoded side by side, and what comes of them is
//! put together. Client and worker share the kinds, so that a wrong type does not compile.
//!
//! `cargo run -p ff-sdk --example flow` runs it on a store inside the process. Give it a
//! directory, `valkey://localhost` or `http://localhost:7480` to run the same on a store that
//! stays.

use std::error::Error;
use std::time::Duration;

use ff_sdk::{
    BackendConfig, Client, Connection, Context, Flow, FlowActivity, FlowTask, Input, Kind,
    TaskError, TaskResult, Worker,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Clip {
    file: String,
    seconds: u32,
}

#[derive(Serialize, Deserialize)]
struct Part {
    file: String,
    seconds: u32,
}

const SPLIT: Kind<Clip, Vec<Part>> = Kind::new("split");
const ENCODE: Kind<usize, Part> = Kind::new("encode");
const MUX: Kind<(), String> = Kind::new("mux");
const THUMBNAIL: Kind<Vec<Part>, String> = Kind::new("thumbnail");
const CLEAN: Kind<(), ()> = Kind::new("clean");

/// What is passed between tasks, by name and type.
const PARTS: Input<Vec<Part>> = Input::new("parts");

const PARTS_COUNT: u32 = 3;

async fn split(_: Context, clip: Clip) -> Result<Vec<Part>, TaskError> {
    let seconds = clip.seconds / PARTS_COUNT;
    let part = |number| Part { file: format!("{}.{number}", clip.file), seconds };
    Ok((0..PARTS_COUNT).map(part).collect())
}

async fn encode(context: Context, number: usize) -> Result<Part, TaskError> {
    let parts = context.passed(&PARTS).await?;
    let part = parts.get(number).ok_or_else(|| TaskError::fail("there is no such part"))?;
    Ok(Part { file: format!("{}.webm", part.file), seconds: part.seconds })
}

async fn mux(context: Context, (): ()) -> Result<String, TaskError> {
    let mut encoded = Vec::new();
    for input in context.inputs() {
        encoded.extend(context.input::<Part>(&input.name).await?);
    }
    encoded.sort_by(|one, other| one.file.cmp(&other.file));
    let seconds: u32 = encoded.iter().map(|part| part.seconds).sum();
    let files: Vec<String> = encoded.into_iter().map(|part| part.file).collect();
    Ok(format!("{seconds} seconds of {}", files.join(", ")))
}

async fn thumbnail(_: Context, parts: Vec<Part>) -> Result<String, TaskError> {
    let first = parts.first().ok_or_else(|| TaskError::fail("there is nothing to see"))?;
    Ok(format!("{}.png", first.file))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let connection = Connection::open(BackendConfig::parse(&store)?).await?;
    let worker = Worker::builder("studio")
        .connection(&connection)
        .concurrency(4)
        .handle(&SPLIT, split)
        .handle(&ENCODE, encode)
        .handle(&MUX, mux)
        .handle(&THUMBNAIL, thumbnail)
        .handle(&CLEAN, async |_, ()| -> TaskResult<()> { Ok(()) })
        .build()?;
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());

    let mut flow = Flow::new("media");
    let clip = Clip { file: "cat.mp4".to_owned(), seconds: 9 };
    let split = flow.task("split", &SPLIT, clip);
    let thumbnail = flow.task_from("thumbnail", &THUMBNAIL, &split).optional();
    let encoded: Vec<FlowTask<Part>> = (0..PARTS_COUNT as usize)
        .map(|number| flow.task(format!("encode {number}"), &ENCODE, number).pass(&split, &PARTS))
        .collect();
    let mux = flow
        .task("mux", &MUX, ())
        .with(|it| it.attempt_timeout(Duration::from_secs(60)))
        .pass_all(&encoded);
    flow.task("clean", &CLEAN, ()).after_all([&mux.ended(), &thumbnail.ended()]);

    let flow = Client::new(&connection).submit_flow(flow).await?;
    println!("the thumbnail is {}", flow.result(&thumbnail).await?);
    println!("the film is {}", flow.result(&mux).await?);

    let mut activity = flow.follow().await?;
    let mut happened = Vec::new();
    while let Some(piece) = activity.next().await {
        match piece? {
            FlowActivity::Event(event) => happened.push(event.kind),
            FlowActivity::End { flow, .. } => println!("the flow is {}", flow.public_flow_state),
            _ => {}
        }
    }
    let count = |kind: &str| happened.iter().filter(|word| *word == kind).count();
    println!(
        "{} were created, {} freed, {} ended",
        count("created"),
        count("freed"),
        count("ended")
    );

    stop.shutdown();
    running.await??;
    connection.close().await;
    Ok(())
}
