//! Children: executions that a task adds to its own flow, and waits for.

use std::sync::{Arc, Mutex, PoisonError};

use ff_core::contracts::{AddedChild, ChildResult, ChildrenAdded, GraphTask};
use ff_core::state::PublicState;
use ff_core::types::ExecutionId;
use serde::de::DeserializeOwned;

use super::outcome::until_answered;
use super::{ClaimedTask, TaskCore};
use crate::error::SdkError;
use crate::json;
use crate::kind::Kind;

/// The children that a task knows of: those that its claim told of, and those that it has added
/// since, which are not over as far as it knows.
pub(crate) struct Family(Mutex<Vec<ChildResult>>);

impl Family {
    pub(super) fn new(told: Vec<ChildResult>) -> Self {
        Self(Mutex::new(told))
    }

    pub(crate) fn all(&self) -> Vec<ChildResult> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, added: &[AddedChild]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for AddedChild { name, execution_id, .. } in added {
            if known.iter().all(|child| child.execution_id != *execution_id) {
                known.push(ChildResult {
                    name: name.clone(),
                    execution_id: *execution_id,
                    public_state: PublicState::Waiting,
                    bytes_base64: None,
                });
            }
        }
    }
}

impl TaskCore {
    /// Adds children. What was sent and not answered is sent again: it adds nothing twice.
    pub(crate) async fn add_children(
        &self,
        tasks: Vec<GraphTask>,
    ) -> Result<ChildrenAdded, SdkError> {
        self.check_held()?;
        let send = || self.engine().add_children(self.handle(), tasks.clone());
        let added = until_answered(self, "add_children", &mut false, send).await;
        let added = added.map_err(|error| error.in_context("add_children"))?;
        self.family.add(&added.children);
        Ok(added)
    }
}

impl ClaimedTask {
    /// Adds members to the execution's flow, as its children; an execution in no flow begins one of
    /// its own. A child's id is made from its parent's and its name, so that an attempt which adds
    /// it again changes nothing. `after` of a task names others of them, children that were added
    /// before, or, by their whole ids, other members of the flow.
    pub async fn add_children(&self, tasks: Vec<GraphTask>) -> Result<ChildrenAdded, SdkError> {
        self.core.add_children(tasks).await
    }

    /// The children as the claim told of them, in the order in which they were added.
    pub fn children(&self) -> &[ChildResult] {
        &self.core.claimed.children
    }
}

/// A child of the execution that a handler works on.
#[derive(Clone)]
pub struct Child {
    core: Arc<TaskCore>,
    told: ChildResult,
}

impl Child {
    pub(crate) fn new(core: Arc<TaskCore>, told: ChildResult) -> Self {
        Self { core, told }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.told.name
    }

    /// The execution.
    pub fn execution_id(&self) -> ExecutionId {
        self.told.execution_id
    }

    /// How it ended, or where it was when its parent was claimed.
    pub fn state(&self) -> PublicState {
        self.told.public_state
    }

    /// True if it has ended, however it did.
    pub fn is_over(&self) -> bool {
        self.told.public_state.is_terminal()
    }

    /// True if it succeeded.
    pub fn is_completed(&self) -> bool {
        self.told.is_completed()
    }

    /// Its result, read as JSON. One that did not succeed has none, which is an error that as a
    /// [`TaskError`](crate::TaskError) is final, unless the handler looks at
    /// [`is_completed`](Self::is_completed) first.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T, SdkError> {
        let name = self.name();
        if !self.is_completed() {
            return Err(SdkError::wrong_input(format!("child {name} is {}", self.state())));
        }
        let bytes = self.result_raw().await?;
        let wrong = |error| format!("child {name} has another result: {error}");
        json::decode(&bytes).map_err(|error| SdkError::wrong_input(wrong(error)))
    }

    /// The same of a child of a [`Kind`], which knows the type of its result.
    pub async fn result_of<I, O: DeserializeOwned>(&self, _: &Kind<I, O>) -> Result<O, SdkError> {
        self.result().await
    }

    /// Its result as it is; empty if there is none. What was too large for the claim is read now.
    pub async fn result_raw(&self) -> Result<Vec<u8>, SdkError> {
        if let Some(bytes) = &self.told.bytes_base64 {
            return Ok(bytes.0.clone());
        }
        if !self.is_completed() {
            return Ok(Vec::new());
        }
        let read = self.core.engine().read_result(self.execution_id()).await;
        Ok(read.map_err(|error| error.in_context("child"))?.unwrap_or_default())
    }
}
