//! Putting a worker together.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ff_core::limits::{KINDS_MAX, NAMESPACES_MAX};
use ff_core::policy::ExecutionPolicy;
use ff_core::types::{ExecutionKind, LaneId, NameError, Namespace, WorkerId, WorkerInstanceId};
use ff_script::ids::{IdSource, SystemIds};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, Semaphore, watch};

use super::context::Context;
use super::handler::{self, Handler};
use super::task_error::TaskError;
use super::{Kinds, Registered, Source, Worker};
use crate::backend_config::BackendConfig;
use crate::client::DEFAULT_LANE;
use crate::config::{ANY_NAMESPACE, WorkerConfig};
use crate::connection::Connection;
use crate::error::SdkError;
use crate::worker::FlowFabricWorker;

const CONTEXT: &str = "worker_builder";
const LEASE_TTL: Duration = Duration::from_secs(30);
const DRAIN: Duration = Duration::from_secs(30);

/// A worker being put together; see [`Worker`]. A wrong setting is reported by
/// [`build`](Self::build), by its name.
#[must_use = "a worker is made by `build`"]
pub struct WorkerBuilder<S> {
    settings: Settings,
    backend: Option<Backend>,
    state: Arc<S>,
    /// The state came after handlers, which know another one.
    late_state: bool,
    handlers: Vec<(String, Handler<S>)>,
    /// What the kinds say.
    policies: Vec<(String, ExecutionPolicy)>,
}

/// What is the same whatever the handlers share.
struct Settings {
    name: String,
    instance: Option<String>,
    namespaces: Vec<String>,
    lanes: Vec<String>,
    capabilities: Vec<String>,
    concurrency: usize,
    /// How many of a kind may run at a time, where that is limited.
    kind_limits: Vec<(String, usize)>,
    lease_ttl: Duration,
    drain: Duration,
}

enum Backend {
    Config(BackendConfig),
    Connection(Connection),
    Worker(FlowFabricWorker),
}

impl WorkerBuilder<()> {
    pub(super) fn new(name: String) -> Self {
        let settings = Settings {
            name,
            instance: None,
            namespaces: Vec::new(),
            lanes: Vec::new(),
            capabilities: Vec::new(),
            concurrency: 1,
            kind_limits: Vec::new(),
            lease_ttl: LEASE_TTL,
            drain: DRAIN,
        };
        let state = Arc::new(());
        let (handlers, policies) = (Vec::new(), Vec::new());
        Self { settings, backend: None, state, late_state: false, handlers, policies }
    }

    /// What all handlers share, reached by [`Context::state`]. To be said before the handlers:
    /// [`build`](Self::build) refuses a state that comes later.
    pub fn state<S: Send + Sync + 'static>(self, state: S) -> WorkerBuilder<S> {
        WorkerBuilder {
            settings: self.settings,
            backend: self.backend,
            state: Arc::new(state),
            late_state: !self.handlers.is_empty(),
            handlers: Vec::new(),
            policies: Vec::new(),
        }
    }
}

impl<S: Send + Sync + 'static> WorkerBuilder<S> {
    /// Where executions live; a connection is opened when the worker runs.
    pub fn backend(mut self, config: BackendConfig) -> Self {
        self.backend = Some(Backend::Config(config));
        self
    }

    /// A connection that others use too.
    pub fn connection(mut self, connection: &Connection) -> Self {
        self.backend = Some(Backend::Connection(connection.clone()));
        self
    }

    /// A worker that is connected already; its own settings count, not the builder's.
    pub fn worker(mut self, worker: FlowFabricWorker) -> Self {
        self.backend = Some(Backend::Worker(worker));
        self
    }

    /// A name for this process; one that is unique is made up if not said.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.settings.instance = Some(instance.into());
        self
    }

    /// A namespace to take from; may be said several times, and the worker's client submits in the
    /// first one. Without any it takes from all of them, and submits in the default one.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.settings.namespaces.push(namespace.into());
        self
    }

    /// A lane to take from; may be said several times. `default` if not said.
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.settings.lanes.push(lane.into());
        self
    }

    /// Something the worker can do; may be said several times.
    pub fn capability(mut self, capability: impl Into<String>) -> Self {
        self.settings.capabilities.push(capability.into());
        self
    }

    /// How many executions may run at a time; 1 if not said.
    pub fn concurrency(mut self, count: usize) -> Self {
        self.settings.concurrency = count;
        self
    }

    /// How many executions of this kind may run at a time; as many as there is room for if not
    /// said. What there is no room for is left to other workers: a claim asks for no more than the
    /// tightest kind has room for, and not at all for one that is full. A worker that must fill
    /// many places in one claim keeps such kinds in a worker of their own.
    pub fn concurrency_of(mut self, kind: impl Into<String>, count: usize) -> Self {
        self.settings.kind_limits.push((kind.into(), count));
        self
    }

    /// How long a lease lasts without renewal; 30 seconds if not said.
    pub fn lease_ttl(mut self, ttl: Duration) -> Self {
        self.settings.lease_ttl = ttl;
        self
    }

    /// How long running handlers may take after the worker was told to stop; 30 seconds if not
    /// said. What is left then is handed back.
    pub fn drain_timeout(mut self, limit: Duration) -> Self {
        self.settings.drain = limit;
        self
    }

    /// The handler of a kind: an async function of a [`Context`] and an input that is read as JSON,
    /// with an output that is written as JSON.
    pub fn on<I, O, E, F, Fut>(self, kind: impl Into<String>, handler: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        E: Into<TaskError> + 'static,
        F: Fn(Context<S>, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        self.add(kind, handler::typed(handler))
    }

    /// The handler of a kind whose input and output are bytes.
    pub fn on_raw<E, F, Fut>(self, kind: impl Into<String>, handler: F) -> Self
    where
        E: Into<TaskError> + 'static,
        F: Fn(Context<S>, Vec<u8>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<u8>, E>> + Send + 'static,
    {
        self.add(kind, handler::raw(handler))
    }

    /// The handler of a kind that blocks the thread it runs on: a plain function, run where it may
    /// do so, beside the others. It cannot be dropped when its lease is lost: a long one looks at
    /// [`Context::is_cancelled`] now and then. A runtime that ends waits for it.
    pub fn on_blocking<I, O, E, F>(self, kind: impl Into<String>, handler: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        E: Into<TaskError> + 'static,
        F: Fn(Context<S>, I) -> Result<O, E> + Send + Sync + 'static,
    {
        self.add(kind, handler::blocking(handler))
    }

    fn add(mut self, kind: impl Into<String>, handler: Handler<S>) -> Self {
        self.handlers.push((kind.into(), handler));
        self
    }

    /// The policy of a kind, for its executions as far as they say nothing themselves. The worker
    /// tells it when it starts: see [`FlowFabricWorker::register_kinds`]. A
    /// [`Kind`](crate::Kind) has its own.
    pub fn policy_of(mut self, kind: impl Into<String>, policy: ExecutionPolicy) -> Self {
        self.policies.push((kind.into(), policy));
        self
    }

    /// Checks every setting. Nothing is connected yet.
    pub fn build(self) -> Result<Worker<S>, SdkError> {
        if self.late_state {
            return Err(SdkError::config(CONTEXT, "state", "must come before the handlers"));
        }
        let by_name = kinds(self.handlers, &self.settings.kind_limits)?;
        let drain = self.settings.drain;
        let namespaces = self.settings.namespaces()?;
        let (source, config) = match self.backend {
            Some(Backend::Config(backend)) => (Source::Own, self.settings.check(backend)?),
            Some(Backend::Connection(shared)) => {
                (Source::Shared(shared), self.settings.check(unused())?)
            }
            Some(Backend::Worker(worker)) => {
                let config = worker.config().clone();
                (Source::Worker(worker), config)
            }
            None => return Err(SdkError::config(CONTEXT, "backend", "must be given")),
        };
        let policies = policies(self.policies)?;
        let kinds = Arc::new(Kinds { state: self.state, by_name, freed: Notify::new() });
        let stop = watch::Sender::new(false);
        Ok(Worker { source, config, namespaces, kinds, policies, drain, stop })
    }
}

impl Settings {
    /// Those to take from; none: any.
    fn namespaces(&self) -> Result<Vec<Namespace>, SdkError> {
        let count = self.namespaces.len() as u64;
        if count > NAMESPACES_MAX {
            let message = format!("there may be at most {NAMESPACES_MAX}");
            return Err(SdkError::config(CONTEXT, "namespace", message));
        }
        let all = self.namespaces.iter().map(|name| Namespace::try_new(name).map_err(wrong_name));
        let all: Vec<Namespace> = all.collect::<Result<_, _>>()?;
        let any = all.iter().any(|name| name.as_str() == ANY_NAMESPACE);
        Ok(if any { Vec::new() } else { all })
    }

    fn check(self, backend: BackendConfig) -> Result<WorkerConfig, SdkError> {
        let namespace = self.namespaces()?.into_iter().next().unwrap_or_default();
        let lanes = if self.lanes.is_empty() { vec![DEFAULT_LANE.to_owned()] } else { self.lanes };
        let lanes = lanes.iter().map(|lane| LaneId::try_new(lane).map_err(wrong_name));
        let instance = self.instance.unwrap_or_else(|| unique_instance(&self.name));
        let config = WorkerConfig {
            backend,
            worker_id: WorkerId::try_new(self.name).map_err(wrong_name)?,
            worker_instance_id: WorkerInstanceId::try_new(instance).map_err(wrong_name)?,
            namespace,
            lanes: lanes.collect::<Result<_, _>>()?,
            capabilities: self.capabilities,
            lease_ttl_ms: u64::try_from(self.lease_ttl.as_millis()).unwrap_or(u64::MAX),
            claim_poll_interval_ms: 1_000,
            max_concurrent_tasks: positive("concurrency", self.concurrency)?,
        };
        config.validate()?;
        Ok(config)
    }
}

fn kinds<S>(
    handlers: Vec<(String, Handler<S>)>,
    limits: &[(String, usize)],
) -> Result<HashMap<ExecutionKind, Registered<S>>, SdkError> {
    if handlers.is_empty() {
        return Err(SdkError::config(CONTEXT, "handlers", "there must be at least one"));
    }
    if handlers.len() as u64 > KINDS_MAX {
        let message = format!("there may be at most {KINDS_MAX}");
        return Err(SdkError::config(CONTEXT, "handlers", message));
    }
    let mut by_name = HashMap::new();
    for (name, handler) in handlers {
        let name = ExecutionKind::try_new(name).map_err(wrong_name)?;
        if by_name.insert(name.clone(), Registered { handler, permits: None }).is_some() {
            let message = format!("there are two handlers for {:?}", name.as_str());
            return Err(SdkError::config(CONTEXT, "handlers", message));
        }
    }
    limits.iter().try_for_each(|(kind, count)| limit(&mut by_name, kind, *count))?;
    Ok(by_name)
}

fn policies(
    told: Vec<(String, ExecutionPolicy)>,
) -> Result<BTreeMap<ExecutionKind, ExecutionPolicy>, SdkError> {
    let check = |(kind, policy): (String, ExecutionPolicy)| {
        let wrong = |error| SdkError::config(CONTEXT, "policy_of", error);
        policy.validate().map_err(wrong)?;
        Ok((ExecutionKind::try_new(kind).map_err(wrong_name)?, policy))
    };
    told.into_iter().map(check).collect()
}

fn limit<S>(
    by_name: &mut HashMap<ExecutionKind, Registered<S>>,
    kind: &str,
    count: usize,
) -> Result<(), SdkError> {
    let permits = Arc::new(Semaphore::new(positive("concurrency_of", count)?));
    let named = ExecutionKind::try_new(kind).ok().and_then(|kind| by_name.get_mut(&kind));
    let Some(registered) = named else {
        let message = format!("there is no handler for {kind:?}");
        return Err(SdkError::config(CONTEXT, "concurrency_of", message));
    };
    registered.permits = Some(permits);
    Ok(())
}

fn positive(field: &'static str, count: usize) -> Result<usize, SdkError> {
    if (1..=Semaphore::MAX_PERMITS).contains(&count) {
        return Ok(count);
    }
    Err(SdkError::config(CONTEXT, field, format!("must be at least 1, got {count}")))
}

fn wrong_name(error: NameError) -> SdkError {
    SdkError::config(CONTEXT, error.field, error.rule)
}

/// The name, the process and a piece of chance: two processes on one machine, or in two containers
/// with the same process number, do not collide.
fn unique_instance(name: &str) -> String {
    let chance = SystemIds.random().simple().to_string();
    format!("{name}-{}-{}", std::process::id(), &chance[..8])
}

/// A worker over a shared connection opens none.
fn unused() -> BackendConfig {
    BackendConfig::server(String::new(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn echo(_: Context, input: String) -> Result<String, TaskError> {
        Ok(input)
    }

    fn builder() -> WorkerBuilder<()> {
        Worker::builder("tester").backend(BackendConfig::server("http://localhost", None))
    }

    fn refused(builder: WorkerBuilder<()>) -> String {
        builder.build().err().expect("must be refused").to_string()
    }

    #[test]
    fn each_broken_rule_names_its_field() {
        let table = [
            (refused(builder()), "worker_builder.handlers: there must be at least one"),
            (
                refused(Worker::builder("x").on("echo", echo)),
                "worker_builder.backend: must be given",
            ),
            (
                refused(builder().on("echo", echo).on("echo", echo)),
                "worker_builder.handlers: there are two handlers for \"echo\"",
            ),
            (refused(builder().on("a:b", echo)), "worker_builder.kind: must be printable"),
            (
                refused(builder().on("echo", echo).lane("")),
                "worker_builder.lane: must not be empty",
            ),
            (
                refused(builder().on("echo", echo).concurrency(0)),
                "worker_builder.concurrency: must be at least 1, got 0",
            ),
            (
                refused(builder().on("echo", echo).concurrency_of("echo", 0)),
                "worker_builder.concurrency_of: must be at least 1, got 0",
            ),
            (
                refused(builder().on("echo", echo).concurrency_of("ohce", 1)),
                "worker_builder.concurrency_of: there is no handler for \"ohce\"",
            ),
            (
                refused(builder().on("echo", echo).lease_ttl(Duration::ZERO)),
                "worker_config.lease_ttl_ms: must be from 1000",
            ),
            (refused(builder().on("echo", echo).capability("a b")), "worker_config.capabilities: "),
            (
                refused(Worker::builder("").backend(unused()).on("echo", echo)),
                "worker_builder.worker_id: must not be empty",
            ),
        ];
        for (message, expected) in table {
            assert!(message.starts_with(&format!("config: {expected}")), "{message}");
        }
    }

    #[test]
    fn a_state_after_a_handler_is_an_error_of_build() {
        let late = builder().on("echo", echo).state(1).build();
        let error = late.err().expect("must be refused").to_string();
        assert_eq!(error, "config: worker_builder.state: must come before the handlers");
    }

    #[test]
    fn two_workers_of_one_name_are_two_instances() {
        assert_ne!(unique_instance("x"), unique_instance("x"));
    }
}
