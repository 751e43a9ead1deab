//! The longest call that Valkey ran, by its own slow log.

use std::sync::Arc;

use ff_backend_valkey::ValkeyHost;
use ff_script::value::Value;

use crate::Failure;

/// What is shorter is not logged.
const LONG_US: &[u8] = b"200";
const ENTRIES: &[u8] = b"10000";

/// Lets every master log calls that take long, and begins anew.
pub(crate) async fn begin(host: &Arc<ValkeyHost>) -> Result<(), Failure> {
    for (name, value) in [("slowlog-log-slower-than", LONG_US), ("slowlog-max-len", ENTRIES)] {
        host.raw_on_all_masters(&[b"CONFIG", b"SET", name.as_bytes(), value]).await?;
    }
    host.raw_on_all_masters(&[b"SLOWLOG", b"RESET"]).await?;
    Ok(())
}

/// The longest function call since then, in microseconds; none if all were short.
pub(crate) async fn longest_us(host: &Arc<ValkeyHost>) -> Result<Option<f64>, Failure> {
    let answers = host.raw_on_all_masters(&[b"SLOWLOG", b"GET", ENTRIES]).await?;
    let longest = answers.iter().filter_map(|(_, entries)| longest(entries)).max();
    Ok(longest.map(|us| us as f64))
}

fn longest(entries: &Value) -> Option<i64> {
    let Value::Array(entries) = entries else { return None };
    entries.iter().filter_map(function_us).max()
}

/// An entry is a number, a time, a duration and the words of the command.
fn function_us(entry: &Value) -> Option<i64> {
    let Value::Array(parts) = entry else { return None };
    let (Value::Int(us), Value::Array(words)) = (parts.get(2)?, parts.get(3)?) else {
        return None;
    };
    let is_call = matches!(words.first(), Some(Value::Bytes(word)) if word.starts_with(b"FCALL"));
    is_call.then_some(*us)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(us: i64, word: &[u8]) -> Value {
        let words = Value::Array(vec![Value::Bytes(word.to_vec())]);
        Value::Array(vec![Value::Int(1), Value::Int(2), Value::Int(us), words])
    }

    #[test]
    fn the_longest_call_of_a_function_is_found() {
        let entries = vec![entry(300, b"FCALL"), entry(900, b"INFO"), entry(400, b"FCALL_RO")];
        assert_eq!(longest(&Value::Array(entries)), Some(400));
        assert_eq!(longest(&Value::Array(Vec::new())), None);
    }
}
