//! Who decides.

use std::fmt;
use std::str::FromStr;

use crate::error::EngineError;
use crate::limits;
use crate::wire_text::serde_as_text;

/// A person or a program that decides, as an approval names them: an address or an id of another
/// system. Printable ASCII, so that no two of them look the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Approver(String);

impl Approver {
    /// An approver that stands in the program's text.
    ///
    /// # Panics
    ///
    /// If it breaks a rule: [`Self::try_new`] is for names from elsewhere.
    #[track_caller]
    pub fn new(name: impl Into<String>) -> Self {
        Self::try_new(name).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Checks a text and takes it as an approver.
    pub fn try_new(name: impl Into<String>) -> Result<Self, EngineError> {
        let name = name.into();
        let printable = name.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
        let most = limits::APPROVER_BYTES_MAX;
        if name.is_empty() || name.len() as u64 > most || !printable || name.trim() != name {
            let rule = format!("must be 1 to {most} printable ASCII characters, no outer blanks");
            return Err(EngineError::invalid("approver", rule));
        }
        Ok(Self(name))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Approver {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<Self, EngineError> {
        Self::try_new(text)
    }
}

impl fmt::Display for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

serde_as_text!(Approver, "an approver");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_approver_is_a_short_printable_text() {
        for right in ["ann", "ann@example.com", "oidc:42", "Ann Lee", &"x".repeat(128)] {
            assert_eq!(Approver::new(right).as_str(), right);
        }
        for wrong in ["", " ann", "ann ", "änn", "a\nb", &"x".repeat(129)] {
            assert!(Approver::try_new(wrong).is_err(), "{wrong:?}");
        }
    }
}
