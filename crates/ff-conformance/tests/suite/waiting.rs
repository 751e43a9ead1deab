//! Partitions that wait for gates, and what is opened for them.

use ff_conformance::gates::{Limits, check};
use ff_conformance::{Deployment, Held, LANE, conformance};
use ff_core::contracts::TickRequest;
use ff_core::error::Code;
use ff_core::types::QuotaPolicyId;
use ff_script::calls::quota::{CheckAdmissionAndRecordReply, ReleaseAdmissionReply};
use ff_script::calls::waiting::{AwaitGates, AwaitGatesReply, SettleOpenings, SettleOpeningsReply};
use ff_script::wire::Rest;

use super::quota::release;

pub(crate) fn waits(policy: QuotaPolicyId, partition: u16, score: i64) -> AwaitGates {
    let items = vec![format!("q:{policy}:k"), partition.to_string(), score.to_string()];
    AwaitGates { items: Rest(items) }
}

pub(crate) fn settle(
    policy: QuotaPolicyId,
    entry: &str,
    opened: u32,
    left: u64,
    best: &str,
) -> SettleOpenings {
    let (gate, entry) = (format!("q:{policy}:k"), entry.to_owned());
    let items = vec![gate, entry, opened.to_string(), left.to_string(), best.to_owned()];
    SettleOpenings { items: Rest(items) }
}

/// Takes the only place of a policy.
pub(crate) async fn full(d: &Deployment) -> (QuotaPolicyId, Held) {
    let policy = d.quota(Limits::at_once(1)).await;
    d.create_under(policy, "k").send().await;
    let held = d.claim(LANE).await;
    let admitted = d.call(check(policy, "k", &held)).await;
    assert_eq!(admitted, CheckAdmissionAndRecordReply::Admitted {});
    (policy, held)
}

/// What was opened: the partition and for how many.
fn opened(entries: &[String]) -> Vec<(u16, u32)> {
    let parts = entries.iter().map(|entry| entry.split(':').skip(2).take(2).collect::<Vec<_>>());
    parts
        .map(|parts| (parts[0].parse().expect("a number"), parts[1].parse().expect("a number")))
        .collect()
}

/// Frees the only place; gives what was opened for it.
async fn free(d: &Deployment, policy: QuotaPolicyId, held: &Held) -> Vec<String> {
    match d.call(release(policy, "k", held)).await {
        ReleaseAdmissionReply::Released { openings, .. } => openings,
        other => panic!("{other:?}"),
    }
}

conformance! {
    async fn a_freed_place_is_opened_in_the_best_partition_alone(d: &Deployment) {
        let (policy, held) = full(d).await;
        for (partition, score) in [(7, 30), (8, -5), (9, 12)] {
            let AwaitGatesReply::Awaited { openings } =
                d.call(waits(policy, partition, score)).await;
            assert!(openings.is_empty(), "the only place is taken");
        }
        assert_eq!(opened(&free(d, policy, &held).await), [(8, 1)]);
    }

    async fn who_waits_for_a_free_place_is_let_pass_at_once(d: &Deployment) {
        let policy = d.quota(Limits::at_once(3)).await;
        let AwaitGatesReply::Awaited { openings } = d.call(waits(policy, 7, 30)).await;
        assert_eq!(opened(&openings), [(7, 3)]);
    }

    async fn places_left_over_are_opened_elsewhere(d: &Deployment) {
        let policy = d.quota(Limits::at_once(3)).await;
        let AwaitGatesReply::Awaited { openings } = d.call(waits(policy, 7, 30)).await;
        d.call(waits(policy, 8, 40)).await;
        let settled = d.call(settle(policy, &openings[0], 1, 0, "")).await;
        let SettleOpeningsReply::Settled { openings: more } = settled else {
            panic!("{settled:?}")
        };
        assert_eq!(opened(&more), [(8, 2)]);
        let again = d.call(settle(policy, &openings[0], 1, 0, "")).await;
        assert_eq!(again, SettleOpeningsReply::SettledBefore { openings: Vec::new() });
    }

    async fn a_partition_that_waits_again_is_not_forgotten_by_an_older_answer(d: &Deployment) {
        let (policy, held) = full(d).await;
        d.call(waits(policy, 7, 30)).await;
        let openings = free(d, policy, &held).await;
        d.advance(5).await;
        // Somebody took the place first, and the one that was let pass waits again.
        d.create_under(policy, "k").send().await;
        let other = d.claim(LANE).await;
        d.call(check(policy, "k", &other)).await;
        d.call(waits(policy, 7, 31)).await;
        d.call(settle(policy, &openings[0], 1, 0, "")).await;
        assert_eq!(opened(&free(d, policy, &other).await), [(7, 1)]);
    }

    async fn what_was_opened_and_not_answered_for_is_owed(d: &Deployment) {
        let (policy, held) = full(d).await;
        d.call(waits(policy, 7, 30)).await;
        let openings = free(d, policy, &held).await;
        let owed = async || {
            let report = d.backend.tick(d.quotas(), TickRequest::once(10)).await.expect("a tick is never refused");
            report.owed.into_iter().map(|owed| owed.entry).collect::<Vec<_>>()
        };
        use ff_core::engine_backend::roles::*;
        assert!(owed().await.is_empty(), "its opener has a while for it");
        d.advance(ff_core::limits::OWED_CARRIED_MS).await;
        assert!(owed().await.contains(&openings[0].clone().into_bytes()), "and died");
    }

    async fn a_gate_of_another_family_is_refused(d: &Deployment) {
        let policy = d.new_policy_id();
        for gate in [format!("b:{policy}"), "q:".to_owned(), "x".repeat(200)] {
            let items = Rest(vec![gate, "1".to_owned(), "1".to_owned()]);
            assert_eq!(d.refused(AwaitGates { items }).await, Code::InvalidInput);
        }
        let items = Rest(vec!["one".to_owned()]);
        assert_eq!(d.refused(AwaitGates { items }).await, Code::InvalidInput, "three each");
    }
}
