//! What the details of a refusal are called: they come as a list, and people read them by name.

use std::fmt;

use super::Code;

impl Code {
    /// The names of its details, in their order; empty for those whose details speak for
    /// themselves.
    pub const fn detail_names(self) -> &'static [&'static str] {
        match self {
            Self::CapabilityMismatch => &["missing"],
            Self::DataLost => &["what is gone"],
            Self::DependencyAlreadyExists => &["upstream", "downstream"],
            Self::DeploymentMismatch => {
                &["flow partitions", "budget partitions", "quota partitions"]
            }
            Self::ExecutionAlreadyInFlow => &["flow"],
            Self::ExecutionNotActive => &["outcome", "lease epoch", "phase", "attempt"],
            Self::ExecutionNotInFlow
            | Self::IdempotencyConflict
            | Self::DepsNotSatisfied
            | Self::MaxReplaysExhausted => &["execution"],
            Self::FrameGap => &["expected"],
            Self::FrameTooLarge => &["frame", "bytes allowed"],
            Self::PayloadTooLarge => &["bytes", "bytes allowed"],
            Self::RetentionLimitExceeded => &["of", "bytes allowed"],
            Self::RotationConflict => &["key id"],
            Self::TooManyNeeds => &["lane", "combinations allowed"],
            Self::StaleGraphRevision => &["revision"],
            Self::StoreFormatMismatch => &["its format", "our format"],
            Self::WorkerInstanceInUse => &["process"],
            Self::StaleOwnerCannotAppend | Self::StreamClosed => &["because"],
            _ => &[],
        }
    }
}

/// Details in brackets, so that they are not taken for our words: by name where they have one, and
/// without those that say nothing.
pub(super) struct Details<'a> {
    pub(super) names: &'static [&'static str],
    pub(super) values: &'a [String],
}

impl fmt::Display for Details<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.named();
        if told.is_empty() { Ok(()) } else { write!(f, " [{told}]") }
    }
}

impl Details<'_> {
    /// The same without brackets.
    pub(super) fn named(&self) -> String {
        let values = self.values.iter().enumerate();
        let told = values.filter(|(_, value)| !value.is_empty()).map(|(index, value)| {
            match self.names.get(index).filter(|_| !is_sentence(value)) {
                // Records say success where everybody else says completed.
                Some(&"outcome") if value == "success" => "outcome: completed".to_owned(),
                Some(name) => format!("{name}: {value}"),
                None => value.clone(),
            }
        });
        told.collect::<Vec<_>>().join(", ")
    }
}

/// Some refusals say in words what others say in numbers.
fn is_sentence(value: &str) -> bool {
    value.contains(' ')
}

#[cfg(test)]
mod tests {
    use crate::error::{Code, EngineError};

    fn said(code: Code, details: &[&str]) -> String {
        let details = details.iter().map(|detail| (*detail).to_owned()).collect();
        let said = EngineError::Refused { code, details }.to_string();
        said.split_once(code.sentence()).expect("its sentence").1.to_owned()
    }

    #[test]
    fn details_are_told_by_name() {
        let said_of = said(Code::PayloadTooLarge, &["20000000", "8388608"]);
        assert_eq!(said_of, " [bytes: 20000000, bytes allowed: 8388608]");
        assert_eq!(said(Code::FrameGap, &["7"]), " [expected: 7]");
    }

    #[test]
    fn a_detail_without_a_name_or_in_words_is_told_as_it_is() {
        assert_eq!(said(Code::InvalidTagKey, &["Owner"]), " [Owner]");
        let words = "frames must have at most 9 bytes";
        assert_eq!(said(Code::PayloadTooLarge, &[words]), format!(" [{words}]"));
    }

    #[test]
    fn what_says_nothing_is_left_out() {
        let details = ["success", "3", "terminal", ""];
        let expected = " [outcome: completed, lease epoch: 3, phase: terminal]";
        assert_eq!(said(Code::ExecutionNotActive, &details), expected);
        assert_eq!(said(Code::DepsNotSatisfied, &[""]), "");
    }
}
