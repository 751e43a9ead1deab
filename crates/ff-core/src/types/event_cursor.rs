//! A position in one partition's event log.

use std::fmt;
use std::str::FromStr;

use crate::limits;
use crate::wire_text::serde_as_text;

/// A position in one partition's event log. Opaque: only the store that gave it understands it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventCursor(Box<str>);

impl EventCursor {
    /// Takes a position as the store wrote it: digits, letters and hyphens.
    pub fn parse(text: &str) -> Result<Self, EventCursorParseError> {
        text.parse()
    }

    /// The position as the store wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that cannot be a position in an event log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "event cursor {0:?} is not 1 to {max} digits, letters and hyphens",
    max = limits::EVENT_CURSOR_BYTES_MAX
)]
pub struct EventCursorParseError(pub String);

impl FromStr for EventCursor {
    type Err = EventCursorParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let sized = (1..=limits::EVENT_CURSOR_BYTES_MAX).contains(&(text.len() as u64));
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let invalid = || EventCursorParseError(text.to_owned());
        if sized && plain { Ok(Self(text.into())) } else { Err(invalid()) }
    }
}

impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

serde_as_text!(EventCursor, "an event cursor");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_short_texts_are_cursors() {
        for text in ["0", "1700000000000-12", "abc"] {
            assert_eq!(EventCursor::parse(text).expect(text).as_str(), text);
        }
        for text in ["", "a=b", "1,2", "-\n", "1 2", &"1".repeat(49)] {
            assert_eq!(EventCursor::parse(text), Err(EventCursorParseError(text.to_owned())));
        }
    }
}
