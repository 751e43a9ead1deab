//! FlowFabric's vocabulary: ids, partitions, the state vector, policies, contracts, errors and the
//! traits every backend implements. No I/O, no clock, no randomness: those come in from outside.
//!
//! | to find | look in |
//! |---|---|
//! | how large, long or many anything may be | [`limits`] |
//! | where something lives | [`partition`], [`slot`] |
//! | what something is called | [`types`] |
//! | where an execution stands, and which combinations exist | [`state`] |
//! | what its submitter may decide | [`policy`], [`capability`] |
//! | what can go wrong, and who must act | [`error`], [`backend_error`], [`argument`] |
//! | what a worker holds | [`backend`] |
//! | requests and answers | [`contracts`], [`bytes`] |
//! | what a backend can do | [`engine_backend`], [`completion_backend`] |
//! | how that is reached over HTTP | [`operation`] |
#![deny(missing_docs)]

#[cfg(not(feature = "schema"))]
use ff_no_schema::ToSchema;
#[cfg(feature = "schema")]
use utoipa::ToSchema;

mod json_object;
mod wire_text;

pub mod bytes;
pub mod distinct;
pub mod object;
#[cfg(feature = "schema")]
pub mod schema;

pub mod clock;
pub mod duration;
pub mod limits;
pub mod literal;
pub mod partition;
pub mod slot;
pub mod types;
pub mod value;

pub mod state;

pub mod capability;
pub mod policy;

pub mod argument;
pub mod backend_error;
pub mod error;

pub mod backend;
pub mod contracts;

pub mod completion_backend;
pub mod engine_backend;
pub mod need;
pub mod operation;
pub mod work_source;
