//! Many concurrent callers that share a number of steps.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::metering::Spent;
use crate::store::Store;

/// Somebody who does one step after the other.
pub(crate) trait Caller: Send + 'static {
    /// Does one step, and waits for its end.
    fn step(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// What a number of steps took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// From the first step's beginning to the last one's end.
    pub(crate) wall: Duration,
    /// Per step.
    pub(crate) spent: Spent,
}

/// Lets the callers take so many steps between them; gives them back with what it took.
pub(crate) async fn measure<C: Caller>(
    store: &Store,
    callers: Vec<C>,
    steps: u64,
) -> Result<(Vec<C>, Cost), Failure> {
    let before = Spent::so_far(store).await?;
    let start = Instant::now();
    let callers = run(callers, steps).await?;
    let wall = start.elapsed();
    let spent = Spent::so_far(store).await?.each_since(before, steps);
    Ok((callers, Cost { wall, spent }))
}

/// Lets the callers take so many steps between them, and gives them back.
pub(crate) async fn run<C: Caller>(callers: Vec<C>, steps: u64) -> Result<Vec<C>, Failure> {
    let taken = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = callers
        .into_iter()
        .map(|caller| tokio::spawn(take_steps(caller, Arc::clone(&taken), steps)))
        .collect();
    let mut callers = Vec::with_capacity(tasks.len());
    for task in tasks {
        callers.push(task.await??);
    }
    Ok(callers)
}

async fn take_steps<C: Caller>(
    mut caller: C,
    taken: Arc<AtomicU64>,
    steps: u64,
) -> Result<C, Failure> {
    while taken.fetch_add(1, Ordering::Relaxed) < steps {
        caller.step().await?;
    }
    Ok(caller)
}
