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
//! | connections and their limits | `accept`, `connection_limiter`, `open_files`, `tls` |
//! | what wraps a connection | `client_stream`, `request_body`, `lasting` |
//! | what surrounds every request | `middleware`, `access`, `origin`, `request_limiter` |
//! | how requests are read | `extract`, `body` |
//! | what each path does | `routes`: one file for each group |
//! | links of approvers, and their page | `approval` |
//! | waiting for an end, for work, for output | `routes::reads`, `routes::claims`, `events` |
//! | the document and the numbers | `openapi`, `metrics` |
//!
//! The server decides nothing about state: every answer is the engine's.
#![deny(missing_docs)]

mod config;
mod server;

mod accept;
mod client_stream;
mod connection_limiter;
mod lasting;
mod lines;
mod open_files;
mod request_body;
mod store;
mod tls;

mod access;
mod origin;

mod approval;

mod answer;
mod app;
mod middleware;
mod request_id;
mod request_limiter;

mod body;
mod extract;
mod refusal;

mod route;
mod routes;

mod events;

mod metrics;
mod openapi;
mod reference;

pub use config::{Authority, Limits, PublicUrl, ServerConfig, TlsFiles, Token};
pub use ff_store::StoreConfig;
pub use openapi::openapi_json;
pub use server::{RunningServer, Server, StartError};
