//! Ids and names in paths.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use ff_core::error::EngineError;
use ff_core::types::{AttemptIndex, ExecutionRef, NameError};

use crate::app::App;
use crate::refusal::Refusal;

/// The execution a path is about. The braces of a whole id may be percent-encoded or not.
pub(crate) struct ExecutionPath(pub(crate) ExecutionRef);

impl FromRequestParts<Arc<App>> for ExecutionPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        let text = parameter(parts, app, 0).await?;
        text.parse()
            .map(Self)
            .map_err(|error| Refusal::invalid("execution_id", format!("is wrong: {error}")))
    }
}

/// The name a path is about.
pub(crate) struct NamePath<N>(pub(crate) N);

impl<N: FromStr<Err = NameError>> FromRequestParts<Arc<App>> for NamePath<N> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        let text = parameter(parts, app, 0).await?;
        Ok(Self(text.parse().map_err(EngineError::from)?))
    }
}

/// The attempt a path is about, behind its execution.
pub(crate) struct AttemptPath(pub(crate) AttemptIndex);

impl FromRequestParts<Arc<App>> for AttemptPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        let text = parameter(parts, app, 1).await?;
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.then(|| text.parse().ok()).flatten();
        let wrong = || Refusal::invalid("attempt_index", "must be the number of an attempt");
        number.map(|number| Self(AttemptIndex(number))).ok_or_else(wrong)
    }
}

/// A parameter of the path, by its place.
pub(super) async fn parameter(
    parts: &mut Parts,
    app: &Arc<App>,
    place: usize,
) -> Result<String, Refusal> {
    let wrong = || Refusal::invalid("path", "must be percent-encoded UTF-8");
    let parameters = RawPathParams::from_request_parts(parts, app).await.map_err(|_| wrong())?;
    let found = parameters.iter().nth(place).map(|(_, value)| value.to_owned());
    found.ok_or_else(wrong)
}
