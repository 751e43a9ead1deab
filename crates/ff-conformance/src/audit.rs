//! Whether a store is in order: every execution is in exactly the indexes that its record calls
//! for, every index holds nothing else, and no key is there that nobody knows.
//!
//! Written from the documentation of the records, not from the library's code: it must find what
//! the library forgets.

mod record;

use std::collections::{BTreeMap, BTreeSet};

use ff_core::limits;
use ff_script::dump::{Dump, Stored};

pub use record::Record;

/// How each execution's own keys end, besides the record itself.
const BLOBS: [(&str, &str); 4] =
    [("payload", "in"), ("result", "out"), ("policy", "po"), ("detail", "de")];

const OUTCOMES: [&str; 5] = ["success", "failed", "cancelled", "expired", "skipped"];

/// Everything that is wrong, one line each; empty if the store is in order.
pub fn audit(dump: &Dump) -> Vec<String> {
    let mut wrong = Vec::new();
    for (key, partition) in by_partition(dump) {
        Auditor::new(&key, partition).run(&mut wrong);
    }
    wrong
}

/// The keys of each partition, without the partition's own key in front.
fn by_partition(dump: &Dump) -> BTreeMap<String, BTreeMap<String, &Stored>> {
    let mut partitions: BTreeMap<String, BTreeMap<String, &Stored>> = BTreeMap::new();
    for (key, stored) in dump {
        let key = String::from_utf8_lossy(key).into_owned();
        let (partition, rest) = key.split_once("}:").unwrap_or((&key, ""));
        let keys = partitions.entry(format!("{partition}}}")).or_default();
        keys.insert(rest.to_owned(), stored);
    }
    partitions
}

type Scores = BTreeMap<String, f64>;

struct Auditor<'a> {
    partition: &'a str,
    keys: BTreeMap<String, &'a Stored>,
    records: BTreeMap<String, Record>,
    known: BTreeSet<String>,
}

impl<'a> Auditor<'a> {
    fn new(partition: &'a str, keys: BTreeMap<String, &'a Stored>) -> Self {
        let mut records = BTreeMap::new();
        for (key, stored) in &keys {
            if let (Some(uuid), Stored::Hash(fields)) = (key.strip_prefix("x:"), stored)
                && uuid.len() == 36
            {
                records.insert(uuid.to_owned(), Record::new(fields));
            }
        }
        Self { partition, keys, records, known: BTreeSet::new() }
    }

    fn run(mut self, wrong: &mut Vec<String>) {
        let mut found = Vec::new();
        self.check_records(&mut found);
        self.check_all(&mut found);
        self.check_queues(&mut found);
        self.check_due(&mut found);
        self.check_ended(&mut found);
        self.check_own_keys(&mut found);
        self.check_rest(&mut found);
        wrong.extend(found.into_iter().map(|line| format!("{} {line}", self.partition)));
    }

    fn check_records(&mut self, wrong: &mut Vec<String>) {
        for (uuid, record) in &self.records {
            self.known.insert(format!("x:{uuid}"));
            wrong.extend(record.faults().into_iter().map(|fault| format!("x:{uuid} {fault}")));
        }
    }

    /// A sorted set must hold exactly these members with these scores.
    fn compare(&mut self, key: &str, expected: &Scores, wrong: &mut Vec<String>) {
        self.known.insert(key.to_owned());
        let actual = match self.keys.get(key) {
            None => Scores::new(),
            Some(Stored::SortedSet(members)) => members
                .iter()
                .map(|(member, score)| (String::from_utf8_lossy(member).into_owned(), *score))
                .collect(),
            Some(_) => return wrong.push(format!("{key} is no sorted set")),
        };
        let members: BTreeSet<&String> = expected.keys().chain(actual.keys()).collect();
        for member in members {
            let (wanted, is) = (expected.get(member), actual.get(member));
            if wanted != is {
                wrong.push(format!("{key} holds {member} at {is:?}, which belongs at {wanted:?}"));
            }
        }
    }

    fn scores(&self, score: impl Fn(&Record) -> Option<f64>) -> Scores {
        let scored = self.records.iter().map(|(uuid, record)| (uuid.clone(), score(record)));
        scored.filter_map(|(uuid, score)| Some((uuid, score?))).collect()
    }

    fn check_all(&mut self, wrong: &mut Vec<String>) {
        let expected = self.scores(|record| record.number("ct"));
        self.compare("all", &expected, wrong);
    }

    fn check_queues(&mut self, wrong: &mut Vec<String>) {
        let named = self.keys.keys().filter(|key| key.starts_with("q:")).cloned();
        let wanted = self.records.values().filter_map(|record| record.queue());
        let wanted = wanted.map(|lane| format!("q:{lane}"));
        let queues: BTreeSet<String> = named.chain(wanted).collect();
        for queue in queues {
            let lane = &queue[2..];
            let here = |record: &Record| record.queue().as_deref() == Some(lane);
            let expected =
                self.scores(|record| here(record).then(|| record.queue_score()));
            self.compare(&queue, &expected, wrong);
        }
    }

    /// What happens later, and the idempotency keys that will be forgotten.
    fn check_due(&mut self, wrong: &mut Vec<String>) {
        let mut expected = self.scores(Record::due_at);
        self.known.insert("idem".to_owned());
        if let Some(Stored::Hash(fields)) = self.keys.get("idem") {
            for (field, value) in fields {
                let value = String::from_utf8_lossy(value);
                let until = value.split(':').next().and_then(|text| text.parse().ok());
                let member = format!("i:{}", String::from_utf8_lossy(field));
                expected.insert(member, until.unwrap_or(f64::NAN));
            }
        }
        self.compare("due", &expected, wrong);
    }

    fn check_ended(&mut self, wrong: &mut Vec<String>) {
        for outcome in OUTCOMES {
            let here = |record: &Record| record.state() == outcome;
            let expected = self.scores(|record| here(record).then(|| record.purge_at()));
            self.compare(&format!("ended:{outcome}"), &expected, wrong);
        }
    }

    /// Long values, tags and past attempts: there exactly if the record says so.
    fn check_own_keys(&mut self, wrong: &mut Vec<String>) {
        for (uuid, record) in &self.records {
            for (name, field) in BLOBS {
                let key = format!("x:{uuid}:{name}");
                let apart = record.has(&format!("{field}2")) && !record.has(field);
                let there = matches!(self.keys.get(&key), Some(Stored::String(_)));
                if apart != there {
                    wrong.push(format!("{key}: the record says {apart}, the store {there}"));
                }
                self.known.insert(key);
            }
            let key = format!("x:{uuid}:tags");
            if record.has("tg") != matches!(self.keys.get(&key), Some(Stored::Hash(_))) {
                wrong.push(format!("{key}: the record says {}", record.has("tg")));
            }
            self.known.insert(key);
            let key = format!("x:{uuid}:attempts");
            let past = match self.keys.get(&key) {
                Some(Stored::List(lines)) => lines.len() as f64,
                _ => 0.0,
            };
            let count = (record.number("ac").unwrap_or(0.0) - 1.0).max(0.0);
            if past != count.min(limits::ATTEMPT_HISTORY_MAX as f64) {
                wrong.push(format!("{key} holds {past} of {count} past attempts"));
            }
            self.known.insert(key);
        }
    }

    fn check_rest(&mut self, wrong: &mut Vec<String>) {
        for (key, stored) in &self.keys {
            let fits = match key.as_str() {
                "log" => matches!(stored, Stored::Stream(_)),
                "lanes" => matches!(stored, Stored::Set(_)),
                "deployment" => matches!(stored, Stored::Hash(_)),
                known => self.known.contains(known),
            };
            if !fits {
                wrong.push(format!("{key} is no key of ours, or of the wrong type"));
            }
        }
    }
}
