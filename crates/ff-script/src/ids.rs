//! Where new ids come from: the one place that makes them out of time and chance.

use uuid::Uuid;

/// A source of ids. Tests bring their own.
pub trait IdSource: Send + Sync + 'static {
    /// An id that sorts by creation time, for executions.
    fn ordered(&self) -> Uuid;

    /// An id that nobody can guess, for leases and grants.
    fn random(&self) -> Uuid;
}

/// Ids from the system's clock and random numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemIds;

#[allow(clippy::disallowed_methods, reason = "this is the one place where ids are made")]
impl IdSource for SystemIds {
    fn ordered(&self) -> Uuid {
        Uuid::now_v7()
    }

    fn random(&self) -> Uuid {
        Uuid::new_v4()
    }
}
