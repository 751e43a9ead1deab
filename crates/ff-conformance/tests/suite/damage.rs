//! Records and indexes that somebody wrote around the library, or that a newer version wrote: what
//! is damaged neither blocks nor is guessed at, and what is unknown is left alone.

use ff_conformance::record::{key_of, listed_in, member_score, record};
use ff_conformance::{Deployment, Held, INSTANCE, LANE, LEASE_MS, WORKER, Waiting, conformance};
use ff_core::contracts::{CancelExecution, Condition, TimeoutBehavior};
use ff_core::engine_backend::roles::*;
use ff_core::error::Code;
use ff_core::state::PublicState;
use ff_core::types::ExecutionId;
use ff_script::calls::describe::ReadPayload;
use ff_script::calls::suspend::ReadResumeSignalsReply;
use ff_script::calls::tick::{Tick, TickReply};
use ff_script::calls::waitpoint::ListPendingWaitpoints;

use super::replay::replay;

/// Runs a command on the store.
async fn plant(d: &Deployment, words: &[&[u8]]) {
    d.host().exec(d.home(), words).await.expect("a command that every host has");
}

async fn plant_field(d: &Deployment, id: ExecutionId, field: &str, value: &str) {
    plant(d, &[b"HSET", &key_of(id, ""), field.as_bytes(), value.as_bytes()]).await
}

fn index_key(d: &Deployment, index: &str) -> Vec<u8> {
    format!("{}:{index}", d.home().key()).into_bytes()
}

/// One tick of one item: what it did, and when the next is needed.
async fn tick_one(d: &Deployment) -> (u32, Option<u64>) {
    let TickReply::Ticked { next_due_at, promoted, lapsed, expired, corrected, .. } =
        d.call(Tick::once(1)).await;
    (promoted + lapsed + expired + corrected, next_due_at.map(|at| at.get()))
}

fn waitpoint_key(d: &Deployment, on: &Waiting) -> Vec<u8> {
    index_key(d, &format!("wp:{}", on.waitpoint_id))
}

async fn ended(d: &Deployment) -> Held {
    let held = d.create_and_claim().await;
    d.call(held.complete(b"")).await;
    held
}

conformance! {
    async fn a_live_execution_among_the_ended_ones_is_not_purged(d: &Deployment) {
        d.host().watch(false);
        let id = d.create_one().await;
        let uuid = id.uuid().to_string();
        plant(d, &[b"ZADD", &index_key(d, "ended:success"), b"1", uuid.as_bytes()]).await;
        let report = d.tick().await;
        assert_eq!((report.purged, report.corrected), (0, 1));
        assert_eq!(listed_in(&d.dump().await, id), ["q:default:tests:work"]);
        assert_eq!(d.claim(LANE).await.id, id);
    }

    async fn a_replayed_execution_without_a_lane_is_not_purged(d: &Deployment) {
        d.host().watch(false);
        let held = ended(d).await;
        plant(d, &[b"HDEL", &key_of(held.id, ""), b"la"]).await;
        d.call(replay(held.id)).await;
        assert!(!listed_in(&d.dump().await, held.id).contains(&"ended:success".to_owned()));
        d.advance(10 * 86_400_000).await;
        assert_eq!(d.tick().await.purged, 0);
        assert_eq!(record(&d.dump().await, held.id)["st"], "waiting");
        d.host().clear(&d.partitions).await;
    }

    async fn a_time_that_cannot_be_read_has_come(d: &Deployment) {
        for (field, state) in [("dl", "expired"), ("du", "waiting")] {
            let id = d.create().delayed_by(1000).deadline_in(2000).send().await;
            plant_field(d, id, field, "soon").await;
            d.advance(1000).await;
            assert_eq!(tick_one(d).await.0, 1, "{field}");
            assert_eq!(record(&d.dump().await, id)["st"], state, "{field}");
            assert_eq!(d.tick().await.total(), 0, "it fires once");
            d.host().clear(&d.partitions).await;
            d.set_time(d.now().get()).await;
        }
    }

    async fn a_lost_payload_fails_the_execution_instead_of_running_it_empty(d: &Deployment) {
        let id = d.create().payload(&[7; 1000]).send().await;
        let next = d.create_one().await;
        plant(d, &[b"DEL", &key_of(id, ":payload")]).await;
        assert_eq!(d.refused(ReadPayload { execution_id: id }).await, Code::DataLost);
        assert_eq!(d.claim(LANE).await.id, next, "it does not block the queue");
        let failed = d.describe(id).await;
        assert_eq!(failed.public_state(), PublicState::Failed);
        assert_eq!(failed.failure.expect("why").reason, "payload_lost");
        d.host().clear(&d.partitions).await;
    }

    async fn a_lost_payload_is_told_to_who_claims_by_grant(d: &Deployment) {
        let id = d.create().payload(&[7; 1000]).send().await;
        plant(d, &[b"DEL", &key_of(id, ":payload")]).await;
        let grant = d.claim_grant_call(id);
        d.call(grant.clone()).await;
        let (lease_id, attempt_id) = (d.new_uuid().to_string(), d.new_uuid().to_string());
        let (id_text, grant_id) = (id.to_string(), grant.grant_id.to_string());
        let args = [&*id_text, WORKER, INSTANCE, "", &grant_id, &lease_id, "1000", &attempt_id];
        let answer = d.raw("ff_claim_execution", &args.map(str::as_bytes)).await;
        assert_eq!(answer.code(), "data_lost");
        d.host().clear(&d.partitions).await;
    }

    async fn a_lost_payload_is_told_to_who_goes_on_or_takes_over_by_grant(d: &Deployment) {
        for paused in [true, false] {
            d.create().payload(&[7; 1000]).send().await;
            let held = d.claim(LANE).await;
            let name = if paused {
                d.call(held.wait_for_children()).await;
                "ff_claim_resumed_execution"
            } else {
                d.advance(LEASE_MS).await;
                d.tick().await;
                "ff_reclaim_execution"
            };
            plant(d, &[b"DEL", &key_of(held.id, ":payload")]).await;
            let grant = if paused {
                let call = d.claim_grant_call(held.id);
                d.call(call.clone()).await;
                call.grant_id
            } else {
                let call = d.reclaim_grant_call(held.id);
                d.call(call.clone()).await;
                call.0.grant_id
            };
            let (lease_id, attempt_id) = (d.new_uuid().to_string(), d.new_uuid().to_string());
            let (id, grant) = (held.id.to_string(), grant.to_string());
            let args = [&*id, WORKER, INSTANCE, "", &grant, &lease_id, "1000", &attempt_id];
            let count = if paused { 7 } else { 8 };
            let answer = d.raw(name, &args.map(str::as_bytes)[..count]).await;
            assert_eq!(answer.code(), "data_lost", "{name}");
        }
        d.host().clear(&d.partitions).await;
    }

    async fn a_lost_result_is_told(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.complete(&[7; 1000])).await;
        plant(d, &[b"DEL", &key_of(held.id, ":result")]).await;
        let answer = d.raw("ff_read_result", &[held.id.to_string().as_bytes()]).await;
        assert_eq!(answer.code(), "data_lost");
        d.host().clear(&d.partitions).await;
    }

    async fn a_timer_of_an_unknown_kind_is_left_alone_and_stops_nobody(d: &Deployment) {
        d.host().watch(false);
        let due = index_key(d, "due");
        for n in 0..30 {
            plant(d, &[b"ZADD", &due, b"1", format!("z:{n}").as_bytes()]).await;
        }
        let id = d.create().delayed_by(100).send().await;
        d.advance(100).await;
        assert_eq!(tick_one(d).await.0, 1, "the batch is not filled by what is unknown");
        assert_eq!(d.describe(id).await.public_state(), PublicState::Waiting);
        assert_eq!(tick_one(d).await, (0, None), "nor does the tick spin");
        assert_eq!(member_score(&d.dump().await, d.home(), "due", "z:7"), Some(1.0));
        plant(d, &[b"DEL", &due]).await;
    }

    async fn an_execution_in_an_unknown_state_is_left_alone(d: &Deployment) {
        d.host().watch(false);
        let ids = [d.create().delayed_by(50).send().await, d.create_one().await];
        for id in ids {
            plant_field(d, id, "st", "dreaming").await;
        }
        let known = d.create_one().await;
        d.advance(100).await;
        assert_eq!(tick_one(d).await, (0, None));
        assert_eq!(d.claim(LANE).await.id, known);
        assert!(d.try_claim(LANE).await.is_none());
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, ids[0]), ["due"]);
        assert_eq!(listed_in(&dump, ids[1]), ["q:default:tests:work"]);
        let cancelled = d.backend.cancel_execution(ids[1], CancelExecution::default());
        assert!(cancelled.await.is_err(), "only what knows the state may change it");
        assert_eq!(record(&d.dump().await, ids[1])["st"], "dreaming");
        d.host().clear(&d.partitions).await;
    }

    async fn an_entry_without_its_record_is_still_removed(d: &Deployment) {
        d.host().watch(false);
        let held = d.create_and_claim().await;
        plant(d, &[b"DEL", &key_of(held.id, "")]).await;
        d.advance(LEASE_MS).await;
        assert_eq!(d.tick().await.corrected, 1);
        assert!(listed_in(&d.dump().await, held.id).is_empty());
        d.host().clear(&d.partitions).await;
    }

    async fn an_execution_in_the_wrong_index_of_times_is_put_right(d: &Deployment) {
        d.host().watch(false);
        let held = d.create_and_claim().await;
        let uuid = held.id.uuid().to_string();
        plant(d, &[b"ZADD", &index_key(d, "due"), b"1", uuid.as_bytes()]).await;
        assert_eq!(d.tick().await.corrected, 1);
        assert_eq!(listed_in(&d.dump().await, held.id), ["leases"]);
    }

    async fn a_damaged_waitpoint_stops_neither_its_execution_nor_the_tick(d: &Deployment) {
        for field in ["execution", "attempt", "key", "created_at", "suspension", "state", "since",
            "condition", "count", "behavior"] {
            d.host().watch(false);
            let held = d.create_and_claim().await;
            let mut call = d.suspension(&held, &Condition::any(["go"]));
            (call.timeout_ms, call.timeout_behavior) =
                (Some(100), Some(TimeoutBehavior::AutoResume));
            let it = d.suspend_by(&held, call.clone()).await;
            plant(d, &[b"HDEL", &waitpoint_key(d, &it.on), field.as_bytes()]).await;
            d.describe(held.id).await;
            let open = ListPendingWaitpoints { execution_id: held.id };
            d.backend.call(d.home(), open).await.expect("what is damaged is left out");
            let _ = d.backend.call(d.home(), call).await;
            let _ = d.backend.call(d.home(), d.signal(&it.on, "other")).await;
            d.advance(100).await;
            assert_eq!(d.tick().await.suspensions, 1, "{field}");
            let _ = d.try_claim(LANE).await;
            d.host().clear(&d.partitions).await;
            d.set_time(d.now().get()).await;
        }
    }

    async fn signals_that_are_gone_are_left_out(d: &Deployment) {
        d.host().watch(false);
        let it = d.suspend(&Condition::all(["a", "b"])).await;
        d.deliver(&it.on, "a").await;
        d.deliver(&it.on, "b").await;
        let signals = [waitpoint_key(d, &it.on), b":signals".to_vec()].concat();
        plant(d, &[b"HDEL", &signals, b"1"]).await;
        let held = d.claim_resumed(&it.held).await;
        assert_eq!(held.signal_names(), ["b"]);
        plant(d, &[b"DEL", &signals]).await;
        let reply = d.call(held.read_signals(None, 1000)).await;
        let ReadResumeSignalsReply::Signals { signals, .. } = reply;
        assert!(signals.is_empty());
        d.host().clear(&d.partitions).await;
    }

    async fn an_operator_ends_a_wait_on_a_waitpoint_that_is_gone(d: &Deployment) {
        for damage in ["DEL", "HDEL"] {
            d.host().watch(false);
            let it = d.suspend(&Condition::any(["go"])).await;
            let key = waitpoint_key(d, &it.on);
            let words = [damage.as_bytes(), &key, b"state"];
            plant(d, &words[..if damage == "DEL" { 2 } else { 3 }]).await;
            d.call(d.resumption(it.held.id)).await;
            let held = d.claim_resumed(&it.held).await;
            d.call(held.complete(b"")).await;
            d.host().clear(&d.partitions).await;
            d.set_time(d.now().get()).await;
        }
    }
}
