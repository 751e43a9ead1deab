//! Suspending, resuming, and the signals in between.

use ff_core::contracts::{ResumeSignal, ResumedBy, Resumption, SuspensionReason, TimeoutBehavior};
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, RequestId, SuspensionId, WaitpointId, WaitpointToken};

use crate::call::functions;
use crate::value::Value;
use crate::wire::{Packed, Reading, Row, to_the_end};

functions! {
    /// Gives the lease back until signals, an operator or a timeout end the wait.
    write ff_suspend_execution(SuspendExecution {
        held,
        suspension_id: SuspensionId,
        waitpoint_id: WaitpointId,
        waitpoint_key: Option<String>,
        reason_code: Option<SuspensionReason>,
        requested_by: String,
        timeout_ms: Option<u64>,
        timeout_behavior: Option<TimeoutBehavior>,
        resume_condition_json: String,
        resume_delay_ms: Option<u64>,
        details: String,
        use_pending_waitpoint: bool,
        approval: String,
    })
    -> SuspendExecutionReply {
        "OK" => Suspended {
            suspension_id: SuspensionId,
            waitpoint_id: WaitpointId,
            waitpoint_key: String,
            waitpoint_token: WaitpointToken,
        },
        "DUPLICATE" => SuspendedBefore {
            suspension_id: SuspensionId,
            waitpoint_id: WaitpointId,
            waitpoint_key: String,
            waitpoint_token: WaitpointToken,
        },
        "ALREADY_SATISFIED" => Satisfied {
            suspension_id: SuspensionId,
            waitpoint_id: WaitpointId,
            waitpoint_key: String,
            waitpoint_token: WaitpointToken,
            resume: Option<Resumption>,
        },
    }
    refuses held [WaitpointNotFound, WaitpointNotPending,
        InvalidWaitpointForExecution, PendingWaitpointExpired, WaitpointAlreadyExists,
        HmacSecretNotInitialized, InvalidSecret];

    /// Ends the wait of a suspended execution without looking at its condition.
    write ff_resume_execution(ResumeExecution {
        execution_id: ExecutionId,
        requested_by: String,
        resume_delay_ms: Option<u64>,
        request_id: Option<RequestId>,
    })
    -> ResumeExecutionReply {
        "OK" => Resumed { public_state: PublicState },
        "DUPLICATE" => ResumedBefore { public_state: PublicState },
    }
    refuses [ExecutionNotFound, ExecutionNotSuspended, OperatorOverrideNotAllowed, WaitpointClosed,
        TargetNotSignalable, FlowCancelled];

    /// Does what a suspension said about its timeout, if that has come.
    write ff_expire_suspension(ExpireSuspension { execution_id: ExecutionId })
    -> ExpireSuspensionReply {
        "OK" => Expired { behavior: TimeoutBehavior, public_state: PublicState },
        "ALREADY_SATISFIED" => NotDue { reason: String },
    }
    refuses [];

    /// Reads the signals that ended the latest wait of an execution, for its holder.
    read ff_read_resume_signals(ReadResumeSignals { held, from: Option<u32>, bytes_max: u64 })
    -> ReadResumeSignalsReply {
        "OK" => Signals {
            ended_by: Option<ResumedBy>,
            next_from: Option<u32>,
            signals: Vec<ResumeSignal>,
        },
    }
    refuses held [];
}

/// A signal: its packed parts, and its payload behind them.
impl Row for ResumeSignal {
    fn take(values: &mut std::vec::IntoIter<Value>) -> Option<Self> {
        read_signal(Packed::read(values.next()?)?, Vec::read(values.next()?)?)
    }
}

/// One signal, by the parts that `lua/model/signal.lua` names.
fn read_signal(Packed(parts): Packed, payload: Vec<u8>) -> Option<ResumeSignal> {
    let mut parts = parts.into_iter().map(Value::Bytes);
    let mut next = || parts.next();
    Some(ResumeSignal {
        signal_id: Reading::read(next()?)?,
        signal_name: Reading::read(next()?)?,
        signal_category: Reading::read(next()?)?,
        source_type: Reading::read(next()?)?,
        source_identity: Reading::read(next()?)?,
        correlation_id: Reading::read(next()?)?,
        payload_encoding: Reading::read(next()?)?,
        accepted_at: Reading::read(next()?)?,
        payload: (!payload.is_empty()).then_some(payload),
    })
}

/// What ended a wait, whether all signals are there, and the signals.
impl Reading for Resumption {
    fn read(value: Value) -> Option<Self> {
        let Value::Array(values) = value else { return None };
        let mut values = values.into_iter();
        Some(Self {
            resumed_by: Reading::read(values.next()?)?,
            complete: Reading::read(values.next()?)?,
            signals: to_the_end(values)?,
        })
    }
}
