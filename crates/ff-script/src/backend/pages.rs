//! Lists over partitions whose entries lie in an index of their own, page by page.

use ff_core::bytes::{decode_token, encode_token};
use ff_core::error::EngineError;
use ff_core::partition::{Partition, PartitionFamily};

use super::{CALLS_MAX, ScriptBackend};
use crate::call::Call;
use crate::host::Host;

/// What of a list is asked for.
pub(super) struct Span {
    /// Of the partitions of this family.
    pub(super) family: PartitionFamily,
    /// Only of this one.
    pub(super) partition: Option<u16>,
    /// From behind the page that ended here.
    pub(super) cursor: Option<String>,
    /// At most so many.
    pub(super) limit: u32,
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// A page, and where the next one begins. `call` asks one partition from a cursor of its own on
    /// for so many; `open` gives the entries it answered, and its cursor.
    pub(super) async fn list_from<C: Call, T>(
        &self,
        span: Span,
        call: impl Fn(String, u32) -> C,
        open: impl Fn(C::Reply) -> (Vec<T>, Option<String>),
    ) -> Result<(Vec<T>, Option<String>), EngineError> {
        span.partition.map_or(Ok(()), |index| self.config.flow_partition(index).map(drop))?;
        let last = match span.partition {
            Some(only) => only,
            None => self.config.count_for(span.family).saturating_sub(1),
        };
        let first = span.partition.unwrap_or(0);
        let mut at = Some(Position::first(span.cursor.as_deref(), first, last)?);
        let (mut entries, mut calls) = (Vec::new(), 0);
        while let Some(position) = at.take() {
            let wanted = span.limit - entries.len() as u32;
            if wanted == 0 || calls == CALLS_MAX {
                at = Some(position);
                break;
            }
            let asked = call(position.inside.clone().unwrap_or_default(), wanted);
            let partition = Partition { family: span.family, index: position.partition };
            let (found, next) = open(self.call(partition, asked).await?);
            entries.extend(found);
            at = position.next(next, last);
            calls += 1;
        }
        Ok((entries, at.map(|position| position.encode())))
    }
}

/// A place in a list over partitions: the partition, and the store's own cursor inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Position {
    partition: u16,
    inside: Option<String>,
}

impl Position {
    fn first(cursor: Option<&str>, first: u16, last: u16) -> Result<Self, EngineError> {
        let position = match cursor {
            Some(cursor) => Self::decode(cursor),
            None => Some(Self { partition: first, inside: None }),
        };
        position
            .filter(|position| (first..=last).contains(&position.partition))
            .ok_or_else(|| EngineError::invalid("cursor", "must be a next_cursor of this list"))
    }

    fn next(self, inside: Option<String>, last: u16) -> Option<Self> {
        if inside.is_some() {
            return Some(Self { inside, ..self });
        }
        (self.partition < last).then(|| Self { partition: self.partition + 1, inside: None })
    }

    fn encode(&self) -> String {
        let inside = self.inside.as_deref().unwrap_or_default();
        encode_token(format!("1.{}.{inside}", self.partition).as_bytes())
    }

    fn decode(text: &str) -> Option<Self> {
        let text = String::from_utf8(decode_token(text)?).ok()?;
        let mut parts = text.splitn(3, '.');
        let (version, partition, inside) = (parts.next()?, parts.next()?, parts.next()?);
        let inside = (!inside.is_empty()).then(|| inside.to_owned());
        (version == "1").then_some(Self { partition: partition.parse().ok()?, inside })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_its_text_and_nothing_else_is_one() {
        for inside in [None, Some("q:a.b|12|x".to_owned())] {
            let position = Position { partition: 255, inside };
            assert_eq!(Position::decode(&position.encode()), Some(position));
        }
        for wrong in ["", "x", "MS4", "Mi4xLg", "MS54Lg", "MS43MDAwMC4", "===", "\u{e9}"] {
            assert_eq!(Position::decode(wrong), None, "{wrong}");
        }
    }
}
