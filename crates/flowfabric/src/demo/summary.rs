//! Whether everything ended as promised: read back from the engine, not from what was printed.

use std::collections::BTreeMap;

use ff_sdk::{Client, ExecutionId};
use serde::Serialize;

use super::scenarios::{self, Scenario};
use super::{Submitted, flow};
use crate::failure::Failure;

/// What became of every kind.
#[derive(Serialize)]
pub(super) struct Summary {
    pub(super) kinds: Vec<KindSummary>,
    /// Who was killed, and who finished its work.
    pub(super) killed: String,
    pub(super) taken_over_by: Option<String>,
    pub(super) came_true: bool,
}

/// What became of the executions of a kind.
#[derive(Clone, Default, Serialize)]
pub(super) struct KindSummary {
    pub(super) kind: &'static str,
    pub(super) submitted: u32,
    pub(super) completed: u32,
    pub(super) failed: u32,
    pub(super) attempts: u32,
    pub(super) as_promised: bool,
}

impl KindSummary {
    fn compare(mut self, scenario: &Scenario) -> Self {
        let promised = match scenario.ends {
            "completed" => (scenario.count, 0),
            _ => (0, scenario.count),
        };
        self.as_promised = (self.completed, self.failed) == promised
            && self.submitted == scenario.count
            && self.attempts >= scenario.count * scenario.attempts;
        self
    }
}

impl Summary {
    pub(super) async fn reach(
        client: &Client,
        submitted: &Submitted,
        killed: &str,
    ) -> Result<Self, Failure> {
        let mut kinds: BTreeMap<String, KindSummary> = BTreeMap::new();
        let mut taken_over_by = None;
        for id in &submitted.ids {
            let snapshot =
                client.describe(id).await?.ok_or_else(|| crate::get::missing(id.into()))?;
            let kind_summary = kinds.entry(snapshot.kind.to_string()).or_default();
            kind_summary.submitted += 1;
            kind_summary.attempts += snapshot.total_attempt_count;
            match snapshot.public_state().as_str() {
                "completed" => kind_summary.completed += 1,
                "failed" => kind_summary.failed += 1,
                _ => {}
            }
            if snapshot.kind.as_str() == scenarios::ORPHAN && snapshot.reclaim_count > 0 {
                taken_over_by = worker_of(client, id).await?;
            }
        }
        let mut kinds: Vec<KindSummary> = scenarios::SCENARIOS
            .iter()
            .map(|scenario| {
                let kind_summary = kinds.remove(scenario.kind).unwrap_or_default();
                KindSummary { kind: scenario.kind, ..kind_summary }.compare(scenario)
            })
            .collect();
        kinds.push(flow::summary(client, &submitted.flow).await?);
        let rescued = taken_over_by.as_ref().is_some_and(|worker| worker != killed);
        let came_true = rescued && kinds.iter().all(|kind_summary| kind_summary.as_promised);
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
