//! Clocks that jump: nothing fires twice, no timer is lost, and what the store's time says holds.

use ff_conformance::record::{listed_in, record};
use ff_conformance::{Deployment, GRANT_MS, Held, LANE, LEASE_MS, conformance};
use ff_core::contracts::TickReport;
use ff_core::error::Code;
use ff_core::state::PublicState;
use ff_core::types::ExecutionId;
use ff_script::calls::claim_next::ClaimNextReply;
use ff_script::calls::grant::{GrantNext, GrantNextReply};
use ff_script::calls::lease::{BudgetsReached, RenewLeaseReply};
use ff_script::wire::Joined;

use super::scenario::prepare;

const HOUR_MS: u64 = 3_600_000;
const TEN_YEARS_MS: u64 = 10 * 365 * 24 * HOUR_MS;

/// One of everything that waits for time; all of it is due within a minute.
async fn one_of_each(d: &Deployment) {
    d.create().delayed_by(1000).lane("delayed").send().await;
    d.create().deadline_in(2000).lane("deadline").send().await;
    let reserved = d.create().lane("reserved").send().await;
    d.call(d.claim_grant_call(reserved)).await;
    d.create().policy(r#"{"timeout_policy":{"attempt_timeout_ms":3000}}"#).send().await;
    d.create().send().await;
    assert_eq!(d.claimed(d.claim_call(LANE, 2)).await.len(), 2);
    d.create().policy(r#"{"retention_ms":4000}"#).send().await;
    d.call(d.claim(LANE).await.complete(b"")).await;
}

/// What one tick does when all of it is due: nothing was purged early, so nothing is left of it.
const ALL_AT_ONCE: [u32; 7] = [1, 1, 1, 1, 1, 1, 0];

fn counts(report: &TickReport) -> [u32; 7] {
    [
        report.promoted,
        report.expired,
        report.granted_back,
        report.timed_out,
        report.lapsed,
        report.purged,
        report.forgotten,
    ]
}

/// What all ticks until nothing is left do together, when time goes on by a second each.
async fn tick_for(d: &Deployment, seconds: u64) -> [u32; 7] {
    let mut total = [0; 7];
    for _ in 0..=seconds {
        let done = counts(&d.tick().await);
        total.iter_mut().zip(done).for_each(|(sum, count)| *sum += count);
        d.advance(1000).await;
    }
    total
}

async fn state(d: &Deployment, id: ExecutionId) -> PublicState {
    d.describe(id).await.public_state()
}

async fn back(d: &Deployment, ms: u64) {
    d.set_time(d.now().get() - ms).await;
}

conformance! {
    async fn every_timer_fires_once_in_ordinary_time(d: &Deployment) {
        one_of_each(d).await;
        assert_eq!(tick_for(d, 60).await, [1; 7]);
    }

    async fn an_hour_back_fires_nothing_and_loses_nothing(d: &Deployment) {
        one_of_each(d).await;
        back(d, HOUR_MS).await;
        assert_eq!(counts(&d.tick().await), [0; 7]);
        d.audit().await;
        d.advance(HOUR_MS).await;
        assert_eq!(tick_for(d, 60).await, [1; 7]);
    }

    async fn an_hour_back_after_the_timers_fires_nothing_twice(d: &Deployment) {
        one_of_each(d).await;
        d.advance(60_000).await;
        assert_eq!(counts(&d.tick().await), ALL_AT_ONCE);
        back(d, HOUR_MS).await;
        assert_eq!(counts(&d.tick().await), [0; 7]);
        d.advance(HOUR_MS).await;
        assert_eq!(counts(&d.tick().await), [0; 7]);
    }

    async fn ten_years_forward_fire_everything_once(d: &Deployment) {
        one_of_each(d).await;
        d.advance(TEN_YEARS_MS).await;
        assert_eq!(counts(&d.tick().await), ALL_AT_ONCE);
        // What ended now has its retention before it.
        assert_eq!(counts(&d.tick().await), [0; 7]);
        back(d, TEN_YEARS_MS).await;
        assert_eq!(counts(&d.tick().await), [0; 7]);
        d.audit().await;
    }

    async fn a_lease_is_judged_by_the_stores_time_alone(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.advance(TEN_YEARS_MS).await;
        assert_eq!(d.refused(held.complete(b"")).await, Code::LeaseExpired);
        back(d, TEN_YEARS_MS).await;
        d.call(held.complete(b"")).await;
        assert_eq!(state(d, held.id).await, PublicState::Completed);
    }

    async fn a_renewal_after_a_step_back_does_not_shorten_the_lease(d: &Deployment) {
        let held = d.create_and_claim().await;
        let lease_expires_at = d.now().plus_millis(LEASE_MS);
        back(d, HOUR_MS).await;
        let reply = d.call(held.renew(LEASE_MS)).await;
        let lease_epoch = held.lease_epoch;
        let budgets_reached = BudgetsReached::default();
        let renewed =
            RenewLeaseReply::Renewed { lease_expires_at, lease_epoch, budgets_reached };
        assert_eq!(reply, renewed);
    }

    async fn a_claim_is_recognised_after_a_step_back(d: &Deployment) {
        d.create_one().await;
        d.create_one().await;
        let mut call = d.claim_call(LANE, 1);
        let first = d.call(call.clone()).await;
        let ClaimNextReply::Claimed { claims, .. } = first else { panic!("{first:?}") };
        call.retry = true;
        for step in [1, 1000, HOUR_MS] {
            back(d, step).await;
            let again = d.call(call.clone()).await;
            let before = ClaimNextReply::ClaimedBefore { claims: claims.clone(), next_score: None };
            assert_eq!(again, before, "{step}");
        }
    }

    async fn a_grant_is_recognised_after_a_step_back(d: &Deployment) {
        d.create_one().await;
        d.create_one().await;
        let call = GrantNext {
            lane: ff_conformance::lane(LANE),
            worker_id: ff_conformance::worker("w"),
            worker_instance_id: ff_conformance::instance("w-1"),
            capabilities: ff_conformance::capabilities(&[]),
            grant_ttl_ms: GRANT_MS,
            retry: true,
            grant_id: ff_core::types::GrantId::from_uuid(d.new_uuid()),
            need: None,
            score_max: None,
            namespaces: Joined(Vec::new()),
        };
        d.call(call.clone()).await;
        back(d, 1000).await;
        assert!(matches!(d.call(call).await, GrantNextReply::GrantedBefore { .. }));
    }

    async fn an_attempt_can_end_before_it_began(d: &Deployment) {
        let held: Held = d.create_and_claim().await;
        back(d, HOUR_MS).await;
        d.call(held.complete(b"")).await;
        let described = d.describe(held.id).await;
        assert!(described.completed_at < described.started_at);
        let keep = ff_core::limits::RETENTION_MS_DEFAULT;
        assert_eq!(described.purge_at, Some(d.now().plus_millis(keep)));
    }

    async fn what_is_created_after_a_step_back_is_claimed_first(d: &Deployment) {
        let old = d.create_one().await;
        back(d, HOUR_MS).await;
        let new = d.create_one().await;
        assert_eq!(d.claim(LANE).await.id, new);
        assert_eq!(d.claim(LANE).await.id, old);
    }

    async fn no_event_is_lost_when_the_clock_goes_back(d: &Deployment) {
        d.create_one().await;
        let page = d.read_events(None, 10).await;
        back(d, HOUR_MS).await;
        let id = d.create_one().await;
        let page = d.read_events(page.next_cursor, 10).await;
        assert_eq!((page.events.len(), page.truncated), (1, false));
        assert_eq!(page.events[0].execution_id, Some(id));
    }

    async fn a_key_is_remembered_across_a_step_back(d: &Deployment) {
        let first = d.create().idempotency("k", "x").dedup_ms(1000).send().await;
        back(d, HOUR_MS).await;
        let reply = d.create().idempotency("k", "x").reply().await.expect("recognised");
        let execution_id = first;
        let public_state = PublicState::Waiting;
        assert_eq!(reply, ff_script::calls::create::CreateExecutionReply::Duplicate {
            execution_id,
            public_state,
        });
    }

    async fn a_frozen_clock_stops_timers_and_nothing_else(d: &Deployment) {
        for _ in 0..3 {
            let held = d.create_and_claim().await;
            d.call(held.progress("1", "")).await;
            d.call(held.complete(b"")).await;
            assert_eq!(d.tick().await.total(), 0);
        }
        let id = d.create().delayed_by(1).send().await;
        d.tick().await;
        assert_eq!(state(d, id).await, PublicState::Delayed);
    }

    async fn times_at_the_end_of_the_calendar_stay_whole(d: &Deployment) {
        let last = ff_core::limits::TIMESTAMP_MS_MAX;
        d.set_time(last - 100_000_000).await;
        let id = d.create().delay_until(ff_core::types::TimestampMs::new(last)).send().await;
        assert_eq!(record(&d.dump().await, id)["du"], last.to_string());
        d.set_time(last).await;
        assert_eq!(d.tick().await.promoted, 1);
        let held = d.claim(LANE).await;
        assert_eq!(held.row.lease_expires_at.get(), last + LEASE_MS);
        d.call(held.renew(LEASE_MS)).await;
        d.call(held.complete(b"")).await;
        assert_eq!(listed_in(&d.dump().await, id), ["ended:success"]);
        d.audit().await;
    }

    /// Every function once, with a clock that runs backwards by a second before each call.
    async fn no_function_minds_a_clock_that_runs_backwards(d: &Deployment) {
        d.host().watch(false);
        for contract in ff_script::calls::contracts() {
            let args = prepare(d, contract.name).await;
            back(d, 1000).await;
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            d.raw(contract.name, &args).await;
            d.raw(contract.name, &args).await;
        }
        d.audit().await;
    }
}
