//! The reply to a terminal call is lost, or the way to the store is gone for a while: the outcome
//! lands all the same, once.

mod site;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ff_core::contracts::{ReplayExecution, RevokeLease};
use ff_sdk::{
    ClaimedTask, Client, Connection, CreateExecution, CreateFlow, EngineBackend, ExecutionId,
    ExecutionKind, FailOutcome, FlowFabricWorker, GraphDependency, GraphTask, PublicState,
    SdkError, SubmitGraph, SuspendOutcome, TimeoutBehavior,
};
use ff_test_valkey::{Valkey, ValkeyOptions};
use site::proxy::Proxy;
use site::{
    LONG, Place, Site, claim, eventually, server_config, start_server_on, valkey_config,
    worker_config,
};
use tokio::task::JoinHandle;

/// A deployment whose worker goes through a proxy, while everybody else has a way of their own.
struct Behind {
    site: Site,
    proxy: Proxy,
    worker: FlowFabricWorker,
    /// How a request of each operation is recognised.
    mark: fn(&str) -> String,
}

impl Behind {
    async fn valkey() -> Self {
        let valkey = Valkey::start(ValkeyOptions::default()).expect("a Valkey server");
        let proxy = Proxy::start(valkey.address()).await;
        let site = Site::on_valkey(valkey).await;
        let mut config = valkey_config(&format!("valkey://{}/", proxy.address));
        // Only the worker's own calls use the way that is cut.
        config.run_engine = false;
        Self::new(site, proxy, config, |op| format!("ff_{op}_execution_v1")).await
    }

    async fn server() -> Self {
        let site = Site::server().await;
        let proxy = Proxy::start(site.server_address().to_string()).await;
        let config = server_config(&format!("http://{}", proxy.address));
        Self::new(site, proxy, config, |op| format!("POST /v1/tasks/{op}")).await
    }

    async fn new(
        site: Site,
        proxy: Proxy,
        config: ff_sdk::BackendConfig,
        mark: fn(&str) -> String,
    ) -> Self {
        let connection = Connection::open(config).await.expect("connects");
        let mut settings = worker_config("w-1", 1);
        settings.lease_ttl_ms = 20_000;
        let worker = FlowFabricWorker::connect_to(settings, &connection).await.expect("connects");
        Self { site, proxy, worker, mark }
    }

    /// A task whose next report of this operation gets no answer.
    async fn task(&self, op: &str) -> (ExecutionId, ClaimedTask) {
        let id = self.site.submit("x").await;
        let task = claim(&self.worker).await;
        self.proxy.cut_after(&(self.mark)(op));
        (id, task)
    }

    async fn check(&self, id: &ExecutionId, state: PublicState, cuts: u32) {
        assert_eq!(self.proxy.cuts(), cuts, "the reply must have been lost");
        let snapshot = self.site.describe(id).await;
        assert_eq!((snapshot.public_state(), snapshot.total_attempt_count), (state, 1));
    }
}

async fn every_terminal_call_survives_a_lost_reply(behind: Behind) {
    let (id, task) = behind.task("complete").await;
    task.complete(Some(b"done".to_vec())).await.expect("landed");
    behind.check(&id, PublicState::Completed, 1).await;
    let result = behind.site.client.await_result_raw(&id, LONG).await;
    assert_eq!(result.expect("a result"), b"done");

    let (id, task) = behind.task("fail").await;
    let outcome = task.fail("no", "permanent").await.expect("landed");
    assert_eq!(outcome, FailOutcome::TerminalFailed);
    behind.check(&id, PublicState::Failed, 2).await;

    let (id, task) = behind.task("cancel").await;
    task.cancel("no longer wanted").await.expect("landed");
    behind.check(&id, PublicState::Cancelled, 3).await;

    let (id, task) = behind.task("delay").await;
    task.delay_for(Duration::from_secs(3_600)).await.expect("landed");
    behind.check(&id, PublicState::Delayed, 4).await;

    let (id, task) = behind.task("suspend").await;
    let outcome = task.suspend("waiting_for_signal", &[], None, TimeoutBehavior::Fail).await;
    assert!(matches!(outcome, Ok(SuspendOutcome::Suspended { .. })), "{outcome:?}");
    behind.check(&id, PublicState::Suspended, 5).await;
    let open = behind.site.client.pending_waitpoints(&id).await.expect("listed");
    assert_eq!(open.len(), 1);
}

/// Two steps, of which the second is freed by the end of the first.
async fn the_next_task_survives_a_lost_reply(behind: Behind, mark: &str) {
    let task = |name: &str| {
        let mut execution = CreateExecution::new(ExecutionKind::new("step"));
        execution.lane = Some(site::LANE.parse().expect("valid"));
        GraphTask::new(name, execution)
    };
    let mut second = task("second");
    second.after = vec![GraphDependency::on_success("first")];
    let flow = CreateFlow::new(ExecutionKind::new("steps"));
    let graph = SubmitGraph::new(flow, vec![task("first"), second]);
    behind.site.client.submit_graph(graph).await.expect("accepted");
    let first = claim(&behind.worker).await;
    let id = *first.execution_id();
    behind.proxy.cut_after(mark);
    let next = first.complete_and_claim_next(None).await.expect("landed").expect("the next one");
    behind.check(&id, PublicState::Completed, 1).await;
    assert_eq!(next.lease_epoch().get(), 1, "taken once");
    let id = *next.execution_id();
    next.complete(None).await.expect("landed");
    behind.check(&id, PublicState::Completed, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_task_survives_a_lost_reply_from_valkey() {
    the_next_task_survives_a_lost_reply(Behind::valkey().await, "ff_complete_and_claim_next_v1")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_task_survives_a_lost_reply_over_http() {
    the_next_task_survives_a_lost_reply(Behind::server().await, "POST /v1/tasks/complete").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_terminal_call_survives_a_lost_reply_from_valkey() {
    every_terminal_call_survives_a_lost_reply(Behind::valkey().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_terminal_call_survives_a_lost_reply_from_a_server() {
    every_terminal_call_survives_a_lost_reply(Behind::server().await).await;
}

async fn a_client(config: ff_sdk::BackendConfig) -> Client {
    Client::new(&Connection::open(config).await.expect("connects"))
}

/// Whether somebody else's submission under the same id comes before or not decides, nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_whose_reply_from_valkey_is_lost_is_answered_as_new() {
    let behind = Behind::valkey().await;
    let url = format!("valkey://{}/", behind.proxy.address);
    let mut config = valkey_config(&url);
    config.run_engine = false;
    let client = a_client(config).await;
    behind.proxy.cut_after(&(behind.mark)("create"));
    let created = client.submit("x", &1).await.expect("it landed");
    assert!(created.is_new(), "{created:?}");
    let chosen = behind.site.submit("y").await;
    // Older than the call by more than the grain of the store's clock.
    tokio::time::sleep(Duration::from_millis(20)).await;
    behind.proxy.cut_after(&(behind.mark)("create"));
    let known = client.submit("y", &1).execution_id(chosen).await.expect("it is known");
    assert!(!known.is_new(), "{known:?}");
    assert_eq!(behind.proxy.cuts(), 2, "the replies must have been lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_whose_reply_from_a_server_is_lost_is_answered_as_new() {
    let behind = Behind::server().await;
    let client = a_client(server_config(&format!("http://{}", behind.proxy.address))).await;
    behind.proxy.cut_after("POST /v1/executions");
    let created = client.submit("x", &1).await.expect("it landed");
    assert!(created.is_new(), "{created:?}");
    behind.proxy.cut_after("POST /v1/executions");
    let created = client.submit("x", &1).idempotency_key("k").await.expect("it landed");
    assert!(created.is_new(), "{created:?}");
    let known = client.submit("x", &1).idempotency_key("k").await.expect("it is known");
    assert!(!known.is_new(), "{known:?}");
    assert_eq!(behind.proxy.cuts(), 2, "the replies must have been lost");
}

/// The answer to a claim is lost after the server gave it.
async fn lose_the_answer_to_a_claim(behind: &Behind) -> ClaimedTask {
    let id = behind.site.submit("x").await;
    behind.proxy.cut_after("POST /v1/claims");
    let task = claim(&behind.worker).await;
    assert_eq!((*task.execution_id(), behind.proxy.cuts()), (id, 1));
    assert!(task.is_lease_healthy());
    task
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_answer_was_lost_costs_no_lease_and_no_attempt() {
    let behind = Behind::server().await;
    let task = lose_the_answer_to_a_claim(&behind).await;
    assert_eq!((task.lease_epoch().0, task.attempt_index().get()), (1, 0));
    let id = *task.execution_id();
    task.complete(None).await.expect("it holds the lease");
    behind.check(&id, PublicState::Completed, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_claim_is_found_again_by_a_server_that_never_saw_it() {
    let valkey = Valkey::start(ValkeyOptions::default()).expect("a Valkey server");
    let (first, second) =
        (start_server_on(&valkey.url()).await, start_server_on(&valkey.url()).await);
    let proxy = Proxy::start(first.local_addr().to_string()).await;
    let config = server_config(&format!("http://{}", second.local_addr()));
    let connection = Connection::open(config).await.expect("connects");
    let site = Site::of(connection, Place::Server(second));
    let config = server_config(&format!("http://{}", proxy.address));
    let behind = Behind::new(site, proxy, config, |op| op.to_owned()).await;
    behind.proxy.retarget(behind.site.server_address().to_string());
    let task = lose_the_answer_to_a_claim(&behind).await;
    assert_eq!((task.lease_epoch().0, task.attempt_index().get()), (1, 0));
    task.complete(None).await.expect("it holds the lease");
    drop(first);
}

/// The answer to a change from outside is lost, and before the client can send it again somebody
/// else has done something.
struct Meanwhile {
    site: Site,
    proxy: Proxy,
    engine: Arc<dyn EngineBackend>,
}

impl Meanwhile {
    async fn new() -> Self {
        let site = Site::server().await;
        let proxy = Proxy::start(site.server_address().to_string()).await;
        let config = server_config(&format!("http://{}", proxy.address));
        let connection = Connection::open(config).await.expect("connects");
        Self { site, proxy, engine: Arc::clone(connection.engine()) }
    }

    /// Sends a call whose answer is lost; what follows it waits for [`Proxy::set_held`].
    async fn lose<T: Send + 'static>(
        &self,
        mark: &str,
        call: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.proxy.cut_after(mark);
        self.proxy.set_held(true);
        let called = tokio::spawn(call);
        eventually("the loss", || async { self.proxy.cuts() == 1 }).await;
        called
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_whose_answer_was_lost_has_one_effect_although_it_ended_again_meanwhile() {
    let meanwhile = Meanwhile::new().await;
    let worker = meanwhile.site.worker("w-1", 1).await;
    let id = meanwhile.site.submit("x").await;
    claim(&worker).await.complete(None).await.expect("completed");
    let engine = Arc::clone(&meanwhile.engine);
    let replay = async move { engine.replay(id, ReplayExecution::default()).await };
    let replayed = meanwhile.lose("/replay ", replay).await;
    claim(&worker).await.complete(None).await.expect("completed again");
    meanwhile.proxy.set_held(false);
    replayed.await.expect("no panic").expect("it was done");
    let snapshot = meanwhile.site.describe(&id).await;
    let ended = (snapshot.public_state(), snapshot.replay_count);
    assert_eq!(ended, (PublicState::Completed, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_whose_answer_was_lost_spares_the_next_worker() {
    let meanwhile = Meanwhile::new().await;
    let (first, next) =
        (meanwhile.site.worker("w-1", 1).await, meanwhile.site.worker("w-2", 1).await);
    let id = meanwhile.site.submit("x").await;
    let held = claim(&first).await;
    let engine = Arc::clone(&meanwhile.engine);
    let revoke = async move { engine.revoke_lease(id, RevokeLease::default()).await };
    let revoked = meanwhile.lose("/revoke-lease ", revoke).await;
    held.lost().await;
    let task = claim(&next).await;
    meanwhile.proxy.set_held(false);
    revoked.await.expect("no panic").expect("it was done");
    task.renew_lease().await.expect("the next worker keeps its lease");
    task.complete(None).await.expect("completed");
}

/// The way is gone for longer than the backend itself tries, and comes back before the deadline.
async fn an_outage_within_the_lease_is_outlasted(behind: Behind) {
    let (id, task) = behind.task("complete").await;
    behind.proxy.set_down(true);
    let reported = tokio::spawn(task.complete(Some(b"late".to_vec())));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!reported.is_finished(), "it tries until the lease's deadline");
    assert_eq!(behind.site.state(&id).await, PublicState::Active);
    behind.proxy.set_down(false);
    reported.await.expect("no panic").expect("landed");
    assert_eq!(behind.site.state(&id).await, PublicState::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_valkey_within_the_lease_is_outlasted() {
    an_outage_within_the_lease_is_outlasted(Behind::valkey().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_a_server_within_the_lease_is_outlasted() {
    an_outage_within_the_lease_is_outlasted(Behind::server().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_task_comes_back_when_the_deadline_passes_and_tells_what_was_committed() {
    let mut valkey = Valkey::start(durable()).expect("a Valkey server");
    let config = valkey_config(&valkey.url());
    let connection = Connection::open(config).await.expect("connects");
    let site = Site::of(connection, Place::Embedded);
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    valkey.kill9().expect("killed");
    let error = task.complete(Some(b"done".to_vec())).await.expect_err("nobody is there");
    assert!(error.source.backend_kind().is_some() && error.source.is_retryable(), "{error}");
    let task = error.task.expect("the outcome is unknown: the task comes back");
    assert!(!task.is_lease_healthy());
    valkey.restart().expect("it is back");
    // The lease is over, and whether the first call landed is the store's to say.
    let mut task = Some(*task);
    let settled = loop {
        match task.take().expect("kept").complete(Some(b"done".to_vec())).await {
            Err(error) if error.task.is_some() => task = error.task.map(|task| *task),
            settled => break settled,
        }
    };
    let error = settled.expect_err("it did not land before the lease was over");
    assert!(matches!(error.source, SdkError::Engine(_)), "{error}");
    eventually("the next worker", || async {
        site.state(&id).await != PublicState::Completed && worker.capacity() == 1
    })
    .await;
}

fn durable() -> ValkeyOptions {
    let append_fsync = Some("always".to_owned());
    ValkeyOptions { append_only: true, append_fsync, ..ValkeyOptions::default() }
}
