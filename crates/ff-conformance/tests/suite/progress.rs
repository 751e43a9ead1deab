//! Reporting progress.

use ff_conformance::record::{events_of, record};
use ff_conformance::{Deployment, Held, LANE, conformance};
use ff_core::contracts::ProgressSummary;
use ff_core::types::TimestampMs;

async fn progress(d: &Deployment, held: &Held) -> Option<ProgressSummary> {
    d.describe(held.id).await.progress
}

fn summary(percent: Option<u8>, message: Option<&str>, at: TimestampMs) -> Option<ProgressSummary> {
    Some(ProgressSummary { percent, message: message.map(str::to_owned), updated_at: at })
}

conformance! {
    async fn progress_is_recorded_with_its_time(d: &Deployment) {
        let held = d.create_and_claim().await;
        assert_eq!(progress(d, &held).await, None);
        d.advance(10).await;
        d.call(held.progress("0", "begins")).await;
        assert_eq!(progress(d, &held).await, summary(Some(0), Some("begins"), d.now()));
        let described = d.describe(held.id).await;
        assert_eq!(described.last_mutation_at, d.now());
        assert!(described.last_transition_at < d.now());
    }

    async fn what_is_not_given_stays(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.progress("40", "first")).await;
        d.call(held.progress("", "second")).await;
        assert_eq!(progress(d, &held).await, summary(Some(40), Some("second"), d.now()));
        d.call(held.progress("100", "")).await;
        assert_eq!(progress(d, &held).await, summary(Some(100), Some("second"), d.now()));
    }

    async fn a_dash_clears_a_value(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.progress("40", "first")).await;
        d.call(held.progress("-", "")).await;
        assert_eq!(progress(d, &held).await, summary(None, Some("first"), d.now()));
        d.call(held.progress("", "-")).await;
        assert_eq!(progress(d, &held).await, summary(None, None, d.now()));
        let stored = record(&d.dump().await, held.id);
        assert!(!stored.contains_key("pp") && !stored.contains_key("pm"), "{stored:?}");
    }

    async fn progress_says_nothing_in_the_log_and_moves_no_index(d: &Deployment) {
        let held = d.create_and_claim().await;
        let before = d.dump().await;
        d.call(held.progress("40", "first")).await;
        let after = d.dump().await;
        assert_eq!(events_of(&before, held.id), events_of(&after, held.id));
        let changed = before.iter().filter(|(key, stored)| after.get(*key) != Some(stored)).count();
        assert_eq!(changed, 1, "only the record changes");
    }

    async fn progress_is_kept_when_the_execution_ends(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.progress("99", "nearly")).await;
        d.call(held.complete(b"")).await;
        assert_eq!(progress(d, &held).await, summary(Some(99), Some("nearly"), d.now()));
    }

    async fn a_new_attempt_begins_without_progress(d: &Deployment) {
        d.create().policy(r#"{"retry_policy":{"backoff":{"type":"fixed","delay_ms":0}}}"#)
            .send().await;
        let held = d.claim(LANE).await;
        d.call(held.progress("99", "nearly")).await;
        d.call(held.fail("no", "transient")).await;
        let retry = d.claim(LANE).await;
        assert_eq!(progress(d, &retry).await, None);
    }
}
