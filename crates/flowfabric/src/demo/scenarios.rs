//! The executions of the demo, and what is promised about each kind.

use std::time::Duration;

use ff_sdk::{Backoff, Client, RetryPolicy, Submission};

/// The kind whose first worker is killed.
pub(super) const ORPHAN: &str = "orphan";
/// The kind that waits for somebody's word.
pub(super) const GATE: &str = "gate";
/// How long one attempt of a slow one may take.
pub(super) const SLOW_MS: u64 = 1000;
/// When the later ones may begin.
pub(super) const LATER_MS: u64 = 1500;
const RETRY_PAUSE_MS: u64 = 400;

/// A kind of execution.
pub(super) struct Scenario {
    pub(super) kind: &'static str,
    pub(super) count: u32,
    /// How it ends.
    pub(super) ends: &'static str,
    /// How many attempts each one takes at least; more if the machine is so busy that leases lapse.
    pub(super) attempts: u32,
    /// What happens to it, in words.
    pub(super) about: &'static str,
}

const fn scenario(
    kind: &'static str,
    count: u32,
    ends: &'static str,
    attempts: u32,
    about: &'static str,
) -> Scenario {
    Scenario { kind, count, ends, attempts, about }
}

/// All of them, in the order of submission.
pub(super) const SCENARIOS: &[Scenario] = &[
    scenario(ORPHAN, 1, "completed", 2, "its worker is killed in the middle of it"),
    scenario(GATE, 1, "completed", 1, "waits until it is approved, by you if you like"),
    scenario("slow", 2, "completed", 2, "hang at first and run out of their second"),
    scenario("flaky", 6, "completed", 3, "fail twice before they succeed"),
    scenario("hopeless", 2, "failed", 2, "fail, are tried once more, and fail for good"),
    scenario("later", 5, "completed", 1, "may not begin before 1.5 seconds have passed"),
    scenario("greet", 20, "completed", 1, "just work"),
];

pub(super) fn submissions(client: &Client) -> Vec<Submission> {
    let numbered = SCENARIOS
        .iter()
        .flat_map(|scenario| (1..=scenario.count).map(move |number| (scenario, number)));
    numbered
        .map(|(scenario, number)| {
            let title = format!("{} {number}", scenario.kind);
            let submission = client.submit_raw(scenario.kind, title).creator("demo");
            match scenario.kind {
                "slow" => {
                    retries(submission, scenario).attempt_timeout(Duration::from_millis(SLOW_MS))
                }
                "later" => submission.delay(Duration::from_millis(LATER_MS)),
                "flaky" | "hopeless" => retries(submission, scenario),
                _ => submission,
            }
        })
        .collect()
}

/// As many retries as the scenario needs. Time runs out more often on a busy machine.
fn retries(submission: Submission, scenario: &Scenario) -> Submission {
    let spare = if scenario.kind == "slow" { 10 } else { 0 };
    submission.retry(RetryPolicy {
        max_retries: u64::from(scenario.attempts) - 1 + spare,
        backoff: Backoff::Fixed { delay_ms: RETRY_PAUSE_MS },
        ..RetryPolicy::default()
    })
}

/// The scenario of a kind.
pub(super) fn scenario_of(kind: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.kind == kind)
}
