//! The Valkey host: runs the function library on Valkey, standalone or cluster, with or without
//! TLS and ACL users.
//!
//! * A call goes to the master of its partition's slot over one pipelined connection, which is
//!   replaced when it breaks or stays silent.
//! * Where a replica must have it before a call is answered, calls go in batches over another one.
//! * Only what certainly was not applied is sent again here. A lost reply is the caller's to judge.
//! * Settings, library and rights are checked on every new connection before its first call.
//! * Work that was acknowledged and is gone after a failover is noticed and reported.
//! * Nothing here knows what the functions do, and nothing here builds a key other than a
//!   partition's name.

mod config;
mod durability;
mod host;

mod caller;
mod connection;
mod errors;
mod replication;
mod reply;
mod retry;
mod stream;

mod node;
mod topology;

mod health_check;
mod loader;
mod permissions;
mod persistence;
mod preflight;
mod verifier;

mod marks;

mod dump;
mod listener;
mod subscriptions;

mod followers;
mod subject_listener;

pub use config::{Address, ConfigError, TlsOptions, ValkeyConfig};
pub use durability::{Durability, UnknownDurability};
pub use host::ValkeyHost;
pub use marks::Loss;
pub use persistence::Persistence;
