//! I11: the same random sequences on the embedded store, on a Valkey server and on a cluster give
//! the same answers, call by call, and end with the same contents.
//!
//! `FF_MODEL_HOST_SEEDS` sequences of `FF_MODEL_STEPS` steps, from seed `FF_MODEL_SEED` on.

use std::time::Instant;

use ff_conformance::model::{Failure, Plan, Played, Store, play, shrink};
use ff_conformance::{HostKind, run, stop_servers};
use ff_script::library::Library;

const SEEDS: u64 = 200;
const STEPS: u64 = 60;

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

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
    let (from, count) = (setting("FF_MODEL_SEED", 1), setting("FF_MODEL_HOST_SEEDS", SEEDS));
    let steps = setting("FF_MODEL_STEPS", STEPS) as usize;
    let (begin, mut calls) = (Instant::now(), 0);
    for seed in from..from + count {
        let plan = Plan::random(seed, steps);
        match run(played(&plan)) {
            Ok(played) => calls += played.values().sum::<u64>(),
            Err(_) => panic!("{}", story(seed, &plan, steps)),
        }
    }
    println!("{count} sequences, {calls} calls on each host in {:.1?}", begin.elapsed());
}

/// The failure of a seed in as few steps as can be, with the line that replays it.
fn story(seed: u64, plan: &Plan, steps: usize) -> String {
    let plan = shrink(plan, |plan| run(played(plan)).is_err());
    let failure = run(played(&plan)).expect_err("the short plan fails");
    format!(
        "seed {seed} fails; shrunk to {} steps:\n{failure}\nto replay: FF_MODEL_SEED={seed} \
         FF_MODEL_HOST_SEEDS=1 FF_MODEL_STEPS={steps} cargo test -p ff-conformance \
         --test model_hosts",
        plan.steps.len()
    )
}
