//! Workers that make themselves known and ask for work.

use ff_core::contracts::{Registered, WorkRequest, WorkerRegistration};
use ff_core::operation::{Nothing, Operation, PLAIN_BODY_BYTES};
use serde::{Deserialize, Serialize};

use crate::ToSchema;
use crate::task::Task;

/// Makes a worker process known, or renews that.
#[derive(Clone, Copy, Debug)]
pub struct Register;

impl Operation for Register {
    type Target = Nothing;
    type Request = WorkerRegistration;
    type Reply = Registered;

    const PATH: &'static str = "/v1/workers";
    const NAME: &'static str = "registerWorker";
    const SUMMARY: &'static str = "Makes a worker process known, or renews that.";
    const ANSWERS: &'static str = "It is known until then.";
    const ABOUT: &'static str = "A process that restarts and still knows its session takes over \
        at once, as does one that saw the process before go and names it (replaces); any other waits \
        until the old registration runs out, or takes another instance id.";
    /// A thousand lanes of 64 letters, quoted.
    const BODY_BYTES_MAX: usize = 2 * PLAIN_BODY_BYTES;
    const STATUS: u16 = 201;
}

/// Asks for tasks, of one or several lanes.
#[derive(Clone, Copy, Debug)]
pub struct Claim;

impl Operation for Claim {
    type Target = Nothing;
    type Request = WorkRequest;
    type Reply = ClaimedTasks;

    const PATH: &'static str = "/v1/claims";
    const NAME: &'static str = "claimTasks";
    const GROUP: &'static str = "workers";
    const SUMMARY: &'static str = "Claims tasks of one or several lanes.";
    const ANSWERS: &'static str = "The tasks; none if the time passed.";
    const ABOUT: &'static str = "Answers at once if there is work, otherwise as soon as there is \
        some, at the latest after wait_ms with no tasks. Each task has a lease of its own: renew it, \
        and end it with complete, fail, delay or cancel. A client that hangs up gets nothing, and \
        what it would have got is handed back. A client whose answer was lost on the way repeats the \
        claim, with retry, under the lease_ids of the first one: then it is given the same tasks, by \
        this server or any other. An answer carries no more than 8 MiB of payloads, or one larger \
        than that.";
    const WAITS: bool = true;
    const REFUSES: &'static [u16] = &[];
}

/// The claimed tasks; none if the time passed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimedTasks {
    /// The tasks, each with a lease of its own.
    pub tasks: Vec<Task>,
}
