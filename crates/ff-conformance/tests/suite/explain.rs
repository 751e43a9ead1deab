//! Why an execution does not run.

use std::sync::{Arc, Mutex};

use ff_conformance::gates::Limits;
use ff_conformance::record::score;
use ff_conformance::{
    Deployment, INSTANCE, LANE, TestHost, WORKER, capabilities, conformance, lane, worker,
};
use ff_core::backend_error::BackendError;
use ff_core::contracts::{Condition, Explanation, Why, WorkerRegistration};
use ff_core::engine_backend::roles::*;
use ff_core::error::Code;
use ff_core::partition::Partition;
use ff_core::state::{BlockingReason, PublicState};
use ff_core::types::{ExecutionId, WorkerInstanceId};
use ff_script::args::Args;
use ff_script::backend::ScriptBackend;
use ff_script::calls::budget::DeleteBudget;
use ff_script::calls::explain::{CountAhead, CountAheadReply, ExplainExecution};
use ff_script::host::{Function, Host, Subject, Subscription, Topic};
use ff_script::value::Value;
use futures_core::future::BoxFuture;

use super::cancel::outside;
use super::hold::hold;

async fn why(d: &Deployment, id: ExecutionId) -> Explanation {
    d.backend.explain_execution(id).await.expect("it is there")
}

/// A lane of the test's own, and leave to ask all partitions: others share the store.
fn alone(d: &Deployment) -> String {
    d.host().watch(false);
    format!("explain-{}", d.home().index)
}

/// A worker that takes from a lane.
async fn connect(
    d: &Deployment,
    name: &str,
    lane_name: &str,
    kinds: &[&str],
    able: &[&str],
) -> WorkerInstanceId {
    let instance = d.own_instance(name);
    let registration = WorkerRegistration {
        lanes: vec![lane(lane_name)],
        kinds: kinds.iter().map(|kind| kind.parse().expect("a name")).collect(),
        capabilities: capabilities(able),
        running: Some(1),
        capacity: Some(2),
        ..WorkerRegistration::new(worker(WORKER), instance.clone(), 60_000)
    };
    d.backend.register_worker(registration).await.expect("joins");
    instance
}

/// A store that notes where it is asked.
struct Noting {
    host: Arc<TestHost>,
    asked: Mutex<Vec<Partition>>,
}

impl Host for Noting {
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>> {
        self.asked.lock().expect("nobody panicked").push(partition);
        self.host.call(function, partition, args)
    }

    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.subscribe(topic)
    }

    fn follow(&self, subject: Subject) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.follow(subject)
    }

    fn name(&self) -> &'static str {
        "noting"
    }
}

/// What an explanation says, and which partitions were asked for it.
async fn asked(d: &Deployment, id: ExecutionId) -> (Why, Vec<Partition>) {
    let host = Noting { host: Arc::clone(d.backend.host()), asked: Mutex::default() };
    let backend = ScriptBackend::open(Arc::new(host), d.backend.partition_config()).await;
    let backend = backend.expect("the deployment is there");
    let asked = &backend.host().asked;
    asked.lock().expect("nobody panicked").clear();
    let told = backend.explain_execution(id).await.expect("it is there");
    let asked = asked.lock().expect("nobody panicked").clone();
    (told.why, asked)
}

const GPU: &str = r#"{"routing_requirements":{"required_capabilities":["cuda","gpu"]}}"#;

const RETRY: &str =
    r#"{"retry_policy":{"max_retries":9,"backoff":{"type":"fixed","delay_ms":500}}}"#;

conformance! {
    async fn who_waits_for_a_quota_is_told_its_key_who_holds_it_and_when_it_opens(d: &Deployment) {
        let policy = d.quota(Limits::at_once(1)).await;
        let ids = d.queue_under(policy, "team-1", 2).await;
        let held = d.take_one().await.expect("there is room");
        assert!(d.take_one().await.is_none());
        let told = why(d, ids[1]).await;
        let expected = Why::Quota {
            quota_policy_id: policy,
            key: "team-1".to_owned(),
            running: 1,
            in_window: 0,
            max_concurrent: Some(1),
            max_requests_per_window: None,
            window_seconds: None,
            opens_at: None,
            holders: vec![held.id],
        };
        assert_eq!(told.why, expected);
        let says = format!("waits for the quota {policy}, key team-1: 1 of 1 are running");
        assert_eq!((told.summary, told.public_state), (says, PublicState::RateLimited));
    }

    async fn who_waits_for_a_window_is_told_when_it_opens(d: &Deployment) {
        let policy = d.quota(Limits::within(60, 1)).await;
        let ids = d.queue_under(policy, "", 2).await;
        let began = d.now();
        d.take_one().await.expect("there is room");
        d.advance(1_000).await;
        assert!(d.take_one().await.is_none());
        let told = why(d, ids[1]).await;
        let Why::Quota { in_window, window_seconds, opens_at, .. } = told.why else {
            panic!("{:?}", told.why)
        };
        let opens = Some(began.plus_millis(60_000));
        assert_eq!((in_window, window_seconds, opens_at), (1, Some(60), opens));
        let says = format!("waits for the quota {policy}: 1 of 1 within 60 s have begun");
        assert_eq!(told.summary, says);
    }

    async fn who_waits_for_a_budget_is_told_how_full_it_is_and_who_runs_under_it(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        d.create_with(&[id], 60).send().await;
        let next = d.create_with(&[id], 60).send().await;
        let held = d.take_one().await.expect("there is room");
        assert!(d.take_one().await.is_none());
        let told = why(d, next).await;
        let Why::Budget { budget_id, used, reserved, limit, reserves, holders, .. } = told.why
        else {
            panic!("it waits for the budget")
        };
        assert_eq!((budget_id, used, reserved, limit, reserves), (id, 0, 60, 100, 60));
        assert!(told.summary.ends_with("0 of 100 tokens are used, 60 reserved; it needs 60"));
        assert_eq!(holders, [held.id]);
    }

    async fn a_gate_is_explained_by_one_read_of_the_execution_and_one_of_the_gate(d: &Deployment) {
        let policy = d.quota(Limits::at_once(1)).await;
        let ids = d.queue_under(policy, "team-1", 2).await;
        d.take_one().await.expect("there is room");
        assert!(d.take_one().await.is_none());
        let (told, partitions) = asked(d, ids[1]).await;
        assert!(matches!(told, Why::Quota { .. }), "{told:?}");
        assert_eq!(partitions, [d.home(), d.quotas()]);

        let budget = d.budget(["tokens", "100", ""]).await;
        d.create_with(&[budget], 60).send().await;
        let next = d.create_with(&[budget], 60).send().await;
        d.take_one().await.expect("there is room");
        assert!(d.take_one().await.is_none());
        let (told, partitions) = asked(d, next).await;
        assert!(matches!(told, Why::Budget { .. }), "{told:?}");
        assert_eq!(partitions, [d.home(), d.budgets()]);
    }

    async fn who_waits_for_a_budget_that_is_gone_is_about_to_go_on(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        d.create_with(&[id], 60).send().await;
        let next = d.create_with(&[id], 60).send().await;
        d.take_one().await.expect("there is room");
        assert!(d.take_one().await.is_none());
        d.call(DeleteBudget { budget_id: id }).await;
        let told = why(d, next).await;
        assert_eq!(told.summary, format!("waits for the budget {id}, which has room again"));
        d.carry_out().await;
        assert_eq!(d.describe(next).await.public_state(), PublicState::Waiting);
    }

    async fn what_is_delayed_says_until_when_and_why(d: &Deployment) {
        let begun = d.now();
        let id = d.create().delayed_by(100).send().await;
        d.advance(10).await;
        let told = why(d, id).await;
        let until = begun.plus_millis(100);
        let blocking_reason = BlockingReason::WaitingForDelay;
        assert_eq!(told.why, Why::Delayed { until, blocking_reason, failure: None });
        assert_eq!((told.since, told.now), (begun, d.now()));
        let retried = d.create().policy(RETRY).send().await;
        let held = d.claim(LANE).await;
        d.call(held.fail("no luck", "x")).await;
        let told = why(d, retried).await;
        assert_eq!(told.summary, "waits for its retry after: no luck");
    }

    async fn who_waits_for_others_names_them(d: &Deployment) {
        let flow = d.flow("a -> c, b -> c").await;
        d.complete(&flow, "a").await;
        let told = why(d, flow.id("c")).await;
        let Why::Dependencies { needed, satisfied, total, open } = told.why else {
            panic!("{told:?}")
        };
        assert_eq!((needed, satisfied, total), (2, 1, 2));
        assert_eq!(open.len(), 1);
        assert_eq!((open[0].execution_id, open[0].name.as_str()), (flow.id("b"), "b"));
        assert_eq!(told.summary, "waits for others: 1 of 2 are done; b is waiting");
        let parent = d.take(&flow, "b").await;
        d.adopt(&parent, &d.graph("x, y")).await;
        d.call(parent.wait_for_children()).await;
        assert_eq!(why(d, parent.id).await.why, Why::Children { open: 2, total: 2 });
    }

    async fn a_member_of_a_flow_that_is_not_whole_says_so(d: &Deployment) {
        let graph = d.graph("a, b");
        d.call(graph.part(0..1, 0..0, false)).await;
        let told = why(d, graph.flow().id("a")).await;
        assert_eq!(told.why, Why::FlowNotSealed);
    }

    async fn what_is_suspended_says_on_what(d: &Deployment) {
        let held = d.create_and_claim().await;
        let mut call = d.suspension(&held, &Condition::any(["go", "stop"]));
        (call.requested_by, call.timeout_ms) = ("mia".to_owned(), Some(900));
        d.suspend_by(&held, call).await;
        d.call(hold(held.id)).await;
        let told = why(d, held.id).await;
        let Why::Suspended { timeout_at, requested_by, signal_count, signal_names, .. } = &told.why
        else {
            panic!("{told:?}")
        };
        assert_eq!(*signal_names, ["go", "stop"]);
        assert!(told.summary.contains("(go, stop) by mia"), "{}", told.summary);
        assert_eq!((*timeout_at, requested_by.as_str()), (Some(d.now().plus_millis(900)), "mia"));
        assert_eq!(*signal_count, 0);
        assert!(told.held_next.is_some(), "it is held when the wait is over");
    }

    async fn what_is_held_says_by_whom(d: &Deployment) {
        let id = d.create_one().await;
        d.call(hold(id)).await;
        let told = why(d, id).await;
        let (requested_by, note) = ("mia".to_owned(), "looks wrong".to_owned());
        assert_eq!(told.why, Why::Held { requested_by, note, held_at: d.now() });
        assert_eq!((told.held_next, told.summary.as_str()), (None, "held by mia: looks wrong"));
    }

    async fn what_is_reserved_runs_or_is_over_says_where_and_how(d: &Deployment) {
        let id = d.create_one().await;
        let grant = d.claim_grant_call(id);
        d.call(grant.clone()).await;
        let told = why(d, id).await;
        assert!(matches!(told.why, Why::Reserved { .. }), "{told:?}");
        d.call(d.member_claim(id, grant.grant_id)).await;
        assert_eq!(why(d, id).await.summary, format!("runs on {INSTANCE}"));
        d.advance(5).await;
        d.call(outside(id, "operator_override")).await;
        let told = why(d, id).await;
        assert!(matches!(&told.why, Why::Ended { cancel: Some(_), .. }), "{told:?}");
        assert_eq!((told.public_state, told.since), (PublicState::Cancelled, d.now()));
        assert_eq!(d.refused(ExplainExecution { execution_id: d.new_id() }).await,
            Code::ExecutionNotFound);
    }

    async fn what_nobody_can_take_says_what_is_missing(d: &Deployment) {
        let own = alone(d);
        let id = d.create().lane(&own).kind("render").policy(GPU).send().await;
        let told = why(d, id).await;
        assert!(told.is_without_worker() && matches!(told.why, Why::NoWorkerInLane { .. }));
        connect(d, "mailer", &own, &["mail"], &["cuda", "gpu"]).await;
        let told = why(d, id).await;
        assert!(matches!(told.why, Why::NoWorkerForKind { .. }), "{told:?}");
        assert!(told.summary.starts_with("no worker serves render"), "{}", told.summary);
        let elsewhere = d.create().lane(&own).kind("mail").namespace("shop").send().await;
        assert!(matches!(why(d, elsewhere).await.why, Why::Queued { .. }));
        connect(d, "anything", &own, &[], &[]).await;
        let half = connect(d, "half", &own, &["render"], &["gpu"]).await;
        let told = why(d, id).await;
        let Why::NoCapableWorker { required, nearest } = &told.why else { panic!("{told:?}") };
        assert_eq!(required.csv(), "cuda,gpu");
        assert_eq!(nearest[0].worker_instance_id, half);
        assert_eq!(nearest[0].missing, ["cuda"]);
        assert_eq!(nearest[1].missing, ["cuda", "gpu"]);
        connect(d, "whole", &own, &["render"], &["cuda", "gpu", "more"]).await;
        let told = why(d, id).await;
        let Why::Queued { ahead_estimate, workers, with_room } = told.why else {
            panic!("{told:?}")
        };
        assert_eq!((ahead_estimate, workers, with_room), (0, 1, 1));
    }

    async fn what_is_in_a_namespace_that_nobody_takes_from_says_so(d: &Deployment) {
        let own = alone(d);
        let id = d.create().lane(&own).send().await;
        let registration = WorkerRegistration {
            lanes: vec![lane(&own)],
            namespaces: vec!["shop".parse().expect("a name")],
            ..WorkerRegistration::new(worker(WORKER), d.own_instance("shop"), 60_000)
        };
        d.backend.register_worker(registration).await.expect("joins");
        // It does not help that somebody else takes from the namespace.
        connect(d, "mailer", &own, &["mail"], &[]).await;
        let told = why(d, id).await;
        assert!(told.is_without_worker(), "{told:?}");
        let summary = format!("namespace tests; 1 in lane {own} takes from others");
        assert_eq!(told.summary, format!("no worker of {} takes from {summary}", told.kind));
    }

    async fn the_place_in_the_queue_counts_all_partitions(d: &Deployment) {
        let own = alone(d);
        connect(d, "any", &own, &[], &[]).await;
        for partition in d.partitions {
            d.create().lane(&own).on(partition).send().await;
        }
        d.advance(5).await;
        let last = d.create().lane(&own).send().await;
        d.create().lane(&own).priority(9).send().await;
        let told = why(d, last).await;
        let Why::Queued { ahead_estimate, .. } = told.why else { panic!("{told:?}") };
        assert_eq!(ahead_estimate, d.partitions.len() as u64 + 1);
        let queue = format!("q:{own}:{}:{}", d.describe(last).await.namespace, told.kind);
        let at = score(&d.dump().await, &queue, last).expect("it is queued");
        let call = CountAhead {
            lane: lane(&own),
            need: format!("tests:{}", told.kind).parse().expect("a need"),
            score: at.to_string(),
        };
        assert_eq!(d.call(call).await, CountAheadReply::Counted { ahead: 2 });
    }

    async fn what_lost_its_lease_waits_for_a_worker(d: &Deployment) {
        let own = alone(d);
        d.create().lane(&own).send().await;
        let lost = d.claim(&own).await;
        d.advance(ff_conformance::LEASE_MS).await;
        d.tick().await;
        let told = why(d, lost.id).await;
        assert_eq!(told.public_state, PublicState::Active);
        assert!(told.is_without_worker(), "{told:?}");
    }
}
