//! Marks of servers.

use ff_conformance::record::hash;
use ff_conformance::{Deployment, conformance};
use ff_core::limits;
use ff_script::calls::mark::{MarkShard, MarkShardReply};
use uuid::Uuid;

async fn mark(d: &Deployment, server: Uuid, mark: u64) -> u64 {
    let MarkShardReply::Marked { found, now, .. } = d.call(MarkShard { server, mark }).await;
    assert_eq!(now, d.now());
    found
}

async fn marks(d: &Deployment) -> usize {
    hash(&d.dump().await, format!("{}:marks", d.home().key()).as_bytes()).len()
}

conformance! {
    async fn a_server_finds_its_own_last_mark(d: &Deployment) {
        let (one, other) = (d.new_uuid(), d.new_uuid());
        assert_eq!(mark(d, one, 1).await, 0);
        assert_eq!(mark(d, other, 70).await, 0);
        assert_eq!(mark(d, one, 2).await, 1);
        assert_eq!(mark(d, one, 3).await, 2);
        assert_eq!(mark(d, other, 71).await, 70);
        let left = d.now();
        d.advance(5).await;
        let MarkShardReply::Marked { found_at, now, .. } =
            d.call(MarkShard { server: one, mark: 4 }).await;
        assert_eq!((found_at, now), (left, d.now()));
    }

    async fn a_mark_that_comes_late_does_not_lower_a_later_one(d: &Deployment) {
        let server = d.new_uuid();
        mark(d, server, 5).await;
        assert_eq!(mark(d, server, 4).await, 5);
        assert_eq!(mark(d, server, 6).await, 5);
    }

    async fn the_marks_of_servers_that_are_gone_make_room(d: &Deployment) {
        for _ in 0..limits::MARKS_MAX - 1 {
            mark(d, d.new_uuid(), 1).await;
        }
        let alive = d.new_uuid();
        mark(d, alive, 1).await;
        d.advance(limits::MARK_KEPT_MS).await;
        mark(d, alive, 2).await;
        mark(d, d.new_uuid(), 1).await;
        assert_eq!(marks(d).await as u64, limits::MARKS_MAX + 1, "none is old enough");
        d.advance(1).await;
        mark(d, d.new_uuid(), 1).await;
        assert_eq!(marks(d).await, 3, "what is alive, and the two that came last");
        assert_eq!(mark(d, alive, 3).await, 2);
    }
}
