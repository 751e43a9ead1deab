//! One conformance suite for the function library, run unchanged on three hosts: embedded, a Valkey
//! server, a Valkey cluster of three masters.
//!
//! * [`Deployment`] is what a test works with: four partitions of its own, ids from a counter and a
//!   clock that stands still until the test moves it.
//! * [`TestHost`] checks every reply on its way: undeclared outcomes fail the test, and what was
//!   refused, repeated or only read must have changed no key.
//! * At the end of every test, the store must pass [`ff_script::audit`].
//! * [`coverage`] remembers every outcome, so that one that never occurred fails the run.

pub mod answer;
pub mod budgets;
mod cases;
mod children;
mod clock;
pub mod coverage;
mod create;
mod deployment;
pub mod dump;
mod flows;
pub mod gates;
mod held;
mod host;
mod library;
mod listener;
pub mod model;
pub mod record;
mod servers;
mod waiting;

pub use answer::Answer;
pub use cases::{Case, Running};
pub use clock::ManualClock;
pub use create::{LANE, NewExecution, lane};
pub use deployment::{Deployment, FLOW_PARTITIONS, OF_BUDGETS, START_MS};
pub use flows::{Flow, Graph, joining};
pub use held::{GRANT_MS, Held, INSTANCE, LEASE_MS, WORKER, capabilities, instance, worker};
pub use host::{HostKind, TestHost};
pub use library::{cramped, library, reachable_library, timed_library};
pub use listener::Listener;
pub use servers::{run, stop_servers};
pub use waiting::{SECRET, Suspended, Waiting, rotation};
