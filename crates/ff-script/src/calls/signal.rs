//! Signals from outside.

use ff_core::types::{ExecutionId, SignalId, WaitpointId, WaitpointToken};

use crate::call::functions;

functions! {
    /// Gives a signal to a waitpoint; an execution whose condition it satisfies is resumed.
    write ff_deliver_signal(DeliverSignal {
        execution_id: ExecutionId,
        waitpoint_id: Option<WaitpointId>,
        waitpoint_key: Option<String>,
        signal_id: SignalId,
        signal_name: String,
        signal_category: String,
        source_type: String,
        source_identity: String,
        payload: Vec<u8>,
        payload_encoding: String,
        idempotency_key: String,
        correlation_id: String,
        waitpoint_token: WaitpointToken,
    })
    -> DeliverSignalReply {
        "OK" => Delivered { signal_id: SignalId, effect: String },
        "DUPLICATE" => DeliveredBefore { signal_id: String },
    }
    refuses [MissingToken, InvalidToken, TokenExpired, HmacSecretNotInitialized, InvalidSecret,
        WaitpointClosed, TargetNotSignalable, SignalLimitExceeded];

    /// The same under its older name.
    write ff_buffer_signal_for_pending_waitpoint(BufferSignal = DeliverSignal)
    refuses [MissingToken, InvalidToken, TokenExpired, HmacSecretNotInitialized, InvalidSecret,
        WaitpointClosed, TargetNotSignalable, SignalLimitExceeded];
}
