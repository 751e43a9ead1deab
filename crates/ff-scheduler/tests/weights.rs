//! Workers that take from several lanes share their claims between them by weight.

use std::sync::Arc;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_core::contracts::{Claimed, CreateExecution, SetLane, WorkRequest};
use ff_core::engine_backend::roles::*;
use ff_core::partition::PartitionConfig;
use ff_core::types::{ExecutionId, LaneId};
use ff_scheduler::Scheduler;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Host, Subscription, Topic, Wake};
use ff_script::ids::{IdSource, SystemIds};
use ff_script::library::Library;

const PARTITIONS: u16 = 16;

struct Site {
    host: Arc<EmbeddedHost>,
    backend: Arc<ScriptBackend<EmbeddedHost>>,
}

fn config() -> PartitionConfig {
    PartitionConfig { num_flow_partitions: PARTITIONS, ..PartitionConfig::default() }
}

fn lane(name: &str) -> LaneId {
    name.parse().expect("valid")
}

fn weight(weight: u32) -> SetLane {
    SetLane { claim_weight: Some(weight), ..SetLane::default() }
}

impl Site {
    async fn open() -> Self {
        let host = EmbeddedHost::open(EmbeddedConfig::in_memory(), &Library::current());
        let host = Arc::new(host.expect("an embedded host"));
        let backend = ScriptBackend::open(Arc::clone(&host), config()).await.expect("opens");
        Self { host, backend: Arc::new(backend) }
    }

    fn scheduler(&self) -> Scheduler {
        Scheduler::new(Arc::clone(&self.backend), Arc::new(SystemIds))
    }

    async fn submit(&self, name: &str, count: usize) {
        for _ in 0..count {
            let id = ExecutionId::solo(SystemIds.ordered(), &config());
            let mut execution = CreateExecution::new("work".parse().expect("valid"));
            execution.lane = Some(lane(name));
            self.backend.create(execution.with_id(id)).await.expect("created");
        }
    }
}

/// How many of the first lane are among the next.
async fn taken(scheduler: &Scheduler, lanes: &[&str], all: usize, at_once: u32) -> usize {
    let mut taken: Vec<Claimed> = Vec::new();
    while taken.len() < all {
        let claimed = scheduler.claim(request(lanes, at_once)).await.expect("answers");
        assert!(!claimed.is_empty(), "there is more");
        taken.extend(claimed);
    }
    taken.iter().filter(|one| one.handle.lane == lane(lanes[0])).count()
}

fn request(lanes: &[&str], count: u32) -> WorkRequest {
    let (worker, instance) = ("worker".parse().expect("valid"), "w-1".parse().expect("valid"));
    let lanes = lanes.iter().map(|name| lane(name)).collect();
    WorkRequest { count, wait_ms: 10_000, ..WorkRequest::new(worker, instance, lanes, 30_000) }
}

/// Until all partitions have told of the change: what is told before it was heard, too.
async fn told(mut ready: Subscription, message: &str) {
    let mut partitions = 0;
    while partitions < PARTITIONS {
        match ready.next().await.expect("the host is open") {
            Wake::Message { message: heard, .. } if *heard == *message.as_bytes() => {
                partitions += 1;
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn claims_are_shared_by_weight_where_several_lanes_have_work() {
    let site = Site::open().await;
    site.backend.set_lane(lane("a"), weight(3)).await.expect("set");
    site.submit("a", 1_000).await;
    site.submit("b", 1_000).await;
    let scheduler = site.scheduler();
    let shares = taken(&scheduler, &["a", "b"], 400, 1).await;
    assert!((290..=310).contains(&shares), "{shares} of 400");
    let shares = taken(&scheduler, &["a", "b"], 400, 10).await;
    assert!((280..=320).contains(&shares), "{shares} of 400, ten at a time");
}

#[tokio::test]
async fn lanes_that_nobody_has_set_share_evenly() {
    let site = Site::open().await;
    site.submit("a", 300).await;
    site.submit("b", 300).await;
    let scheduler = site.scheduler();
    let shares = taken(&scheduler, &["a", "b"], 400, 1).await;
    assert!((195..=205).contains(&shares), "{shares} of 400");
}

#[tokio::test]
async fn a_lane_without_work_costs_the_others_nothing_and_saves_nothing_up() {
    let site = Site::open().await;
    site.backend.set_lane(lane("a"), weight(1000)).await.expect("set");
    site.submit("b", 600).await;
    let scheduler = site.scheduler();
    assert_eq!(taken(&scheduler, &["a", "b"], 300, 1).await, 0);
    site.backend.set_lane(lane("a"), weight(1)).await.expect("set");
    site.submit("a", 300).await;
    let shares = taken(&scheduler, &["a", "b"], 200, 1).await;
    assert!((90..=110).contains(&shares), "{shares} of 200");
}

#[tokio::test]
async fn a_weight_that_changes_is_heard_of() {
    let site = Site::open().await;
    site.submit("a", 600).await;
    site.submit("b", 600).await;
    let scheduler = site.scheduler();
    taken(&scheduler, &["a", "b"], 20, 1).await;
    let ready = site.host.subscribe(Topic::Ready).await.expect("listens");
    site.backend.set_lane(lane("a"), weight(4)).await.expect("set");
    told(ready, "weight:4:a").await;
    // The scheduler hears what we hear, at its own pace.
    taken(&scheduler, &["a", "b"], 20, 1).await;
    let shares = taken(&scheduler, &["a", "b"], 500, 1).await;
    assert!((390..=410).contains(&shares), "{shares} of 500");
}

#[tokio::test]
async fn a_claim_for_a_thousand_lanes_is_answered_and_one_for_more_refused_with_the_reason() {
    let site = Site::open().await;
    site.submit("l999", 1).await;
    let scheduler = site.scheduler();
    let names: Vec<String> = (0..=1_000).map(|number| format!("l{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let claimed = scheduler.claim(request(&names[..1_000], 1)).await.expect("answers");
    assert_eq!(claimed.len(), 1);
    let refused = scheduler.claim(request(&names, 1)).await.expect_err("refused");
    assert!(refused.to_string().contains("number of lanes"), "{refused}");
}

#[tokio::test]
async fn an_absurd_weight_is_refused_with_the_reason() {
    let site = Site::open().await;
    for absurd in [0, 1001, u32::MAX] {
        let refused = site.backend.set_lane(lane("a"), weight(absurd)).await;
        let reason = refused.expect_err("refused").to_string();
        assert!(reason.contains("claim_weight") && reason.contains("1000"), "{reason}");
    }
}
