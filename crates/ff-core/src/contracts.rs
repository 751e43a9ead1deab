//! Requests and answers of the backend traits. These are the domain's types; what travels over
//! HTTP is defined by the server.

mod cancel;
mod claim;
mod create;
mod event;
mod list;
mod snapshot;
mod tags;
mod tick;
mod work;
mod worker;

pub use cancel::{CancelSource, PriorityChange, RevokeOutcome};
pub use claim::{
    ClaimGrant, ClaimRequest, Claimed, GrantRequest, LeaseRequest, NextGrant, NextGrantRequest,
    ReclaimGrant, payload_bytes,
};
pub use create::{Created, NewExecution};
pub use event::{Event, EventPage};
pub use list::{ExecutionSummary, LanePage, ListFilter, ListPage};
pub use snapshot::{
    AttemptRecord, AttemptSummary, CancelSummary, ExecutionSnapshot, FailureSummary, LeaseSummary,
    ProgressSummary,
};
pub use tags::{Tags, check_tags};
pub use tick::TickReport;
pub use work::{LeaseIds, WorkRequest};
pub use worker::{LaneDepth, WorkerRecord, WorkerRegistration};
