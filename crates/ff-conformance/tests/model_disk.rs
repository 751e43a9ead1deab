//! Random sequences on an embedded store on a disk, which crashes and rewrites its journal in
//! between: it answers as one in memory does, keeps what it answered, and no rule is broken.
//!
//! When the journal is rewritten is not decided by the seed.

use std::time::Instant;

use ff_backend_embedded::SyncMode;
use ff_conformance::cramped;
use ff_conformance::model::{Failure, Plan, Played, Store, play, play_all, shrink};
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

/// Calls, and rewrites of the journal.
type Done = (u64, u64);

fn done(seed: u64, steps: usize) -> Result<Done, Failure> {
    let (played, compactions) = played(seed, &Plan::random(seed, steps))?;
    Ok((played.values().sum(), compactions))
}

#[test]
fn a_store_that_crashes_keeps_every_rule_and_answers_as_one_that_does_not() {
    let test = random_test!();
    let (seeds, steps) = (test.seeds(1..SEEDS + 1), test.steps(STEPS) as usize);
    let (count, begin) = (seeds.end - seeds.start, Instant::now());
    // Side by side, since each waits for the disk most of the time.
    let add = |all: &mut Done, one: Done| *all = (all.0 + one.0, all.1 + one.1);
    let tally = play_all(seeds, PLAYERS, |seed| done(seed, steps), add);
    let ((calls, compactions), failed) = (tally.done, tally.failed);
    println!("{count} sequences, {calls} calls, {compactions} rewrites in {:.1?}", begin.elapsed());
    if let Some(seed) = failed {
        panic!("{}", report(&test, seed, &Plan::random(seed, steps)));
    }
    assert!(count < SEEDS || compactions > count, "{compactions} rewrites are too few");
}

/// The failure of a seed in as few steps as can be, with the line that replays it.
fn report(test: &RandomTest, seed: u64, plan: &Plan) -> String {
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
