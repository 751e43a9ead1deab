//! What every backend must do.

pub(crate) mod admission;
pub(crate) mod children;
pub(crate) mod claim;
pub(crate) mod client;
pub(crate) mod flows;
pub(crate) mod handler;
pub(crate) mod lease;
pub(crate) mod output;
pub(crate) mod registry;
pub(crate) mod runtime;
pub(crate) mod shutdown;
pub(crate) mod task;
pub(crate) mod typed;
pub(crate) mod waiting;
