//! What passes between a worker and a backend while an execution runs, and what is told when it
//! ends.

mod failure;
mod frame;
mod handle;

pub use failure::{FailOutcome, FailureClass, FailureReason};
pub use frame::{Frame, FrameKind};
pub use handle::{Handle, HandleDecodeError, HandleKind};

use serde::{Deserialize, Serialize};

use crate::ToSchema;
use crate::state::TerminalOutcome;
use crate::types::{
    BudgetId, EventCursor, ExecutionId, FlowId, LeaseEpoch, Namespace, TimestampMs,
};

/// The answer to a renewal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RenewedTask)]
pub struct LeaseRenewal {
    /// When the lease ends unless it is renewed again.
    pub expires_at: TimestampMs,
    /// Unchanged by a renewal.
    pub lease_epoch: LeaseEpoch,
    /// Budgets whose hard limit is reached, as far as the execution was told: finish up and stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets_reached: Vec<BudgetId>,
}

/// An execution has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionPayload {
    /// Which one.
    pub execution_id: ExecutionId,
    /// How.
    pub outcome: TerminalOutcome,
    /// The namespace it belongs to.
    pub namespace: Namespace,
    /// When, by the store's clock.
    pub produced_at: TimestampMs,
    /// The flow it belongs to, if any.
    pub flow_id: Option<FlowId>,
    /// The position of this event in the log of the execution's partition.
    pub cursor: EventCursor,
    /// True if the partition's log was trimmed behind the subscriber's position, for the first
    /// completion after that: earlier ones may be missing, and are found by listing.
    pub after_gap: bool,
}

/// Which executions somebody wants to hear about. What is absent does not restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScannerFilter {
    /// Only this namespace.
    pub namespace: Option<Namespace>,
    /// Only executions with this tag, key and value.
    pub instance_tag: Option<(String, String)>,
}

impl ScannerFilter {
    /// The filter that lets everything pass.
    pub const NOOP: Self = Self { namespace: None, instance_tag: None };

    /// Restricts to a namespace.
    #[must_use]
    pub fn with_namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// Restricts to executions that carry a tag.
    #[must_use]
    pub fn with_instance_tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.instance_tag = Some((key.into(), value.into()));
        self
    }

    /// True if everything passes, so that nothing needs to be read to decide.
    pub const fn is_noop(&self) -> bool {
        self.namespace.is_none() && self.instance_tag.is_none()
    }

    /// True if an execution with this namespace, and this value of the wanted tag, passes. What
    /// is wanted and not there never matches: one tenant must not see another's events.
    pub fn matches(&self, namespace: Option<&Namespace>, tag_value: Option<&str>) -> bool {
        let namespace_fits = self.namespace.as_ref().is_none_or(|wanted| namespace == Some(wanted));
        let tag_fits =
            self.instance_tag.as_ref().is_none_or(|(_, wanted)| tag_value == Some(wanted.as_str()));
        namespace_fits && tag_fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_filter_lets_everything_pass() {
        assert!(ScannerFilter::NOOP.is_noop());
        assert!(ScannerFilter::default().matches(None, None));
        assert!(ScannerFilter::NOOP.matches(Some(&Namespace::default()), Some("x")));
    }

    #[test]
    fn both_dimensions_must_match_and_absence_never_does() {
        let shop = Namespace::try_new("shop").expect("valid");
        let filter = ScannerFilter::default()
            .with_namespace(shop.clone())
            .with_instance_tag("app.instance", "i-1");
        assert!(!filter.is_noop());
        let table = [
            (Some(&shop), Some("i-1"), true),
            (Some(&shop), Some("i-2"), false),
            (Some(&shop), None, false),
            (Some(&Namespace::default()), Some("i-1"), false),
            (None, Some("i-1"), false),
        ];
        for (namespace, tag, expected) in table {
            assert_eq!(filter.matches(namespace, tag), expected, "{namespace:?} {tag:?}");
        }
    }
}
