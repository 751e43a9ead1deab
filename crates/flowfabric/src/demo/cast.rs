//! Who plays: the executions of the demo.

use ff_core::contracts::NewExecution;
use ff_core::partition::PartitionConfig;
use ff_core::policy::{Backoff, ExecutionPolicy, RetryPolicy};
use ff_core::types::{ExecutionId, ExecutionKind, LaneId, Namespace};
use ff_script::ids::{IdSource, SystemIds};

/// The lane everybody works on.
pub(crate) fn lane() -> LaneId {
    LaneId::try_new("default").expect("a valid name")
}

/// The one whose first worker is lost.
pub(crate) fn orphan(config: &PartitionConfig) -> NewExecution {
    execution(config, "orphan", 1, ExecutionPolicy::default())
}

/// Twelve greetings, six that fail twice before they succeed, three that need a pause, and two
/// that never succeed.
pub(crate) fn others(config: &PartitionConfig) -> Vec<NewExecution> {
    let plan: [(&str, usize, ExecutionPolicy); 4] = [
        ("greet", 12, ExecutionPolicy::default()),
        ("flaky", 6, retries(3, 150)),
        ("nap", 3, ExecutionPolicy::default()),
        ("hopeless", 2, retries(1, 100)),
    ];
    plan.into_iter()
        .flat_map(|(kind, count, policy)| {
            (1..=count).map(move |number| (kind, number, policy.clone()))
        })
        .map(|(kind, number, policy)| execution(config, kind, number, policy))
        .collect()
}

fn retries(max_retries: u64, delay_ms: u64) -> ExecutionPolicy {
    let retry_policy =
        RetryPolicy { max_retries, backoff: Backoff::Fixed { delay_ms }, ..RetryPolicy::default() };
    ExecutionPolicy { retry_policy: Some(retry_policy), ..ExecutionPolicy::default() }
}

fn execution(
    config: &PartitionConfig,
    kind: &str,
    number: usize,
    policy: ExecutionPolicy,
) -> NewExecution {
    NewExecution {
        execution_id: ExecutionId::solo(SystemIds.ordered(), config),
        namespace: Namespace::default(),
        lane: lane(),
        kind: ExecutionKind::try_new(kind).expect("a valid name"),
        priority: 0,
        creator: "demo".to_owned(),
        policy,
        payload: format!("{kind} {number}").into_bytes(),
        delay_until: None,
        deadline_at: None,
        tags: Default::default(),
        idempotency_key: None,
    }
}
