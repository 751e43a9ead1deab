//! Opens a store by its description, and starts what runs on it: the engine that ticks it and the
//! scheduler that finds work in it. Servers and programs do so in the same way.
#![deny(missing_docs)]

mod config;
#[cfg(any(feature = "embedded", feature = "valkey"))]
mod facts;
#[cfg(any(feature = "embedded", feature = "valkey"))]
mod first_secrets;
#[cfg(any(feature = "embedded", feature = "valkey"))]
mod store;
#[cfg(all(test, feature = "embedded"))]
mod trouble;

pub use config::StoreConfig;
#[cfg(any(feature = "embedded", feature = "valkey"))]
pub use facts::KeptFacts;
#[cfg(any(feature = "embedded", feature = "valkey"))]
pub use first_secrets::FirstSecrets;
#[cfg(any(feature = "embedded", feature = "valkey"))]
pub use store::{OpenError, Store, StoreHost};
