//! Cancelled flows: what became of each member, and those that could not be cancelled.

use ff_conformance::record::key_of;
use ff_conformance::{Deployment, Flow, conformance};
use ff_core::contracts::CancelledMember;
use ff_core::error::Code;
use ff_core::state::PublicState;
use ff_script::calls::flow_cancel::{
    AckCancelMember, CancelFlowReply, ReadCancelReceipt, ReadCancelReceiptReply, RetryStuckMembers,
    RetryStuckMembersReply,
};
use ff_script::calls::flow_reads::{DescribeFlowReply, ListFlows, ListFlowsReply};
use ff_script::calls::lease::RenewLeaseReply;

use super::flow::{fillers, nowhere};

fn asked(flow: &Flow) -> ReadCancelReceipt {
    ReadCancelReceipt { flow_id: flow.id, fate: None, from: 0, limit: 1000 }
}

async fn receipt(d: &Deployment, call: ReadCancelReceipt) -> (Vec<CancelledMember>, Option<u64>) {
    let ReadCancelReceiptReply::Receipt { entries, next_from, .. } = d.call(call).await;
    (entries.0, next_from)
}

/// What became of whom, as `a stopped cancelled, b stuck`.
fn lines(rows: &[CancelledMember]) -> String {
    let line = |row: &CancelledMember| {
        let state = row.public_state.map(|state| format!(" {state}")).unwrap_or_default();
        format!("{} {}{state}", row.name.as_deref().unwrap_or("?"), row.fate)
    };
    rows.iter().map(line).collect::<Vec<_>>().join(", ")
}

async fn told(d: &Deployment, flow: &Flow) -> String {
    lines(&receipt(d, asked(flow)).await.0)
}

async fn owing(d: &Deployment) -> Vec<(String, u32)> {
    let ListFlowsReply::Flows { flows, .. } =
        d.call(ListFlows { after: None, limit: 10, owing: true }).await;
    flows.0.into_iter().map(|row| (row.flow_id.to_string(), row.stuck_count)).collect()
}

/// Makes what is stored of a member unreadable, or mends it.
async fn write_state(d: &Deployment, flow: &Flow, name: &str, word: &str) {
    let key = key_of(flow.id(name), "");
    let words: [&[u8]; 4] = [b"HSET", &key, b"st", word.as_bytes()];
    d.host().exec(d.home(), &words).await.expect("every store has the command");
}

async fn stuck_count(d: &Deployment, flow: &Flow) -> u32 {
    let DescribeFlowReply::Flow { stuck, .. } = d.described(flow).await;
    stuck
}

async fn retry(d: &Deployment, flow: &Flow) -> (u32, u32, u32, Option<u64>) {
    let RetryStuckMembersReply::Retried { tried, settled, stuck, next_from } =
        d.call(RetryStuckMembers { flow_id: flow.id, from: 0 }).await;
    (tried, settled, stuck, next_from)
}

conformance! {
    async fn a_receipt_tells_what_became_of_each_member(d: &Deployment) {
        let flow = d.flow("a, b -> c, e, g -f> h").await;
        d.complete(&flow, "e g").await;
        d.advance(5).await;
        let held = d.take(&flow, "a").await;
        assert_eq!(d.refused(asked(&flow)).await, Code::FlowNotCancelled);
        d.call(d.cancelling(&flow, "cancel_all")).await;
        let right = "a fenced cancelled, b stopped cancelled, e had_ended completed, \
            g had_ended completed, c stopped cancelled, h had_ended skipped";
        let (rows, next_from) = receipt(d, asked(&flow)).await;
        assert_eq!((lines(&rows).as_str(), next_from), (right, None));
        assert_eq!(rows[0].fenced_until, Some(held.row.lease_expires_at));
        assert_eq!(rows[0].completed_at, Some(d.now()));
        d.advance(100_000).await;
        d.settle().await;
        assert_eq!(receipt(d, asked(&flow)).await.0, rows, "a repetition answers the same");
        let page = receipt(d, ReadCancelReceipt { from: 2, limit: 2, ..asked(&flow) }).await;
        assert_eq!((page.0.as_slice(), page.1), (&rows[1..3], Some(4)));
        let fate = Some("had_ended".to_owned());
        let ended = receipt(d, ReadCancelReceipt { fate, limit: 4, ..asked(&flow) }).await;
        assert_eq!((lines(&ended.0).as_str(), ended.1),
            ("e had_ended completed, g had_ended completed", Some(5)));
        assert_eq!(d.refused(asked(&nowhere(d))).await, Code::FlowNotFound);
    }

    async fn who_is_left_to_run_is_told_as_such_also_when_it_has_ended(d: &Deployment) {
        let flow = d.flow("a -> b, c").await;
        let held = d.take(&flow, "a").await;
        d.call(d.cancelling(&flow, "cancel_pending")).await;
        assert_eq!(told(d, &flow).await,
            "a runs_on active, c stopped cancelled, b stopped cancelled");
        d.advance(1).await;
        d.call(held.complete(b"")).await;
        assert_eq!(told(d, &flow).await,
            "a runs_on completed, c stopped cancelled, b stopped cancelled");
        let alone = d.flow("a").await;
        d.call(d.cancelling(&alone, "flow_only")).await;
        assert_eq!(told(d, &alone).await, "a runs_on waiting");
        d.complete(&alone, "a").await;
    }

    async fn who_is_still_to_be_cancelled_is_owed_it(d: &Deployment) {
        let flow = d.flow(&format!("{}, last", fillers())).await;
        let reply = d.call(d.cancelling(&flow, "cancel_all")).await;
        assert!(matches!(reply, CancelFlowReply::Cancelled { done: false, stuck: 0, .. }));
        let (rows, _) = receipt(d, asked(&flow)).await;
        assert_eq!((rows[0].fate.as_str(), rows[64].fate.as_str()), ("stopped", "owed"));
        assert_eq!(owing(d).await, [(flow.id.to_string(), 0)]);
        d.settle().await;
        let (rows, _) = receipt(d, asked(&flow)).await;
        assert!(rows.iter().all(|row| row.fate.as_str() == "stopped"));
        assert_eq!(owing(d).await, []);
        assert_eq!(d.tick().await.owing, 0);
    }

    async fn a_member_that_cannot_be_cancelled_holds_up_nobody(d: &Deployment) {
        d.host().watch(false);
        let flow = d.flow("a, b").await;
        write_state(d, &flow, "a", "asleep").await;
        let reply = d.call(d.cancelling(&flow, "cancel_all")).await;
        assert!(matches!(reply, CancelFlowReply::Cancelled { done: true, stuck: 1, .. }));
        assert_eq!(d.describe(flow.id("b")).await.public_state(), PublicState::Cancelled);
        assert_eq!(told(d, &flow).await, "? stuck, b stopped cancelled");
        assert_eq!(owing(d).await, [(flow.id.to_string(), 1)]);
        assert_eq!(d.tick().await.owing, 1);
        assert_eq!(retry(d, &flow).await, (1, 0, 1, None));
        let ack = AckCancelMember { flow_id: flow.id, execution_id: flow.id("a") };
        d.call(ack.clone()).await;
        d.call(ack).await;
        assert_eq!((stuck_count(d, &flow).await, d.tick().await.owing), (0, 0));
        let nobody = AckCancelMember { flow_id: nowhere(d).id, execution_id: flow.id("a") };
        assert_eq!(d.refused(nobody).await, Code::FlowNotFound);
        // The record is damaged, as the audit would say.
        d.host().clear(&d.partitions).await;
    }

    async fn a_member_that_was_mended_is_cancelled_when_it_is_tried_again(d: &Deployment) {
        d.host().watch(false);
        let flow = d.flow("a -> b, c").await;
        write_state(d, &flow, "a", "asleep").await;
        d.call(d.cancelling(&flow, "cancel_all")).await;
        write_state(d, &flow, "a", "waiting").await;
        assert_eq!(told(d, &flow).await,
            "a owed waiting, c stopped cancelled, b stopped cancelled");
        d.advance(7).await;
        assert_eq!(retry(d, &flow).await, (1, 1, 0, None));
        d.host().watch(true);
        assert_eq!(d.flow_state(&flow).await, "cancelled: 3 cancelled");
        let DescribeFlowReply::Flow { ended_at, .. } = d.described(&flow).await;
        assert_eq!(ended_at, Some(d.now()));
        assert_eq!((owing(d).await, d.tick().await.owing), (Vec::new(), 0));
        assert_eq!(retry(d, &flow).await, (0, 0, 0, None));
        let nobody = RetryStuckMembers { flow_id: nowhere(d).id, from: 0 };
        assert_eq!(d.refused(nobody).await, Code::FlowNotFound);
    }

    async fn members_that_stay_unreadable_do_not_keep_others_from_being_tried(d: &Deployment) {
        d.host().watch(false);
        let flow = d.flow(&format!("{}, last", fillers())).await;
        let names: Vec<String> = flow.ids.keys().cloned().collect();
        for name in &names {
            write_state(d, &flow, name, "asleep").await;
        }
        d.call(d.cancelling(&flow, "cancel_all")).await;
        d.settle().await;
        let all = names.len() as u32;
        assert_eq!(stuck_count(d, &flow).await, all);
        let rows = receipt(d, asked(&flow)).await.0;
        let last = rows.last().expect("the last one").execution_id;
        let name = names.iter().find(|name| flow.id(name) == last).expect("a member");
        write_state(d, &flow, name, "waiting").await;
        let (tried, settled, stuck, next_from) = retry(d, &flow).await;
        assert_eq!((tried, settled, stuck), (64, 0, all));
        let from = next_from.expect("there is more");
        let RetryStuckMembersReply::Retried { tried, settled, stuck, next_from } =
            d.call(RetryStuckMembers { flow_id: flow.id, from }).await;
        assert_eq!((tried, settled, stuck, next_from), (all - 64, 1, all - 1, None));
        d.host().clear(&d.partitions).await;
    }

    async fn a_fence_is_told_until_the_lease_that_was_current_is_over(d: &Deployment) {
        let flow = d.flow("a").await;
        let held = d.take(&flow, "a").await;
        d.advance(10).await;
        let RenewLeaseReply::Renewed { lease_expires_at, .. } = d.call(held.renew(90_000)).await;
        d.call(d.cancelling(&flow, "cancel_all")).await;
        assert_eq!(receipt(d, asked(&flow)).await.0[0].fenced_until, Some(lease_expires_at));
    }
}
