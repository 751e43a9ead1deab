//! Names that people choose. Checked once, when made, so that no name can forge a key: braces and
//! colons are what keys are built with.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::limits;
use crate::wire_text::serde_as_text;

/// A name that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {rule}")]
pub struct NameError {
    /// Which name was meant.
    pub field: &'static str,
    /// The rule it breaks.
    pub rule: NameRule,
}

/// The rules of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameRule {
    /// A name has at least one byte.
    #[error("must not be empty")]
    Empty,
    /// A name has a length limit.
    #[error("must be at most {max} bytes long, got {len}")]
    TooLong {
        /// The length given.
        len: usize,
        /// The longest allowed.
        max: usize,
    },
    /// Only printable ASCII without braces and colon is allowed.
    #[error("must be printable ASCII without '{{', '}}' and ':', got byte 0x{byte:02x} at {at}")]
    ForbiddenByte {
        /// The first byte that is not allowed.
        byte: u8,
        /// Where it stands.
        at: usize,
    },
    /// A space may stand inside a name only.
    #[error("must not begin or end with a space")]
    OuterSpace,
}

const fn check(name: &str, max: usize) -> Result<(), NameRule> {
    let bytes = name.as_bytes();
    if bytes.is_empty() {
        return Err(NameRule::Empty);
    }
    if bytes.len() > max {
        return Err(NameRule::TooLong { len: bytes.len(), max });
    }
    let mut at = 0;
    while at < bytes.len() {
        if !matches!(bytes[at], 0x20..=0x7e) || matches!(bytes[at], b'{' | b'}' | b':') {
            return Err(NameRule::ForbiddenByte { byte: bytes[at], at });
        }
        at += 1;
    }
    if bytes[0] == b' ' || bytes[bytes.len() - 1] == b' ' {
        return Err(NameRule::OuterSpace);
    }
    Ok(())
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident($field:literal, $max:ident);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The longest allowed name, in bytes.
            pub const BYTES_MAX: usize = limits::$max as usize;

            /// A name that stands in the program's text.
            ///
            /// # Panics
            ///
            /// If it breaks a rule: [`Self::try_new`] is for names from elsewhere.
            #[track_caller]
            pub fn new(name: impl AsRef<str>) -> Self {
                Self::try_new(name).unwrap_or_else(|error| panic!("{error}"))
            }

            /// Does a text keep the rules? For those who ask while the program is compiled.
            pub const fn is_valid(name: &str) -> bool {
                check(name, Self::BYTES_MAX).is_ok()
            }

            /// Checks a text and takes it as a name.
            pub fn try_new(name: impl AsRef<str>) -> Result<Self, NameError> {
                let name = name.as_ref();
                check(name, Self::BYTES_MAX).map_err(|rule| NameError { field: $field, rule })?;
                Ok(Self(name.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::try_new(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), self.as_str())
            }
        }

        serde_as_text!($name, concat!("a ", $field));
    )*};
}

names! {
    /// A lane: the queue an execution waits in.
    LaneId("lane", LANE_BYTES_MAX);
    /// A namespace: a tenant or an environment.
    Namespace("namespace", NAMESPACE_BYTES_MAX);
    /// A kind of worker; all its instances share the name.
    WorkerId("worker_id", WORKER_BYTES_MAX);
    /// One running worker process.
    WorkerInstanceId("worker_instance_id", WORKER_BYTES_MAX);
    /// What an execution is: the name of the handler that runs it.
    ExecutionKind("kind", KIND_BYTES_MAX);
    /// The caller's own name for a submission: the same key is the same execution.
    IdempotencyKey("idempotency_key", IDEMPOTENCY_KEY_BYTES_MAX);
    /// What submissions have in common that are held together or apart.
    ThrottleKey("key", THROTTLE_KEY_BYTES_MAX);
}

impl Default for LaneId {
    fn default() -> Self {
        Self("default".into())
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self("default".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_accepted() {
        for name in ["a", "gpu-large", "nightly reports", "eu/west_1", "x".repeat(64).as_str()] {
            let lane = LaneId::try_new(name).expect(name);
            assert_eq!((lane.as_str(), lane.to_string().as_str()), (name, name));
        }
        assert_eq!(Namespace::default().as_str(), "default");
        assert!(Namespace::try_new(Namespace::default()).is_ok());
    }

    #[test]
    fn each_broken_rule_is_named_with_its_field() {
        let rule = |text: &str| LaneId::try_new(text).expect_err(text).rule;
        assert_eq!(rule(""), NameRule::Empty);
        assert_eq!(rule(&"x".repeat(65)), NameRule::TooLong { len: 65, max: 64 });
        assert_eq!(rule(" a"), NameRule::OuterSpace);
        assert_eq!(rule("a "), NameRule::OuterSpace);
        for (text, byte) in [("a{", b'{'), ("a}", b'}'), ("a:", b':'), ("a\n", b'\n'), ("aé", 0xc3)]
        {
            assert_eq!(rule(text), NameRule::ForbiddenByte { byte, at: 1 });
        }
        let error = WorkerId::try_new("a:b").expect_err("colon");
        assert!(error.to_string().starts_with("worker_id must be printable ASCII"), "{error}");
    }

    #[test]
    fn deserialising_checks_the_name() {
        assert!(serde_json::from_str::<LaneId>("\"gpu\"").is_ok());
        assert!(serde_json::from_str::<LaneId>("\"{fp:1}\"").is_err());
        assert_eq!(serde_json::to_string(&Namespace::default()).expect("text"), "\"default\"");
    }
}
