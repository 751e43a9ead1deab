//! Times in the file of a flow, as people write them.

use std::time::Duration;

use ff_core::policy::Backoff;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::{policy, time};

/// `30s`, `2h` or `7d`.
pub(super) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    time::duration(&text(from)?).map(Some).map_err(D::Error::custom)
}

/// The same, as long as something may be kept.
pub(super) fn retention<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    policy::retention(&text(from)?).map(Some).map_err(D::Error::custom)
}

/// `1s`, or `1s..5m`.
pub(super) fn backoff<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Backoff>, D::Error> {
    policy::backoff(&text(from)?).map(Some).map_err(D::Error::custom)
}

/// A number without its unit is no time, and is told so like any other text.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::String(text) => text,
        other => other.to_string(),
    })
}
