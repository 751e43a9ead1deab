//! The settings of lanes and the defaults of kinds, for operators.

use ff_core::contracts::{
    KindChanged, KindList, KindRecord, LaneChanged, LaneDepth, LaneList, LaneQuery, SetDefaults,
    SetKind, SetLane,
};
use ff_core::types::{ExecutionKind, LaneId};

use super::Client;
use crate::error::{Context as _, SdkError};

impl Client {
    /// The lanes in use or with settings, by name, and how much waits in them.
    pub async fn list_lanes(&self, query: LaneQuery) -> Result<LaneList, SdkError> {
        self.engine().list_lanes(query).await.context("list_lanes")
    }

    /// How much waits in a lane, and its settings. A lane that nobody used is empty.
    pub async fn describe_lane(&self, lane: &LaneId) -> Result<LaneDepth, SdkError> {
        self.engine().describe_lane(lane.clone()).await.context("describe_lane")
    }

    /// Changes settings of a lane; what is absent stays as it is. It can be repeated, and carries
    /// on where a partition could not be reached.
    ///
    /// ```
    /// # async fn example(client: ff_sdk::Client) -> Result<(), ff_sdk::SdkError> {
    /// use ff_sdk::{LaneId, LaneOrder, SetLane};
    ///
    /// let lane = LaneId::default();
    /// let fair = SetLane { order: Some(LaneOrder::Fair), ..SetLane::default() };
    /// client.set_lane(&lane, fair).await?;
    /// client.set_lane(&lane, SetLane::paused(true)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_lane(&self, lane: &LaneId, request: SetLane) -> Result<LaneChanged, SdkError> {
        self.engine().set_lane(lane.clone(), request).await.context("set_lane")
    }

    /// The kinds that have defaults, and the deployment's defaults.
    pub async fn list_kinds(&self) -> Result<KindList, SdkError> {
        self.engine().list_kinds().await.context("list_kinds")
    }

    /// The defaults of a kind.
    pub async fn describe_kind(&self, kind: &ExecutionKind) -> Result<KindRecord, SdkError> {
        self.engine().describe_kind(kind.clone()).await.context("describe_kind")
    }

    /// Sets the defaults of a kind, or pins or frees them.
    pub async fn set_kind(
        &self,
        kind: &ExecutionKind,
        request: SetKind,
    ) -> Result<KindChanged, SdkError> {
        self.engine().set_kind(kind.clone(), request).await.context("set_kind")
    }

    /// Sets the policy that holds where neither a submission nor its kind says anything.
    pub async fn set_defaults(&self, request: SetDefaults) -> Result<KindChanged, SdkError> {
        self.engine().set_defaults(request).await.context("set_defaults")
    }
}
