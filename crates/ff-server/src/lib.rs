//! FlowFabric's HTTP server as a library: opens the store, ticks it, finds work for workers, and
//! answers the API of `ff-api`.
//!
//! ```no_run
//! # async fn run() -> Result<(), ff_server::StartError> {
//! use ff_server::{Server, ServerConfig};
//!
//! let server = Server::start(ServerConfig::default()).await?;
//! println!("{}", server.banner());
//! server.shutdown(std::time::Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```
//!
//! | to find | look in |
//! |---|---|
//! | what can be configured | `config` |
//! | start and end | `server`, `store` |
//! | connections and their limits | `accept`, `places`, `files`, `tls` |
//! | what lies around a connection | `stream`, `heard`, `courtesy` |
//! | what surrounds every request | `around`, `access`, `site`, `gate` |
//! | how requests are read | `extract`, `body` |
//! | what each path does | `routes`: one file for each group |
//! | waiting for an end or for work | `ended`, `claiming` |
//! | the document and the numbers | `openapi`, `metrics` |
//!
//! The server decides nothing about state: every answer is the engine's.
#![deny(missing_docs)]

mod config;
mod server;

mod accept;
mod courtesy;
mod files;
mod heard;
mod places;
mod store;
mod stream;
mod tls;

mod access;
mod site;

mod answer;
mod app;
mod around;
mod gate;

mod body;
mod extract;
mod refusal;

mod route;
mod routes;

mod claiming;
mod ended;

mod metrics;
mod openapi;

pub use config::{Authority, Limits, ServerConfig, StoreConfig, TlsFiles, Token};
pub use openapi::openapi_json;
pub use server::{RunningServer, Server, StartError};
