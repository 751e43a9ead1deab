//! What partitions owe to others: tells the receivers, and goes on with what follows from that.
//! What cannot be told now stays in the outbox, which tells of it again.

use std::collections::BTreeMap;

use ff_core::contracts::Owed;
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::Partition;

use super::ScriptBackend;
use crate::calls::gate::{OpenGate, OpenGateReply};
use crate::calls::quota::{ForgetAdmission, ReleaseAdmission, ReleaseAdmissionReply};
use crate::calls::stop::NoteBudgetsReached;
use crate::calls::usage::{ForgetUsage, ForgetUsageReply, ReleaseBudget, ReleaseBudgetReply};
use crate::calls::waiting::{AwaitGates, AwaitGatesReply, SettleOpenings, SettleOpeningsReply};
use crate::gate::{Debt, Gate, Opening, home_of};
use crate::host::Host;
use crate::together::together;
use crate::wire::Rest;

/// What is to be told to a receiver, in the order in which it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Release,
    ReleaseBudget,
    Forget,
    ForgetUsage,
    Await,
    Reached,
}

/// Items of one kind for one receiver, each with the entry that it is a part of.
type Errands = BTreeMap<(Partition, Kind), Vec<(usize, Vec<String>)>>;

/// Rounds of openings that follow from openings; the rest is left to the next tick.
const ROUNDS_MAX: u32 = 64;

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// Does what a partition owes; gives the entries that are done.
    pub(super) async fn do_what_is_owed(&self, from: Partition, owed: Vec<Owed>) -> Vec<Vec<u8>> {
        let (mut errands, mut openings) = (Errands::new(), Vec::new());
        let mut done = vec![true; owed.len()];
        for (place, one) in owed.iter().enumerate() {
            match Debt::parse(&one.entry, from) {
                // It is settled where it was written, with what became of it.
                Some(Debt::Open(opening)) => {
                    done[place] = false;
                    openings.push(opening);
                }
                Some(Debt::Budget(verdict)) => {
                    if let Err(error) = self.carry_out_verdict(verdict).await {
                        tracing::warn!(%from, %error, "what is owed could not be told yet");
                        done[place] = false;
                    }
                }
                Some(debt) => self.sort(&mut errands, place, from, debt, &one.told),
                None => done[place] = false,
            }
        }
        let told = errands.into_iter().map(|((target, kind), items)| async move {
            let places: Vec<usize> = items.iter().map(|(place, _)| *place).collect();
            (places, self.tell(target, kind, items).await)
        });
        for (places, answer) in together(told).await {
            match answer {
                Ok(opened) => openings.extend(opened),
                Err(error) => {
                    tracing::warn!(%from, %error, "what is owed could not be told yet");
                    places.into_iter().for_each(|place| done[place] = false);
                }
            }
        }
        self.open_gates(openings).await;
        let settled = owed.into_iter().zip(done).filter(|(_, done)| *done);
        settled.map(|(one, _)| one.entry).collect()
    }

    fn sort(&self, errands: &mut Errands, place: usize, from: Partition, debt: Debt, told: &str) {
        let mut add = |target, kind, item| {
            errands.entry((target, kind)).or_default().push((place, item));
        };
        match debt {
            Debt::Release { execution_id, epoch, used, gates } => {
                for gate in gates {
                    let home = gate.home(&self.config);
                    let (id, epoch) = (execution_id.to_string(), epoch.to_string());
                    match gate {
                        Gate::Quota { policy, key } => {
                            let used = u8::from(used).to_string();
                            let item = vec![policy.to_string(), key, id, epoch, used];
                            add(home, Kind::Release, item);
                        }
                        Gate::Budget { budget, .. } => {
                            add(home, Kind::ReleaseBudget, vec![budget.to_string(), id, epoch]);
                        }
                    }
                }
            }
            Debt::Forget { execution_id, gates } => {
                for gate in gates {
                    let (home, id) = (gate.home(&self.config), execution_id.to_string());
                    match gate {
                        Gate::Quota { policy, key } => {
                            add(home, Kind::Forget, vec![policy.to_string(), key, id]);
                        }
                        Gate::Budget { budget, .. } => {
                            add(home, Kind::ForgetUsage, vec![budget.to_string(), id]);
                        }
                    }
                }
            }
            Debt::Wait { gate } => {
                if let Some(home) = home_of(&gate, &self.config) {
                    let item = vec![gate, from.index.to_string(), told.to_owned()];
                    add(home, Kind::Await, item);
                }
            }
            Debt::Reached { reached, order, epoch, budget, execution_id } => {
                let item = [
                    execution_id.to_string(),
                    epoch.to_string(),
                    budget.to_string(),
                    order.to_string(),
                    u8::from(reached).to_string(),
                ];
                add(execution_id.partition(), Kind::Reached, item.to_vec());
            }
            Debt::Open(_) | Debt::Budget(_) => {}
        }
    }

    /// Tells one receiver; gives what was opened by that.
    async fn tell(
        &self,
        target: Partition,
        kind: Kind,
        items: Vec<(usize, Vec<String>)>,
    ) -> Result<Vec<Opening>, EngineError> {
        let mut openings = Vec::new();
        for some in items.chunks(limits::RELEASES_MAX as usize) {
            let items = Rest(some.iter().flat_map(|(_, item)| item.clone()).collect());
            let opened = match kind {
                Kind::Release => match self.call(target, ReleaseAdmission { items }).await? {
                    ReleaseAdmissionReply::Released { openings, .. }
                    | ReleaseAdmissionReply::ReleasedBefore { openings, .. } => openings,
                },
                Kind::ReleaseBudget => match self.call(target, ReleaseBudget { items }).await? {
                    ReleaseBudgetReply::Released { openings }
                    | ReleaseBudgetReply::ReleasedBefore { openings } => openings,
                },
                Kind::ForgetUsage => {
                    let ForgetUsageReply::Forgotten { openings } =
                        self.call(target, ForgetUsage { items }).await?;
                    openings
                }
                Kind::Forget => {
                    self.call(target, ForgetAdmission { items }).await?;
                    Vec::new()
                }
                Kind::Reached => {
                    self.call(target, NoteBudgetsReached { items }).await?;
                    Vec::new()
                }
                Kind::Await => {
                    let AwaitGatesReply::Awaited { openings } =
                        self.call(target, AwaitGates { items }).await?;
                    openings
                }
            };
            openings.extend(opened.iter().filter_map(|entry| Opening::parse(entry)));
        }
        Ok(openings)
    }

    /// Opens gates, tells their homes what became of it, and goes on with what follows from that.
    async fn open_gates(&self, mut openings: Vec<Opening>) {
        for _ in 0..ROUNDS_MAX {
            if openings.is_empty() {
                return;
            }
            let opened = openings.into_iter().map(|opening| self.open_gate(opening));
            let mut settled: BTreeMap<Partition, Vec<String>> = BTreeMap::new();
            for (home, items) in together(opened).await.into_iter().flatten() {
                settled.entry(home).or_default().extend(items);
            }
            let told = settled.into_iter().map(|(home, items)| self.settle_openings(home, items));
            openings = together(told).await.into_iter().flatten().collect();
        }
    }

    /// Opens one gate in one partition; gives whom to tell of it, and what.
    async fn open_gate(&self, opening: Opening) -> Option<(Partition, Vec<String>)> {
        let home = home_of(&opening.gate, &self.config)?;
        let call = OpenGate { gate: opening.gate.clone(), count: opening.count };
        match self.call(opening.partition, call).await {
            Ok(OpenGateReply::Opened { opened, left, best_score }) => {
                let best = best_score.map_or_else(String::new, |score| score.to_string());
                let (opened, left) = (opened.to_string(), left.to_string());
                Some((home, vec![opening.gate, opening.entry, opened, left, best]))
            }
            Err(error) => {
                let partition = opening.partition;
                tracing::warn!(%partition, %error, "a gate could not be opened yet");
                None
            }
        }
    }

    async fn settle_openings(&self, home: Partition, items: Vec<String>) -> Vec<Opening> {
        const WIDTH: usize = 5;
        let mut openings = Vec::new();
        for some in items.chunks(WIDTH * limits::RELEASES_MAX as usize) {
            match self.call(home, SettleOpenings { items: Rest(some.to_vec()) }).await {
                Ok(
                    SettleOpeningsReply::Settled { openings: more }
                    | SettleOpeningsReply::SettledBefore { openings: more },
                ) => openings.extend(more.iter().filter_map(|entry| Opening::parse(entry))),
                Err(error) => tracing::warn!(%home, %error, "openings could not be settled yet"),
            }
        }
        openings
    }
}
