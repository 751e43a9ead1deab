//! Ids that are UUIDs, with one text form: 36 characters, hyphenated, lower-case.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::wire_text::serde_as_text;

/// Why a text is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {text:?} is not a hyphenated lower-case UUID of 36 characters")]
pub struct IdParseError {
    /// Which kind of id was wanted.
    pub what: &'static str,
    /// The text as given.
    pub text: String,
}

/// Accepts the canonical form only, so that an id has one text and one key.
pub(super) fn parse_uuid(text: &str) -> Option<Uuid> {
    let canonical = text.len() == 36 && !text.bytes().any(|byte| byte.is_ascii_uppercase());
    canonical.then(|| Uuid::try_parse(text).ok()).flatten()
}

macro_rules! uuid_ids {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// An id that stands in the program's text, in its canonical form.
            ///
            /// # Panics
            ///
            /// If it is in no such form: [`Self::parse`] is for ids from elsewhere.
            #[track_caller]
            pub fn new(text: &str) -> Self {
                Self::parse(text).unwrap_or_else(|error| panic!("{error}"))
            }

            /// Takes a UUID of any version as an id.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// Reads the canonical text form.
            pub fn parse(text: &str) -> Result<Self, IdParseError> {
                text.parse()
            }

            /// The UUID inside.
            pub const fn as_uuid(&self) -> Uuid {
                self.0
            }

            /// The sixteen raw bytes: what hashing and binary encodings use.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
        }

        impl FromStr for $name {
            type Err = IdParseError;

            fn from_str(text: &str) -> Result<Self, IdParseError> {
                let invalid = || IdParseError { what: $what, text: text.to_owned() };
                parse_uuid(text).map(Self).ok_or_else(invalid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0.as_hyphenated(), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        serde_as_text!($name, concat!($what, " as a hyphenated lower-case UUID"));
    )*};
}

uuid_ids! {
    /// A flow: executions that depend on each other.
    FlowId = "flow id";
    /// A budget that usage is counted against.
    BudgetId = "budget id";
    /// A quota policy: a limit on rate and concurrency.
    QuotaPolicyId = "quota policy id";
    /// One lease; chosen by the claimer, so that a repeated claim is recognised.
    LeaseId = "lease id";
    /// One reservation of an execution; chosen by whoever asks for it.
    GrantId = "grant id";
    /// One life of a worker process; chosen by it.
    WorkerSession = "worker session";
    /// One attempt of an execution.
    AttemptId = "attempt id";
    /// One change of an execution from outside; chosen by whoever asks for it, so that a repeated
    /// request is recognised.
    RequestId = "request id";
    /// One delivered signal.
    SignalId = "signal id";
    /// One waitpoint, the place signals are delivered to.
    WaitpointId = "waitpoint id";
    /// One suspension of an execution.
    SuspensionId = "suspension id";
    /// One dependency between two executions of a flow.
    EdgeId = "edge id";
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "550e8400-e29b-41d4-a716-446655440000";

    #[test]
    fn an_id_survives_text_and_json() {
        let id = FlowId::parse(TEXT).expect("canonical");
        assert_eq!(id.to_string(), TEXT);
        assert_eq!(id, FlowId::from_uuid(id.as_uuid()));
        let json = serde_json::to_string(&id).expect("serialises");
        assert_eq!(json, format!("\"{TEXT}\""));
        assert_eq!(serde_json::from_str::<FlowId>(&json).expect("deserialises"), id);
    }

    #[test]
    fn a_literal_is_an_id_or_a_panic() {
        assert_eq!(SignalId::new(TEXT), SignalId::parse(TEXT).expect("canonical"));
        let wrong = std::panic::catch_unwind(|| WaitpointId::new("nope"));
        let said = wrong.expect_err("no id").downcast::<String>().expect("a sentence");
        assert!(said.contains("waitpoint id"), "{said}");
    }

    #[test]
    fn only_the_canonical_form_parses() {
        let upper = TEXT.to_uppercase();
        let simple = TEXT.replace('-', "");
        let braced = format!("{{{TEXT}}}");
        let urn = format!("urn:uuid:{TEXT}");
        let padded = format!(" {}", &TEXT[1..]);
        for wrong in ["", &upper, &simple, &braced, &urn, &padded, &TEXT[..35]] {
            let error = LeaseId::parse(wrong).expect_err(wrong);
            assert_eq!((error.what, error.text.as_str()), ("lease id", wrong));
        }
    }

    #[test]
    fn json_that_is_not_a_canonical_id_is_refused_with_the_reason() {
        let error = serde_json::from_str::<EdgeId>("\"nope\"").expect_err("not an id");
        assert!(error.to_string().contains("edge id"), "{error}");
        assert!(serde_json::from_str::<EdgeId>("7").is_err());
    }
}
