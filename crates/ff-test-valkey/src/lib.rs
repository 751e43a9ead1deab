//! Real Valkey servers and clusters for tests and benchmarks: started on free loopback ports, in a
//! directory of their own, gone when the value is dropped or the process dies.
//!
//! Everything blocks and uses only the standard library, so that it fits into any test.

mod certificates;
mod cluster;
mod control;
mod link;
mod ports;
mod process;
mod server;

pub use cluster::ValkeyCluster;
pub use control::Reply;
pub use link::Link;
pub use server::{Valkey, ValkeyOptions};
