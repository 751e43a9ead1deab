//! The embedded host.
