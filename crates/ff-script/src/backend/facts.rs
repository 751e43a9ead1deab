//! Facts that every partition knows. The first partition decides, one revision after the other; the
//! others are brought from each to the next, or, where one was missed, given the whole. Whoever
//! installs at the same time moves them the same way: a partition only goes from the revision that
//! it was seen at to one that the first partition had afterwards.

use ff_core::contracts::PartitionFailure;
use ff_core::error::{Code, EngineError};
use ff_core::partition::Partition;

use super::everywhere::{Failed, failures, in_each};
use super::{FIRST, ScriptBackend};
use crate::calls::fact::{
    ConfirmFacts, InstallFacts, InstallFactsReply, ReadFacts, ReadFactsReply,
};
use crate::host::Host;
use crate::wire::Rest;

/// How often somebody else may come in between before a partition is left for later.
const ROUNDS_MAX: u32 = 3;

/// A change that the first partition has decided.
pub(super) enum Decided {
    /// A fact has a new value.
    Changed {
        /// The revision of the whole, and the one before it.
        revision: u64,
        before: u64,
        /// The fact.
        name: String,
        value: String,
    },
    /// It had this value before.
    Known {
        /// The revision of the whole, and the one that all partitions were seen at.
        revision: u64,
        installed: u64,
    },
}

/// What became of an installation.
#[derive(Debug, Default)]
pub struct FactsInstalled {
    /// How many partitions were brought up to date.
    pub changed: u32,
    /// Where that was not possible, and why.
    pub failed: Vec<(Partition, EngineError)>,
}

/// All facts at one revision.
pub(super) struct Facts {
    revision: u64,
    installed: u64,
    flat: Vec<String>,
}

impl Facts {
    /// Names, behind a word and a colon, and values.
    pub(super) fn of<'a>(&'a self, word: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.flat.chunks_exact(2).filter_map(move |pair| {
            let [name, value] = pair else { return None };
            let name = name.strip_prefix(word)?.strip_prefix(':')?;
            Some((name, value.as_str()))
        })
    }
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// Brings every partition up to date that is not. It can be repeated, by anybody at any time.
    pub async fn install_facts(&self) -> Result<FactsInstalled, EngineError> {
        let mut installed = FactsInstalled::default();
        let revision = self.bring(self.others(), &mut installed).await?;
        self.confirm(revision, &installed).await?;
        Ok(installed)
    }

    /// Were all partitions seen at the latest revision?
    pub async fn facts_are_installed(&self) -> Result<bool, EngineError> {
        let facts = self.facts(FIRST, false).await?;
        Ok(facts.revision == facts.installed)
    }

    /// What the first partition has decided so far.
    pub(super) async fn all_facts(&self) -> Result<Facts, EngineError> {
        self.facts(FIRST, true).await
    }

    /// Tells all partitions what was decided; gives those that could not be told, and why.
    pub(super) async fn spread(&self, decided: Decided) -> Vec<PartitionFailure> {
        let (mut installed, mut behind) = (FactsInstalled::default(), Vec::new());
        let mut revision = match decided {
            Decided::Known { revision, installed } if revision == installed => return Vec::new(),
            Decided::Known { revision, .. } => {
                behind = self.others().collect();
                revision
            }
            Decided::Changed { revision, before, name, value } => {
                let step = InstallFacts {
                    expected: before,
                    revision,
                    whole: false,
                    facts: Rest(vec![name, value]),
                };
                let calls = self.others().map(|partition| (partition, step.clone()));
                self.install(calls, &mut installed, &mut behind).await;
                revision
            }
        };
        if !behind.is_empty() {
            match self.bring(behind.clone(), &mut installed).await {
                Ok(brought) => revision = brought,
                Err(error) => {
                    installed.failed.extend(behind.into_iter().map(|at| (at, error.clone())));
                }
            }
        }
        if let Err(error) = self.confirm(revision, &installed).await {
            tracing::warn!(%error, "facts are installed everywhere, which could not be noted");
        }
        failures(&installed.failed)
    }

    /// Brings these partitions to the state of the first one; gives its revision.
    async fn bring(
        &self,
        partitions: impl IntoIterator<Item = Partition>,
        installed: &mut FactsInstalled,
    ) -> Result<u64, EngineError> {
        let mut behind: Vec<Partition> = partitions.into_iter().collect();
        let mut rounds = 0;
        loop {
            let seen = self.revisions(std::mem::take(&mut behind), &mut installed.failed).await;
            // Read behind theirs: it is not older than what they were seen at.
            let facts = self.all_facts().await?;
            let whole = |expected| InstallFacts {
                expected,
                revision: facts.revision,
                whole: true,
                facts: Rest(facts.flat.clone()),
            };
            let old = seen.into_iter().filter(|(_, revision)| *revision != facts.revision);
            let calls = old.map(|(partition, revision)| (partition, whole(revision)));
            self.install(calls, installed, &mut behind).await;
            rounds += 1;
            if behind.is_empty() || rounds == ROUNDS_MAX {
                let left = behind.into_iter().map(|at| {
                    (at, EngineError::from_reply(Code::FactsDiffer.as_str(), Vec::new()))
                });
                installed.failed.extend(left);
                return Ok(facts.revision);
            }
        }
    }

    /// Makes these calls, and sorts out where somebody else came in between.
    async fn install(
        &self,
        calls: impl Iterator<Item = (Partition, InstallFacts)>,
        installed: &mut FactsInstalled,
        behind: &mut Vec<Partition>,
    ) {
        in_each(&self.host, calls, |partition, answer| match answer {
            Ok(InstallFactsReply::Installed {}) => installed.changed += 1,
            Ok(InstallFactsReply::Known {}) => {}
            Err(error) if error.code() == Some(Code::FactsDiffer) => behind.push(partition),
            Err(error) => installed.failed.push((partition, error)),
        })
        .await;
    }

    /// The revisions of these partitions.
    async fn revisions(
        &self,
        partitions: Vec<Partition>,
        failed: &mut Vec<Failed>,
    ) -> Vec<(Partition, u64)> {
        let mut seen = Vec::with_capacity(partitions.len());
        let calls = partitions.into_iter().map(|at| (at, ReadFacts { whole: false }));
        in_each(&self.host, calls, |partition, answer| match answer {
            Ok(ReadFactsReply::Facts { revision, .. }) => seen.push((partition, revision)),
            Err(error) => failed.push((partition, error)),
        })
        .await;
        seen
    }

    /// Notes that all partitions have a revision, if they do.
    async fn confirm(&self, revision: u64, installed: &FactsInstalled) -> Result<(), EngineError> {
        if !installed.failed.is_empty() {
            return Ok(());
        }
        match self.call(FIRST, ConfirmFacts { revision }).await {
            // There is a newer one, whose installer will note it.
            Err(error) if error.code() == Some(Code::FactsDiffer) => Ok(()),
            answer => answer.map(drop),
        }
    }

    async fn facts(&self, partition: Partition, whole: bool) -> Result<Facts, EngineError> {
        let ReadFactsReply::Facts { revision, installed, facts } =
            self.call(partition, ReadFacts { whole }).await?;
        Ok(Facts { revision, installed, flat: facts.0 })
    }

    /// All partitions but the first.
    fn others(&self) -> impl Iterator<Item = Partition> + use<H> {
        self.config.flow_partitions().filter(|partition| *partition != FIRST)
    }
}
