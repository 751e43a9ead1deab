//! The state that each function of gates and quotas is prepared with, and its arguments.

use ff_conformance::gates::{Limits, check};
use ff_conformance::{Deployment, Held};
use ff_core::types::QuotaPolicyId;
use ff_script::calls::quota::{
    DeleteQuotaPolicy, DescribeQuotaPolicy, ForgetAdmission, ListQuotaHolders, UpdateQuotaPolicy,
};
use ff_script::calls::waiting::AwaitGatesReply;
use ff_script::wire::Rest;

use super::gate::{block, open, unblock, undo};
use super::quota::release;
use super::scenario::{encode, fresh_lane};
use super::waiting::{full, settle, waits};

/// A claim under a policy, in a lane of its own.
async fn claimed(d: &Deployment) -> (QuotaPolicyId, Held) {
    let (policy, lane) = (d.quota(Limits::at_once(1)).await, fresh_lane(d));
    d.create_under(policy, "k").lane(&lane).send().await;
    (policy, d.claim(&lane).await)
}

pub(crate) async fn prepare(d: &Deployment, name: &str) -> Vec<Vec<u8>> {
    match name {
        "ff_block_execution_for_admission" => encode(&undo(&claimed(d).await.1)),
        "ff_unblock_execution" => {
            let id = d.create().lane(&fresh_lane(d)).send().await;
            d.call(block(id, "paused_by_policy")).await;
            encode(&unblock(id, "paused_by_policy"))
        }
        "ff_open_gate" => {
            let (policy, held) = claimed(d).await;
            d.call(undo(&held)).await;
            encode(&open(policy, 1))
        }
        "ff_await_gates" => encode(&waits(full(d).await.0, 7, 30)),
        "ff_settle_openings" => {
            let policy = d.quota(Limits::at_once(1)).await;
            let AwaitGatesReply::Awaited { openings } = d.call(waits(policy, 7, 30)).await;
            encode(&settle(policy, &openings[0], 1, 0, ""))
        }
        "ff_create_quota_policy" => encode(&Limits::within(60, 9).create(d.new_policy_id())),
        "ff_note_quota_policy" => encode(&Limits::within(60, 9).note(d.new_policy_id())),
        "ff_check_admission_and_record" => {
            let (policy, held) = claimed(d).await;
            encode(&check(policy, "k", &held))
        }
        "ff_release_admission" => {
            let (policy, held) = claimed(d).await;
            d.call(check(policy, "k", &held)).await;
            encode(&release(policy, "k", &held))
        }
        "ff_forget_admission" => {
            let (policy, held) = claimed(d).await;
            let items = vec![policy.to_string(), "k".to_owned(), held.id.to_string()];
            encode(&ForgetAdmission { items: Rest(items) })
        }
        _ => prepare_policy(d, name).await,
    }
}

async fn prepare_policy(d: &Deployment, name: &str) -> Vec<Vec<u8>> {
    let quota_policy_id = d.quota(Limits::at_once(1)).await;
    let quota_key = "k".to_owned();
    match name {
        "ff_update_quota_policy" => encode(&UpdateQuotaPolicy {
            quota_policy_id,
            window_seconds: Some(60),
            max_requests_per_window: Some(9),
            max_concurrent: None,
            jitter_ms: None,
        }),
        "ff_delete_quota_policy" => encode(&DeleteQuotaPolicy { quota_policy_id }),
        "ff_describe_quota_policy" => encode(&DescribeQuotaPolicy { quota_policy_id, quota_key }),
        "ff_list_quota_holders" => {
            encode(&ListQuotaHolders { quota_policy_id, quota_key, limit: 10 })
        }
        other => panic!("{other} needs a scenario"),
    }
}
