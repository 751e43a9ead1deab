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
