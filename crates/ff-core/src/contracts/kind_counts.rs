//! How many executions there are of which kind.

use serde::{Deserialize, Serialize};

use crate::ToSchema;
use crate::operation::{Method, Nothing, Operation};
use crate::state::PublicState;
use crate::types::ExecutionKind;

/// Counts executions by kind and state.
#[derive(Clone, Copy, Debug)]
pub struct CountKinds;

impl Operation for CountKinds {
    type Target = Nothing;
    type Request = Nothing;
    type Reply = KindCounts;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/stats/kinds";
    const NAME: &'static str = "countKinds";
    const GROUP: &'static str = "deployment";
    const SUMMARY: &'static str = "How many executions of which kind are in which state.";
    const ANSWERS: &'static str = "The counts, all partitions together.";
    const ABOUT: &'static str = "Exact while there are some ten thousands; where there are more, \
        some of them are looked at, spread evenly, and stand for the rest: then exact is false. \
        The totals of /v1/stats are always exact.";
}

/// How many executions of which kind are in which state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KindCounts {
    /// The counts, by kind and state; what there is none of is left out.
    pub counts: Vec<KindCount>,
    /// False if some of the numbers are estimates.
    pub exact: bool,
}

/// How many executions of one kind are in one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KindCount {
    /// The kind.
    pub kind: ExecutionKind,
    /// The state.
    pub public_state: PublicState,
    /// How many.
    pub count: u64,
}
