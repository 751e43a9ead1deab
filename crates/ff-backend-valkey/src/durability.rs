//! When a call that changes something counts as done.

use std::fmt;
use std::str::FromStr;

/// When a call that changes something counts as done, and is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the primary has done it. A replica that takes over may lack the last such calls.
    #[default]
    Primary,
    /// When a replica has confirmed that it has it, too. What no replica confirms in time is
    /// answered with `not_replicated`: it is done, but not safe, and may be sent again.
    Replica,
}

/// A durability that there is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("durability is primary or replica")]
pub struct UnknownDurability;

impl FromStr for Durability {
    type Err = UnknownDurability;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "primary" => Ok(Self::Primary),
            "replica" => Ok(Self::Replica),
            _ => Err(UnknownDurability),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Primary => "primary",
            Self::Replica => "replica",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        for durability in [Durability::Primary, Durability::Replica] {
            assert_eq!(durability.to_string().parse(), Ok(durability));
        }
        assert_eq!("disk".parse::<Durability>(), Err(UnknownDurability));
    }
}
