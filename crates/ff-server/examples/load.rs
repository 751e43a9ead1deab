//! Submits, claims and completes over HTTP as fast as it goes, then at half that rate, against a
//! server in a process of its own on an embedded store with a synced journal.
//!
//! `cargo run --release -p ff-server --example load [-- <seconds> <clients> <tasks per claim>]`

use std::io::{BufRead, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ff_server::{Server, ServerConfig, StoreConfig};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, directory] = words.as_slice()
        && word == "serve"
    {
        return serve(directory);
    }
    let number = |at: usize, default: u64| {
        words.get(at).and_then(|word| word.parse().ok()).unwrap_or(default)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(number(0, 5), number(1, 64), number(2, 1)))
}

/// The server: prints its address, then runs until its standard input ends.
fn serve(directory: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let store = StoreConfig::parse(directory)?;
        let listen = "127.0.0.1:0".parse()?;
        let server = Server::start(ServerConfig { listen, store, ..Default::default() }).await?;
        println!("{}", server.local_addr());
        std::io::stdout().flush()?;
        tokio::task::spawn_blocking(|| std::io::stdin().lines().for_each(drop)).await?;
        server.shutdown(Duration::from_secs(5)).await;
        Ok(())
    })
}

async fn measure(seconds: u64, clients: u64, count: u64) -> Result<(), Failure> {
    let directory = tempfile::TempDir::new()?;
    let begun = Instant::now();
    let mut child = start(directory.path())?;
    let address = read_address(&mut child)?;
    Connection::open(&address).await?.send("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", b"").await?;
    println!("start to first answer   {:>8.1} ms", begun.elapsed().as_secs_f64() * 1e3);
    println!("resident when idle      {:>8.1} MB", resident_mb(child.id())?);
    let lasting = Duration::from_secs(seconds);
    let full = run(&address, clients, count, lasting, None).await?;
    report("as fast as it goes", &full, lasting);
    let metrics = Connection::open(&address).await?.metrics().await?;
    for (name, metric) in [
        ("store calls", "ff_store_calls_total"),
        ("transactions", "ff_journal_transactions_total"),
        ("journal syncs", "ff_journal_syncs_total"),
        ("journal bytes", "ff_journal_bytes_total"),
    ] {
        let value = metrics.lines().find_map(|line| line.strip_prefix(metric)?.trim().parse().ok());
        let each: f64 = value.unwrap_or(0.0) / full.len() as f64;
        println!("  {name:<13}  {each:>9.2} per life");
    }
    let half = full.len() as f64 / lasting.as_secs_f64() / 2.0;
    let paced = run(&address, clients, count, lasting, Some(half)).await?;
    report("at half that rate", &paced, lasting);
    println!("resident after          {:>8.1} MB", resident_mb(child.id())?);
    drop(child.stdin.take());
    child.wait()?;
    Ok(())
}

fn start(directory: &std::path::Path) -> Result<Child, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").arg(directory.join("data"));
    Ok(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?)
}

fn read_address(child: &mut Child) -> Result<String, Failure> {
    let output = child.stdout.take().ok_or("no output")?;
    let mut line = String::new();
    std::io::BufReader::new(output).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

fn resident_mb(pid: u32) -> Result<f64, Failure> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes / 1024.0)
}

/// One life of one execution: how long each of its requests took.
struct Life {
    submit: Duration,
    claim: Duration,
    complete: Duration,
}

async fn run(
    address: &str,
    clients: u64,
    count: u64,
    lasting: Duration,
    rate: Option<f64>,
) -> Result<Vec<Life>, Failure> {
    let end = Instant::now() + lasting;
    let pause = rate.map(|rate| Duration::from_secs_f64((clients * count) as f64 / rate));
    let mut running = tokio::task::JoinSet::new();
    for number in 0..clients {
        let connection = Connection::open(address).await?;
        let first =
            pause.map_or(Duration::ZERO, |pause| pause.mul_f64(number as f64 / clients as f64));
        running.spawn(live(connection, number, count, end, first, pause));
    }
    let mut lives = Vec::new();
    while let Some(lived) = running.join_next().await {
        lives.extend(lived??);
    }
    Ok(lives)
}

async fn live(
    mut connection: Connection,
    number: u64,
    count: u64,
    end: Instant,
    first: Duration,
    pause: Option<Duration>,
) -> Result<Vec<Life>, Failure> {
    let mut lives = Vec::new();
    let mut next = tokio::time::Instant::now() + first;
    let claim = format!(
        "{{\"worker_id\":\"load\",\"worker_instance_id\":\"load-{number}\",\"lanes\":[\"load\"],\
         \"count\":{count},\"lease_ttl_ms\":30000,\"wait_ms\":1000}}"
    );
    while Instant::now() < end {
        if let Some(pause) = pause {
            tokio::time::sleep_until(next).await;
            next += pause;
        }
        let mut submits = Vec::new();
        for _ in 0..count {
            let body = br#"{"kind":"load","lane":"load","payload":{"order":17,"to":"ann"}}"#;
            submits.push(connection.post("/v1/executions", "", body).await?.1);
        }
        let (answer, claimed) = connection.post("/v1/claims", "", claim.as_bytes()).await?;
        let answer: serde_json::Value = serde_json::from_slice(&answer)?;
        for (task, submit) in answer["tasks"].as_array().into_iter().flatten().zip(submits) {
            let token = task["task_token"].as_str().ok_or("a task without a token")?;
            let header = format!("flowfabric-task: {token}\r\n");
            let (_, complete) = connection.post("/v1/tasks/complete", &header, b"done").await?;
            lives.push(Life { submit, claim: claimed, complete });
        }
    }
    Ok(lives)
}

struct Connection(BufReader<TcpStream>);

impl Connection {
    async fn open(address: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    async fn post(
        &mut self,
        path: &str,
        header: &str,
        body: &[u8],
    ) -> Result<(Vec<u8>, Duration), Failure> {
        let kind = if header.is_empty() { "content-type: application/json\r\n" } else { header };
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\n{kind}content-length: {length}\r\n\r\n");
        let begun = Instant::now();
        let answer = self.send(&head, body).await?;
        Ok((answer, begun.elapsed()))
    }

    async fn metrics(&mut self) -> Result<String, Failure> {
        let answer = self.send("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n", b"").await?;
        Ok(String::from_utf8(answer)?)
    }

    async fn send(&mut self, head: &str, body: &[u8]) -> Result<Vec<u8>, Failure> {
        let request = [head.as_bytes(), body].concat();
        self.0.get_mut().write_all(&request).await?;
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        let ok = line.starts_with("HTTP/1.1 2");
        let mut length = 0;
        loop {
            let mut header = String::new();
            self.0.read_line(&mut header).await?;
            if let Some(value) = header.strip_prefix("content-length: ") {
                length = value.trim().parse()?;
            }
            if header.trim().is_empty() {
                break;
            }
        }
        let mut answer = vec![0; length];
        self.0.read_exact(&mut answer).await?;
        if ok { Ok(answer) } else { Err(String::from_utf8_lossy(&answer).into()) }
    }
}

fn report(what: &str, lives: &[Life], lasting: Duration) {
    println!("{what:<22}  {:>8.0} lives/s", lives.len() as f64 / lasting.as_secs_f64());
    for (name, of) in [
        ("submit", (|life: &Life| life.submit) as fn(&Life) -> Duration),
        ("claim", |life| life.claim),
        ("complete", |life| life.complete),
        ("all three", |life| life.submit + life.claim + life.complete),
    ] {
        let mut times: Vec<Duration> = lives.iter().map(of).collect();
        times.sort_unstable();
        let at = |share: f64| {
            let place = (times.len() as f64 * share) as usize;
            times.get(place.min(times.len().saturating_sub(1))).map_or(0.0, Duration::as_secs_f64)
        };
        let [p50, p99, max] = [at(0.5), at(0.99), at(1.0)].map(|seconds| seconds * 1e3);
        println!("  {name:<9}  p50 {p50:>7.2} ms   p99 {p99:>7.2} ms   max {max:>7.2} ms");
    }
}
