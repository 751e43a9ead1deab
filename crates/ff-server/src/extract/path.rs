//! Ids and names in paths.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use ff_core::error::EngineError;
use ff_core::types::{ExecutionId, NameError};

use crate::app::App;
use crate::refusal::Refusal;

/// The execution a path is about. Its braces may be percent-encoded or not.
pub(crate) struct ExecutionPath(pub(crate) ExecutionId);

impl FromRequestParts<Arc<App>> for ExecutionPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        let text = only_parameter(parts, app).await?;
        let id = ExecutionId::parse(&text)
            .map_err(|error| Refusal::invalid("execution_id", format!("is wrong: {error}")))?;
        id.check(&app.partitions()).map_err(EngineError::from)?;
        Ok(Self(id))
    }
}

/// The name a path is about.
pub(crate) struct NamePath<N>(pub(crate) N);

impl<N: FromStr<Err = NameError>> FromRequestParts<Arc<App>> for NamePath<N> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        let text = only_parameter(parts, app).await?;
        Ok(Self(text.parse().map_err(EngineError::from)?))
    }
}

/// Our paths have one parameter at most.
async fn only_parameter(parts: &mut Parts, app: &Arc<App>) -> Result<String, Refusal> {
    let wrong = || Refusal::invalid("path", "must be percent-encoded UTF-8");
    let parameters = RawPathParams::from_request_parts(parts, app).await.map_err(|_| wrong())?;
    let first = parameters.iter().next().map(|(_, value)| value.to_owned());
    first.ok_or_else(wrong)
}
