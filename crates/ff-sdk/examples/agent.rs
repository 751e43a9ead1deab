//! An agent that streams its answer, token by token, to a terminal. Its worker is killed in the
//! middle of a sentence; another process takes over, and the reader gets the whole answer.
//!
//! `cargo run -p ff-sdk --example agent`

use std::error::Error;
use std::io::Write as _;
use std::process::{Child, Command};
use std::time::Duration;

use ff_sdk::{BackendConfig, Client, Context, Output, TaskError, Worker};
use ff_server::{Server, ServerConfig, StoreConfig};

const QUESTION: &str = "how warm will it be in Lisbon?";

/// What a model would say, one token after the other.
fn model(question: &str, seen: Option<&str>) -> Vec<String> {
    let answer = match seen {
        None => format!("I need the forecast to know {question}"),
        Some(forecast) => format!("The forecast says {forecast}, so take a light jacket along."),
    };
    answer.split_inclusive(' ').map(str::to_owned).collect()
}

fn forecast() -> String {
    "21 degrees".to_owned()
}

/// Thinks, uses a tool, and answers. Every token is there for others before the next one is made.
async fn agent(context: Context, question: String) -> Result<String, TaskError> {
    let frames = context.frames();
    let (mut seen, mut answer) = (None, String::new());
    for _turn in 0..2 {
        answer.clear();
        for (place, token) in model(&question, seen.as_deref()).into_iter().enumerate() {
            frames.text("token", &token).await?;
            frames.flush().await?;
            answer.push_str(&token);
            // The first worker never gets further than this: it is killed.
            if seen.is_some() && place == 4 && context.attempt() == 1 {
                std::future::pending::<()>().await;
            }
        }
        if seen.is_none() {
            seen = Some(forecast());
            frames.text("tool", "\n[forecast(Lisbon)]\n").await?;
        }
    }
    Ok(answer)
}

/// One worker process, for as long as it lives.
async fn work(url: &str) -> Result<(), Box<dyn Error>> {
    let builder = Worker::builder("agent").backend(BackendConfig::server(url, None));
    let worker = builder.lease_ttl(Duration::from_secs(1)).on("agent", agent).build()?;
    worker.run().await?;
    Ok(())
}

fn start_worker(url: &str) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?).args(["worker", url]).spawn()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, url] = arguments.as_slice()
        && role == "worker"
    {
        return work(url).await;
    }
    let listen = ([127, 0, 0, 1], 0).into();
    let config = ServerConfig { listen, store: StoreConfig::memory(), ..ServerConfig::default() };
    let server = Server::start(config).await?;
    let url = format!("http://{}", server.local_addr());
    let client = Client::connect(BackendConfig::server(&url, None)).await?;
    let mut worker = start_worker(&url)?;
    let id = client.submit("agent", QUESTION).await?.execution_id();
    let outcome = read_along(&client, &id, &url, &mut worker).await;
    worker.kill()?;
    worker.wait()?;
    outcome?;
    let answer: String = client.await_result(&id, Duration::from_secs(30)).await?;
    println!("result: {answer}");
    server.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// Shows what comes, and kills the worker in the middle of its answer.
async fn read_along(
    client: &Client,
    id: &ff_sdk::ExecutionId,
    url: &str,
    worker: &mut Child,
) -> Result<(), Box<dyn Error>> {
    let mut output = client.follow(id).await?;
    let mut killed = false;
    while let Some(piece) = output.next().await {
        match piece? {
            Output::Attempt { attempt_index } => println!("attempt {}", attempt_index.get() + 1),
            Output::Frame { frame, .. } => {
                print!("{}", String::from_utf8_lossy(&frame.payload()));
                std::io::stdout().flush()?;
                if !killed && frame.payload().starts_with(b"degrees") {
                    println!("\n(the worker is killed)");
                    worker.kill()?;
                    worker.wait()?;
                    *worker = start_worker(url)?;
                    killed = true;
                }
            }
            Output::End { .. } => println!(),
            _ => {}
        }
    }
    Ok(())
}
