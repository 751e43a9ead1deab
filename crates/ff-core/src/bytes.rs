//! Bytes inside JSON: base64, plain text, or JSON that is kept as it was written.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::EngineError;

/// Bytes that travel as standard base64 with padding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base64(pub Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;

        impl serde::de::Visitor<'_> for Text {
            type Value = Base64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("base64 with padding")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Base64, E> {
                STANDARD
                    .decode(text)
                    .map(Base64)
                    .map_err(|error| E::custom(format!("must be base64 with padding ({error})")))
            }
        }

        from.deserialize_str(Text)
    }
}

/// Serde for a field of bytes that travels as [`Base64`].
pub mod base64_text {
    use super::{Base64, Deserialize, Deserializer, STANDARD, Serializer};
    use base64::Engine as _;

    /// Writes the bytes.
    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    /// Reads them back.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        Base64::deserialize(from).map(|bytes| bytes.0)
    }
}

/// Serde for a field of bytes that may be absent and travels as [`Base64`].
pub mod base64_option {
    use super::{Base64, Deserialize, Deserializer, STANDARD, Serialize, Serializer};
    use base64::Engine as _;

    /// Writes the bytes.
    pub fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        bytes.as_ref().map(|bytes| STANDARD.encode(bytes)).serialize(to)
    }

    /// Reads them back.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
        Ok(Option::<Base64>::deserialize(from)?.map(|bytes| bytes.0))
    }
}

/// Serde for a field whose text is JSON itself, and travels as that.
pub mod json_text {
    use super::{Deserialize, Deserializer, RawValue, Serialize, Serializer};

    /// What the store holds was checked when it came in; a damaged text is left out.
    pub fn is_none(text: &Option<String>) -> bool {
        raw(text).is_none()
    }

    fn raw(text: &Option<String>) -> Option<&RawValue> {
        text.as_deref().and_then(|text| serde_json::from_str(text).ok())
    }

    /// Writes the JSON as it is.
    pub fn serialize<S: Serializer>(text: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
        raw(text).serialize(to)
    }

    /// Reads it back as it is.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
        let json = Option::<Box<RawValue>>::deserialize(from)?;
        Ok(json.map(|json| json.get().to_owned()))
    }
}

/// The form of opaque tokens: base64 that needs no encoding in a path, a header or a shell.
pub fn encode_token(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads what [`encode_token`] wrote; none if it is something else.
pub fn decode_token(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Reads a JSON value that counts even if it is `null`, and keeps its text.
pub fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// The bytes given in one of three forms: at most one may be there, none means no bytes at all.
pub fn one_of(
    field: &str,
    base64: Option<Base64>,
    text: Option<String>,
    json: Option<&RawValue>,
) -> Result<Option<Vec<u8>>, EngineError> {
    match (base64, text, json) {
        (None, None, None) => Ok(None),
        (Some(Base64(bytes)), None, None) => Ok(Some(bytes)),
        (None, Some(text), None) => Ok(Some(text.into_bytes())),
        (None, None, Some(json)) => Ok(Some(compact(json.get()).into_bytes())),
        _ => Err(EngineError::invalid(
            field,
            format!("must be given once: as {field}, {field}_text or {field}_base64"),
        )),
    }
}

/// A JSON text without the blanks between its parts. Numbers, escapes and the order of keys stay
/// as they were written.
pub fn compact(json: &str) -> String {
    let mut compacted = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for letter in json.chars() {
        if !in_string && letter.is_ascii_whitespace() {
            continue;
        }
        compacted.push(letter);
        match letter {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ => {}
        }
    }
    compacted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_survive_base64() {
        let bytes = Base64((0..=255).collect());
        let json = serde_json::to_string(&bytes).expect("text");
        assert_eq!(serde_json::from_str::<Base64>(&json).expect("base64"), bytes);
        for wrong in ["\"a\"", "\"a===\"", "\"_-==\"", "7", "\"YQ\""] {
            assert!(serde_json::from_str::<Base64>(wrong).is_err(), "{wrong}");
        }
        assert_eq!(decode_token(&encode_token(&bytes.0)), Some(bytes.0));
        assert_eq!(decode_token("="), None);
    }

    #[test]
    fn compacting_removes_only_blanks_between_parts() {
        let json =
            " { \"b\" : [ 1.50 , 12345678901234567890123 ] ,\n\t\"a \\\" \\\\\" : \" x \" } ";
        assert_eq!(compact(json), "{\"b\":[1.50,12345678901234567890123],\"a \\\" \\\\\":\" x \"}");
    }

    #[test]
    fn bytes_come_in_one_form_only() {
        let json = serde_json::from_str::<Box<RawValue>>(" [1, 2] ").expect("json");
        assert_eq!(one_of("payload", None, None, None), Ok(None));
        assert_eq!(one_of("payload", None, None, Some(&json)), Ok(Some(b"[1,2]".to_vec())));
        assert_eq!(one_of("payload", None, Some("é".into()), None), Ok(Some("é".into())));
        let error = one_of("payload", Some(Base64(vec![])), Some(String::new()), None);
        assert!(error.expect_err("two").to_string().starts_with("payload must be given once"));
    }
}
