//! I11: the same random sequences on the embedded store, on a Valkey server and on a cluster give
//! the same answers, call by call, and end with the same contents. Admission is left out: there the
//! contents of hosts still differ now and then.
//!
//! `FF_SEEDS` sequences of `FF_STEPS` steps, from seed `FF_SEED` on.

use std::time::Instant;

use ff_conformance::model::{Failure, Plan, Played, Store, Theme, play, shrink};
use ff_conformance::{HostKind, run, stop_servers};
use ff_script::library::Library;
use ff_test_seed::{RandomTest, random_test};

const SEEDS: u64 = 200;
const STEPS: u64 = 60;

async fn played(plan: &Plan) -> Result<Played, Failure> {
    let stores = [
        Store::embedded(&Library::current()),
        Store::shared(HostKind::Valkey).await,
        Store::shared(HostKind::Cluster).await,
    ];
    play(plan, &stores).await
}

/// Servers must not outlive the test, however it ends.
struct Servers;

impl Drop for Servers {
    fn drop(&mut self) {
        stop_servers();
    }
}

#[test]
fn all_hosts_answer_alike_and_end_alike() {
    let _servers = Servers;
    let test = random_test!();
    let (seeds, steps) = (test.seeds(1..SEEDS + 1), test.steps(STEPS) as usize);
    let (count, begin, mut calls) = (seeds.end - seeds.start, Instant::now(), 0);
    for seed in seeds.filter(|seed| Theme::of(*seed) != Theme::Admission) {
        let plan = Plan::random(seed, steps);
        match run(played(&plan)) {
            Ok(played) => calls += played.values().sum::<u64>(),
            Err(_) => panic!("{}", events_of(&test, seed, &plan)),
        }
    }
    println!("{count} sequences, {calls} calls on each host in {:.1?}", begin.elapsed());
}

/// The failure of a seed in as few steps as can be, with the line that replays it.
fn events_of(test: &RandomTest, seed: u64, plan: &Plan) -> String {
    let plan = shrink(plan, |plan| run(played(plan)).is_err());
    let failure = run(played(&plan)).expect_err("the short plan fails");
    format!(
        "seed {seed} fails; shrunk to {} steps:\n{failure}\n{}",
        plan.steps.len(),
        test.replay(seed)
    )
}
