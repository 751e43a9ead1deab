//! What an operator may alter without moving the state.

use ff_conformance::record::{events_of, hash, key_of, listed_in, record};
use ff_conformance::{Deployment, LANE, LEASE_MS, conformance};
use ff_core::error::Code;
use ff_core::limits;
use ff_core::types::ExecutionId;
use ff_script::calls::change::{
    ChangePriority, ChangePriorityReply, SetExecutionTags, SetExecutionTagsReply,
};
use ff_script::wire::Rest;

fn priority(execution_id: ExecutionId, priority: u16) -> ChangePriority {
    ChangePriority { execution_id, priority, request_id: None }
}

fn changed(old_priority: u16, new_priority: u16) -> ChangePriorityReply {
    ChangePriorityReply::Changed { old_priority, new_priority }
}

fn tags(execution_id: ExecutionId, flat: &[&str]) -> SetExecutionTags {
    let tags = flat.iter().map(|text| (*text).to_owned()).collect();
    SetExecutionTags { execution_id, request_id: None, tags: Rest(tags) }
}

async fn stored_tags(d: &Deployment, id: ExecutionId) -> Vec<(String, String)> {
    let described = d.describe(id).await.tags;
    let stored = hash(&d.dump().await, &key_of(id, ":tags"));
    assert_eq!(stored, described);
    stored.into_iter().collect()
}

conformance! {
    async fn a_higher_priority_moves_an_execution_ahead(d: &Deployment) {
        let first = d.create_one().await;
        let second = d.create_one().await;
        d.advance(10).await;
        assert_eq!(d.call(priority(second, 5)).await, changed(0, 5));
        let described = d.describe(second).await;
        assert_eq!((described.priority, described.last_mutation_at), (5, d.now()));
        assert!(described.last_transition_at < d.now());
        assert_eq!(events_of(&d.dump().await, second), ["created", "priority_changed 0"]);
        assert_eq!(d.claim(LANE).await.id, second);
        assert_eq!(d.claim(LANE).await.id, first);
    }

    async fn a_priority_can_be_taken_back(d: &Deployment) {
        let id = d.create().priority(9000).send().await;
        assert_eq!(d.call(priority(id, 0)).await, changed(9000, 0));
        d.audit().await;
        assert_eq!(d.describe(id).await.priority, 0);
    }

    async fn the_priority_of_what_is_not_queued_counts_later(d: &Deployment) {
        let delayed = d.create().delayed_by(100).send().await;
        let granted = d.create().lane("g").send().await;
        d.call(d.claim_grant_call(granted)).await;
        let held = d.create_and_claim().await;
        for id in [delayed, granted, held.id] {
            let before = listed_in(&d.dump().await, id);
            assert_eq!(d.call(priority(id, 7)).await, changed(0, 7));
            assert_eq!(listed_in(&d.dump().await, id), before);
        }
        d.advance(LEASE_MS).await;
        d.tick().await;
        d.audit().await;
        assert_eq!(d.claim("g").await.row.priority, 7);
    }

    async fn what_is_over_or_unknown_keeps_its_priority(d: &Deployment) {
        assert_eq!(d.refused(priority(d.new_id(), 1)).await, Code::ExecutionNotFound);
        let held = d.create_and_claim().await;
        d.call(held.complete(b"")).await;
        let (code, details) = d.refusal(priority(held.id, 1)).await;
        assert_eq!(code, Code::ExecutionNotActive);
        assert_eq!(details[..3], ["success", "1", "terminal"]);
    }

    async fn tags_are_set_and_overwritten(d: &Deployment) {
        let id = d.create_one().await;
        d.advance(10).await;
        let reply = d.call(tags(id, &["a.b", "1", "c.d", ""])).await;
        assert_eq!(reply, SetExecutionTagsReply::Set { count: 2 });
        d.call(tags(id, &["a.b", "2"])).await;
        let expected = [("a.b".to_owned(), "2".to_owned()), ("c.d".to_owned(), String::new())];
        assert_eq!(stored_tags(d, id).await, expected);
        assert_eq!(record(&d.dump().await, id)["tg"], "1");
        assert_eq!(d.describe(id).await.last_mutation_at, d.now());
        let row = d.claim(LANE).await.row;
        assert_eq!(row.tags.len(), 2);
    }

    async fn an_ended_execution_can_be_tagged(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.complete(b"")).await;
        d.call(tags(held.id, &["review.state", "done"])).await;
        assert_eq!(stored_tags(d, held.id).await.len(), 1);
    }

    async fn a_wrong_tag_key_is_named_and_nothing_is_written(d: &Deployment) {
        assert_eq!(d.refused(tags(d.new_id(), &["a.b", "1"])).await, Code::ExecutionNotFound);
        let id = d.create_one().await;
        for wrong in ["team", "Team.owner", "2a.b", "_a.b", "a-b.c", ".b", "a.", "a..b", "a.\n",
            ""] {
            let (code, details) = d.refusal(tags(id, &["good.key", "1", wrong, "2"])).await;
            assert_eq!((code, details), (Code::InvalidTagKey, vec![wrong.to_owned()]));
        }
        let long = format!("a.{}", "k".repeat(127));
        assert_eq!(d.refused(tags(id, &[&long, ""])).await, Code::InvalidTagKey);
    }

    async fn tags_are_limited_in_number_and_size(d: &Deployment) {
        let id = d.create_one().await;
        let names: Vec<String> = (0..=limits::TAGS_MAX).map(|n| format!("n.{n}")).collect();
        let pairs = |names: &[String]| -> Vec<String> {
            names.iter().flat_map(|name| [name.clone(), String::new()]).collect()
        };
        let call = |names: &[String]| SetExecutionTags {
            request_id: None,
            execution_id: id,
            tags: Rest(pairs(names)),
        };
        d.call(call(&names[..64])).await;
        assert_eq!(d.refused(call(&names[..65])).await, Code::InvalidInput);
        assert_eq!(d.refused(call(&names[64..])).await, Code::InvalidInput);
        d.call(call(&names[60..64])).await;
        let long = "v".repeat(limits::TAG_VALUE_BYTES_MAX as usize);
        d.call(tags(id, &["n.1", &long])).await;
        assert_eq!(d.refused(tags(id, &["n.1", &format!("{long}v")])).await, Code::InvalidInput);
    }

    async fn the_same_tag_twice_in_one_call_counts_once(d: &Deployment) {
        let id = d.create_one().await;
        d.call(tags(id, &["a.b", "1", "a.b", "2"])).await;
        assert_eq!(stored_tags(d, id).await, [("a.b".to_owned(), "2".to_owned())]);
    }

    async fn tags_come_in_pairs(d: &Deployment) {
        let id = d.create_one().await;
        assert_eq!(d.refused(tags(id, &["a.b", "1", "c.d"])).await, Code::InvalidInput);
        assert_eq!(d.refused(tags(id, &[])).await, Code::InvalidInput);
    }
}
