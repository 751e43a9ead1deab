//! Random sequences on the embedded store: no rule is ever broken, and every planted bug is found.
//!
//! `FF_MODEL_SEEDS` sequences of `FF_MODEL_STEPS` steps, from seed `FF_MODEL_SEED` on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ff_conformance::model::{Failure, Plan, Played, Store, play, shrink};
use ff_script::library::Library;

const SEEDS: u64 = 1000;
const STEPS: u64 = 60;

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made")
}

fn played(plan: &Plan, library: &Library) -> Result<Played, Failure> {
    let stores = [Store::embedded(library)];
    runtime().block_on(play(plan, &stores))
}

/// Plays seeds on all cores until one fails; gives the lowest that did and how many calls were
/// made.
fn first_failure(
    library: &Library,
    seeds: std::ops::Range<u64>,
    steps: usize,
) -> (Option<u64>, u64) {
    let (next, failed, calls) =
        (AtomicU64::new(seeds.start), AtomicU64::new(u64::MAX), AtomicU64::new(0));
    let player = || loop {
        let seed = next.fetch_add(1, Ordering::SeqCst);
        if seed >= seeds.end || failed.load(Ordering::SeqCst) < seed {
            return;
        }
        match played(&Plan::random(seed, steps), library) {
            Ok(played) => drop(calls.fetch_add(played.calls as u64, Ordering::SeqCst)),
            Err(_) => drop(failed.fetch_min(seed, Ordering::SeqCst)),
        }
    };
    let players = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..players {
            scope.spawn(player);
        }
    });
    let failed = failed.into_inner();
    ((failed != u64::MAX).then_some(failed), calls.into_inner())
}

/// The failure of a seed in as few steps as can be, with the line that replays it.
fn story(library: &Library, seed: u64, steps: usize) -> String {
    let plan = shrink(&Plan::random(seed, steps), |plan| played(plan, library).is_err());
    let failure = played(&plan, library).expect_err("the short plan fails");
    format!(
        "seed {seed} fails; shrunk to {} steps:\n{failure}\nto replay: FF_MODEL_SEED={seed} \
         FF_MODEL_SEEDS=1 FF_MODEL_STEPS={steps} cargo test -p ff-conformance --test model random",
        plan.steps.len()
    )
}

#[test]
fn random_sequences_break_no_rule() {
    let library = Library::current();
    let (from, count) = (setting("FF_MODEL_SEED", 1), setting("FF_MODEL_SEEDS", SEEDS));
    let steps = setting("FF_MODEL_STEPS", STEPS) as usize;
    let begin = Instant::now();
    let (failed, calls) = first_failure(&library, from..from + count, steps);
    let took = begin.elapsed();
    println!(
        "{count} sequences, {calls} calls in {took:.1?}: {:.0} calls/s",
        calls as f64 / took.as_secs_f64()
    );
    if let Some(seed) = failed {
        panic!("{}", story(&library, seed, steps));
    }
}
