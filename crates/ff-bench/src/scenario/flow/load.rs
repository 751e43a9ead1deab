//! Those who submit flows, and the workers that run their members.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ff_sdk::{Client, FlowFabricWorker};
use tokio::sync::oneshot;

use super::LANE;
use super::shape::Graphs;
use crate::Failure;
use crate::caller::Caller;
use crate::statistics::Latencies;

/// Longer than anything takes that goes on.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(30);
const PAYLOAD_BYTES: usize = 100;

/// What is under way, by numbers that its members have in their input.
#[derive(Clone, Default)]
pub(super) struct Board(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    begun: u32,
    under_way: HashMap<u32, UnderWay>,
    ended: Latencies,
}

struct UnderWay {
    start: Instant,
    left: u32,
    tell: oneshot::Sender<()>,
}

impl Board {
    fn locked(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something with so many members begins; gives their input, and what tells of the end.
    pub(super) fn begin(&self, members: u32) -> (Vec<u8>, oneshot::Receiver<()>) {
        let (tell, told) = oneshot::channel();
        let mut open = self.locked();
        open.begun += 1;
        let number = open.begun;
        let one = UnderWay { start: Instant::now(), left: members, tell };
        open.under_way.insert(number, one);
        (payload(number), told)
    }

    /// A member with this input has ended.
    fn ended(&self, input: &[u8]) -> Result<(), Failure> {
        let number = number(input).ok_or("a member has another input")?;
        let mut open = self.locked();
        let one = open.under_way.get_mut(&number).ok_or("a member ended twice")?;
        one.left -= 1;
        if one.left > 0 {
            return Ok(());
        }
        let one = open.under_way.remove(&number).ok_or("it was there")?;
        open.ended.add(one.start.elapsed());
        // Not everybody waits for the end.
        let _ = one.tell.send(());
        Ok(())
    }

    /// How long all took that have ended, from their submission on.
    pub(super) fn take_latencies(&self) -> Latencies {
        std::mem::take(&mut self.locked().ended)
    }
}

/// As long as the inputs of other scenarios.
fn payload(number: u32) -> Vec<u8> {
    format!("{number:<PAYLOAD_BYTES$}").into_bytes()
}

fn number(payload: &[u8]) -> Option<u32> {
    std::str::from_utf8(payload).ok()?.trim_end().parse().ok()
}

/// What is submitted.
#[derive(Clone)]
pub(super) enum Work {
    /// Single executions.
    Plain,
    /// Flows.
    Flows(Graphs),
}

impl Work {
    pub(super) fn members(&self) -> u32 {
        match self {
            Self::Plain => 1,
            Self::Flows(graphs) => graphs.nodes,
        }
    }
}

/// Submits one thing after the other; waits for the end of each if it is told to.
pub(super) struct Submitter {
    pub(super) client: Client,
    pub(super) board: Board,
    pub(super) work: Work,
    pub(super) waits: bool,
}

impl Caller for Submitter {
    async fn step(&mut self) -> Result<(), Failure> {
        let (payload, told) = self.board.begin(self.work.members());
        match &self.work {
            Work::Plain => drop(self.client.submit_raw("bench", payload).lane(LANE).await?),
            Work::Flows(graphs) => drop(self.client.submit_graph(graphs.graph(&payload)).await?),
        }
        if self.waits {
            tokio::time::timeout(TIME_LIMIT, told).await??;
        }
        Ok(())
    }
}

/// A worker that runs what is there, or waits for it.
pub(super) struct Member {
    pub(super) worker: FlowFabricWorker,
    pub(super) board: Board,
    /// How long a claim and its completion took.
    pub(super) latencies: Latencies,
}

impl Caller for Member {
    async fn step(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        let task = self.worker.claim(TIME_LIMIT).await?.ok_or("nothing waits any more")?;
        let input = task.input_payload().to_vec();
        task.complete(Some(vec![b'r'; 16])).await?;
        self.latencies.add(start.elapsed());
        self.board.ended(&input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_several_members_ends_with_the_last_of_them() {
        let board = Board::default();
        let (input, mut told) = board.begin(2);
        let (other, _) = board.begin(1);
        assert_eq!((input.len(), number(&other)), (PAYLOAD_BYTES, Some(2)));
        board.ended(&input).expect("it is under way");
        assert!(told.try_recv().is_err());
        board.ended(&input).expect("it is under way");
        assert!(told.try_recv().is_ok());
        assert_eq!(board.take_latencies().len(), 1);
        board.ended(&input).expect_err("it has ended");
    }
}
