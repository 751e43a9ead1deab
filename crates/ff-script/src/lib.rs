//! The function library, its typed calls, and one `EngineBackend` over any host that runs it.

pub mod library;

pub mod args;
mod digest;
pub mod gate;
pub mod host;
pub mod value;
mod wake;

pub mod call;
pub mod calls;
pub mod wire;

pub mod backend;
pub mod backoff;
pub mod endings;
pub mod gathering;
pub mod ids;
pub mod in_flight;
pub mod together;
pub mod unfold;
pub mod until_answered;

pub mod audit;
pub mod dump;
