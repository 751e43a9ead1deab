//! Gates: what an execution must pass before its worker is told of it, and what partitions owe to
//! them. The texts are those of `lua/model/gate.lua` and `lua/model/outbox.lua`.

use ff_core::partition::{Partition, PartitionConfig, PartitionFamily};
use ff_core::types::{BudgetId, ExecutionId, LeaseEpoch, QuotaPolicyId};
use uuid::Uuid;

/// One gate of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// A key of a quota policy.
    Quota {
        /// The policy.
        policy: QuotaPolicyId,
        /// The key; it may be empty.
        key: String,
    },
    /// A budget.
    Budget {
        /// The budget.
        budget: BudgetId,
        /// What a lease reserves of it, as `lua/model/amount.lua` writes it.
        reserves: String,
    },
}

impl Gate {
    /// Gates from their letters, ids and what is asked for there, in turn.
    pub(crate) fn all(texts: &[String]) -> Option<Vec<Self>> {
        let gates = texts.chunks(3).map(|texts| match texts {
            [letter, id, key] if letter == "q" => {
                Some(Self::Quota { policy: id.parse().ok()?, key: key.clone() })
            }
            [letter, id, reserves] if letter == "b" => {
                Some(Self::Budget { budget: id.parse().ok()?, reserves: reserves.clone() })
            }
            _ => None,
        });
        gates.collect()
    }

    /// The budget, if it is one.
    pub(crate) const fn budget(&self) -> Option<BudgetId> {
        match self {
            Self::Budget { budget, .. } => Some(*budget),
            Self::Quota { .. } => None,
        }
    }

    /// Where the gate lives.
    pub fn home(&self, config: &PartitionConfig) -> Partition {
        match self {
            Self::Quota { policy, .. } => {
                config.shared_partition_of(PartitionFamily::Quota, policy.as_uuid())
            }
            Self::Budget { budget, .. } => {
                config.shared_partition_of(PartitionFamily::Budget, budget.as_uuid())
            }
        }
    }
}

/// What a partition has written down that it owes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Debt {
    /// A lease is over: what its gates gave it goes back.
    Release { execution_id: ExecutionId, epoch: LeaseEpoch, used: bool, gates: Vec<Gate> },
    /// An execution is gone, and so may be what its gates know of it.
    Forget { execution_id: ExecutionId, gates: Vec<Gate> },
    /// Somebody waits for a closed gate.
    Wait { gate: String },
    /// So many may pass a gate in a partition.
    Open(Opening),
    /// How the hard limits of a budget stand, for a lease that passed it.
    Reached {
        reached: bool,
        order: u64,
        epoch: LeaseEpoch,
        budget: BudgetId,
        execution_id: ExecutionId,
    },
    /// What a budget's limit means to an execution that runs, or people to its limit.
    Budget(Verdict),
}

/// What follows from a budget's limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The execution that reached it is to ask people.
    Ask { number: u64, epoch: LeaseEpoch, budget: BudgetId, execution_id: ExecutionId },
    /// An execution that runs is to end.
    Stop { action: String, epoch: LeaseEpoch, budget: BudgetId, execution_id: ExecutionId },
    /// People have approved: the limit is raised.
    Raise { number: u64, budget: BudgetId },
}

impl Verdict {
    fn parse(word: &str, rest: &str) -> Option<Self> {
        let mut parts = rest.splitn(4, ':');
        let first = parts.next()?;
        if word == "raise" {
            return Some(Self::Raise {
                number: first.parse().ok()?,
                budget: parts.next()?.parse().ok()?,
            });
        }
        let epoch = LeaseEpoch::new(parts.next()?.parse().ok()?);
        let (budget, execution_id) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(match word {
            "ask" => Self::Ask { number: first.parse().ok()?, epoch, budget, execution_id },
            _ => Self::Stop { action: first.to_owned(), epoch, budget, execution_id },
        })
    }
}

/// So many may pass a gate in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// As its home wrote it down.
    pub(crate) entry: String,
    pub(crate) partition: Partition,
    pub(crate) count: u32,
    pub(crate) gate: String,
}

impl Opening {
    pub(crate) fn parse(entry: &str) -> Option<Self> {
        let mut parts = entry.strip_prefix("open:")?.splitn(4, ':');
        parts.next()?;
        Some(Self {
            entry: entry.to_owned(),
            partition: Partition::flow(parts.next()?.parse().ok()?),
            count: parts.next()?.parse().ok()?,
            gate: parts.next()?.to_owned(),
        })
    }
}

impl Debt {
    /// Reads an entry of a partition's outbox; `None` if a newer version wrote it.
    pub(crate) fn parse(entry: &[u8], from: Partition) -> Option<Self> {
        let text = std::str::from_utf8(entry).ok()?;
        let (word, rest) = text.split_once(':')?;
        let execution = |uuid: &str| -> Option<ExecutionId> {
            Some(ExecutionId::from_parts(from, Uuid::parse_str(uuid).ok()?))
        };
        match word {
            "release" => {
                let mut parts = rest.splitn(4, ':');
                let execution_id = execution(parts.next()?)?;
                let epoch = LeaseEpoch::new(parts.next()?.parse().ok()?);
                let used = parts.next()? == "1";
                Some(Self::Release { execution_id, epoch, used, gates: gates(parts.next()?)? })
            }
            "forget" => {
                let (uuid, rest) = rest.split_once(':')?;
                Some(Self::Forget { execution_id: execution(uuid)?, gates: gates(rest)? })
            }
            "wait" => rest.splitn(4, ':').nth(3).map(|gate| Self::Wait { gate: gate.to_owned() }),
            "open" => Opening::parse(text).map(Self::Open),
            "reached" => Self::parse_reached(rest),
            "ask" | "stop" | "raise" => Verdict::parse(word, rest).map(Self::Budget),
            _ => None,
        }
    }
}

impl Debt {
    fn parse_reached(rest: &str) -> Option<Self> {
        let mut parts = rest.splitn(5, ':');
        Some(Self::Reached {
            reached: parts.next()? == "1",
            order: parts.next()?.parse().ok()?,
            epoch: LeaseEpoch::new(parts.next()?.parse().ok()?),
            budget: parts.next()?.parse().ok()?,
            execution_id: parts.next()?.parse().ok()?,
        })
    }
}

/// Packed gates: each text behind its length.
fn gates(packed: &str) -> Option<Vec<Gate>> {
    let (mut rest, mut texts) = (packed, Vec::new());
    while !rest.is_empty() {
        let (length, behind) = rest.split_once(':')?;
        let (text, behind) = behind.split_at_checked(length.parse().ok()?)?;
        texts.push(text.to_owned());
        rest = behind;
    }
    Gate::all(&texts)
}

/// Where the gate of this name lives.
pub(crate) fn home_of(gate: &str, config: &PartitionConfig) -> Option<Partition> {
    let (letter, rest) = gate.split_once(':')?;
    let family = match letter {
        "q" => PartitionFamily::Quota,
        "b" => PartitionFamily::Budget,
        _ => return None,
    };
    let id = Uuid::parse_str(rest.get(..36)?).ok()?;
    Some(config.shared_partition_of(family, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "00000000-0000-4000-8000-000000000007";

    fn debt(text: &str) -> Option<Debt> {
        Debt::parse(text.as_bytes(), Partition::flow(3))
    }

    fn quota(key: &str) -> Gate {
        Gate::Quota { policy: ID.parse().expect("an id"), key: key.to_owned() }
    }

    #[test]
    fn what_is_owed_is_read_as_it_was_written() {
        let execution_id = ExecutionId::from_parts(Partition::flow(3), ID.parse().expect("a uuid"));
        let gates = vec![quota("a:b")];
        let release = debt(&format!("release:{ID}:4:1:1:q36:{ID}3:a:b"));
        let epoch = LeaseEpoch::new(4);
        let expected = Debt::Release { execution_id, epoch, used: true, gates: gates.clone() };
        assert_eq!(release, Some(expected));
        let forget = debt(&format!("forget:{ID}:1:q36:{ID}3:a:b"));
        assert_eq!(forget, Some(Debt::Forget { execution_id, gates }));
        let gate = format!("q:{ID}:a:b");
        assert_eq!(debt(&format!("wait:{ID}:4:7:{gate}")), Some(Debt::Wait { gate: gate.clone() }));
        let entry = format!("open:9:5:2:{gate}");
        let opening =
            Opening { entry: entry.clone(), partition: Partition::flow(5), count: 2, gate };
        assert_eq!(debt(&entry), Some(Debt::Open(opening)));
    }

    #[test]
    fn what_a_newer_version_wrote_is_left_alone() {
        for text in ["", "pay:1", "release:x:1:1:", "release:1", "open:1:x:1:q"] {
            assert_eq!(debt(text), None, "{text}");
        }
    }

    #[test]
    fn a_gate_lives_where_its_id_says() {
        let config = PartitionConfig::default();
        let home = quota("k").home(&config);
        assert_eq!(home_of(&format!("q:{ID}:k"), &config), Some(home));
        assert_eq!(home.family, PartitionFamily::Quota);
        assert_eq!(home_of("x:1", &config), None);
    }
}
