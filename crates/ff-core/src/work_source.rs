//! Where workers get work from: the scheduler of this process, or a server's.

use crate::backend::Handle;
use crate::contracts::{Claimed, Finished, NextTask, TaskEnd, WorkRequest};
use crate::engine_backend::Answer;

/// A place that hands out work.
pub trait WorkSource: Send + Sync + 'static {
    /// Claims up to as many executions as asked for; waits for the first one if there is none.
    /// Empty if the time passed. What was claimed but could not be answered lapses by itself.
    fn claim(&self, request: WorkRequest) -> Answer<'_, Vec<Claimed>>;

    /// Ends a task and takes the next one of the same worker with it, if there is one that comes
    /// next. A repetition with the same lease id answers the same.
    fn finish<'a>(
        &'a self,
        handle: &'a Handle,
        end: TaskEnd,
        next: NextTask,
    ) -> Answer<'a, Finished>;
}

/// Compiles only while the trait can be used behind a pointer, as every caller does.
const _: fn(&dyn WorkSource) = |_| ();
