//! Those who follow streams over HTTP, each over a connection of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ff_core::operation::encode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Failure;
use crate::http_client::text_fields;
use crate::statistics::Latencies;

/// How long the last frames may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Everybody who follows, and what they have seen.
pub(super) struct Tails {
    seen: Arc<Seen>,
    reading: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    frames: AtomicU64,
    latencies: Mutex<Latencies>,
}

impl Tails {
    /// So many, in turns on these executions. Each follows when this returns. Frames say when they
    /// were sent by the time since `begun`.
    pub(super) async fn connect(
        address: &str,
        ids: &[String],
        count: u32,
        begun: Instant,
    ) -> Result<Self, Failure> {
        let (seen, mut reading) = (Arc::new(Seen::default()), JoinSet::new());
        for id in ids.iter().cycle().take(count as usize) {
            let stream = connect(address, id).await?;
            reading.spawn(read(stream, begun, Arc::clone(&seen)));
        }
        Ok(Self { seen, reading })
    }

    /// Waits for so many frames, but not for ever. Answers how long each took, and how many came.
    pub(super) async fn finish(mut self, expected: u64) -> (Latencies, u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.seen.frames.load(Ordering::Relaxed) < expected && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.reading.abort_all();
        while self.reading.join_next().await.is_some() {}
        let mut latencies = self.seen.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut *latencies), self.seen.frames.load(Ordering::Relaxed))
    }
}

async fn connect(address: &str, id: &str) -> Result<TcpStream, Failure> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let path = format!("/v1/executions/{}/stream/tail?after=end", encode(id));
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    // The first event says where the output stands: then everything that comes is heard.
    while !answer.windows(2).any(|part| part == b"\n\n") {
        if stream.read_buf(&mut answer).await? == 0 || !answer.starts_with(b"HTTP/1.1 200") {
            return Err(format!("no events: {}", String::from_utf8_lossy(&answer)).into());
        }
    }
    Ok(stream)
}

/// Reads until the connection ends.
async fn read(mut stream: TcpStream, begun: Instant, seen: Arc<Seen>) {
    let mut bytes = Vec::with_capacity(16 << 10);
    while stream.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {
        let now = begun.elapsed();
        let Some(end) = bytes.windows(2).rposition(|part| part == b"\n\n") else { continue };
        let stamps = text_fields(&bytes[..end], "payload").filter_map(|text| text.parse().ok());
        let mut latencies = seen.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0;
        for stamp in stamps {
            latencies.add(now.saturating_sub(Duration::from_nanos(stamp)));
            count += 1;
        }
        seen.frames.fetch_add(count, Ordering::Relaxed);
        drop(latencies);
        bytes.drain(..end + 2);
    }
}
