//! Typed calls: a function's name, arguments and outcomes, declared once in a row and compared with
//! the library's own description by a test.

use std::time::Duration;

use ff_core::error::{Code, EngineError};

use crate::args::Args;
use crate::host::Function;
use crate::value::{Shape, Value};
use crate::wire::Reading;

/// A typed call of one function.
pub trait Call: Send + Sync {
    /// What the host needs to know.
    const FUNCTION: Function;
    /// The declared contract.
    const CONTRACT: Contract;
    /// What comes back when the call was not refused.
    type Reply;

    /// The arguments in wire order.
    fn encode(&self) -> Args;

    /// As above, without those at the end that are not given: the library takes them for empty.
    fn encode_short(&self) -> Args {
        let mut args = self.encode();
        if !Self::CONTRACT.open {
            args.drop_empty_tail();
        }
        args
    }

    /// Reads the values behind a status word.
    fn decode(status: &str, values: Values) -> Result<Self::Reply, EngineError>;

    /// Called before the call is sent again because its answer was lost, with the time since it was
    /// first sent.
    fn mark_repeated(&mut self, _since: Duration) {}
}

/// A function's contract as Rust knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The public name.
    pub name: &'static str,
    /// True if it never writes.
    pub read_only: bool,
    /// The names of its arguments, in wire order.
    pub args: &'static [&'static str],
    /// True if the last argument stands for any number of them.
    pub open: bool,
    /// Status words with the names of their values.
    pub statuses: &'static [(&'static str, &'static [&'static str])],
    /// The codes it refuses with, besides those of malformed arguments.
    pub refusals: &'static [Code],
}

/// The values of a reply, taken in order. A newer library may answer more of them than this build
/// knows: what is left over is not looked at.
pub struct Values {
    function: &'static str,
    rest: std::vec::IntoIter<Value>,
}

impl Values {
    /// Those that a function would answer, out of the answer of another.
    pub fn inside(function: &'static str, values: Vec<Value>) -> Self {
        Self { function, rest: values.into_iter() }
    }

    /// The next value.
    pub fn take<T: Reading>(&mut self, field: &'static str) -> Result<T, EngineError> {
        let value = self.rest.next().unwrap_or(Value::Nil);
        let shape = value.shape();
        T::read(value).ok_or_else(|| malformed(self.function, field, shape))
    }

    /// What an undeclared status word means: the library and this build disagree.
    pub fn unknown(&self, status: &str) -> EngineError {
        EngineError::corrupt(format!("reply of {}", self.function), "status", status)
    }
}

fn malformed(function: &str, field: &str, found: Shape) -> EngineError {
    EngineError::corrupt(format!("reply of {function}"), field, format!("{found:?}"))
}

/// Takes a raw reply apart: the status and its values, or the refusal.
pub fn open_reply(function: &'static str, reply: Value) -> Result<(String, Values), EngineError> {
    let Value::Array(elements) = reply else {
        return Err(malformed(function, "envelope", reply.shape()));
    };
    let mut rest = elements.into_iter();
    let (first, word) = (rest.next(), rest.next().and_then(String::read));
    match (first, word) {
        (Some(Value::Int(1)), Some(status)) => Ok((status, Values { function, rest })),
        (Some(Value::Int(0)), Some(code)) => {
            let details = rest.map(|detail| String::read(detail).unwrap_or_default()).collect();
            Err(EngineError::from_reply(&code, details))
        }
        (first, _) => Err(malformed(function, "envelope", first.unwrap_or(Value::Nil).shape())),
    }
}

/// Declares functions. One row each:
///
/// ```text
/// /// What it does.
/// write ff_name(CallStruct { argument: Type, … })
/// -> ReplyEnum { "OK" => Variant { value: Type, … }, … }
/// refuses [Code, …];
/// ```
///
/// `held` in place of the first arguments says that the caller shows its lease; before the codes it
/// stands for those that tell that the lease is not what it was. `held and next` says that the
/// caller also asks for its next task, by arguments behind all others.
///
/// A function that takes and answers what another does is a row of few words:
/// `write ff_name(CallStruct = Other) refuses [Code, …];`.
macro_rules! functions {
    ($(
        $(#[$doc:meta])*
        $mode:ident $name:ident($call:ident $(= $other:ident)? $({ $($args:tt)* })?)
        $(-> $reply:ident { $($outcomes:tt)* })?
        refuses $($held:ident)? [$($code:ident),* $(,)?];
    )*) => {
        $($crate::call::functions! {
            @form { $(#[$doc])* $mode $name $call $(= $other)? $($reply { $($outcomes)* })? }
            { $($held)? $($code)* } $({ $($args)* })?
        })*

        /// The contracts of this file.
        pub(crate) const CONTRACTS: &[$crate::call::Contract] =
            &[$(<$call as $crate::call::Call>::CONTRACT),*];
    };
    (@form $row:tt $codes:tt { $($args:tt)* }) => {
        $crate::call::functions! { @args $row $codes $($args)* }
    };
    (
        @form { $(#[$doc:meta])* $mode:ident $name:ident $call:ident = $other:ident }
        { $($code:ident)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $call(
            /// The arguments, which are the same.
            pub $other,
        );

        impl $crate::call::Call for $call {
            const FUNCTION: $crate::host::Function =
                $crate::call::functions!(@function $mode $name);
            const CONTRACT: $crate::call::Contract = $crate::call::Contract {
                name: stringify!($name),
                read_only: Self::FUNCTION.read_only,
                refusals: &[$(ff_core::error::Code::$code),*],
                ..<$other as $crate::call::Call>::CONTRACT
            };
            type Reply = <$other as $crate::call::Call>::Reply;

            fn encode(&self) -> $crate::args::Args {
                self.0.encode()
            }

            fn decode(
                status: &str,
                values: $crate::call::Values,
            ) -> Result<Self::Reply, ff_core::error::EngineError> {
                $other::decode(status, values)
            }
        }
    };
    (@function $mode:ident $name:ident) => {
        $crate::host::Function {
            wire_name: concat!(stringify!($name), "_v1"),
            read_only: $crate::call::functions!(@read_only $mode),
        }
    };
    (@args $row:tt $codes:tt held and next, $($args:tt)*) => {
        $crate::call::functions! {
            @args $row $codes held, $($args)*
            lane: ff_core::types::LaneId,
            capabilities: ff_core::capability::CapabilitySet,
            lease_ttl_ms: u64,
            next_lease_id: ff_core::types::LeaseId,
            need: Option<ff_core::need::Need>,
            score_max: Option<i64>,
            kinds: $crate::wire::Joined<ff_core::types::ExecutionKind>,
            namespaces: $crate::wire::Joined<ff_core::types::Namespace>,
        }
    };
    (@args $row:tt $codes:tt held $(, $($args:tt)*)?) => {
        $crate::call::functions! {
            @codes $row $codes
            execution_id: ff_core::types::ExecutionId,
            lease_id: ff_core::types::LeaseId,
            lease_epoch: ff_core::types::LeaseEpoch,
            attempt_id: ff_core::types::AttemptId,
            $($($args)*)?
        }
    };
    (@args $row:tt $codes:tt $($args:tt)*) => {
        $crate::call::functions! { @codes $row $codes $($args)* }
    };
    (@codes $row:tt { held $($code:ident)* } $($args:tt)*) => {
        $crate::call::functions! {
            @row $row
            { ExecutionNotFound ExecutionNotActive FenceRequired PartialFenceTriple LeaseRevoked
                LeaseExpired StaleLease $($code)* }
            $($args)*
        }
    };
    (@codes $row:tt $codes:tt $($args:tt)*) => {
        $crate::call::functions! { @row $row $codes $($args)* }
    };
    (@read_only read) => { true };
    (@read_only write) => { false };
    (
        @row {
            $(#[$doc:meta])*
            $mode:ident $name:ident $call:ident $reply:ident {
                $($status:literal => $variant:ident { $($field:ident: $fty:ty),* $(,)? }),* $(,)?
            }
        }
        { $($code:ident)* }
        $($arg:ident: $aty:ty),* $(,)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "the arguments are documented with the function")]
        pub struct $call { $(pub $arg: $aty),* }

        #[doc = concat!("What `", stringify!($name), "` answers.")]
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "the values are documented with the function")]
        pub enum $reply { $($variant { $($field: $fty),* }),* }

        impl $crate::call::Call for $call {
            const FUNCTION: $crate::host::Function =
                $crate::call::functions!(@function $mode $name);
            const CONTRACT: $crate::call::Contract = $crate::call::Contract {
                name: stringify!($name),
                read_only: Self::FUNCTION.read_only,
                args: &[$(stringify!($arg)),*],
                open: false $(|| <$aty as $crate::wire::Argument>::OPEN)*,
                statuses: &[$(($status, &[$(stringify!($field)),*])),*],
                refusals: &[$(ff_core::error::Code::$code),*],
            };
            type Reply = $reply;

            fn encode(&self) -> $crate::args::Args {
                #[allow(unused_mut, reason = "some functions take no arguments")]
                let mut args = $crate::args::Args::with_capacity(Self::CONTRACT.args.len());
                $($crate::wire::Argument::encode(&self.$arg, &mut args);)*
                args
            }

            fn decode(
                status: &str,
                #[allow(unused_mut, unused_variables, reason = "some outcomes have no values")]
                mut values: $crate::call::Values,
            ) -> Result<$reply, ff_core::error::EngineError> {
                match status {
                    $($status => {
                        Ok($reply::$variant {
                            $($field: values.take(stringify!($field))?),*
                        })
                    })*
                    _ => Err(values.unknown(status)),
                }
            }

            $crate::call::functions!(@repeated $call);
        }
    };
    // Only what picks for itself or makes something new needs to be told that it is a repetition:
    // the others find the execution they name as they left it.
    (@repeated ClaimNext) => { $crate::call::functions!(@marked); };
    (@repeated GrantNext) => { $crate::call::functions!(@marked); };
    (@repeated CreateExecution) => { $crate::call::functions!(@delegated); };
    (@repeated CreateExecutions) => { $crate::call::functions!(@delegated); };
    (@repeated $call:ident) => {};
    (@delegated) => {
        fn mark_repeated(&mut self, since: std::time::Duration) {
            self.sent_before(since);
        }
    };
    (@marked) => {
        fn mark_repeated(&mut self, _since: std::time::Duration) {
            self.retry = true;
        }
    };
}
pub(crate) use functions;
