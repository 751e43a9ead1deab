//! Random sequences on an embedded store on a disk, which crashes and rewrites its journal in
//! between: it answers as one in memory does, keeps what it answered, and no rule is broken.
//!
//! When the journal is rewritten is not decided by the seed.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ff_backend_embedded::SyncMode;
use ff_conformance::cramped;
use ff_conformance::model::{Failure, Plan, Played, Store, play, shrink};
use ff_script::library::Library;
use ff_test_seed::{RandomTest, random_test};

const SEEDS: u64 = 90;
const STEPS: u64 = 60;
const PLAYERS: usize = 8;
const MODES: [SyncMode; 3] = [SyncMode::Always, SyncMode::EverySec, SyncMode::Off];

/// What was played, and how often the journal was rewritten meanwhile.
fn played(seed: u64, plan: &Plan) -> Result<(Played, u64), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let library = cramped(&Library::current());
    let sync = MODES[(seed % 3) as usize];
    let stores = [Store::on_disk(&library, sync), Store::embedded(&library)];
    let played = runtime.expect("a runtime can be made").block_on(play(plan, &stores))?;
    Ok((played, stores[0].compactions()))
}

/// What many sequences did, and the lowest seed that failed.
#[derive(Default)]
struct Tally {
    calls: u64,
    compactions: u64,
    failed: Option<u64>,
}

/// Plays seeds side by side, since each waits for the disk most of the time, until one fails.
fn play_all(seeds: Range<u64>, steps: usize) -> Tally {
    let (next, tally) = (AtomicU64::new(seeds.start), Mutex::new(Tally::default()));
    let locked = || tally.lock().expect("no player panics");
    let player = || {
        loop {
            let seed = next.fetch_add(1, Ordering::SeqCst);
            if seed >= seeds.end || locked().failed.is_some() {
                return;
            }
            let outcome = played(seed, &Plan::random(seed, steps));
            let mut tally = locked();
            match outcome {
                Err(_) => tally.failed = Some(tally.failed.map_or(seed, |lower| lower.min(seed))),
                Ok((played, compactions)) => {
                    tally.calls += played.values().sum::<u64>();
                    tally.compactions += compactions;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..PLAYERS {
            scope.spawn(player);
        }
    });
    tally.into_inner().expect("no player panics")
}

#[test]
fn a_store_that_crashes_keeps_every_rule_and_answers_as_one_that_does_not() {
    let test = random_test!();
    let (seeds, steps) = (test.seeds(1..SEEDS + 1), test.steps(STEPS) as usize);
    let (count, begin) = (seeds.end - seeds.start, Instant::now());
    let Tally { calls, compactions, failed } = play_all(seeds, steps);
    println!("{count} sequences, {calls} calls, {compactions} rewrites in {:.1?}", begin.elapsed());
    if let Some(seed) = failed {
        panic!("{}", story(&test, seed, &Plan::random(seed, steps)));
    }
    assert!(count < SEEDS || compactions > count, "{compactions} rewrites are too few");
}

/// The failure of a seed in as few steps as can be, with the line that replays it.
fn story(test: &RandomTest, seed: u64, plan: &Plan) -> String {
    let short = shrink(plan, |plan| played(seed, plan).is_err());
    let failure = match played(seed, &short) {
        Err(failure) => failure.to_string(),
        Ok(_) => {
            "it does not fail every time: a rewrite has to come at the right moment".to_owned()
        }
    };
    let (steps, replay) = (short.steps.len(), test.replay(seed));
    format!("seed {seed} fails; shrunk to {steps} steps:\n{failure}\n{replay}")
}
