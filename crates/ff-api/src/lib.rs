//! What travels between FlowFabric's server and its clients over HTTP: paths, header names, request
//! and answer bodies, and the problem document of every error.
//!
//! Wire types are apart from the domain's (`ff-core`), but made of its ids, names and words, so
//! that nothing enters without passing their rules. Conversions go both ways: a server turns
//! requests into domain calls, a client turns answers back into domain values.
//!
//! Requests refuse fields they do not know, so that a mistyped option is never ignored. Answers
//! tolerate them, so that an old client understands a new server.
//!
//! | to find | look in |
//! |---|---|
//! | where to send a request | [`paths`], [`headers`] |
//! | how bytes travel in JSON | [`bytes`] |
//! | what an error looks like | [`problem`] |
//! | submitting, reading, steering | [`create`], [`execution`], [`listing`], [`action`] |
//! | the worker protocol | [`worker`], [`task`], [`grant`] |
//! | the deployment itself | [`deployment`] |
#![deny(missing_docs)]

pub mod headers;
pub mod paths;

pub mod bytes;
pub mod object;
pub mod problem;

pub mod create;
pub mod execution;
pub mod history;
pub mod listing;

pub mod action;

pub mod grant;
pub mod task;
pub mod worker;

pub mod deployment;

#[cfg(feature = "openapi")]
pub mod schema;
