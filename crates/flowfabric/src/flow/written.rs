//! Times in the file of a flow, as people write them.

use serde_json::Value;

use crate::failure::Failure;

/// What a field says, if it is there. A number without its unit is no time, and is told so like any
/// other text.
pub(super) fn read<T>(
    field: &str,
    value: Option<&Value>,
    parse: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Failure> {
    let parsed = match value {
        None => return Ok(None),
        Some(Value::String(text)) => parse(text),
        Some(other) => parse(&other.to_string()),
    };
    parsed.map(Some).map_err(|rule| Failure::not_understood(format!("{field} {rule}")))
}
