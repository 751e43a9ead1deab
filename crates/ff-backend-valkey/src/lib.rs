//! The valkey host.
