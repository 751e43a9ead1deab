//! Appending frames: as fast as it goes, and at a pace.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ff_core::backend::{Frame, FrameKind, Handle};
use ff_core::engine_backend::PartitionBackend;

use super::Options;
use crate::Failure;
use crate::arguments::LoadOptions;
use crate::caller::{self, Caller, Cost};
use crate::noop::NoopCaller;
use crate::progress::Progress;
use crate::report::Report;
use crate::statistics::Rounds;
use crate::store::Store;
use crate::worker::Worker;

const ROUNDS: u64 = 10;
const NOOP_CALLS_PER_ROUND: u64 = 5_000;
/// Frames of a call that has several.
const TOGETHER: u64 = 10;
/// Longer than any run.
const LEASE_TTL_MS: u64 = 3_600_000;

/// One who writes the output of an execution.
pub(super) struct Writer {
    backend: Arc<dyn PartitionBackend>,
    handle: Handle,
    next: u64,
    together: u64,
    bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn id(&self) -> String {
        self.handle.execution_id.to_string()
    }

    async fn append(&mut self, bytes: &[u8], count: u64) -> Result<(), Failure> {
        let frame = |at| Frame::new(FrameKind::Event, bytes).with_seq(self.next + at);
        let frames = (0..count).map(frame).collect();
        self.backend.append_frames(&self.handle, frames).await?;
        self.next += count;
        Ok(())
    }
}

impl Caller for Writer {
    async fn step(&mut self) -> Result<(), Failure> {
        let bytes = std::mem::take(&mut self.bytes);
        let appended = self.append(&bytes, self.together).await;
        self.bytes = bytes;
        appended
    }
}

/// As many writers as there are streams, each with an execution of its own.
pub(super) async fn writers(store: &Store, options: &Options) -> Result<Vec<Writer>, Failure> {
    let load = LoadOptions { executions: 1, concurrency: 1, payload: 0, result: 0 };
    let mut worker = Worker::new(store, &load, 1)?.with_lease_ttl(LEASE_TTL_MS);
    let mut writers = Vec::new();
    for _ in 0..options.streams {
        let partition = worker.create_group().await?;
        for handle in worker.claim_group(partition).await? {
            let (backend, bytes) = (Arc::clone(&store.backend), options.frame_bytes as usize);
            let bytes = vec![b'f'; bytes];
            writers.push(Writer { backend, handle, next: 1, together: 1, bytes });
        }
    }
    Ok(writers)
}

/// What appending costs.
#[derive(Default)]
pub(super) struct Throughput {
    noop_us: Rounds,
    single: Costs,
    together: Costs,
}

#[derive(Default)]
struct Costs {
    per_s: Rounds,
    store_us: Rounds,
}

impl Costs {
    fn add(&mut self, cost: Cost, frames: u64, per_step: u64) {
        self.per_s.add(frames as f64 / cost.wall.as_secs_f64());
        let store_us = cost.spent.store_us.map(|us| us / per_step as f64);
        store_us.into_iter().for_each(|us| self.store_us.add(us));
    }
}

/// Appends frames as fast as it goes, one by a call and several by a call in turns.
pub(super) async fn measure(store: &Store, options: &Options) -> Result<Throughput, Failure> {
    let mut found = Throughput::default();
    let mut writers = writers(store, options).await?;
    let mut noops = NoopCaller::several(store, options.streams);
    let progress = Progress::new("frames", options.frames);
    let per_round = options.frames.div_ceil(2 * ROUNDS);
    for _ in 0..ROUNDS {
        let (back, cost) = caller::measure(store, noops, NOOP_CALLS_PER_ROUND).await?;
        noops = back;
        cost.spent.store_us.into_iter().for_each(|us| found.noop_us.add(us));
        for together in [1, TOGETHER] {
            writers.iter_mut().for_each(|writer| writer.together = together);
            let steps = per_round.div_ceil(together);
            let (back, cost) = caller::measure(store, writers, steps).await?;
            writers = back;
            let costs = if together == 1 { &mut found.single } else { &mut found.together };
            costs.add(cost, steps * together, together);
            progress.add(steps * together);
        }
    }
    Ok(found)
}

impl Throughput {
    pub(super) fn report(&self, report: Report) -> Report {
        let noop = self.noop_us.median();
        let ratio = |us: Option<f64>| us.zip(noop).map(|(us, noop)| us / noop);
        let (single, together) = (self.single.store_us.median(), self.together.store_us.median());
        report
            .measured("frames_per_s", self.single.per_s.median())
            .measured("server_us_per_frame", single)
            .measured("frames_per_s_ten_per_call", self.together.per_s.median())
            .measured("server_us_per_frame_ten_per_call", together)
            .measured("noop_call_us", noop)
            .measured("noop_calls_per_frame", ratio(single))
            .measured("noop_calls_per_frame_ten_per_call", ratio(together))
    }
}

/// Every stream gets frames at the same pace, each at a moment of its own. A frame says when it was
/// sent, by the time since a moment.
pub(super) async fn write_at_a_pace(
    writers: Vec<Writer>,
    options: &Options,
    begun: Instant,
) -> Result<Vec<Writer>, Failure> {
    let every = Duration::from_secs(1) / options.rate;
    let count = u64::from(options.rate) * options.seconds;
    let share = every / options.streams;
    let start = tokio::time::Instant::now() + every;
    let tasks: Vec<_> = writers
        .into_iter()
        .zip(0..)
        .map(|(writer, place)| {
            tokio::spawn(write_one(writer, start + share * place, every, count, begun))
        })
        .collect();
    let mut writers = Vec::new();
    for task in tasks {
        writers.push(task.await??);
    }
    Ok(writers)
}

async fn write_one(
    mut writer: Writer,
    start: tokio::time::Instant,
    every: Duration,
    count: u64,
    begun: Instant,
) -> Result<Writer, Failure> {
    let mut at = start;
    for _ in 0..count {
        tokio::time::sleep_until(at).await;
        let stamp = begun.elapsed().as_nanos().to_string();
        writer.append(stamp.as_bytes(), 1).await?;
        at += every;
    }
    Ok(writer)
}
