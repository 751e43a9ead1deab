//! Flows put together step by step, with types: what a task gives is what those behind it take.

mod handle;
mod task;

pub use handle::FlowHandle;
pub use task::{FlowTask, Input, InputName, TaskOutcome, Upstream};

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ff_core::contracts::{CreateFlow, FailurePolicy, GraphDependency, GraphTask, SubmitGraph};
use ff_core::types::{ExecutionKind, FlowId, IdempotencyKey, NameError, Namespace, TimestampMs};
use serde::Serialize;

use crate::client::Submission;
use crate::error::SdkError;
use crate::kind::{Kind, task_input};

const CONTEXT: &str = "flow";

/// A graph of executions that is being put together: its tasks, and who waits for whom. It is
/// submitted whole by [`Client::submit_flow`](crate::Client::submit_flow); a wrong setting is
/// reported then, by its name, and nothing is sent.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use ff_sdk::{BackendConfig, Client, Connection, Flow, Input, Kind, TaskResult, Worker};
///
/// const UPPER: Kind<String, String> = Kind::new("upper");
/// const LENGTH: Kind<String, usize> = Kind::new("length");
/// const REPORT: Kind<(), String> = Kind::new("report");
/// const TEXT: Input<String> = Input::new("text");
/// const SIZE: Input<usize> = Input::new("size");
///
/// let connection = Connection::open(BackendConfig::embedded_in_memory()).await?;
/// let worker = Worker::builder("writer")
///     .connection(&connection)
///     .handle(&UPPER, async |_, text| -> TaskResult<_> { Ok(text.to_uppercase()) })
///     .handle(&LENGTH, async |_, text| -> TaskResult<_> { Ok(text.len()) })
///     .handle(&REPORT, async |context, ()| -> TaskResult<_> {
///         let (text, size) = (context.passed(&TEXT).await?, context.passed(&SIZE).await?);
///         Ok(format!("{text} has {size}"))
///     })
///     .build()?;
/// let stop = worker.shutdown_handle();
/// let running = tokio::spawn(worker.run());
///
/// let mut flow = Flow::new("words");
/// let upper = flow.task("upper", &UPPER, "hello".to_owned());
/// let length = flow.task_from("length", &LENGTH, &upper);
/// let report = flow
///     .task("report", &REPORT, ())
///     .after_all([&upper, &length])
///     .pass(&upper, &TEXT)
///     .pass(&length, &SIZE);
///
/// let running_flow = Client::new(&connection).submit_flow(flow).await?;
/// assert_eq!(running_flow.result(&length).await?, 5);
/// assert_eq!(running_flow.result(&report).await?, "HELLO has 5");
/// assert!(running_flow.await_end(Duration::from_secs(10)).await?.completed_at.is_some());
///
/// stop.shutdown();
/// running.await??;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
///
/// What a task is made from must be what it takes:
///
/// ```compile_fail,E0308
/// # use ff_sdk::{Flow, Kind};
/// const LENGTH: Kind<String, usize> = Kind::new("length");
/// const UPPER: Kind<String, String> = Kind::new("upper");
/// let mut flow = Flow::new("words");
/// let length = flow.task("length", &LENGTH, "hello".to_owned());
/// let upper = flow.task_from("upper", &UPPER, &length);
/// ```
///
/// and so must what is passed under a name whose type is known:
///
/// ```compile_fail,E0277
/// # use ff_sdk::{Flow, Input, Kind};
/// const LENGTH: Kind<String, usize> = Kind::new("length");
/// const REPORT: Kind<(), String> = Kind::new("report");
/// const TEXT: Input<String> = Input::new("text");
/// let mut flow = Flow::new("words");
/// let length = flow.task("length", &LENGTH, "hello".to_owned());
/// let report = flow.task("report", &REPORT, ()).pass(&length, &TEXT);
/// ```
#[must_use = "a flow is submitted by `Client::submit_flow`"]
pub struct Flow {
    settings: Result<(CreateFlow, Option<IdempotencyKey>), SdkError>,
    draft: Draft,
}

impl Flow {
    /// A flow of a kind, a name for who lists them.
    pub fn new(kind: impl AsRef<str>) -> Self {
        let kind = ExecutionKind::try_new(kind).map_err(wrong_name);
        let settings = kind.map(|kind| (CreateFlow::new(kind), None));
        Self { settings, draft: Draft::default() }
    }

    fn set(mut self, change: impl FnOnce(&mut CreateFlow)) -> Self {
        if let Ok((flow, _)) = &mut self.settings {
            change(flow);
        }
        self
    }

    fn set_name<N>(
        mut self,
        name: Result<N, NameError>,
        change: impl FnOnce(&mut (CreateFlow, Option<IdempotencyKey>), N),
    ) -> Self {
        match (name, &mut self.settings) {
            (Ok(name), Ok(settings)) => change(settings, name),
            (Err(error), Ok(_)) => self.settings = Err(wrong_name(error)),
            (_, Err(_)) => {}
        }
        self
    }

    /// The same key in the same namespace is the same flow: submitting it again adds nothing, and
    /// goes on where a submission broke off.
    pub fn key(self, key: impl AsRef<str>) -> Self {
        self.set_name(IdempotencyKey::try_new(key), |settings, key| settings.1 = Some(key))
    }

    /// The namespace of the flow and its tasks; the client's if not said.
    pub fn namespace(self, namespace: impl AsRef<str>) -> Self {
        let name = Namespace::try_new(namespace);
        self.set_name(name, |settings, name| settings.0.namespace = Some(name))
    }

    /// An id of your own instead of a new one.
    pub fn flow_id(self, flow_id: FlowId) -> Self {
        self.set(|flow| flow.flow_id = Some(flow_id))
    }

    /// What a failed task means for the others; they go on if not said.
    pub fn on_failure(self, policy: FailurePolicy) -> Self {
        self.set(|flow| flow.on_failure = Some(policy))
    }

    /// All of it expires at this time of the store's clock.
    pub fn deadline_at(self, time: TimestampMs) -> Self {
        self.set(|flow| flow.deadline_at = Some(time))
    }

    /// How long it is kept when it is over; a day if not said.
    pub fn retention(self, kept: Duration) -> Self {
        let kept_ms = u64::try_from(kept.as_millis()).unwrap_or(u64::MAX);
        self.set(|flow| flow.retention_ms = Some(kept_ms))
    }

    /// A label: a lower-case word, a dot and a name, as in `team.owner`.
    pub fn tag(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.set(|flow| drop(flow.tags.insert(key.into(), value.into())))
    }

    /// A task with an input of its own, which waits for nobody until it is told to. `()` is no
    /// input.
    pub fn task<I: Serialize, O>(
        &mut self,
        name: impl Into<String>,
        kind: &Kind<I, O>,
        input: I,
    ) -> FlowTask<O> {
        self.add(name.into(), kind, task_input(&input))
    }

    /// A task whose input is the result of another, for which it waits.
    pub fn task_from<I, O>(
        &mut self,
        name: impl Into<String>,
        kind: &Kind<I, O>,
        upstream: &FlowTask<I>,
    ) -> FlowTask<O> {
        let task = self.add(name.into(), kind, Ok(Vec::new()));
        task.take_as_input(upstream)
    }

    fn add<I, O>(
        &self,
        name: String,
        kind: &Kind<I, O>,
        payload: Result<Vec<u8>, serde_json::Error>,
    ) -> FlowTask<O> {
        let place = self.draft.add(Drafted::new(&name, kind, payload));
        FlowTask::new(self.draft.clone(), place, name)
    }

    /// The graph as it is submitted, and what it was drafted in.
    pub(crate) fn finish(self) -> Result<(SubmitGraph, Draft), SdkError> {
        let (flow, key) = self.settings?;
        let tasks = self.draft.take().into_iter().map(Drafted::finish);
        let mut graph = SubmitGraph::new(flow, tasks.collect::<Result<_, _>>()?);
        graph.key = key;
        Ok((graph, self.draft))
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow").field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn wrong_name(error: NameError) -> SdkError {
    SdkError::config(CONTEXT, error.field, error.rule)
}

/// The tasks of a flow, shared with those that stand for them.
#[derive(Clone, Default)]
pub(crate) struct Draft(Arc<Mutex<Vec<Drafted>>>);

impl Draft {
    fn add(&self, task: Drafted) -> usize {
        let mut tasks = self.lock();
        tasks.push(task);
        tasks.len() - 1
    }

    /// Changes a task. After the flow was submitted there is none any more.
    fn change(&self, place: usize, change: impl FnOnce(&mut Drafted)) {
        if let Some(task) = self.lock().get_mut(place) {
            change(task);
        }
    }

    fn take(&self) -> Vec<Drafted> {
        std::mem::take(&mut self.lock())
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Drafted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task that is being put together.
struct Drafted {
    name: String,
    /// What is run; none while somebody says more about it.
    execution: Option<Submission<()>>,
    after: Vec<GraphDependency>,
    needs: Option<u32>,
    optional: bool,
    /// Its input is the only result that is passed to it.
    input_is_passed: bool,
    /// The first thing that is wrong, if something is.
    wrong: Option<SdkError>,
}

impl Drafted {
    fn new<I, O>(
        name: &str,
        kind: &Kind<I, O>,
        payload: Result<Vec<u8>, serde_json::Error>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            execution: Some(Submission::to((), kind, payload)),
            after: Vec::new(),
            needs: None,
            optional: false,
            input_is_passed: false,
            wrong: None,
        }
    }

    /// The edge from another task: the one that is there, or a new one.
    fn edge(&mut self, upstream: &str) -> &mut GraphDependency {
        let place = self.after.iter().position(|edge| edge.task == upstream);
        let place = place.unwrap_or_else(|| {
            self.after.push(GraphDependency::on_success(upstream));
            self.after.len() - 1
        });
        &mut self.after[place]
    }

    fn refuse(&mut self, field: &str, rule: &str) {
        let message = format!("tasks.{}.{field} {rule}", self.name);
        self.wrong.get_or_insert_with(|| SdkError::config(CONTEXT, None, message));
    }

    fn finish(mut self) -> Result<GraphTask, SdkError> {
        let passing = self.after.iter().filter(|edge| edge.pass.is_some()).count();
        if self.input_is_passed && passing > 1 {
            self.refuse("pass", "must be said once: its input is the only result that it gets");
        }
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let gone = || SdkError::config(CONTEXT, None, "a task was lost while it was described");
        let execution = self.execution.ok_or_else(gone)?.into_request()?;
        let mut task = GraphTask::new(self.name, execution);
        (task.after, task.needs, task.optional) = (self.after, self.needs, self.optional);
        Ok(task)
    }
}
