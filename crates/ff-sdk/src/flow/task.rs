//! A task of a flow that is being put together: for whom it waits, and what it is passed.

use std::fmt;
use std::marker::PhantomData;

use ff_core::contracts::DependencyKind;

use super::{Draft, Drafted};
use crate::client::Submission;

/// A task of a [`Flow`](super::Flow) that gives an `O`. It stands for the task while the flow is
/// put together, and for its result when it runs.
pub struct FlowTask<O> {
    draft: Draft,
    place: usize,
    name: String,
    result: PhantomData<fn() -> O>,
}

impl<O> FlowTask<O> {
    pub(super) fn new(draft: Draft, place: usize, name: String) -> Self {
        Self { draft, place, name, result: PhantomData }
    }

    /// Its name in the flow.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_of(&self, draft: &Draft) -> bool {
        self.draft.is(draft)
    }

    fn change(self, change: impl FnOnce(&mut Drafted)) -> Self {
        self.draft.change(self.place, change);
        self
    }

    /// Says more about the execution: `.with(|it| it.lane("gpu").attempt_timeout(MINUTE))`.
    pub fn with(self, settings: impl FnOnce(Submission<()>) -> Submission<()>) -> Self {
        // Not under the lock: the settings may be about other tasks, too.
        let mut execution = None;
        self.draft.change(self.place, |task| execution = task.execution.take());
        let execution = execution.map(settings);
        self.change(|task| task.execution = execution)
    }

    /// Its failure is not the flow's.
    pub fn optional(self) -> Self {
        self.change(|task| task.optional = true)
    }

    /// Waits for another task, besides those that it waits for already. For which of its ends:
    /// its success, unless it says otherwise ([`failed`](Self::failed), [`ended`](Self::ended)).
    pub fn after(self, upstream: &dyn Upstream) -> Self {
        let edges = edges(&[upstream]);
        let draft = self.draft.clone();
        self.change(|task| task.wait_for(&draft, &edges))
    }

    /// Waits for all of these: tasks of any kinds, and lists of them.
    pub fn after_all<const N: usize>(self, upstreams: [&dyn Upstream; N]) -> Self {
        self.join(&upstreams, None)
    }

    /// Waits for the first of these.
    pub fn after_any<const N: usize>(self, upstreams: [&dyn Upstream; N]) -> Self {
        self.join(&upstreams, Some(1))
    }

    /// Waits for so many of these.
    pub fn after_count<const N: usize>(self, count: u32, upstreams: [&dyn Upstream; N]) -> Self {
        self.join(&upstreams, Some(count))
    }

    fn join(self, upstreams: &[&dyn Upstream], needs: Option<u32>) -> Self {
        let edges = edges(upstreams);
        let draft = self.draft.clone();
        self.change(|task| {
            task.needs = needs;
            task.wait_for(&draft, &edges);
        })
    }

    /// Gets the result of another task under a name, for which it waits with this if it does not
    /// yet. An [`Input`] is a name that knows the type; a text is one that does not.
    pub fn pass<P>(self, upstream: &FlowTask<P>, name: impl InputName<P>) -> Self {
        let (draft, name) = (self.draft.clone(), name.input_name().to_owned());
        self.change(|task| {
            task.wait_for(&draft, &edges(&[upstream]));
            task.edge(&upstream.name).pass = Some(name);
        })
    }

    /// Gets the results of several tasks, each under the task's own name.
    pub fn pass_all<P>(self, upstreams: &[FlowTask<P>]) -> Self {
        upstreams.iter().fold(self, |task, upstream| task.pass(upstream, upstream.name.as_str()))
    }

    pub(super) fn take_as_input<P>(self, upstream: &FlowTask<P>) -> Self {
        self.pass(upstream, upstream.name.as_str()).change(|task| task.input_is_passed = true)
    }

    /// That it failed, expired or was cancelled, for who waits for that.
    pub fn failed(&self) -> TaskOutcome {
        self.outcome(DependencyKind::FailureOnly)
    }

    /// That it ended, however it did, for who waits for that.
    pub fn ended(&self) -> TaskOutcome {
        self.outcome(DependencyKind::AnyOutcome)
    }

    fn outcome(&self, on: DependencyKind) -> TaskOutcome {
        TaskOutcome { draft: self.draft.clone(), name: self.name.clone(), on: Some(on) }
    }
}

impl<O> Clone for FlowTask<O> {
    fn clone(&self) -> Self {
        Self::new(self.draft.clone(), self.place, self.name.clone())
    }
}

impl<O> fmt::Debug for FlowTask<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FlowTask").field(&self.name).finish()
    }
}

/// Certain ends of a task.
#[derive(Clone)]
pub struct TaskOutcome {
    draft: Draft,
    name: String,
    /// Success if absent.
    on: Option<DependencyKind>,
}

impl fmt::Debug for TaskOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskOutcome").field("task", &self.name).field("on", &self.on).finish()
    }
}

/// What a task can wait for: a [`FlowTask`], certain ends of one, or a list of either.
pub trait Upstream: sealed::Outcomes {}

impl<T: sealed::Outcomes + ?Sized> Upstream for T {}

mod sealed {
    use super::{FlowTask, TaskOutcome};

    /// The ends that are waited for.
    pub trait Outcomes {
        fn outcomes(&self, into: &mut Vec<TaskOutcome>);
    }

    impl<O> Outcomes for FlowTask<O> {
        fn outcomes(&self, into: &mut Vec<TaskOutcome>) {
            let (draft, name) = (self.draft.clone(), self.name.clone());
            into.push(TaskOutcome { draft, name, on: None });
        }
    }

    impl Outcomes for TaskOutcome {
        fn outcomes(&self, into: &mut Vec<TaskOutcome>) {
            into.push(self.clone());
        }
    }

    impl<T: Outcomes> Outcomes for Vec<T> {
        fn outcomes(&self, into: &mut Vec<TaskOutcome>) {
            self.iter().for_each(|one| one.outcomes(into));
        }
    }

    impl<T: Outcomes, const N: usize> Outcomes for [T; N] {
        fn outcomes(&self, into: &mut Vec<TaskOutcome>) {
            self.iter().for_each(|one| one.outcomes(into));
        }
    }
}

fn edges(upstreams: &[&dyn Upstream]) -> Vec<TaskOutcome> {
    let mut edges = Vec::new();
    upstreams.iter().for_each(|upstream| upstream.outcomes(&mut edges));
    edges
}

impl Drafted {
    /// Waits for these ends, each of a task of the same flow.
    fn wait_for(&mut self, draft: &Draft, outcomes: &[TaskOutcome]) {
        for outcome in outcomes {
            if !outcome.draft.is(draft) {
                self.refuse("after", &format!("names {:?}, a task of another flow", outcome.name));
                return;
            }
            let edge = self.edge(&outcome.name);
            edge.on = outcome.on.or(edge.on);
        }
    }
}

/// The name of an input, and its type: what is passed under it, and what the handler reads there.
///
/// ```
/// use ff_sdk::{Context, Input, TaskError};
///
/// const LEFT: Input<String> = Input::new("left");
///
/// async fn join(context: Context, (): ()) -> Result<usize, TaskError> {
///     Ok(context.passed(&LEFT).await?.len())
/// }
/// ```
pub struct Input<T> {
    name: &'static str,
    types: PhantomData<fn() -> T>,
}

impl<T> Input<T> {
    /// An input of this name, to be written as a constant.
    pub const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<T> Clone for Input<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Input<T> {}

impl<T> fmt::Debug for Input<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Input").field(&self.name).finish()
    }
}

/// What names an input of a type: an [`Input`] of it, or a text, which says nothing about types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the name of an input of type `{T}`",
    label = "names an input of another type"
)]
pub trait InputName<T> {
    /// The name.
    fn input_name(&self) -> &str;
}

impl<T> InputName<T> for &Input<T> {
    fn input_name(&self) -> &str {
        self.name
    }
}

impl<T> InputName<T> for &str {
    fn input_name(&self) -> &str {
        self
    }
}
