//! Workers that take what comes and say what they took, until they are told to stop.

use std::time::{Duration, Instant};

use ff_sdk::{ClaimedTask, Connection, FlowFabricWorker};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::sdk;
use crate::Failure;

/// Longer than any run: nobody comes back for nothing.
const WAIT: Duration = Duration::from_secs(3600);
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// After it, all workers of a crew that was started wait for work.
const SETTLING: Duration = Duration::from_millis(300);
/// Bytes of each input.
const INPUT_BYTES: usize = 100;

/// Workers, and what they took.
pub(super) struct Crew {
    taken: mpsc::UnboundedReceiver<Taken>,
    stop: watch::Sender<bool>,
    workers: JoinSet<Result<(), Failure>>,
}

/// Something that a worker took.
pub(super) struct Taken {
    /// The number in its input.
    pub(super) number: usize,
    pub(super) at: Instant,
}

impl Crew {
    /// One worker with each of these sets of capabilities, over these connections. Crews that live
    /// at the same time need different names.
    pub(super) async fn start(
        name: &str,
        connections: &[Connection],
        capabilities: Vec<Vec<String>>,
    ) -> Result<Self, Failure> {
        let (say, taken) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(false);
        let mut workers = JoinSet::new();
        for (number, (able, to)) in
            capabilities.into_iter().zip(connections.iter().cycle()).enumerate()
        {
            let config = sdk::worker_config(format!("{name}-{number}"), able)?;
            let worker = FlowFabricWorker::connect_to(config, to).await?;
            workers.spawn(work(worker, say.clone(), stopped.clone()));
        }
        tokio::time::sleep(SETTLING).await;
        Ok(Self { taken, stop, workers })
    }

    /// What was taken next; nothing if the time is up.
    pub(super) async fn next(&mut self, deadline: Instant) -> Result<Option<Taken>, Failure> {
        tokio::select! {
            taken = timeout_at(deadline.into(), self.taken.recv()) => Ok(taken.ok().flatten()),
            Some(ended) = self.workers.join_next() => {
                ended??;
                Err("a worker ended before it was told to".into())
            }
        }
    }

    /// The numbers of what was taken, in order: so many, or fewer if the time is up.
    pub(super) async fn take(
        &mut self,
        count: usize,
        deadline: Instant,
    ) -> Result<Vec<Taken>, Failure> {
        let mut all = Vec::with_capacity(count);
        while all.len() < count {
            let Some(taken) = self.next(deadline).await? else { break };
            all.push(taken);
        }
        Ok(all)
    }

    /// Lets everybody finish and leave.
    pub(super) async fn stop(mut self) -> Result<(), Failure> {
        self.stop.send_replace(true);
        while let Some(ended) = self.workers.join_next().await {
            ended??;
        }
        Ok(())
    }
}

async fn work(
    worker: FlowFabricWorker,
    say: mpsc::UnboundedSender<Taken>,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), Failure> {
    loop {
        let task = tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => break,
            task = worker.claim(WAIT) => task?,
        };
        let Some(task) = task else { continue };
        // Nobody listens any more when the run is over.
        let _ = say.send(Taken { number: number_of(&task)?, at: Instant::now() });
        task.complete(Some(vec![b'r'; 16])).await?;
    }
    worker.shutdown(TIME_LIMIT).await?;
    Ok(())
}

/// An input with a number in it.
pub(super) fn input(number: usize) -> Vec<u8> {
    format!("{number:0>INPUT_BYTES$}").into_bytes()
}

fn number_of(task: &ClaimedTask) -> Result<usize, Failure> {
    Ok(std::str::from_utf8(task.input_payload())?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_holds_its_number() {
        let input = String::from_utf8(input(70)).expect("digits");
        assert_eq!((input.len(), input.parse()), (INPUT_BYTES, Ok(70)));
    }
}
