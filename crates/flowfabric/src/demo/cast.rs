//! Who plays: the executions of the demo, and what is promised about each kind.

use std::time::Duration;

use ff_sdk::{Backoff, Client, RetryPolicy, Submission};

/// The kind whose first worker is killed.
pub(super) const ORPHAN: &str = "orphan";
/// How long one attempt of a slow one may take.
pub(super) const SLOW_MS: u64 = 1000;
/// When the later ones may begin.
pub(super) const LATER_MS: u64 = 1500;
const RETRY_PAUSE_MS: u64 = 400;

/// A kind of execution.
pub(super) struct Role {
    pub(super) kind: &'static str,
    pub(super) count: u32,
    /// How it ends.
    pub(super) ends: &'static str,
    /// How many attempts each one takes at least; more if the machine is so busy that leases lapse.
    pub(super) attempts: u32,
    /// What happens to it, for the audience.
    pub(super) fate: &'static str,
}

const fn role(
    kind: &'static str,
    count: u32,
    ends: &'static str,
    attempts: u32,
    fate: &'static str,
) -> Role {
    Role { kind, count, ends, attempts, fate }
}

/// Everybody, in the order of submission.
pub(super) const ROLES: &[Role] = &[
    role(ORPHAN, 1, "completed", 2, "its worker is killed in the middle of it"),
    role("slow", 2, "completed", 2, "hang at first and run out of their second"),
    role("flaky", 6, "completed", 3, "fail twice before they succeed"),
    role("hopeless", 2, "failed", 2, "fail, are tried once more, and fail for good"),
    role("later", 5, "completed", 1, "may not begin before 1.5 seconds have passed"),
    role("greet", 20, "completed", 1, "just work"),
];

pub(super) fn submissions(client: &Client) -> Vec<Submission> {
    let numbered = ROLES.iter().flat_map(|role| (1..=role.count).map(move |number| (role, number)));
    numbered
        .map(|(role, number)| {
            let title = format!("{} {number}", role.kind);
            let submission = client.submit_raw(role.kind, title).creator("demo");
            match role.kind {
                "slow" => retries(submission, role).attempt_timeout(Duration::from_millis(SLOW_MS)),
                "later" => submission.delay(Duration::from_millis(LATER_MS)),
                "flaky" | "hopeless" => retries(submission, role),
                _ => submission,
            }
        })
        .collect()
}

/// As many retries as the role needs. Time runs out more often on a busy machine.
fn retries(submission: Submission, role: &Role) -> Submission {
    let spare = if role.kind == "slow" { 10 } else { 0 };
    submission.retry(RetryPolicy {
        max_retries: u64::from(role.attempts) - 1 + spare,
        backoff: Backoff::Fixed { delay_ms: RETRY_PAUSE_MS },
        ..RetryPolicy::default()
    })
}

/// The role of a kind.
pub(super) fn role_of(kind: &str) -> Option<&'static Role> {
    ROLES.iter().find(|role| role.kind == kind)
}
