//! The scenarios.

pub(crate) mod admission;
pub(crate) mod bullmq;
pub(crate) mod claim;
pub(crate) mod crowded;
pub(crate) mod fairness;
pub(crate) mod flow;
pub(crate) mod full;
pub(crate) mod http;
pub(crate) mod idle;
pub(crate) mod lifecycle;
pub(crate) mod order;
pub(crate) mod room;
pub(crate) mod routing;
pub(crate) mod sdk;
pub(crate) mod stream;
pub(crate) mod suspend;

mod crew;
mod deployment;
mod monitor;
