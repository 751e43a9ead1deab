//! The server itself: what it runs on, and its health.

use ff_core::operation::{Method, Nothing, Operation};
use ff_core::partition::PartitionConfig;
use serde::{Deserialize, Serialize};

use crate::ToSchema;

/// What a server runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deployment {
    /// The server's version.
    pub version: String,
    /// The store: `embedded`, `valkey` or `valkey-cluster`.
    pub store: String,
    /// How many partitions there are.
    pub partitions: PartitionConfig,
}

impl Operation for Deployment {
    type Target = Nothing;
    type Request = Nothing;
    type Reply = Self;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/deployment";
    const NAME: &'static str = "getDeployment";
    const SUMMARY: &'static str = "What the server runs on.";
    const ANSWERS: &'static str = "The deployment.";
}

/// The health of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// What an operator should know although requests are answered, such as acknowledged work that
    /// the store has lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Asks whether the process answers.
#[derive(Clone, Copy, Debug)]
pub struct Liveness;

impl Operation for Liveness {
    type Target = Nothing;
    type Request = Nothing;
    type Reply = Health;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/healthz";
    const NAME: &'static str = "getLiveness";
    const GROUP: &'static str = "health";
    const SUMMARY: &'static str = "The process answers, and its store has not stopped.";
    const ANSWERS: &'static str = "It does.";
}

/// Asks whether requests should be sent.
#[derive(Clone, Copy, Debug)]
pub struct Readiness;

impl Operation for Readiness {
    type Target = Nothing;
    type Request = Nothing;
    type Reply = Health;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/readyz";
    const NAME: &'static str = "getReadiness";
    const GROUP: &'static str = "health";
    const SUMMARY: &'static str = "The store takes work and the server is not shutting down.";
    const ANSWERS: &'static str = "Send requests.";
}
