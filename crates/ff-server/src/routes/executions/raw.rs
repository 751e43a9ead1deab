//! Submissions as raw bytes: the body is the payload, everything else stands in headers.

use std::str::FromStr;

use axum::body::Bytes;
use axum::http::HeaderMap;
use ff_api::bytes::Base64;
use ff_api::create::CreateExecution;
use ff_api::headers;
use ff_api::problem::{HttpCode, Problem};
use ff_core::error::EngineError;
use ff_core::policy::ExecutionPolicy;
use ff_core::types::TimestampMs;

use crate::body::Kind;
use crate::extract::header;
use crate::refusal::Refusal;

/// Refuses bodies that are neither JSON nor announced as raw, and JSON that is announced as both.
pub(super) fn check(kind: Kind, headers: &HeaderMap) -> Result<(), Refusal> {
    let about_raw = headers::OF_RAW.into_iter().find(|name| headers.contains_key(*name));
    match (kind, about_raw) {
        (Kind::Json, None) => Ok(()),
        (Kind::Json, Some(name)) => {
            let rule = "is for raw bytes: send application/octet-stream, or say it in the JSON";
            Err(Refusal::invalid(name, rule))
        }
        (Kind::Other | Kind::Unsaid, _) if headers.contains_key(headers::KIND) => Ok(()),
        (Kind::Other | Kind::Unsaid, _) => Err(Problem::new(
            HttpCode::UnsupportedMediaType,
            "send application/json, or application/octet-stream with a header FlowFabric-Kind",
        )
        .about("Content-Type")
        .into()),
    }
}

/// The submission that headers and body make.
pub(super) fn submission(headers: &HeaderMap, payload: Bytes) -> Result<CreateExecution, Refusal> {
    let kind = required(headers, headers::KIND)?;
    Ok(CreateExecution {
        execution_id: parsed(headers, headers::EXECUTION_ID)?,
        namespace: parsed(headers, headers::NAMESPACE)?,
        lane: parsed(headers, headers::LANE)?,
        priority: parsed(headers, headers::PRIORITY)?,
        creator: header(headers, headers::CREATOR)?.unwrap_or_default().to_owned(),
        policy: policy(headers)?,
        payload_base64: Some(Base64(payload.into())),
        delay_until: time(headers, headers::DELAY_UNTIL)?,
        delay_ms: parsed(headers, headers::DELAY_MS)?,
        deadline_at: time(headers, headers::DEADLINE_AT)?,
        tags: json(headers, headers::TAGS)?.unwrap_or_default(),
        ..CreateExecution::new(kind)
    })
}

fn required<T: FromStr<Err: std::fmt::Display>>(
    headers: &HeaderMap,
    name: &'static str,
) -> Result<T, Refusal> {
    parsed(headers, name)?.ok_or_else(|| Refusal::invalid(name, "must be given"))
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(
    headers: &HeaderMap,
    name: &'static str,
) -> Result<Option<T>, Refusal> {
    let Some(text) = header(headers, name)? else { return Ok(None) };
    let parsed = text.parse().map(Some);
    parsed.map_err(|error| Refusal::invalid(name, format!("is wrong: {error}")))
}

fn time(headers: &HeaderMap, name: &'static str) -> Result<Option<TimestampMs>, Refusal> {
    parsed(headers, name).map(|millis| millis.map(TimestampMs::new))
}

fn json<T: serde::de::DeserializeOwned>(
    headers: &HeaderMap,
    name: &'static str,
) -> Result<Option<T>, Refusal> {
    let Some(text) = header(headers, name)? else { return Ok(None) };
    let parsed = serde_json::from_str(text).map(Some);
    parsed.map_err(|error| Refusal::invalid(name, format!("is wrong: {error}")))
}

fn policy(headers: &HeaderMap) -> Result<Option<ExecutionPolicy>, Refusal> {
    let Some(text) = header(headers, headers::POLICY)? else { return Ok(None) };
    let policy = ExecutionPolicy::from_json(text.as_bytes());
    policy.map(Some).map_err(|error| EngineError::from(error).into())
}
