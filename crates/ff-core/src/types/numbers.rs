//! Counters and times, each a type of its own so that one cannot be passed for another.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($inner:ty);)*) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize,
            Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// Wraps the number.
            pub const fn new(number: $inner) -> Self {
                Self(number)
            }

            /// The number.
            pub const fn get(self) -> $inner {
                self.0
            }

            /// The following one; stays at the largest.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )*};
}

numbers! {
    /// Fencing counter: 0 before the first lease, one more with every new lease, unchanged by a
    /// renewal.
    LeaseEpoch(u64);
    /// Zero-based number of an attempt within its execution.
    AttemptIndex(u32);
    /// Milliseconds since the Unix epoch, by the store's clock.
    TimestampMs(u64);
}

impl TimestampMs {
    /// The time this many milliseconds after the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// This time and a duration on; stays at the largest.
    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// How long it takes from this time until another; zero if that is not later.
    pub const fn millis_until(self, later: Self) -> u64 {
        later.0.saturating_sub(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_bare_in_json() {
        assert_eq!(serde_json::to_string(&LeaseEpoch(7)).expect("serialises"), "7");
        assert_eq!(serde_json::from_str::<TimestampMs>("12").expect("number"), TimestampMs(12));
        assert!(serde_json::from_str::<AttemptIndex>("-1").is_err());
        assert!(serde_json::from_str::<AttemptIndex>("\"1\"").is_err());
    }

    #[test]
    fn counters_are_ordered_and_never_wrap() {
        assert!(LeaseEpoch(1) < LeaseEpoch(1).next());
        assert_eq!(AttemptIndex(u32::MAX).next(), AttemptIndex(u32::MAX));
        assert_eq!(TimestampMs(9).millis_until(TimestampMs(4)), 0);
        assert_eq!(TimestampMs(4).plus_millis(5).millis_until(TimestampMs(12)), 3);
    }
}
