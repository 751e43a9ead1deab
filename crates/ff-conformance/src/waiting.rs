//! Executions that wait, and those who signal them.

use ff_core::contracts::Condition;
use ff_core::types::{ExecutionId, RequestId, SignalId, SuspensionId, WaitpointId, WaitpointToken};
use ff_script::calls::secret::{RotateWaitpointHmacSecret, SecretHex};
use ff_script::calls::signal::{DeliverSignal, DeliverSignalReply};
use ff_script::calls::suspend::{
    ReadResumeSignals, ResumeExecution, SuspendExecution, SuspendExecutionReply,
};
use ff_script::calls::waitpoint::{
    CloseWaitpoint, CreatePendingWaitpoint, CreatePendingWaitpointReply,
};

use crate::create::LANE;
use crate::deployment::Deployment;
use crate::held::Held;

/// The secret that tokens are signed with unless a test brings another.
pub const SECRET: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A waitpoint that a sender knows: whose it is, and the right to signal it.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The waitpoint.
    pub waitpoint_id: WaitpointId,
    /// Its name.
    pub key: String,
    /// The right to signal it.
    pub token: WaitpointToken,
}

/// An execution that was suspended, and who held it before.
#[derive(Clone, Debug)]
pub struct Suspended {
    /// Who held it.
    pub held: Held,
    /// The call that suspended it.
    pub call: SuspendExecution,
    /// What it waits on.
    pub on: Waiting,
}

impl Deployment {
    /// Makes a key the one that signs tokens in the first partition, if there is none.
    pub async fn install_secret(&self) {
        self.call(RotateWaitpointHmacSecret { only_first: true, ..rotation("k1", SECRET, 0) })
            .await;
    }

    /// Makes a key the one that signs tokens; the one before is accepted for a while.
    pub async fn rotate(&self, kid: &str, hex: &str, grace_ms: u64) {
        self.call(rotation(kid, hex, grace_ms)).await;
    }

    /// Creates an execution, claims it and suspends it until these signals have come.
    pub async fn suspend(&self, condition: &Condition) -> Suspended {
        let held = self.create_and_claim().await;
        self.suspend_held(&held, condition).await
    }

    /// Suspends what a worker holds.
    pub async fn suspend_held(&self, held: &Held, condition: &Condition) -> Suspended {
        let call = self.suspension(held, condition);
        self.suspend_by(held, call).await
    }

    /// Makes a call that suspends, and must do so.
    pub async fn suspend_by(&self, held: &Held, call: SuspendExecution) -> Suspended {
        self.install_secret().await;
        let reply = self.call(call.clone()).await;
        let SuspendExecutionReply::Suspended {
            waitpoint_id,
            waitpoint_key: key,
            waitpoint_token: token,
            ..
        } = reply
        else {
            panic!("it must be suspended, and the reply was {reply:?}")
        };
        let on = Waiting { execution_id: held.id, waitpoint_id, key, token };
        Suspended { held: held.clone(), call, on }
    }

    /// A call that suspends what a worker holds on a new waitpoint.
    pub fn suspension(&self, held: &Held, condition: &Condition) -> SuspendExecution {
        let Held { id: execution_id, lease_id, lease_epoch, attempt_id, .. } = *held;
        SuspendExecution {
            execution_id,
            lease_id,
            lease_epoch,
            attempt_id,
            suspension_id: SuspensionId::from_uuid(self.new_uuid()),
            waitpoint_id: WaitpointId::from_uuid(self.new_uuid()),
            waitpoint_key: None,
            reason_code: None,
            requested_by: String::new(),
            timeout_ms: None,
            timeout_behavior: None,
            resume_condition_json: condition.to_json(None).expect("a short condition"),
            resume_delay_ms: None,
            details: String::new(),
            use_pending_waitpoint: false,
            approval: String::new(),
        }
    }

    /// Opens a waitpoint of what a worker holds.
    pub async fn open_waitpoint(&self, held: &Held, key: &str, expires_in_ms: u64) -> Waiting {
        self.install_secret().await;
        let reply = self.call(self.opening(held, key, expires_in_ms)).await;
        let CreatePendingWaitpointReply::Opened { waitpoint_id, waitpoint_token, .. } = reply
        else {
            panic!("it must be opened, and the reply was {reply:?}")
        };
        let key = key.to_owned();
        Waiting { execution_id: held.id, waitpoint_id, key, token: waitpoint_token }
    }

    /// A call that opens a waitpoint.
    pub fn opening(&self, held: &Held, key: &str, expires_in_ms: u64) -> CreatePendingWaitpoint {
        let Held { id: execution_id, lease_id, lease_epoch, attempt_id, .. } = *held;
        CreatePendingWaitpoint {
            execution_id,
            lease_id,
            lease_epoch,
            attempt_id,
            waitpoint_id: WaitpointId::from_uuid(self.new_uuid()),
            waitpoint_key: key.to_owned(),
            expires_in_ms,
        }
    }

    /// A call that suspends on a waitpoint that was opened before.
    pub fn suspension_on(
        &self,
        held: &Held,
        on: &Waiting,
        condition: &Condition,
    ) -> SuspendExecution {
        SuspendExecution {
            waitpoint_id: on.waitpoint_id,
            use_pending_waitpoint: true,
            ..self.suspension(held, condition)
        }
    }

    /// A call that signals a waitpoint.
    pub fn signal(&self, on: &Waiting, name: &str) -> DeliverSignal {
        DeliverSignal {
            execution_id: on.execution_id,
            waitpoint_id: Some(on.waitpoint_id),
            waitpoint_key: None,
            signal_id: SignalId::from_uuid(self.new_uuid()),
            signal_name: name.to_owned(),
            signal_category: String::new(),
            source_type: "test".to_owned(),
            source_identity: "tester".to_owned(),
            payload: Vec::new(),
            payload_encoding: String::new(),
            idempotency_key: String::new(),
            correlation_id: String::new(),
            waitpoint_token: on.token.clone(),
        }
    }

    /// Signals a waitpoint; gives the effect.
    pub async fn deliver(&self, on: &Waiting, name: &str) -> String {
        self.effect(self.signal(on, name)).await
    }

    /// The effect of a signal that must be new.
    pub async fn effect(&self, call: DeliverSignal) -> String {
        match self.call(call).await {
            DeliverSignalReply::Delivered { effect, .. } => effect,
            other => panic!("the signal must be new, and the reply was {other:?}"),
        }
    }

    /// A call by which an operator ends a wait.
    pub fn resumption(&self, execution_id: ExecutionId) -> ResumeExecution {
        ResumeExecution {
            execution_id,
            requested_by: "operator".to_owned(),
            resume_delay_ms: None,
            request_id: Some(RequestId::from_uuid(self.new_uuid())),
        }
    }

    /// Claims an execution that was resumed.
    pub async fn claim_resumed(&self, before: &Held) -> Held {
        let held = self.claim(LANE).await;
        assert_eq!((held.id, held.attempt_id), (before.id, before.attempt_id));
        held
    }
}

/// A call that makes a key the one that signs tokens.
pub fn rotation(kid: &str, hex: &str, grace_ms: u64) -> RotateWaitpointHmacSecret {
    RotateWaitpointHmacSecret {
        new_kid: kid.to_owned(),
        new_secret_hex: SecretHex(hex.to_owned()),
        grace_ms,
        only_first: false,
    }
}

impl Held {
    /// Closes a waitpoint that was opened before.
    pub fn close_waitpoint(&self, waitpoint_id: WaitpointId) -> CloseWaitpoint {
        let Self { id: execution_id, lease_id, lease_epoch, attempt_id, .. } = *self;
        let reason = None;
        CloseWaitpoint { execution_id, lease_id, lease_epoch, attempt_id, waitpoint_id, reason }
    }

    /// Reads the signals that ended the latest wait.
    pub fn read_signals(&self, from: Option<u32>, bytes_max: u64) -> ReadResumeSignals {
        let Self { id: execution_id, lease_id, lease_epoch, attempt_id, .. } = *self;
        ReadResumeSignals { execution_id, lease_id, lease_epoch, attempt_id, from, bytes_max }
    }

    /// The names of the signals that the claim brought along.
    pub fn signal_names(&self) -> Vec<String> {
        let signals = self.row.resume.iter().flat_map(|resume| &resume.signals);
        signals.map(|signal| signal.signal_name.clone()).collect()
    }
}
