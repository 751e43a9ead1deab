//! Random sequences on the embedded store: no rule is ever broken.
//!
//! `FF_SEEDS` sequences of `FF_STEPS` steps, from seed `FF_SEED` on.

use std::time::Instant;

use ff_conformance::model::{Failure, Plan, Played, Store, play, play_all, shrink};
use ff_conformance::{cramped, library};
use ff_script::calls;
use ff_script::library::Library;
use ff_test_seed::{RandomTest, random_test};

const SEEDS: u64 = 1000;
const STEPS: u64 = 60;

fn played(plan: &Plan, library: &Library) -> Result<Played, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let stores = [Store::embedded(library)];
    runtime.expect("a runtime can be made").block_on(play(plan, &stores))
}

fn add(all: &mut Played, played: Played) {
    for (outcome, times) in played {
        *all.entry(outcome).or_default() += times;
    }
}

/// The failure of a seed in as few steps as can be, with the line that replays it.
fn report(test: &RandomTest, library: &Library, seed: u64, steps: usize) -> String {
    let plan = shrink(&Plan::random(seed, steps), |plan| played(plan, library).is_err());
    let failure = played(&plan, library).expect_err("the short plan fails");
    format!(
        "seed {seed} fails; shrunk to {} steps:\n{failure}\n{}",
        plan.steps.len(),
        test.replay(seed)
    )
}

#[test]
fn random_sequences_break_no_rule() {
    let library = cramped(&library());
    let test = random_test!();
    let (seeds, steps) = (test.seeds(1..SEEDS + 1), test.steps(STEPS) as usize);
    let (count, begin) = (seeds.end - seeds.start, Instant::now());
    let players = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let play = |seed| played(&Plan::random(seed, steps), &library);
    let tally = play_all(seeds, players, play, add);
    let (calls, took) = (tally.done.values().sum::<u64>(), begin.elapsed());
    let rate = calls as f64 / took.as_secs_f64();
    println!("{count} sequences, {calls} calls in {took:.1?}: {rate:.0} calls/s");
    for ((function, word), times) in &tally.done {
        println!("{times:9} {function} {word}");
    }
    if let Some(seed) = tally.failed {
        eprintln!("seed {seed} fails; looking for the shortest way there");
        panic!("{}", report(&test, &library, seed, steps));
    }
    if count >= SEEDS {
        assert_eq!(never_done(&tally.done), NEVER_DONE, "what is never done is never tested");
    }
}

/// What the plans have no use for: it is about the library and the servers, not about executions;
/// it is a signal with another proof, an approver's link; it frees what nothing blocks, which is
/// nowhere unless somebody writes around the library; or it makes members of executions that run,
/// which the suite has tests of, as it has of an end and a claim in one call. The end of a
/// suspension by name and of a waitpoint nobody waits on are tried, but too rarely to succeed.
/// Which budgets apply to a flow, and what their limits mean to who runs, is left to the suite.
const NEVER_DONE: [&str; 28] = [
    "ff_version",
    "ff_check_rights",
    "ff_upgrade_lane",
    "ff_finish_upgrade",
    "ff_forget_lane",
    "ff_install_facts",
    "ff_confirm_facts",
    "ff_read_facts",
    "ff_register_kind",
    "ff_set_kind",
    "ff_complete_executions",
    "ff_complete_and_claim_next",
    "ff_complete_executions_and_claim_next",
    "ff_fail_and_claim_next",
    "ff_expire_suspension",
    "ff_close_waitpoint",
    "ff_record_decision",
    "ff_read_approval",
    "ff_list_approvals",
    "ff_rotate_link_secret",
    "ff_read_link_secrets",
    "ff_mark_shard",
    "ff_count_kinds",
    "ff_promote_blocked_to_eligible",
    "ff_add_children",
    "ff_attach_budget",
    "ff_stop_for_budget",
    "ff_pause_for_budget",
];

fn never_done(played: &Played) -> Vec<&'static str> {
    // What a gate answers to whom it lets pass is a word of its own.
    let words = ["OK", "ADMITTED"].map(str::to_owned);
    let done = |name: &&str| !words.iter().any(|it| played.contains_key(&(*name, it.clone())));
    calls::contracts().map(|contract| contract.name).filter(done).collect()
}
