//! Approvals, and the keys of the links by which approvers are recognised. Those are kept once for
//! the whole deployment: all its servers sign and check with the same ones.

use ff_core::contracts::{
    Approval, ApprovalDecision, ApprovalList, DecisionOutcome, LinkKeys, NewDecision,
};
use ff_core::engine_backend::{Answer, Approvals};
use ff_core::error::EngineError;
use ff_core::types::{ExecutionId, SignalId, WaitpointId};

use super::secrets::FirstSecret;
use super::{FIRST, ScriptBackend};
use crate::calls::approval::{
    ListApprovals, ListApprovalsReply, ReadApproval, ReadApprovalReply, RecordDecision,
    RecordDecisionReply,
};
use crate::calls::secret::{
    ReadLinkSecrets, ReadLinkSecretsReply, RotateLinkSecret, RotateWaitpointHmacSecret,
    RotateWaitpointHmacSecretReply as Reply,
};
use crate::host::Host;
use crate::ids::{IdSource, SystemIds};

/// How many digits of chance a key's id has.
const KID_DIGITS: usize = 8;

impl<H: Host + ?Sized> Approvals for ScriptBackend<H> {
    fn read_approval(
        &self,
        execution_id: ExecutionId,
        waitpoint_id: WaitpointId,
    ) -> Answer<'_, Approval> {
        Box::pin(async move {
            let call = ReadApproval { execution_id, waitpoint_id };
            let ReadApprovalReply::Found { approval } = self.call_on(execution_id, call).await?;
            Ok(approval)
        })
    }

    fn record_decision(
        &self,
        execution_id: ExecutionId,
        decision: NewDecision,
    ) -> Answer<'_, DecisionOutcome> {
        Box::pin(async move {
            let NewDecision { waitpoint_id, approver, signal } = decision;
            let call = RecordDecision {
                execution_id,
                waitpoint_id,
                signal_id: SignalId::from_uuid(SystemIds.random()),
                approver: approver.clone(),
                signal_name: signal.clone(),
            };
            Ok(match self.call_on(execution_id, call).await? {
                RecordDecisionReply::Recorded { decided_at, .. } => {
                    DecisionOutcome::Taken(ApprovalDecision { approver, signal, decided_at })
                }
                RecordDecisionReply::RecordedBefore { signal_name: signal, decided_at } => {
                    DecisionOutcome::Stands(ApprovalDecision { approver, signal, decided_at })
                }
            })
        })
    }

    fn link_keys(&self) -> Answer<'_, LinkKeys> {
        Box::pin(async move {
            let ReadLinkSecretsReply::Keys { now, current_kid, keys } =
                self.call(FIRST, ReadLinkSecrets {}).await?;
            Ok(LinkKeys { now, current_kid, keys: keys.0 })
        })
    }

    fn rotate_link_key(
        &self,
        kid: Option<String>,
        grace_ms: u64,
        only_first: bool,
    ) -> Answer<'_, String> {
        Box::pin(async move {
            let FirstSecret(new_secret_hex) = FirstSecret::random();
            let rotate = RotateLinkSecret(RotateWaitpointHmacSecret {
                new_kid: kid.unwrap_or_else(new_kid),
                new_secret_hex,
                grace_ms,
                only_first,
            });
            let (Reply::Rotated { current_kid, .. } | Reply::RotatedBefore { current_kid }) =
                self.call(FIRST, rotate).await?;
            Ok(current_kid)
        })
    }
}

fn new_kid() -> String {
    let mut kid = SystemIds.random().simple().to_string();
    kid.truncate(KID_DIGITS);
    kid
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    pub(super) async fn approvals_of(
        &self,
        execution_id: ExecutionId,
    ) -> Result<ApprovalList, EngineError> {
        let ListApprovalsReply::Approvals { approvals } =
            self.call_on(execution_id, ListApprovals { execution_id }).await?;
        Ok(ApprovalList { approvals: approvals.0 })
    }
}
