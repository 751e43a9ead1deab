//! A dump, sorted by partition and by what each key is for.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::partition::{Partition, PartitionConfig};

use super::keys::{self, Place};
use super::record::Record;
use super::{Findings, shown};
use crate::dump::{Dump, Sorted, Stored};

pub(super) type Hash = Sorted<Vec<u8>>;
pub(super) type Scores = Sorted<f64>;

/// What one partition holds.
pub(super) struct Contents<'a> {
    pub(super) partition: Partition,
    /// Every value of the right type, by its place, but for records: nearly all keys are records,
    /// and much is looked for here that most of them do not have.
    pub(super) places: BTreeMap<Place<'a>, &'a Stored>,
    /// The executions, by their uuid.
    pub(super) records: BTreeMap<&'a str, Record<'a>>,
    /// What is left of executions that were purged a moment ago, by their uuid.
    pub(super) remnants: BTreeMap<&'a str, Record<'a>>,
}

impl<'a> Contents<'a> {
    fn new(partition: Partition, pile: Pile<'a>) -> Self {
        let Pile { places, records, remnants } = pile;
        let (places, records) = (places.into_iter().collect(), records.into_iter().collect());
        Self { partition, places, records, remnants: remnants.into_iter().collect() }
    }

    /// The key of a place, for a person.
    pub(super) fn key(&self, place: &Place<'_>) -> String {
        keys::name(self.partition, place)
    }

    pub(super) fn hash(&self, place: &Place<'a>) -> Option<&'a Hash> {
        match self.places.get(place) {
            Some(Stored::Hash(hash)) => Some(hash),
            _ => None,
        }
    }

    pub(super) fn scores(&self, place: &Place<'a>) -> Option<&'a Scores> {
        match self.places.get(place) {
            Some(Stored::SortedSet(scores)) => Some(scores),
            _ => None,
        }
    }

    pub(super) fn set(&self, place: &Place<'a>) -> Option<&'a BTreeSet<Vec<u8>>> {
        match self.places.get(place) {
            Some(Stored::Set(members)) => Some(members),
            _ => None,
        }
    }

    pub(super) fn list(&self, place: &Place<'a>) -> Option<&'a [Vec<u8>]> {
        match self.places.get(place) {
            Some(Stored::List(values)) => Some(values),
            _ => None,
        }
    }

    pub(super) fn string(&self, place: &Place<'a>) -> Option<&'a [u8]> {
        match self.places.get(place) {
            Some(Stored::String(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

/// What was found of one partition, as it comes; its neighbours mostly come in order.
#[derive(Default)]
struct Pile<'a> {
    places: Vec<(Place<'a>, &'a Stored)>,
    records: Vec<(&'a str, Record<'a>)>,
    remnants: Vec<(&'a str, Record<'a>)>,
}

/// Sorts a dump. What has no place, or the wrong type for it, is found and left out.
pub(super) fn sort<'a>(
    dump: &'a Dump,
    config: &PartitionConfig,
    found: &mut Findings,
) -> BTreeMap<Partition, Contents<'a>> {
    let mut piles: BTreeMap<Partition, Pile<'a>> = BTreeMap::new();
    for (key, stored) in dump {
        let Some((partition, place)) = placed(key, stored, config, found) else { continue };
        let pile = piles.entry(partition).or_default();
        if let (&Place::Record(uuid), Stored::Hash(fields)) = (&place, stored) {
            let record = Record::new(key, uuid, fields);
            let kept = if record.is_remnant() { &mut pile.remnants } else { &mut pile.records };
            kept.push((uuid, record));
        } else {
            pile.places.push((place, stored));
        }
    }
    let whole = |(partition, pile)| (partition, Contents::new(partition, pile));
    piles.into_iter().map(whole).collect()
}

fn placed<'a>(
    key: &'a [u8],
    stored: &Stored,
    config: &PartitionConfig,
    found: &mut Findings,
) -> Option<(Partition, Place<'a>)> {
    let mut wrong = |what: String| {
        found.add("I9", shown(key), what);
        None
    };
    let Some((partition, place)) = keys::parse(key) else {
        return wrong("no key of ours".to_owned());
    };
    let count = config.count_for(partition.family);
    if partition.index >= count {
        return wrong(format!("under a partition that does not exist: there are {count}"));
    }
    if place.only_in_first() && partition.index != 0 {
        return wrong("belongs in the first partition alone".to_owned());
    }
    if !place.fits(stored) {
        return wrong(format!("holds {}, which is the wrong type", type_name(stored)));
    }
    Some((partition, place))
}

fn type_name(stored: &Stored) -> &'static str {
    match stored {
        Stored::String(_) => "a string",
        Stored::Hash(_) => "a hash",
        Stored::SortedSet(_) => "a sorted set",
        Stored::List(_) => "a list",
        Stored::Set(_) => "a set",
        Stored::Stream(_) => "a stream",
    }
}
