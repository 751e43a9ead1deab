//! Many random sequences side by side, until one fails.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Failure;

/// What many sequences did, and the lowest seed that failed.
#[derive(Default)]
pub struct Tally<T> {
    /// What those that did not fail did.
    pub done: T,
    /// The seed.
    pub failed: Option<u64>,
}

/// Plays seeds on so many threads until one fails. `add` puts what one did to the rest.
pub fn play_all<T: Default + Send>(
    seeds: Range<u64>,
    players: usize,
    play: impl Fn(u64) -> Result<T, Failure> + Sync,
    add: impl Fn(&mut T, T) + Sync,
) -> Tally<T> {
    let (next, tally) = (AtomicU64::new(seeds.start), Mutex::new(Tally::default()));
    let locked = || tally.lock().expect("no player panics");
    let player = || {
        loop {
            let seed = next.fetch_add(1, Ordering::SeqCst);
            if seed >= seeds.end || locked().failed.is_some() {
                return;
            }
            let outcome = play(seed);
            let mut tally: std::sync::MutexGuard<'_, Tally<T>> = locked();
            match outcome {
                Err(_) => tally.failed = Some(tally.failed.map_or(seed, |lower| lower.min(seed))),
                Ok(done) => add(&mut tally.done, done),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..players {
            scope.spawn(player);
        }
    });
    tally.into_inner().expect("no player panics")
}
