//! The function library, its typed calls, and one `EngineBackend` over any host that runs it.

pub mod args;
pub mod dump;
pub mod host;
pub mod library;
pub mod value;
