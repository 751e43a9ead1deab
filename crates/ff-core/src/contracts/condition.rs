//! Which signals end a wait. The library reads the same JSON: `lua/model/condition.lua`.

use serde::{Deserialize, Serialize};

use super::approvals::ApprovalRequest;
use super::signals::{APPROVER_SOURCE, SYSTEM_SOURCE};
use crate::ToSchema;
use crate::error::EngineError;
use crate::limits;

/// Stands for any signal.
pub const ANY_SIGNAL: &str = "*";

/// What must have come before a suspended execution goes on. A signal counts once in each part that
/// it fits. The name `*` stands for any signal. Conditions are nested at most 4 deep and list at
/// most 64 names in all; `operator_only` and `timeout_only` stand alone.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Condition {
    /// One signal of these names.
    Any {
        /// The names.
        #[schema(value_type = Vec<crate::schema::SignalMatcher>)]
        #[schema(min_items = 1, max_items = 64)]
        signals: Vec<String>,
        /// Only signals from senders of this type count.
        #[schema(value_type = Option<crate::schema::RequiredSource>)]
        source_type: Option<String>,
    },
    /// One signal for each of these names.
    All {
        /// The names; one that stands twice needs two signals.
        #[schema(value_type = Vec<crate::schema::SignalMatcher>)]
        #[schema(min_items = 1, max_items = 64)]
        signals: Vec<String>,
        /// Only signals from senders of this type count.
        #[schema(value_type = Option<crate::schema::RequiredSource>)]
        source_type: Option<String>,
    },
    /// So many signals of these names.
    Count {
        /// How many.
        #[schema(minimum = 1, maximum = 100)]
        count: u32,
        /// The names.
        #[schema(value_type = Vec<crate::schema::SignalMatcher>)]
        #[schema(min_items = 1, max_items = 64)]
        signals: Vec<String>,
        /// Only one signal of each sender counts.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        distinct_sources: bool,
        /// Only signals from senders of this type count.
        #[schema(value_type = Option<crate::schema::RequiredSource>)]
        source_type: Option<String>,
    },
    /// One of these conditions.
    AnyOf {
        /// The conditions.
        #[schema(no_recursion, min_items = 1)]
        conditions: Vec<Condition>,
    },
    /// All of these conditions.
    AllOf {
        /// The conditions.
        #[schema(no_recursion, min_items = 1)]
        conditions: Vec<Condition>,
    },
    /// No signal: an operator resumes the execution.
    OperatorOnly,
    /// No signal: the timeout ends the wait.
    TimeoutOnly,
}

/// One signal that is waited for; an empty name stands for any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionMatcher {
    /// The signal's name.
    pub signal_name: String,
}

impl ConditionMatcher {
    /// Waits for a signal of this name.
    pub fn named(signal_name: impl Into<String>) -> Self {
        Self { signal_name: signal_name.into() }
    }

    /// Waits for any signal.
    pub fn wildcard() -> Self {
        Self::default()
    }
}

impl Condition {
    /// One signal of any name.
    pub fn any_signal() -> Self {
        Self::any([ANY_SIGNAL])
    }

    /// One signal of these names.
    pub fn any<S: Into<String>>(signals: impl IntoIterator<Item = S>) -> Self {
        let signals = signals.into_iter().map(Into::into).collect();
        Self::Any { signals, source_type: None }
    }

    /// One signal for each of these names.
    pub fn all<S: Into<String>>(signals: impl IntoIterator<Item = S>) -> Self {
        let signals = signals.into_iter().map(Into::into).collect();
        Self::All { signals, source_type: None }
    }

    /// So many signals of these names.
    pub fn count<S: Into<String>>(count: u32, signals: impl IntoIterator<Item = S>) -> Self {
        let signals = signals.into_iter().map(Into::into).collect();
        Self::Count { count, signals, distinct_sources: false, source_type: None }
    }

    /// Checks that there is somebody who can send what is waited for: approvers where they are
    /// asked, each of them once and one of their choices; the engine's own signals nobody.
    pub(super) fn check_senders(
        &self,
        approval: Option<&ApprovalRequest>,
    ) -> Result<(), EngineError> {
        if matches!(self, Self::OperatorOnly | Self::TimeoutOnly) || self.is_possible(approval) {
            return Ok(());
        }
        let rule = "can never be satisfied by what approvers are asked, or by anybody";
        Err(EngineError::invalid("condition", rule))
    }

    fn is_possible(&self, approval: Option<&ApprovalRequest>) -> bool {
        let wanted =
            |signals: &[String], count: usize, source_type: &Option<String>| match source_type
                .as_deref()
            {
                Some(SYSTEM_SOURCE) => false,
                Some(APPROVER_SOURCE) => approval.is_some_and(|it| it.can_send(signals, count)),
                _ => true,
            };
        match self {
            Self::Any { signals, source_type } => wanted(signals, 1, source_type),
            Self::All { signals, source_type } => {
                let each = |name: &String| wanted(std::slice::from_ref(name), 1, source_type);
                signals.iter().all(each) && wanted(signals, signals.len(), source_type)
            }
            Self::Count { count, signals, source_type, .. } => {
                wanted(signals, *count as usize, source_type)
            }
            Self::AnyOf { conditions } => conditions.iter().any(|one| one.is_possible(approval)),
            Self::AllOf { conditions } => conditions.iter().all(|one| one.is_possible(approval)),
            Self::OperatorOnly | Self::TimeoutOnly => true,
        }
    }

    /// Checks that the text is not longer than the store takes, and gives it. Everything else about
    /// a condition is checked by the store, before anything is written.
    pub fn to_json(&self, allow_operator_override: Option<bool>) -> Result<String, EngineError> {
        let wrong = |rule: String| EngineError::invalid("condition", rule);
        let mut json = serde_json::to_value(self).map_err(|error| wrong(error.to_string()))?;
        if let (Some(allowed), Some(object)) = (allow_operator_override, json.as_object_mut()) {
            object.insert("allow_operator_override".to_owned(), allowed.into());
        }
        let text = json.to_string();
        let most = limits::CONDITION_BYTES_MAX;
        if text.len() as u64 > most {
            return Err(wrong(format!("must be at most {most} bytes of JSON, got {}", text.len())));
        }
        Ok(text)
    }
}

/// One matcher waits for one signal, several for one each, none for any signal.
impl From<&[ConditionMatcher]> for Condition {
    fn from(matchers: &[ConditionMatcher]) -> Self {
        let names = matchers.iter().map(|matcher| match matcher.signal_name.as_str() {
            "" => ANY_SIGNAL,
            name => name,
        });
        match matchers.len() {
            0 => Self::any_signal(),
            1 => Self::any(names),
            _ => Self::all(names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(condition: &Condition) -> String {
        serde_json::to_string(condition).expect("text")
    }

    #[test]
    fn matchers_become_the_condition_that_they_always_meant() {
        let named = |names: &[&str]| -> Vec<ConditionMatcher> {
            names.iter().map(|name| ConditionMatcher::named(*name)).collect()
        };
        for (names, expected) in [
            (&[][..], r#"{"type":"any","signals":["*"]}"#),
            (&[""][..], r#"{"type":"any","signals":["*"]}"#),
            (&["go"][..], r#"{"type":"any","signals":["go"]}"#),
            (&["a", "", "a"][..], r#"{"type":"all","signals":["a","*","a"]}"#),
        ] {
            assert_eq!(json(&Condition::from(named(names).as_slice())), expected);
        }
    }

    #[test]
    fn a_condition_survives_the_wire() {
        let approved = Condition::Count {
            count: 2,
            signals: vec!["approved".to_owned()],
            distinct_sources: true,
            source_type: Some("approver".to_owned()),
        };
        let conditions = vec![approved, Condition::any(["rejected"])];
        for condition in [Condition::AnyOf { conditions }, Condition::OperatorOnly] {
            let text = json(&condition);
            assert_eq!(serde_json::from_str::<Condition>(&text).expect(&text), condition);
        }
        assert!(serde_json::from_str::<Condition>(r#"{"type":"any","signal":["a"]}"#).is_err());
    }

    #[test]
    fn what_nobody_can_send_is_not_waited_for() {
        let from = |source: &str| Some(source.to_owned());
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let any =
            |name: &str| Condition::Any { signals: names(&[name]), source_type: from("approver") };
        let votes = |count| Condition::Count {
            count,
            signals: names(&["approved"]),
            distinct_sources: true,
            source_type: from("approver"),
        };
        let both = Condition::All {
            signals: names(&["approved", "rejected"]),
            source_type: from("approver"),
        };
        let asked: ApprovalRequest =
            serde_json::from_str(r#"{"approvers":["ann","bob"]}"#).expect("a question");
        let one: ApprovalRequest =
            serde_json::from_str(r#"{"approvers":["ann"]}"#).expect("a question");
        let open = ApprovalRequest::default();
        let system = Condition::Any { signals: names(&["*"]), source_type: from("system") };
        let any_of = |conditions| Condition::AnyOf { conditions };
        let all_of = |conditions| Condition::AllOf { conditions };
        for (condition, approval, possible) in [
            (any("approved"), None, false),
            (any("approved"), Some(&asked), true),
            (any("*"), Some(&asked), true),
            (any("shipped"), Some(&asked), false),
            (votes(2), Some(&asked), true),
            (votes(3), Some(&asked), false),
            (votes(100), Some(&open), true),
            (both.clone(), Some(&asked), true),
            (both, Some(&one), false),
            (system.clone(), Some(&asked), false),
            (any_of(vec![votes(3), any("rejected")]), Some(&asked), true),
            (all_of(vec![votes(3), any("rejected")]), Some(&asked), false),
            (any_of(vec![system, Condition::any(["go"])]), None, true),
            (Condition::OperatorOnly, None, true),
        ] {
            let checked = condition.check_senders(approval);
            assert_eq!(checked.is_ok(), possible, "{condition:?} {approval:?}");
        }
    }

    #[test]
    fn the_operator_stands_beside_the_outermost_condition() {
        let text = Condition::any(["a"]).to_json(Some(false)).expect("short");
        assert!(text.contains(r#""allow_operator_override":false"#), "{text}");
        let long = Condition::any(std::iter::repeat_n("a".repeat(100), 50));
        assert!(long.to_json(None).is_err());
    }
}
