//! A position in the output of an attempt.

use std::fmt;
use std::str::FromStr;

use crate::limits;
use crate::wire_text::serde_as_text;

/// A position in the output of an attempt. Frames are numbered from 1; the frame with number 7 is
/// at `7-0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StreamCursor {
    /// Before the first frame: `start`.
    Start,
    /// After the last frame: `end`.
    End,
    /// The id of a frame: digits, or digits-hyphen-digits.
    At(String),
}

impl StreamCursor {
    /// Where a reader that wants everything goes on after: `0-0`.
    pub fn from_beginning() -> Self {
        Self::At("0-0".to_owned())
    }

    /// The position of a frame.
    pub fn at_sequence(sequence: u64) -> Self {
        Self::At(format!("{sequence}-0"))
    }

    /// True for the id of a frame.
    pub const fn is_concrete(&self) -> bool {
        matches!(self, Self::At(_))
    }

    /// The first frame at this position or behind it.
    pub fn first_from(&self) -> u64 {
        match self {
            Self::Start => 0,
            Self::End => limits::FRAME_SEQUENCE_MAX,
            Self::At(text) => {
                let (whole, part) = split(text);
                capped(whole.saturating_add(u64::from(part > 0)))
            }
        }
    }

    /// The first frame behind this position.
    pub fn first_after(&self) -> u64 {
        match self {
            Self::At(text) => capped(split(text).0.saturating_add(1)),
            Self::Start | Self::End => self.first_from(),
        }
    }

    /// The last frame at this position or before it; none if all are.
    pub fn last_until(&self) -> Option<u64> {
        match self {
            Self::Start => Some(0),
            Self::End => None,
            Self::At(text) => Some(capped(split(text).0)),
        }
    }
}

/// The two numbers of an id. What is too large for a number is behind every frame.
fn split(text: &str) -> (u64, u64) {
    let (whole, part) = text.split_once('-').unwrap_or((text, "0"));
    let number = |digits: &str| digits.parse().unwrap_or(u64::MAX);
    (number(whole), number(part))
}

fn capped(sequence: u64) -> u64 {
    sequence.min(limits::FRAME_SEQUENCE_MAX)
}

/// Why a text is no position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamCursorParseError {
    /// There is no text.
    #[error("a stream cursor must not be empty: use start, end or the id of a frame")]
    Empty,
    /// A marker of the store itself.
    #[error("a stream cursor is not {0:?}: use start or end")]
    BareMarkerRejected(String),
    /// Anything else.
    #[error("stream cursor {0:?} is not start, end, digits or digits-digits")]
    Malformed(String),
}

impl FromStr for StreamCursor {
    type Err = StreamCursorParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" => Err(StreamCursorParseError::Empty),
            "-" | "+" => Err(StreamCursorParseError::BareMarkerRejected(text.to_owned())),
            "start" => Ok(Self::Start),
            "end" => Ok(Self::End),
            _ if is_id(text) => Ok(Self::At(text.to_owned())),
            _ => Err(StreamCursorParseError::Malformed(text.chars().take(64).collect())),
        }
    }
}

fn is_id(text: &str) -> bool {
    let (whole, part) = text.split_once('-').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.len() as u64 <= limits::EVENT_CURSOR_BYTES_MAX && digits(whole) && digits(part)
}

impl fmt::Display for StreamCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Start => "start",
            Self::End => "end",
            Self::At(id) => id,
        })
    }
}

serde_as_text!(StreamCursor, "a stream cursor");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text() {
        for text in ["start", "end", "0", "7", "7-0", "18446744073709551615-18446744073709551615"] {
            let cursor: StreamCursor = text.parse().expect(text);
            assert_eq!(cursor.to_string(), text);
            assert_eq!(
                cursor.is_concrete(),
                text.starts_with(|first: char| first.is_ascii_digit())
            );
        }
        assert_eq!(StreamCursor::from_beginning(), StreamCursor::At("0-0".to_owned()));
    }

    #[test]
    fn what_is_no_cursor_is_refused_by_its_kind() {
        use StreamCursorParseError as Wrong;
        let parse = |text: &str| text.parse::<StreamCursor>();
        assert_eq!(parse(""), Err(Wrong::Empty));
        for marker in ["-", "+"] {
            assert_eq!(parse(marker), Err(Wrong::BareMarkerRejected(marker.to_owned())));
        }
        for text in ["Start", "END", "7-", "-7", "7-0-0", "(7", "٧", "7 ", "0x7", "*", "$"] {
            assert_eq!(parse(text), Err(Wrong::Malformed(text.to_owned())), "{text}");
        }
        assert!(parse(&"7".repeat(49)).is_err());
    }

    #[test]
    fn positions_between_frames_are_rounded_towards_the_range() {
        let at = |text: &str| StreamCursor::At(text.to_owned());
        for (cursor, from, after, until) in [
            (at("0-0"), 0, 1, Some(0)),
            (at("7"), 7, 8, Some(7)),
            (at("7-0"), 7, 8, Some(7)),
            (at("7-3"), 8, 8, Some(7)),
            (StreamCursor::Start, 0, 0, Some(0)),
        ] {
            assert_eq!(cursor.first_from(), from, "{cursor}");
            assert_eq!(cursor.first_after(), after, "{cursor}");
            assert_eq!(cursor.last_until(), until, "{cursor}");
        }
        let far = at("99999999999999999999-1");
        assert_eq!(far.first_from(), limits::FRAME_SEQUENCE_MAX);
        assert_eq!(far.first_after(), limits::FRAME_SEQUENCE_MAX);
        assert_eq!(StreamCursor::End.last_until(), None);
    }
}
