//! What only HTTP needs, shared by FlowFabric's server and its clients: header names, the problem
//! document of every error, raw bodies, and the forms in which tasks and grants travel. All other
//! requests and replies are those of `ff_core::contracts`, as they are.
//!
//! Requests refuse fields they do not know, so that a mistyped option is never ignored. Answers
//! tolerate them, so that an old client understands a new server.
//!
//! | to find | look in |
//! |---|---|
//! | where to send a request | the rows: [`ff_core::operation::Operation`], [`headers`] |
//! | what an error looks like | [`problem`] |
//! | submitting, raw bytes | [`create`], [`raw`] |
//! | cancelling a flow | [`flow`] |
//! | the worker protocol | [`worker`], [`task`], [`wait`], [`grant`] |
//! | output, written and followed | [`frames`], [`frame_stream`], [`events`] |
//! | what happens in a flow | [`flow_events`] |
//! | links of approvers | [`approval`] |
//! | the server itself, copies of its store | [`deployment`], [`backup`] |
#![deny(missing_docs)]

#[cfg(not(feature = "openapi"))]
use ff_no_schema::ToSchema;
#[cfg(feature = "openapi")]
use utoipa::ToSchema;

pub mod headers;
pub mod problem;

pub mod create;
pub mod flow;
pub mod raw;

pub mod events;
pub mod flow_events;
pub mod frame_stream;
pub mod frames;
pub mod grant;
pub mod task;
pub mod usage;
pub mod wait;
pub mod worker;

pub mod approval;

pub mod backup;
pub mod deployment;
