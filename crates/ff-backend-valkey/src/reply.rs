//! From the client library's replies, RESP2 or RESP3, to what a function answers.

use ff_script::value::Value;
use redis::{RedisError, Value as Reply};

/// Converts a reply. The types that only RESP3 has become what RESP2 would have sent.
pub(crate) fn to_value(reply: Reply) -> Result<Value, RedisError> {
    Ok(match reply {
        Reply::Nil | Reply::Boolean(false) => Value::Nil,
        Reply::Boolean(true) => Value::Int(1),
        Reply::Int(number) => Value::Int(number),
        Reply::BulkString(bytes) | Reply::BigNumber(bytes) => Value::Bytes(bytes),
        Reply::Okay => Value::Bytes(b"OK".to_vec()),
        Reply::SimpleString(text) | Reply::VerbatimString { text, .. } => {
            Value::Bytes(text.into_bytes())
        }
        Reply::Double(number) => Value::Bytes(number.to_string().into_bytes()),
        Reply::Array(items) | Reply::Set(items) | Reply::Push { data: items, .. } => list(items)?,
        Reply::Map(pairs) => list(pairs.into_iter().flat_map(|(key, value)| [key, value]))?,
        Reply::Attribute { data, .. } => to_value(*data)?,
        Reply::ServerError(error) => return Err(error.into()),
        // The client library may add types; none that a function of ours can answer.
        _ => return Err((redis::ErrorKind::UnexpectedReturnType, "an unknown reply type").into()),
    })
}

fn list(items: impl IntoIterator<Item = Reply>) -> Result<Value, RedisError> {
    items.into_iter().map(to_value).collect::<Result<_, _>>().map(Value::Array)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Value {
        Value::Bytes(text.as_bytes().to_vec())
    }

    fn convert(wire: &str) -> Result<Value, RedisError> {
        to_value(redis::parse_redis_value(wire.as_bytes()).expect("the wire form is right"))
    }

    #[test]
    fn every_form_has_one_value() {
        for (wire, value) in [
            ("$-1\r\n", Value::Nil),
            ("_\r\n", Value::Nil),
            ("#f\r\n", Value::Nil),
            ("#t\r\n", Value::Int(1)),
            (":-7\r\n", Value::Int(-7)),
            ("+OK\r\n", bytes("OK")),
            ("+PONG\r\n", bytes("PONG")),
            ("$0\r\n\r\n", bytes("")),
            (",1.5\r\n", bytes("1.5")),
            ("(123\r\n", bytes("123")),
            ("=5\r\ntxt:a\r\n", bytes("a")),
            ("*2\r\n:1\r\n*0\r\n", Value::Array(vec![Value::Int(1), Value::Array(vec![])])),
            ("~1\r\n:1\r\n", Value::Array(vec![Value::Int(1)])),
            ("%1\r\n+a\r\n:1\r\n", Value::Array(vec![bytes("a"), Value::Int(1)])),
        ] {
            assert_eq!(convert(wire).expect("it is no error"), value, "{wire:?}");
        }
    }

    #[test]
    fn an_error_is_an_error_at_any_depth() {
        assert!(convert("-OOM no\r\n").is_err());
        assert!(convert("*1\r\n*1\r\n-OOM no\r\n").is_err());
    }
}
