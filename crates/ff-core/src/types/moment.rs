//! A point in time that a caller names.

use crate::argument;
use crate::error::EngineError;
use crate::limits;
use crate::types::TimestampMs;

/// A point in time of the store's clock. A pause is counted there too, from the moment the store
/// does what it is asked to: the caller's own clock has no part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// This time.
    At(TimestampMs),
    /// This many milliseconds from now.
    After(u64),
}

impl Moment {
    /// Checks that the moment lies in a sensible range.
    ///
    /// Zero is refused: it would read as 1970 here and as "none" elsewhere.
    pub fn check(self, field: &str) -> Result<(), EngineError> {
        match self {
            Self::At(time) => {
                argument::check_range(field, time.as_millis(), 1..=limits::TIMESTAMP_MS_MAX)
            }
            Self::After(millis) => argument::check_range(field, millis, 0..=limits::DELAY_MS_MAX),
        }
    }

    /// The two fields that it stands in on the wire: a time, or a pause in milliseconds.
    pub const fn into_fields(self) -> (Option<TimestampMs>, Option<u64>) {
        match self {
            Self::At(time) => (Some(time), None),
            Self::After(millis) => (None, Some(millis)),
        }
    }

    /// The moment that two fields name; at most one of them is given.
    pub fn of_fields(
        delay_until: Option<TimestampMs>,
        delay_ms: Option<u64>,
    ) -> Result<Option<Self>, EngineError> {
        let (field, moment) = match (delay_until, delay_ms) {
            (Some(_), Some(_)) => {
                let rule = "must not be given together with delay_until";
                return Err(EngineError::invalid("delay_ms", rule));
            }
            (Some(time), None) => ("delay_until", Self::At(time)),
            (None, Some(millis)) => ("delay_ms", Self::After(millis)),
            (None, None) => return Ok(None),
        };
        moment.check(field).map(|()| Some(moment))
    }
}

impl From<TimestampMs> for Moment {
    fn from(time: TimestampMs) -> Self {
        Self::At(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_begin_after_zero_and_pauses_may_be_empty() {
        for fine in [Moment::At(TimestampMs(1)), Moment::After(0), Moment::After(1000)] {
            assert_eq!(fine.check("delay_until"), Ok(()));
        }
        for wrong in [Moment::At(TimestampMs(0)), Moment::After(limits::DELAY_MS_MAX + 1)] {
            assert!(wrong.check("delay_until").is_err(), "{wrong:?}");
        }
    }
}
