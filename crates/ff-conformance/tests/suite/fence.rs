//! What every function of a lease's holder refuses, by one table for all of them.

use ff_conformance::{Deployment, Held, LANE, LEASE_MS, conformance};
use ff_core::types::ExecutionId;
use ff_script::calls::lease::RevokeLease;

/// An id that nothing else has.
const ID: &str = "00000000-0000-4000-8000-000000000001";
const OTHER: &str = "00000000-0000-4000-8000-000000000002";
const CONDITION: &str = r#"{"type":"any","signals":["go"]}"#;

/// The fenced functions, with their own arguments behind the fence.
pub(crate) const FENCED: [(&str, &[&str]); 12] = [
    ("ff_renew_lease", &["1000"]),
    ("ff_update_progress", &["50", "half"]),
    ("ff_complete_execution", &["result"]),
    ("ff_fail_execution", &["reason", "transient", "detail", "0"]),
    ("ff_complete_and_claim_next", &["result", "lane", "", "1000", ID]),
    ("ff_fail_and_claim_next", &["reason", "transient", "detail", "0", "lane", "", "1000", ID]),
    ("ff_cancel_execution", &["reason", "lease_holder"]),
    ("ff_delay_execution", &["+1000"]),
    ("ff_read_resume_signals", &["1", "1000"]),
    ("ff_create_pending_waitpoint", &[ID, "key", "1000"]),
    ("ff_suspend_execution", &[ID, OTHER, "", "", "", "", "", CONDITION]),
    ("ff_move_to_waiting_children", &[]),
];

/// Calls a fenced function; gives the code it refuses with, and the details.
async fn refuse(d: &Deployment, name: &str, fence: &[String; 4], own: &[&str]) -> Vec<String> {
    let args: Vec<&[u8]> =
        fence.iter().map(String::as_bytes).chain(own.iter().map(|text| text.as_bytes())).collect();
    let answer = d.raw(name, &args).await;
    let details = (0..answer.values.len()).map(|position| answer.text(position));
    [answer.code().to_owned()].into_iter().chain(details).collect()
}

/// All fenced functions refuse this fence in the same way.
async fn all_refuse(d: &Deployment, fence: &[String; 4], expected: &[&str]) {
    for (name, own) in FENCED {
        assert_eq!(refuse(d, name, fence, own).await, expected, "{name}");
    }
}

async fn revoke(d: &Deployment, id: ExecutionId) {
    d.call(RevokeLease {
        execution_id: id,
        expected_lease_id: None,
        reason: "test".to_owned(),
        request_id: None,
    })
    .await;
}

fn with(held: &Held, position: usize, text: &str) -> [String; 4] {
    let mut fence = held.fence();
    text.clone_into(&mut fence[position]);
    fence
}

conformance! {
    async fn an_unknown_execution_is_not_found(d: &Deployment) {
        let held = d.create_and_claim().await;
        all_refuse(d, &with(&held, 0, &d.new_id().to_string()), &["execution_not_found"]).await;
    }

    async fn an_execution_of_another_partition_is_refused(d: &Deployment) {
        let held = d.create_and_claim().await;
        let elsewhere = ExecutionId::from_parts(d.partitions[1], held.id.uuid());
        for (name, own) in FENCED {
            let code = refuse(d, name, &with(&held, 0, &elsewhere.to_string()), own).await;
            assert_eq!(code[0], "invalid_input", "{name}");
            assert!(code[1].starts_with("execution_id must be {fp:"), "{name}: {}", code[1]);
        }
    }

    async fn a_call_without_a_fence_is_refused(d: &Deployment) {
        let held = d.create_and_claim().await;
        let none = [held.id.to_string(), String::new(), String::new(), String::new()];
        all_refuse(d, &none, &["fence_required"]).await;
    }

    async fn an_incomplete_fence_is_refused(d: &Deployment) {
        let held = d.create_and_claim().await;
        for given in 1..7 {
            let mut fence = held.fence();
            for part in 0..3 {
                if given & (1 << part) == 0 {
                    fence[part + 1].clear();
                }
            }
            all_refuse(d, &fence, &["partial_fence_triple"]).await;
        }
    }

    async fn each_part_of_the_fence_must_be_right(d: &Deployment) {
        let held = d.create_and_claim().await;
        let other = d.new_uuid().to_string();
        let wrong = [(1, other.as_str()), (2, "2"), (2, "01"), (2, "1 "), (3, other.as_str())];
        for (position, text) in wrong {
            all_refuse(d, &with(&held, position, text), &["stale_lease"]).await;
        }
    }

    async fn a_revoked_lease_is_refused(d: &Deployment) {
        let held = d.create_and_claim().await;
        revoke(d, held.id).await;
        all_refuse(d, &held.fence(), &["lease_revoked"]).await;
    }

    async fn a_lease_past_its_time_is_refused_before_and_after_the_tick(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.advance(LEASE_MS).await;
        all_refuse(d, &held.fence(), &["lease_expired"]).await;
        assert_eq!(d.tick().await.lapsed, 1);
        all_refuse(d, &held.fence(), &["lease_expired"]).await;
    }

    async fn a_lease_counts_until_its_last_millisecond(d: &Deployment) {
        d.install_secret().await;
        for (name, own) in FENCED {
            let held = d.create_and_claim().await;
            d.advance(LEASE_MS - 1).await;
            let fence = held.fence();
            let args: Vec<&[u8]> = fence
                .iter()
                .map(String::as_bytes)
                .chain(own.iter().map(|text| text.as_bytes()))
                .collect();
            assert_eq!(d.raw(name, &args).await.word, "OK", "{name}");
            d.advance(2 * LEASE_MS).await;
            // What is claimable again must not be in the way of the next one.
            while let Some(held) = d.try_claim(LANE).await {
                d.call(held.complete(b"")).await;
            }
            d.tick().await;
            while let Some(held) = d.try_claim(LANE).await {
                d.call(held.complete(b"")).await;
            }
        }
    }

    async fn the_holder_that_was_replaced_is_refused(d: &Deployment) {
        let old = d.create_and_claim().await;
        revoke(d, old.id).await;
        let new = d.claim(LANE).await;
        assert_eq!(new.id, old.id);
        all_refuse(d, &old.fence(), &["stale_lease"]).await;
        let mixed = [old.fence()[0].clone(), new.fence()[1].clone(), old.fence()[2].clone(),
            new.fence()[3].clone()];
        all_refuse(d, &mixed, &["stale_lease"]).await;
    }

    async fn an_execution_that_never_ran_is_not_active(d: &Deployment) {
        let id = d.create_one().await;
        let any = d.new_uuid().to_string();
        let fence = [id.to_string(), any.clone(), "1".to_owned(), any];
        all_refuse(d, &fence, &["execution_not_active", "none", "0", "runnable", ""]).await;
    }

    async fn an_ended_execution_says_how_it_ended_and_who_held_it(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.complete(b"done")).await;
        let other = with(&held, 1, &d.new_uuid().to_string());
        let attempt = held.attempt_id.to_string();
        let expected = ["execution_not_active", "success", "1", "terminal", attempt.as_str()];
        all_refuse(d, &other, &expected).await;
    }
}
