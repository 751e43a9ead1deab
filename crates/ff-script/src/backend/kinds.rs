//! The defaults of kinds and of the deployment.

use std::collections::BTreeMap;

use ff_core::contracts::{
    KindChanged, KindList, KindOutcome, KindRecord, KindsRegistered, RegisterKinds, SetDefaults,
    SetKind, StoredKind,
};
use ff_core::engine_backend::{Answer, Kinds};
use ff_core::error::EngineError;
use ff_core::policy::ExecutionPolicy;
use ff_core::types::{ExecutionKind, WorkerInstanceId};

use super::facts::Decided;
use super::{FIRST, ScriptBackend};
use crate::calls::kind::{self, RegisterKind, RegisterKindReply, SetKindReply};
use crate::host::Host;

/// The word before the names of kinds in facts.
const FACT: &str = "kind";

impl<H: Host + ?Sized> Kinds for ScriptBackend<H> {
    fn register_kinds(&self, request: RegisterKinds) -> Answer<'_, KindsRegistered> {
        Box::pin(async move {
            request.validate()?;
            let RegisterKinds { worker_instance_id, started_ms_ago, kinds } = request;
            let mut registered = KindsRegistered::default();
            let before = self.kinds().await?;
            for (kind, policy) in kinds {
                let call = RegisterKind {
                    kind: kind.clone(),
                    policy_json: policy.to_json()?,
                    worker_instance_id: worker_instance_id.clone(),
                    started_ms_ago,
                };
                let (outcome, decided) = outcome(self.call(FIRST, call).await?)?;
                let former = before.get(kind.as_str()).and_then(|stored| stored.told_by.as_ref());
                let former = self.differing(former, &worker_instance_id, outcome).await?;
                tell(&kind, &worker_instance_id, outcome, former);
                registered.failed = self.spread(decided).await;
                registered.kinds.insert(kind, outcome);
            }
            Ok(registered)
        })
    }

    fn list_kinds(&self) -> Answer<'_, KindList> {
        Box::pin(async move {
            let mut all = self.kinds().await?;
            let defaults = all.remove("").unwrap_or_default().policy;
            let read = |(name, stored): (String, StoredKind)| {
                name.parse().ok().map(|kind| stored.record(Some(kind)))
            };
            Ok(KindList { kinds: all.into_iter().filter_map(read).collect(), defaults })
        })
    }

    fn describe_kind(&self, kind: ExecutionKind) -> Answer<'_, KindRecord> {
        Box::pin(async move {
            let stored = self.kinds().await?.remove(kind.as_str());
            Ok(stored.unwrap_or_default().record(Some(kind)))
        })
    }

    fn set_kind(&self, kind: ExecutionKind, request: SetKind) -> Answer<'_, KindChanged> {
        Box::pin(async move {
            let policy_json = request.policy.as_ref().map(ExecutionPolicy::to_json).transpose()?;
            self.change(Some(kind), policy_json.unwrap_or_default(), request.pinned).await
        })
    }

    fn set_defaults(&self, request: SetDefaults) -> Answer<'_, KindChanged> {
        Box::pin(async move {
            let policy_json = request.policy.to_json()?;
            self.change(None, policy_json, Some(false)).await
        })
    }
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    async fn kinds(&self) -> Result<BTreeMap<String, StoredKind>, EngineError> {
        let facts = self.all_facts().await?;
        facts.of(FACT).map(|(name, value)| Ok((name.to_owned(), read(value)?))).collect()
    }

    /// The worker that told the defaults which these ones replace, if it is connected: both serve
    /// the kind now, each with its own in mind.
    async fn differing<'a>(
        &self,
        former: Option<&'a WorkerInstanceId>,
        worker: &WorkerInstanceId,
        outcome: KindOutcome,
    ) -> Result<Option<&'a WorkerInstanceId>, EngineError> {
        let replaced = outcome == KindOutcome::Registered;
        let Some(former) = former.filter(|former| replaced && *former != worker) else {
            return Ok(None);
        };
        let there = self.workers_on(self.home(former)).await?;
        Ok(there.iter().any(|one| one.worker_instance_id == *former).then_some(former))
    }

    async fn change(
        &self,
        kind: Option<ExecutionKind>,
        policy_json: String,
        pinned: Option<bool>,
    ) -> Result<KindChanged, EngineError> {
        let call = kind::SetKind { kind: kind.clone(), policy_json, pinning: pinned.into() };
        let (decided, value) = match self.call(FIRST, call).await? {
            SetKindReply::Changed { revision, before, name, value } => {
                (Decided::Changed { revision, before, name, value: value.clone() }, value)
            }
            SetKindReply::Known { revision, installed, value } => {
                (Decided::Known { revision, installed }, value)
            }
        };
        let record = read(&value)?.record(kind);
        Ok(KindChanged { record, failed: self.spread(decided).await })
    }
}

fn outcome(reply: RegisterKindReply) -> Result<(KindOutcome, Decided), EngineError> {
    Ok(match reply {
        RegisterKindReply::Changed { revision, before, name, value } => {
            (KindOutcome::Registered, Decided::Changed { revision, before, name, value })
        }
        RegisterKindReply::Kept { revision, installed, why, .. } => {
            let outcome = match why.as_str() {
                "equal" => KindOutcome::Equal,
                "newer" => KindOutcome::Newer,
                "pinned" => KindOutcome::Pinned,
                _ => return Err(EngineError::corrupt("reply of ff_register_kind", "why", why)),
            };
            (outcome, Decided::Known { revision, installed })
        }
    })
}

/// Says in the log that workers differ.
fn tell(
    kind: &ExecutionKind,
    worker: &WorkerInstanceId,
    outcome: KindOutcome,
    former: Option<&WorkerInstanceId>,
) {
    match outcome {
        KindOutcome::Newer => tracing::warn!(
            %kind, %worker, "a worker that started later has told other defaults of the kind"
        ),
        KindOutcome::Pinned => tracing::warn!(
            %kind, %worker, "the worker's defaults of the kind differ from those that are pinned"
        ),
        KindOutcome::Registered => match former {
            Some(former) => tracing::warn!(
                %kind, %worker, %former, "the kind has the defaults of the worker that started last"
            ),
            None => tracing::info!(%kind, %worker, "the kind has new defaults"),
        },
        KindOutcome::Equal => {}
    }
}

/// Defaults as they are stored; none if there are none.
fn read(text: &str) -> Result<StoredKind, EngineError> {
    if text.is_empty() {
        return Ok(StoredKind::default());
    }
    serde_json::from_str(text)
        .map_err(|error| EngineError::corrupt("fact", FACT, error.to_string()))
}
