//! FlowFabric's vocabulary: ids, partitions, the state vector, policies, contracts, errors and the
//! traits every backend implements. No I/O, no clock, no randomness: those come in from outside.
//!
//! | to find | look in |
//! |---|---|
//! | how large, long or many anything may be | [`limits`] |
//! | where something lives | [`partition`] |
//! | what something is called | [`types`] |
//! | where an execution stands, and which combinations exist | [`state`] |
//! | what its submitter may decide | [`policy`], [`capability`] |
//! | what can go wrong, and who must act | [`error`], [`backend_error`], [`argument`] |
//! | what a worker holds | [`backend`] |
//! | requests and answers | [`contracts`] |
//! | what a backend can do | [`engine_backend`], [`completion_backend`] |
#![deny(missing_docs)]

mod json_object;
mod wire_text;

pub mod clock;
pub mod limits;
pub mod literal;
pub mod partition;
pub mod types;

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
pub mod work_source;
