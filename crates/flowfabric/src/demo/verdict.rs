//! Whether the story came true: read back from the engine, not from what was told.

use std::collections::BTreeMap;

use ff_sdk::{Client, ExecutionId};
use serde::Serialize;

use super::cast::{self, Role};
use crate::failure::Failure;

/// How every kind fared.
#[derive(Serialize)]
pub(super) struct Verdict {
    pub(super) kinds: Vec<Fared>,
    /// Who was killed, and who finished its work.
    pub(super) killed: String,
    pub(super) taken_over_by: Option<String>,
    pub(super) came_true: bool,
}

/// How the executions of a kind fared.
#[derive(Clone, Default, Serialize)]
pub(super) struct Fared {
    pub(super) kind: &'static str,
    pub(super) submitted: u32,
    pub(super) completed: u32,
    pub(super) failed: u32,
    pub(super) attempts: u32,
    pub(super) as_promised: bool,
}

impl Fared {
    fn judge(mut self, role: &Role) -> Self {
        let promised = match role.ends {
            "completed" => (role.count, 0),
            _ => (0, role.count),
        };
        self.as_promised = (self.completed, self.failed) == promised
            && self.submitted == role.count
            && self.attempts >= role.count * role.attempts;
        self
    }
}

impl Verdict {
    pub(super) async fn reach(
        client: &Client,
        ids: &[ExecutionId],
        killed: &str,
    ) -> Result<Self, Failure> {
        let mut kinds: BTreeMap<String, Fared> = BTreeMap::new();
        let mut taken_over_by = None;
        for id in ids {
            let snapshot = client.describe(id).await?.ok_or_else(|| crate::get::missing(id))?;
            let fared = kinds.entry(snapshot.kind.to_string()).or_default();
            fared.submitted += 1;
            fared.attempts += snapshot.total_attempt_count;
            match snapshot.public_state().as_str() {
                "completed" => fared.completed += 1,
                "failed" => fared.failed += 1,
                _ => {}
            }
            if snapshot.kind.as_str() == cast::ORPHAN && snapshot.reclaim_count > 0 {
                taken_over_by = worker_of(client, id).await?;
            }
        }
        let kinds: Vec<Fared> = cast::ROLES
            .iter()
            .map(|role| {
                let fared = kinds.remove(role.kind).unwrap_or_default();
                Fared { kind: role.kind, ..fared }.judge(role)
            })
            .collect();
        let rescued = taken_over_by.as_ref().is_some_and(|worker| worker != killed);
        let came_true = rescued && kinds.iter().all(|fared| fared.as_promised);
        Ok(Self { kinds, killed: killed.to_owned(), taken_over_by, came_true })
    }

    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.came_true { Ok(()) } else { Err("the story did not come true".into()) }
    }
}

/// Who finished an execution, as its result says.
async fn worker_of(client: &Client, id: &ExecutionId) -> Result<Option<String>, Failure> {
    let result = client.connection().engine().read_result(*id).await?.unwrap_or_default();
    let result = String::from_utf8_lossy(&result);
    Ok(result.rsplit_once("by ").map(|(_, worker)| worker.to_owned()))
}
