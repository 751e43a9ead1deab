//! What every backend must do.

pub(crate) mod claim;
pub(crate) mod client;
pub(crate) mod lease;
pub(crate) mod registry;
pub(crate) mod runtime;
pub(crate) mod shutdown;
pub(crate) mod task;
