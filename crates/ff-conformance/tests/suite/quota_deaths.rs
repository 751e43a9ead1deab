//! A process dies between any two steps of admission, before or after what the step does: whatever
//! it leaves behind, every place is back and everything has run when others have gone on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ff_conformance::gates::Limits;
use ff_conformance::{Deployment, Held, LEASE_MS, TestHost, conformance};
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::contracts::TickRequest;
use ff_core::engine_backend::roles::*;
use ff_core::error::EngineError;
use ff_core::partition::Partition;
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, QuotaPolicyId};
use ff_script::args::Args;
use ff_script::backend::ScriptBackend;
use ff_script::calls::quota::{DescribeQuotaPolicy, DescribeQuotaPolicyReply};
use ff_script::host::{Function, Host, Subject, Subscription, Topic};
use ff_script::value::Value;
use futures_core::future::BoxFuture;

/// A host whose caller dies at a call: before it is done, or before its answer is heard.
pub(crate) struct Dying {
    host: Arc<TestHost>,
    calls_left: AtomicU32,
    is_done: bool,
}

impl Dying {
    /// The backend of a process that dies at the call behind so many others.
    pub(crate) async fn after(d: &Deployment, calls: u32, is_done: bool) -> ScriptBackend<Self> {
        let host = Arc::clone(d.backend.host());
        // Opening the deployment is no step.
        let host = Self { host, calls_left: AtomicU32::new(calls + 2), is_done };
        let backend = ScriptBackend::open(Arc::new(host), d.backend.partition_config()).await;
        let backend = backend.expect("the deployment is there");
        backend.host().calls_left.store(calls + 1, Ordering::SeqCst);
        backend
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.calls_left.load(Ordering::SeqCst) == 0
    }

    async fn run(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> Result<Value, BackendError> {
        let one_less = |left: u32| left.checked_sub(1);
        match self.calls_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
            Err(_) => Err(dead()),
            Ok(1) if self.is_done => {
                self.host.call(function, partition, args).await?;
                Err(dead())
            }
            Ok(1) => Err(dead()),
            Ok(_) => self.host.call(function, partition, args).await,
        }
    }
}

fn dead() -> BackendError {
    BackendError::new(BackendErrorKind::Closed, Retry::Never, "the process has died")
}

impl Host for Dying {
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>> {
        Box::pin(self.run(function, partition, args))
    }

    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.subscribe(topic)
    }

    fn follow(&self, subject: Subject) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.follow(subject)
    }

    fn name(&self) -> &'static str {
        "dying"
    }
}

/// A process that dies: worker, server and engine in one.
struct Process<'a> {
    d: &'a Deployment,
    backend: ScriptBackend<Dying>,
}

impl<'a> Process<'a> {
    async fn start(d: &'a Deployment, calls: u32, is_done: bool) -> Self {
        Self { d, backend: Dying::after(d, calls, is_done).await }
    }

    /// Claims and completes all there is, and carries out what is owed, until it dies.
    async fn live(&self) -> Result<(), EngineError> {
        for _ in 0..4 {
            let taken =
                self.backend.claim_next(self.d.home(), self.d.claim_request(2)).await?.claimed;
            for claimed in taken {
                let done = Held::from(claimed).complete(b"");
                self.backend.call(self.d.home(), done).await?;
            }
            for partition in [self.d.home(), self.d.quotas()] {
                self.serve(partition).await?;
            }
        }
        Ok(())
    }

    async fn serve(&self, partition: Partition) -> Result<(), EngineError> {
        let report = self.backend.tick(partition, TickRequest::once(100)).await?;
        let settled = self.backend.carry_out(partition, report.owed).await?;
        let request = TickRequest { settled, ..TickRequest::once(100) };
        self.backend.tick(partition, request).await.map(drop)
    }
}

async fn running(d: &Deployment, policy: QuotaPolicyId) -> u64 {
    let call = DescribeQuotaPolicy { quota_policy_id: policy, quota_key: "k".to_owned() };
    let DescribeQuotaPolicyReply::Described { running, .. } = d.call(call).await;
    running
}

/// Others go on where the dead one stopped, until everything has run.
async fn survive(d: &Deployment, policy: QuotaPolicyId, ids: &[ExecutionId]) {
    for _ in 0..20 {
        d.advance(LEASE_MS).await;
        d.carry_out().await;
        while let Some(held) = d.take_one().await {
            assert!(running(d, policy).await <= 1, "one at a time");
            d.call(held.complete(b"")).await;
            d.carry_out().await;
        }
        let mut left = 0;
        for id in ids {
            left += u32::from(d.describe(*id).await.public_state != PublicState::Completed);
        }
        if left == 0 {
            return;
        }
    }
    panic!("something waits for ever");
}

conformance! {
    async fn whoever_dies_between_two_steps_every_place_comes_back(d: &Deployment) {
        d.host().watch(false);
        for is_done in [false, true] {
            let mut calls = 0;
            loop {
                let policy = d.quota(Limits::at_once(1)).await;
                let ids = d.queue_under(policy, "k", 3).await;
                let process = Process::start(d, calls, is_done).await;
                let _ = process.live().await;
                let has_died = process.backend.host().is_dead();
                survive(d, policy, &ids).await;
                assert_eq!(running(d, policy).await, 0, "after {calls} calls, done {is_done}");
                if !has_died {
                    break;
                }
                calls += 1;
            }
            assert!(calls > 15, "{calls} steps");
        }
    }
}
