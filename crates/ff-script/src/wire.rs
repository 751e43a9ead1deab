//! How single values travel: arguments into bytes, values out of replies.

use std::str::FromStr;

use ff_core::capability::CapabilitySet;
use ff_core::contracts::{
    BudgetScope, CancelFlowPolicy, DependencyKind, EdgeState, FailurePolicy, FlowState, GrantKind,
    MemberFate, OnHardLimit, ResumedBy, SuspensionReason, Tags, Throttle, TimeoutBehavior,
    WaitpointState,
};
use ff_core::need::Need;
use ff_core::state::{
    AttemptState, AttemptType, BlockingReason, EligibilityState, LifecyclePhase, OwnershipState,
    PublicState, TerminalOutcome,
};
use ff_core::types::{
    AttemptId, AttemptIndex, BudgetId, EdgeId, EventCursor, ExecutionId, ExecutionKind, FlowId,
    GrantId, IdempotencyKey, LaneId, LeaseEpoch, LeaseId, Moment, Namespace, QuotaPolicyId,
    RequestId, SignalId, SuspensionId, TimestampMs, WaitpointId, WaitpointToken, WorkerId,
    WorkerInstanceId, WorkerSession,
};

use crate::args::Args;
use crate::value::Value;

/// A value that can be an argument.
pub trait Argument {
    /// True if it stands for any number of arguments.
    const OPEN: bool = false;

    /// Appends itself.
    fn encode(&self, args: &mut Args);
}

/// A value that can be read from a reply.
pub trait Reading: Sized {
    /// Reads the value; `None` if it is not of this form.
    fn read(value: Value) -> Option<Self>;
}

fn text(value: Value) -> Option<String> {
    match value {
        // A text somebody wrote around us must not make the rest of an answer unreadable.
        Value::Bytes(bytes) => Some(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }),
        Value::Int(number) => Some(number.to_string()),
        Value::Nil | Value::Array(_) => None,
    }
}

macro_rules! plain {
    ($($name:ty),* $(,)?) => {$(
        impl Argument for $name {
            fn encode(&self, args: &mut Args) {
                args.push_display(self);
            }
        }

        impl Reading for $name {
            fn read(value: Value) -> Option<Self> {
                text(value).and_then(|text| Self::from_str(&text).ok())
            }
        }
    )*};
}

plain! {
    ExecutionId, LeaseId, AttemptId, GrantId, RequestId, EdgeId, FlowId, LaneId, Namespace,
    ExecutionKind, WorkerId, WorkerInstanceId, WorkerSession, SignalId, SuspensionId, WaitpointId,
    ResumedBy, SuspensionReason, TimeoutBehavior, WaitpointState, IdempotencyKey, EventCursor,
    GrantKind, CancelFlowPolicy, DependencyKind, EdgeState, FailurePolicy, FlowState,
    MemberFate, BudgetId, BudgetScope, OnHardLimit,
    u8, u16, u32, u64, i64, usize, Need,
    PublicState, LifecyclePhase, uuid::Uuid, QuotaPolicyId,
    OwnershipState, EligibilityState, BlockingReason, TerminalOutcome, AttemptState, AttemptType,
}

macro_rules! numbers {
    ($($name:ident),*) => {$(
        impl Argument for $name {
            fn encode(&self, args: &mut Args) {
                args.push_display(&self.get());
            }
        }

        impl Reading for $name {
            fn read(value: Value) -> Option<Self> {
                Reading::read(value).map(Self::new)
            }
        }
    )*};
}

numbers!(LeaseEpoch, AttemptIndex, TimestampMs);

impl Argument for str {
    fn encode(&self, args: &mut Args) {
        args.push(self.as_bytes());
    }
}

impl Argument for String {
    fn encode(&self, args: &mut Args) {
        args.push(self.as_bytes());
    }
}

impl Argument for Vec<u8> {
    fn encode(&self, args: &mut Args) {
        args.push(self);
    }
}

impl Argument for CapabilitySet {
    fn encode(&self, args: &mut Args) {
        args.push(self.csv().as_bytes());
    }
}

impl Argument for bool {
    fn encode(&self, args: &mut Args) {
        args.push(if *self { b"1" } else { b"0" });
    }
}

impl Argument for Throttle {
    fn encode(&self, args: &mut Args) {
        args.push_display(self);
    }
}

/// A plus sign marks a pause from now.
impl Argument for Moment {
    fn encode(&self, args: &mut Args) {
        match self {
            Self::At(time) => time.encode(args),
            Self::After(millis) => args.push_display(&format_args!("+{millis}")),
        }
    }
}

/// Empty means not given.
impl<T: Argument> Argument for Option<T> {
    fn encode(&self, args: &mut Args) {
        match self {
            Some(value) => value.encode(args),
            None => args.push(b""),
        }
    }
}

/// The last argument of a function may be a list.
impl<T: Argument> Argument for Rest<T> {
    const OPEN: bool = true;

    fn encode(&self, args: &mut Args) {
        self.0.iter().for_each(|value| value.encode(args));
    }
}

/// Names joined by colons, which no name contains. Empty means any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined<T>(pub Vec<T>);

impl<T: std::fmt::Display> Argument for Joined<T> {
    fn encode(&self, args: &mut Args) {
        let names: Vec<String> = self.0.iter().map(T::to_string).collect();
        args.push(names.join(":").as_bytes());
    }
}

/// All remaining arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest<T>(pub Vec<T>);

impl Reading for String {
    fn read(value: Value) -> Option<Self> {
        text(value)
    }
}

impl Reading for Vec<u8> {
    fn read(value: Value) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl Reading for bool {
    fn read(value: Value) -> Option<Self> {
        u8::read(value).and_then(|number| (number < 2).then_some(number == 1))
    }
}

impl Reading for CapabilitySet {
    fn read(value: Value) -> Option<Self> {
        let csv = text(value)?;
        Self::try_new(csv.split(',').filter(|token| !token.is_empty())).ok()
    }
}

/// The empty text means that there is no value.
impl<T: Reading> Reading for Option<T> {
    fn read(value: Value) -> Option<Self> {
        if value.as_bytes().is_some_and(<[u8]>::is_empty) {
            return Some(None);
        }
        T::read(value).map(Some)
    }
}

/// Names and values in turn.
impl Reading for Tags {
    fn read(value: Value) -> Option<Self> {
        // An empty text is a cheaper way to say that there are none.
        if value.as_bytes().is_some_and(<[u8]>::is_empty) {
            return Some(Self::new());
        }
        Some(Vec::<(String, String)>::read(value)?.into_iter().collect())
    }
}

/// An inner array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T: Reading> Reading for List<T> {
    fn read(value: Value) -> Option<Self> {
        match value {
            Value::Array(values) => {
                values.into_iter().map(T::read).collect::<Option<_>>().map(List)
            }
            _ => None,
        }
    }
}

/// A group of values that stands for one thing.
pub trait Row: Sized {
    /// Takes its values off the front; `None` if they are not of this form.
    fn take(values: &mut std::vec::IntoIter<Value>) -> Option<Self>;
}

/// A row of these fields, in the order of the wire, which may also be an array of its own. Behind a
/// semicolon stand those that an older library does not have, with what is true then.
macro_rules! row {
    ($name:ident { $($field:ident),* $(,)? $(; $($later:ident = $default:expr),* $(,)?)? }) => {
        impl $crate::wire::Row for $name {
            fn take(values: &mut std::vec::IntoIter<$crate::value::Value>) -> Option<Self> {
                Some(Self {
                    $($field: $crate::wire::Reading::read(values.next()?)?,)*
                    $($($later: {
                        let value = values.next();
                        value.map_or(Some($default), $crate::wire::Reading::read)?
                    },)*)?
                })
            }
        }

        impl $crate::wire::Reading for $name {
            fn read(value: $crate::value::Value) -> Option<Self> {
                $crate::wire::whole(value)
            }
        }
    };
}
pub(crate) use row;

/// A row that is an array of its own. A newer library may have more values in it.
pub(crate) fn whole<T: Row>(value: Value) -> Option<T> {
    let Value::Array(values) = value else { return None };
    T::take(&mut values.into_iter())
}

/// Rows that follow each other to the end.
pub(crate) fn to_the_end<T: Row>(mut values: std::vec::IntoIter<Value>) -> Option<Vec<T>> {
    let mut rows = Vec::new();
    while !values.as_slice().is_empty() {
        rows.push(T::take(&mut values)?);
    }
    Some(rows)
}

/// An inner array of rows that follow each other.
impl<T: Row> Reading for Vec<T> {
    fn read(value: Value) -> Option<Self> {
        let Value::Array(values) = value else { return None };
        to_the_end(values.into_iter())
    }
}

impl Row for String {
    fn take(values: &mut std::vec::IntoIter<Value>) -> Option<Self> {
        Self::read(values.next()?)
    }
}

impl<A: Reading, B: Reading> Row for (A, B) {
    fn take(values: &mut std::vec::IntoIter<Value>) -> Option<Self> {
        Some((A::read(values.next()?)?, B::read(values.next()?)?))
    }
}

/// An inner array of rows, one behind the other without arrays of their own. In front stands how
/// many values each has: a newer library may have more of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows<T>(pub Vec<T>);

impl<T: Row> Reading for Rows<T> {
    fn read(value: Value) -> Option<Self> {
        let Value::Array(values) = value else { return None };
        let mut values = values.into_iter();
        let width = usize::try_from(u32::read(values.next()?)?).ok()?;
        let mut rows = Vec::new();
        while !values.as_slice().is_empty() {
            let row: Vec<Value> = values.by_ref().take(width).collect();
            rows.push(T::take(&mut row.into_iter())?);
        }
        Some(Self(rows))
    }
}

/// Several byte strings as one, each behind its length: `lua/kernel/pack.lua`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed(pub Vec<Vec<u8>>);

impl Reading for Packed {
    fn read(value: Value) -> Option<Self> {
        let mut rest = value.as_bytes()?;
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let colon = rest.iter().position(|byte| *byte == b':')?;
            let length: usize = std::str::from_utf8(&rest[..colon]).ok()?.parse().ok()?;
            let (part, behind) = rest[colon + 1..].split_at_checked(length)?;
            parts.push(part.to_vec());
            rest = behind;
        }
        Some(Self(parts))
    }
}

impl Argument for WaitpointToken {
    fn encode(&self, args: &mut Args) {
        args.push(self.as_str().as_bytes());
    }
}

impl Reading for WaitpointToken {
    fn read(value: Value) -> Option<Self> {
        text(value).map(Self::new)
    }
}

/// An inner array that is decoded later.
impl Reading for Value {
    fn read(value: Value) -> Option<Self> {
        Some(value)
    }
}
