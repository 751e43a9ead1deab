//! Time as something that is handed in, so that tests and the simulator own it.

/// Where a store's time comes from.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since the Unix epoch. May jump in either direction.
    fn now_us(&self) -> u64;
}
