//! What a path names.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use ff_api::approval::LinkText;
use ff_core::contracts::{AttemptOf, EdgeOf};
use ff_core::error::EngineError;
use ff_core::operation::Nothing;
use ff_core::types::{
    BudgetId, ExecutionId, ExecutionKind, ExecutionRef, FlowId, LaneId, QuotaPolicyId, WorkerId,
    WorkerInstanceId,
};
use utoipa::ToSchema;

use super::path::{AttemptPath, ExecutionPath, NamePath, parameter};
use crate::app::App;
use crate::refusal::Refusal;

/// What a path may name.
pub(crate) trait Target: Sized + Send {
    /// Its schema.
    type Schema: ToSchema;
    /// Its description; none if the path names nothing.
    const ABOUT: Option<&'static str>;

    /// Reads it.
    fn read(
        parts: &mut Parts,
        app: &Arc<App>,
    ) -> impl Future<Output = Result<On<Self>, Refusal>> + Send;
}

/// What the path of a request names, and the name itself if it is an execution's.
pub(crate) struct On<T>(pub(crate) T, pub(crate) Option<ExecutionRef>);

impl<T: Target> FromRequestParts<Arc<App>> for On<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        T::read(parts, app).await
    }
}

impl Target for Nothing {
    type Schema = Self;
    const ABOUT: Option<&'static str> = None;

    async fn read(_: &mut Parts, _: &Arc<App>) -> Result<On<Self>, Refusal> {
        Ok(On(Self {}, None))
    }
}

impl Target for ExecutionId {
    type Schema = ExecutionRef;
    const ABOUT: Option<&'static str> = Some("The execution, percent-encoded.");

    async fn read(parts: &mut Parts, app: &Arc<App>) -> Result<On<Self>, Refusal> {
        let ExecutionPath(name) = ExecutionPath::from_request_parts(parts, app).await?;
        let id = name.resolve(&app.partitions()).map_err(EngineError::from)?;
        Ok(On(id, Some(name)))
    }
}

impl Target for LinkText {
    type Schema = String;
    const ABOUT: Option<&'static str> = Some("The link of an approver.");

    async fn read(parts: &mut Parts, app: &Arc<App>) -> Result<On<Self>, Refusal> {
        let text = parameter(parts, app, 0).await.unwrap_or_default();
        Ok(On(Self(text), None))
    }
}

impl Target for AttemptOf {
    type Schema = ExecutionRef;
    const ABOUT: Option<&'static str> = ExecutionId::ABOUT;

    async fn read(parts: &mut Parts, app: &Arc<App>) -> Result<On<Self>, Refusal> {
        let On(execution_id, name) = ExecutionId::read(parts, app).await?;
        let AttemptPath(attempt_index) = AttemptPath::from_request_parts(parts, app).await?;
        Ok(On(Self { execution_id, attempt_index }, name))
    }
}

impl Target for FlowId {
    type Schema = Self;
    const ABOUT: Option<&'static str> = Some("The flow.");

    async fn read(parts: &mut Parts, app: &Arc<App>) -> Result<On<Self>, Refusal> {
        Ok(On(id(parts, app, 0, "flow_id").await?, None))
    }
}

impl Target for BudgetId {
    type Schema = Self;
    const ABOUT: Option<&'static str> = Some("The budget.");

    async fn read(parts: &mut Parts, app: &Arc<App>) -> Result<On<Self>, Refusal> {
        Ok(On(id(parts, app, 0, "budget_id").await?, None))
    }
}

impl Target for QuotaPolicyId {
    type Schema = Self;
    const ABOUT: Option<&'static str> = Some("The quota policy.");

    async fn read(parts: &mut Parts, app: &Arc<App>) -> Result<On<Self>, Refusal> {
        Ok(On(id(parts, app, 0, "quota_policy_id").await?, None))
    }
}

impl Target for EdgeOf {
    type Schema = FlowId;
    const ABOUT: Option<&'static str> = FlowId::ABOUT;

    async fn read(parts: &mut Parts, app: &Arc<App>) -> Result<On<Self>, Refusal> {
        let flow_id = id(parts, app, 0, "flow_id").await?;
        let edge_id = id(parts, app, 1, "edge_id").await?;
        Ok(On(Self { flow_id, edge_id }, None))
    }
}

/// An id at a place of the path.
async fn id<T: FromStr<Err: Display>>(
    parts: &mut Parts,
    app: &Arc<App>,
    place: usize,
    name: &'static str,
) -> Result<T, Refusal> {
    let text = parameter(parts, app, place).await?;
    text.parse().map_err(|error| Refusal::invalid(name, format!("is wrong: {error}")))
}

impl Target for WorkerId {
    type Schema = Self;
    const ABOUT: Option<&'static str> = Some("The kind of worker, percent-encoded.");

    async fn read(parts: &mut Parts, app: &Arc<App>) -> Result<On<Self>, Refusal> {
        NamePath::from_request_parts(parts, app).await.map(|path| On(path.0, None))
    }
}

impl Target for WorkerInstanceId {
    type Schema = Self;
    const ABOUT: Option<&'static str> = Some("The worker's instance id, percent-encoded.");

    async fn read(parts: &mut Parts, app: &Arc<App>) -> Result<On<Self>, Refusal> {
        NamePath::from_request_parts(parts, app).await.map(|path| On(path.0, None))
    }
}

impl Target for LaneId {
    type Schema = Self;
    const ABOUT: Option<&'static str> = Some("The lane, percent-encoded.");

    async fn read(parts: &mut Parts, app: &Arc<App>) -> Result<On<Self>, Refusal> {
        NamePath::from_request_parts(parts, app).await.map(|path| On(path.0, None))
    }
}

impl Target for ExecutionKind {
    type Schema = Self;
    const ABOUT: Option<&'static str> = Some("The kind, percent-encoded.");

    async fn read(parts: &mut Parts, app: &Arc<App>) -> Result<On<Self>, Refusal> {
        NamePath::from_request_parts(parts, app).await.map(|path| On(path.0, None))
    }
}
