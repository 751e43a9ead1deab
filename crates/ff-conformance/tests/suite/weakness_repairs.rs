//! Known weaknesses of libraries like ours, each as the behaviour we want instead: entries of
//! indexes that do not match their record.

use ff_conformance::record::key_of;
use ff_conformance::{Deployment, LANE, LEASE_MS, conformance};
use ff_core::state::PublicState;
use ff_core::types::ExecutionId;

/// Lists an execution as due at this time, around the library.
async fn plant_due(d: &Deployment, id: ExecutionId, at: u64) {
    let (key, at, uuid) =
        (format!("{}:due", d.home().key()), at.to_string(), id.uuid().to_string());
    let words: [&[u8]; 4] = [b"ZADD", key.as_bytes(), at.as_bytes(), uuid.as_bytes()];
    d.host().exec(d.home(), &words).await.expect("every store has the command");
}

conformance! {
    async fn an_entry_that_is_due_too_early_is_put_to_its_time(d: &Deployment) {
        let at = d.now().plus_millis(5000);
        let delayed = d.create().delay_until(at).send().await;
        plant_due(d, delayed, 1).await;
        let report = d.tick().await;
        assert_eq!((report.corrected, report.promoted), (1, 0));
        assert_eq!(report.next_due_at, Some(at));
        assert_eq!(d.describe(delayed).await.public_state(), PublicState::Delayed);
        d.set_time(at.get()).await;
        assert_eq!(d.tick().await.promoted, 1);
        assert_eq!(d.claim(LANE).await.id, delayed);
    }

    async fn an_entry_of_what_is_over_or_gone_is_removed(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.complete(b"")).await;
        plant_due(d, held.id, 1).await;
        plant_due(d, d.new_id(), 2).await;
        let report = d.tick().await;
        assert_eq!((report.corrected, report.total()), (2, 2));
        assert!(report.next_due_at > Some(d.now()), "nothing is due any more");
        assert_eq!(d.describe(held.id).await.public_state(), PublicState::Completed);
    }

    async fn an_entry_of_what_has_no_time_is_removed(d: &Deployment) {
        let waiting = d.create_one().await;
        plant_due(d, waiting, 1).await;
        assert_eq!(d.tick().await.corrected, 1);
        let report = d.tick().await;
        assert_eq!((report.total(), report.next_due_at), (0, None));
        let held = d.claim(LANE).await;
        assert_eq!(held.id, waiting);
        d.advance(LEASE_MS).await;
        assert_eq!(d.tick().await.lapsed, 1);
    }

    async fn what_lost_its_lease_and_a_field_of_it_is_claimed_all_the_same(d: &Deployment) {
        for field in ["li", "ep", "ax", "ac", "as"] {
            let lane = format!("lacks-{field}");
            let id = d.create().lane(&lane).send().await;
            d.claim(&lane).await;
            d.advance(LEASE_MS).await;
            assert_eq!(d.tick().await.lapsed, 1);
            let words: [&[u8]; 3] = [b"HDEL", &key_of(id, ""), field.as_bytes()];
            d.host().exec(d.home(), &words).await.expect("every store has the command");
            let again = d.claim(&lane).await;
            assert_eq!(again.id, id, "{field}");
            d.call(again.complete(b"")).await;
            assert_eq!(d.describe(id).await.public_state(), PublicState::Completed);
        }
        // The history shows the damage, as the audit would say.
        d.host().clear(&d.partitions).await;
    }
}
