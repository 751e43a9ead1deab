//! What a deployment can do, by role: the calls, their requests and replies, and for each that is
//! reached over HTTP its row ([`crate::operation`]). Requests and replies travel as they are, as
//! JSON; requests refuse fields they do not know, replies tolerate them.

mod approvals;
mod attempt_streams;
mod children;
mod condition;
mod create;
mod event;
mod executions;
mod flow_cancel;
mod flow_reads;
mod flows;
mod grants;
mod graph;
mod list;
mod output;
mod reads;
mod secrets;
mod signals;
mod snapshot;
mod streams;
mod suspensions;
mod tags;
mod tasks;
mod tick;
mod waits;
mod work;
mod workers;

pub use approvals::*;
pub use attempt_streams::*;
pub use children::*;
pub use condition::*;
pub use create::*;
pub use event::*;
pub use executions::*;
pub use flow_cancel::*;
pub use flow_reads::*;
pub use flows::*;
pub use grants::*;
pub use graph::*;
pub use list::*;
pub use output::*;
pub use reads::*;
pub use secrets::*;
pub use signals::*;
pub use snapshot::*;
pub use streams::*;
pub use suspensions::*;
pub use tags::*;
pub use tasks::*;
pub use tick::*;
pub use waits::*;
pub use work::*;
pub use workers::*;
