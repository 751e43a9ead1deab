//! The function library, its typed calls, and one `EngineBackend` over any host that runs it.

pub mod library;

pub mod args;
pub mod host;
pub mod value;

pub mod call;
pub mod calls;
pub mod wire;

pub mod backend;
pub mod ids;

pub mod audit;
pub mod dump;
