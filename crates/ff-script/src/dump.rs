//! A copy of everything a store holds, for checks that look at keys from outside the library.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Index;
use std::slice;

/// Every key of a store with its value.
pub type Dump = BTreeMap<Vec<u8>, Stored>;

/// One stored value.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored {
    /// A byte string.
    String(Vec<u8>),
    /// Fields and values.
    Hash(Sorted<Vec<u8>>),
    /// Members with their scores.
    SortedSet(Sorted<f64>),
    /// Values in order.
    List(Vec<Vec<u8>>),
    /// Members.
    Set(BTreeSet<Vec<u8>>),
    /// Entries in order.
    Stream(Vec<StreamEntry>),
}

/// One entry of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// Milliseconds part of the entry's id.
    pub ms: u64,
    /// Sequence part of the entry's id.
    pub seq: u64,
    /// Field names and values, in order.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Names with values, in the order of the names: there is one for each record, most have a few
/// names, and all are made at once, looked at, and dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct Sorted<V>(Vec<Pair<V>>);

type Pair<V> = (Vec<u8>, V);

/// Up to as many are looked through one by one.
const FEW: usize = 32;

/// The first bytes as a number: mostly enough to tell two names apart and which comes first.
fn head(name: &[u8]) -> u64 {
    match name.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => name.iter().rev().fold(0, |head, byte| head >> 8 | u64::from(*byte) << 56),
    }
}

fn order(one: &[u8], other: &[u8]) -> Ordering {
    head(one).cmp(&head(other)).then_with(|| one.cmp(other))
}

impl<V> Default for Sorted<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> Sorted<V> {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a name.
    pub fn get(&self, name: &[u8]) -> Option<&V> {
        let found = if self.0.len() <= FEW {
            // Most differ at once: no need to call out for each.
            let differs = |known: &[u8]| known.len() != name.len() || known.first() != name.first();
            self.0.iter().find(|(known, _)| !differs(known) && known == name)
        } else {
            let place = self.0.binary_search_by(|(known, _)| order(known, name)).ok()?;
            self.0.get(place)
        };
        found.map(|(_, value)| value)
    }

    /// Takes a name out: its value.
    pub fn remove(&mut self, name: &[u8]) -> Option<V> {
        let place = self.0.binary_search_by(|(known, _)| order(known, name)).ok()?;
        Some(self.0.remove(place).1)
    }

    /// True if there is such a name.
    pub fn contains_key(&self, name: &[u8]) -> bool {
        self.get(name).is_some()
    }

    /// All of them, in order.
    pub fn iter(&self) -> Iter<'_, V> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// The names, in order.
    pub fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.0.iter().map(|(name, _)| name)
    }

    /// The values, in the order of their names.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }
}

/// What [`Sorted::iter`] answers.
pub type Iter<'a, V> = std::iter::Map<slice::Iter<'a, Pair<V>>, fn(&Pair<V>) -> (&Vec<u8>, &V)>;

impl<'a, V> IntoIterator for &'a Sorted<V> {
    type Item = (&'a Vec<u8>, &'a V);
    type IntoIter = Iter<'a, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<V> IntoIterator for Sorted<V> {
    type Item = (Vec<u8>, V);
    type IntoIter = std::vec::IntoIter<Pair<V>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The value of a name that is there.
impl<V> Index<&[u8]> for Sorted<V> {
    type Output = V;

    fn index(&self, name: &[u8]) -> &V {
        self.get(name).expect("only a name that is there is indexed by")
    }
}

/// Of those with one name, the last one stays.
impl<V> Extend<(Vec<u8>, V)> for Sorted<V> {
    fn extend<I: IntoIterator<Item = (Vec<u8>, V)>>(&mut self, pairs: I) {
        self.0.extend(pairs);
        self.0.sort_by(|one, other| order(&one.0, &other.0));
        self.0.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                std::mem::swap(later, earlier);
            }
            same
        });
    }
}

impl<V> FromIterator<(Vec<u8>, V)> for Sorted<V> {
    fn from_iter<I: IntoIterator<Item = (Vec<u8>, V)>>(pairs: I) -> Self {
        let mut sorted = Self::new();
        sorted.extend(pairs);
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_found_by_their_names_and_the_last_of_a_name_stays() {
        let pair = |text: &str| (text.as_bytes()[..1].to_vec(), text.to_owned());
        let sorted: Sorted<String> =
            ["c1", "a1", "b1", "a2", "c2", "a3"].map(pair).into_iter().collect();
        let all: Vec<_> = sorted.values().map(String::as_str).collect();
        assert_eq!(all, ["a3", "b1", "c2"]);
        assert_eq!(sorted.get(b"a"), Some(&"a3".to_owned()));
        assert!(sorted.contains_key(b"c") && !sorted.contains_key(b"d") && sorted.len() == 3);
        assert!(sorted.keys().map(Vec::as_slice).eq([b"a", b"b", b"c"]));
        let mut sorted = sorted;
        sorted.extend([pair("b2"), pair("d1")]);
        assert_eq!((&sorted[b"b".as_slice()], sorted.len()), (&"b2".to_owned(), 4));
        assert_eq!(sorted.remove(b"a"), Some("a3".to_owned()));
        assert_eq!((sorted.remove(b"a"), sorted.len()), (None, 3));
        assert!(Sorted::<String>::new().is_empty());
    }

    #[test]
    fn many_names_are_in_the_order_of_their_bytes_and_all_are_found() {
        let names = (0..40_usize).flat_map(|n| {
            let digits = format!("{:03}", n * 7 % 40).into_bytes();
            let long = [b"the same beginning ", &digits[..]].concat();
            [digits.clone(), [&digits[..], b"\0"].concat(), long, vec![0; n]]
        });
        let mut names: Vec<Vec<u8>> = names.collect();
        let sorted: Sorted<usize> = names.iter().map(|name| (name.clone(), name.len())).collect();
        names.sort();
        names.dedup();
        assert!(sorted.keys().eq(&names));
        assert!(names.iter().all(|name| sorted.get(name) == Some(&name.len())));
        assert_eq!(sorted.get(b"the same beginning"), None);
    }
}
