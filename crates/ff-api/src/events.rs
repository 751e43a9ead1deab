//! Server-sent events: how what is followed is told, and read back. The output of executions is
//! here, flows are in [`flow_events`](crate::flow_events).

use std::sync::Arc;

use ff_core::bytes::json_text;
use ff_core::contracts::{Output, OutputCursor, StreamFrame};
use ff_core::types::{AttemptIndex, TimestampMs};
use serde::{Deserialize, Serialize};

/// A line that keeps a silent connection alive.
pub const HEARTBEAT: &str = ":\n\n";

/// The longest event: a frame of the largest size, all of it escaped.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// What an event says besides its attempt and frame, which are its id.
#[derive(Serialize, Deserialize)]
struct Attempt {
    attempt_index: AttemptIndex,
}

#[derive(Serialize, Deserialize)]
struct Summary {
    sequence: u64,
    #[serde(with = "json_text")]
    document: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Skipped {
    sequence: u64,
}

#[serde_with_macros::skip_serializing_none]
#[derive(Serialize, Deserialize)]
struct End {
    closed_at: Option<TimestampMs>,
    closed_reason: Option<String>,
}

/// What is told by events.
pub trait Told: Sized {
    /// Where it stands: a client that sends this back is told what follows.
    fn position(&self) -> String;

    /// True for the last one.
    fn is_last(&self) -> bool;

    /// The name of its event, and what that says.
    fn tell(&self) -> (&'static str, String);

    /// Reads an event at a position; none if it is not known.
    fn read(position: &str, event: &str, data: &str) -> Result<Option<Self>, EventError>;
}

/// An event as it is sent.
pub fn encode<T: Told>(told: &T) -> String {
    let (event, data) = told.tell();
    // A document may have line breaks; JSON has none that count outside of its strings.
    let data = data.replace(['\r', '\n'], " ");
    format!("id: {}\nevent: {event}\ndata: {data}\n\n", told.position())
}

impl Told for Output {
    fn position(&self) -> String {
        self.cursor().to_string()
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::End { .. })
    }

    fn tell(&self) -> (&'static str, String) {
        match self {
            Self::Attempt { attempt_index } => {
                ("attempt", json(&Attempt { attempt_index: *attempt_index }))
            }
            Self::Summary { sequence, document, .. } => {
                let document = Some(document.clone());
                ("summary", json(&Summary { sequence: *sequence, document }))
            }
            Self::Skipped { sequence, .. } => ("skipped", json(&Skipped { sequence: *sequence })),
            Self::Frame { frame, .. } => ("frame", json(frame.as_ref())),
            Self::End { closed_at, closed_reason, .. } => {
                let closed_reason = closed_reason.clone();
                ("end", json(&End { closed_at: *closed_at, closed_reason }))
            }
            // An event of a later version, which a client of this one does not know.
            _ => ("unknown", "{}".to_owned()),
        }
    }

    fn read(position: &str, event: &str, data: &str) -> Result<Option<Self>, EventError> {
        let cursor = position.parse().map_err(|error| malformed(event, error))?;
        let OutputCursor::Behind { attempt_index, sequence } = cursor else {
            return Err(malformed(event, "its id names no frame"));
        };
        Ok(Some(match event {
            "attempt" => {
                let Attempt { attempt_index } = parse(event, data)?;
                Self::Attempt { attempt_index }
            }
            "summary" => {
                let Summary { sequence, document } = parse(event, data)?;
                let document = document.unwrap_or_else(|| "null".to_owned());
                Self::Summary { attempt_index, sequence, document }
            }
            "skipped" => {
                let Skipped { sequence } = parse(event, data)?;
                Self::Skipped { attempt_index, sequence }
            }
            "frame" => {
                let frame: StreamFrame = parse(event, data)?;
                Self::Frame { attempt_index, frame: Arc::new(frame) }
            }
            "end" => {
                let End { closed_at, closed_reason } = parse(event, data)?;
                Self::End { attempt_index, sequence, closed_at, closed_reason }
            }
            _ => return Ok(None),
        }))
    }
}

/// What an event cannot be read as.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// There is no end to it.
    #[error("an event has more than {EVENT_BYTES_MAX} bytes")]
    TooLong,
    /// Its data is something else.
    #[error("an event {event:?} cannot be read: {message}")]
    Malformed {
        /// The event.
        event: String,
        /// Why.
        message: String,
    },
}

pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Reads events from what arrives, in whatever pieces.
#[derive(Default)]
pub struct Decoder {
    rest: Vec<u8>,
    /// How much of the rest was looked at: it has no line end.
    looked: usize,
    id: String,
    event: String,
    data: String,
}

impl Decoder {
    /// Takes what arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// The next event that is there as a whole. Events that are not known are left out.
    pub fn next_told<T: Told>(&mut self) -> Result<Option<T>, EventError> {
        while let Some(line) = self.line()? {
            if !line.is_empty() {
                self.field(&line)?;
                continue;
            }
            let (event, data) = (std::mem::take(&mut self.event), std::mem::take(&mut self.data));
            if event.is_empty() || data.is_empty() {
                continue;
            }
            let Some(told) = T::read(&self.id, &event, &data)? else { continue };
            return Ok(Some(told));
        }
        Ok(None)
    }

    fn line(&mut self) -> Result<Option<String>, EventError> {
        let Some(length) = self.rest[self.looked..].iter().position(|byte| *byte == b'\n') else {
            self.looked = self.rest.len();
            let too_long = self.looked > EVENT_BYTES_MAX;
            return if too_long { Err(EventError::TooLong) } else { Ok(None) };
        };
        let mut line: Vec<u8> = self.rest.drain(..=self.looked + length).collect();
        self.looked = 0;
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(Some(String::from_utf8_lossy(&line).into_owned()))
    }

    fn field(&mut self, line: &str) -> Result<(), EventError> {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => value.clone_into(&mut self.id),
            "event" => value.clone_into(&mut self.event),
            "data" => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            // A comment, or something for others.
            _ => {}
        }
        if self.data.len() > EVENT_BYTES_MAX { Err(EventError::TooLong) } else { Ok(()) }
    }
}

/// What an event says.
pub(crate) fn parse<'a, T: Deserialize<'a>>(event: &str, data: &'a str) -> Result<T, EventError> {
    serde_json::from_str(data).map_err(|error| malformed(event, error))
}

pub(crate) fn malformed(event: &str, message: impl ToString) -> EventError {
    let event = event.chars().take(64).collect();
    EventError::Malformed { event, message: message.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs() -> Vec<Output> {
        let attempt_index = AttemptIndex(2);
        let at = TimestampMs(1_800_000_000_000);
        let frame = |n: u64, bytes: &[u8]| Output::Frame {
            attempt_index,
            frame: Arc::new(StreamFrame::new(
                format!("{n}-0"),
                at,
                "token".to_owned(),
                Some("c".to_owned()),
                bytes.to_vec(),
            )),
        };
        let document = r#"{"n":1.50e3, "empty":[]}"#.to_owned();
        vec![
            Output::Attempt { attempt_index },
            Output::Skipped { attempt_index, sequence: 4 },
            Output::Summary { attempt_index, sequence: 7, document },
            frame(8, b"two\nlines\r\n\n: and more"),
            frame(9, &(0..=255).collect::<Vec<u8>>()),
            Output::End {
                attempt_index,
                sequence: 9,
                closed_at: Some(at),
                closed_reason: Some("attempt_success".to_owned()),
            },
        ]
    }

    #[test]
    fn events_survive_the_wire_in_whatever_pieces_they_arrive() {
        let sent: String = outputs().iter().map(|it| encode(it) + HEARTBEAT).collect();
        for size in [1, 2, 7, 64, sent.len()] {
            let (mut decoder, mut read) = (Decoder::default(), Vec::<Output>::new());
            for piece in sent.as_bytes().chunks(size) {
                decoder.push(piece);
                while let Some(output) = decoder.next_told().expect("an event") {
                    read.push(output);
                }
            }
            assert_eq!(read, outputs(), "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_not_known_is_left_out_and_what_is_wrong_is_told() {
        let next = |text: &str| {
            let mut decoder = Decoder::default();
            decoder.push(text.as_bytes());
            decoder.next_told::<Output>()
        };
        assert_eq!(next("id: 0-1\nevent: later\ndata: {}\n\n"), Ok(None));
        assert_eq!(next("data: {}\n\n"), Ok(None));
        assert_eq!(next("id: 0-1\r\nevent: frame\r\ndata: "), Ok(None));
        for wrong in ["id: 0-1\nevent: frame\ndata: {\n\n", "id: x\nevent: end\ndata: {}\n\n"] {
            assert!(matches!(next(wrong), Err(EventError::Malformed { .. })), "{wrong}");
        }
        assert_eq!(next(&"x".repeat(EVENT_BYTES_MAX + 1)), Err(EventError::TooLong));
    }
}
