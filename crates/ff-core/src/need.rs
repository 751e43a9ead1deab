//! Needs: what an execution asks of the worker that takes it. What can be claimed is queued by lane
//! and need, so that a worker looks only at what it may take.

use std::fmt;
use std::str::FromStr;

use crate::capability::CapabilitySet;
use crate::types::{ExecutionKind, Namespace};

/// What an execution asks of a worker. Written as `namespace:kind`, and behind another colon the
/// capabilities it requires.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Need {
    /// Whose work it is.
    pub namespace: Namespace,
    /// The handler that runs it.
    pub kind: ExecutionKind,
    /// What the worker must be able to do.
    pub capabilities: CapabilitySet,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.namespace, self.kind)?;
        if self.capabilities.is_empty() {
            Ok(())
        } else {
            write!(f, ":{}", self.capabilities.csv())
        }
    }
}

/// A text that is no need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a need is a namespace, a kind and perhaps capabilities, joined by colons")]
pub struct NeedParseError;

impl FromStr for Need {
    type Err = NeedParseError;

    fn from_str(text: &str) -> Result<Self, NeedParseError> {
        let mut parts = text.splitn(3, ':');
        let mut next = || parts.next().ok_or(NeedParseError);
        let namespace = Namespace::try_new(next()?).map_err(|_| NeedParseError)?;
        let kind = ExecutionKind::try_new(next()?).map_err(|_| NeedParseError)?;
        let tokens = next().ok().into_iter().flat_map(|csv| csv.split(','));
        let capabilities = CapabilitySet::try_new(tokens).map_err(|_| NeedParseError)?;
        Ok(Self { namespace, kind, capabilities })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_is_read_back_as_it_was_written() {
        for text in ["default:mail", "shop:render:gpu", "shop:render:cuda:12,gpu"] {
            assert_eq!(text.parse::<Need>().expect(text).to_string(), text);
        }
        let need: Need = "shop:render:cuda:12,gpu".parse().expect("a need");
        assert_eq!(need.capabilities.iter().collect::<Vec<_>>(), ["cuda:12", "gpu"]);
    }

    #[test]
    fn what_lacks_a_part_or_has_a_wrong_one_is_none() {
        for text in ["", "default", ":", "default:", ":mail", "a:b:", "a:b:x,,y", "a{:b"] {
            assert_eq!(text.parse::<Need>(), Err(NeedParseError), "{text}");
        }
    }
}
