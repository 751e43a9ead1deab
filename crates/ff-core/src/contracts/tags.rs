//! Tags: short labels that people and tools put on executions.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::argument;
use crate::error::{Code, EngineError};
use crate::limits;
use crate::wire_text::serde_as_text;

/// Labels of an execution.
pub type Tags = BTreeMap<String, String>;

/// A label to look for: its name, or `name=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagFilter {
    /// The name.
    pub name: String,
    /// Only with this value; with any if absent.
    pub value: Option<String>,
}

impl TagFilter {
    /// Checks the rules of names and values.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_key(&self.name)?;
        let bytes = self.value.as_ref().map_or(0, String::len);
        argument::check_bytes("tag", bytes, limits::TAG_VALUE_BYTES_MAX)
    }
}

impl FromStr for TagFilter {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<Self, EngineError> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let filter = Self { name: name.to_owned(), value };
        filter.validate().map(|()| filter)
    }
}

impl fmt::Display for TagFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

serde_as_text!(TagFilter, "the name of a label, or name=value");

/// The rules of tags, at creation and later: limited in number and size, and each key is a
/// lower-case word, a dot and a name, so that tools which label the same execution keep out of each
/// other's way.
pub fn check_tags(tags: &Tags) -> Result<(), EngineError> {
    argument::check_range("number of tags", tags.len() as u64, 0..=limits::TAGS_MAX)?;
    tags.iter().try_for_each(|(key, value)| {
        check_key(key)?;
        argument::check_bytes("tag value", value.len(), limits::TAG_VALUE_BYTES_MAX)
    })
}

fn check_key(key: &str) -> Result<(), EngineError> {
    argument::check_bytes("tag key", key.len(), limits::TAG_KEY_BYTES_MAX)?;
    if is_dotted(key) && !key.bytes().any(|byte| byte.is_ascii_control()) {
        return Ok(());
    }
    Err(EngineError::Refused { code: Code::InvalidTagKey, details: vec![key.to_owned()] })
}

fn is_dotted(key: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    key.split_once('.').is_some_and(|(owner, name)| {
        owner.starts_with(|letter: char| letter.is_ascii_lowercase())
            && owner.bytes().all(word)
            && !name.is_empty()
            && !name.starts_with('.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: &str, value: &str) -> Result<(), EngineError> {
        check_tags(&Tags::from([(key.to_owned(), value.to_owned())]))
    }

    #[test]
    fn a_key_needs_an_owner_before_the_dot() {
        for key in ["team.owner", "a.b", "cost_centre2.X", "a.b.c", "a.é"] {
            assert_eq!(check(key, ""), Ok(()), "{key}");
        }
        for key in ["", "team", "Team.owner", "2a.b", "_a.b", "a-b.c", ".b", "a.", "a..b", "a.\n"] {
            let error = check(key, "").expect_err(key);
            assert_eq!((error.code(), error.details().len()), (Some(Code::InvalidTagKey), 1));
        }
    }

    #[test]
    fn tags_are_limited_in_number_and_size() {
        assert_eq!(check(&format!("a.{}", "k".repeat(126)), &"v".repeat(1024)), Ok(()));
        assert!(check(&format!("a.{}", "k".repeat(127)), "").is_err());
        assert!(check("a.b", &"v".repeat(1025)).is_err());
        let many: Tags = (0..65).map(|n| (format!("n.{n}"), String::new())).collect();
        let error = check_tags(&many).expect_err("too many");
        assert_eq!(error.to_string(), "number of tags must be from 0 to 64, got 65");
    }
}
