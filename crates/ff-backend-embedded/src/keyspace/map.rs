//! A map from byte strings that grows a little at a time. An ordinary hash map moves everything at
//! once when it is full, and all calls wait; this one is made of parts, and a full map splits one
//! of them in two (linear hashing).

use std::hash::BuildHasher;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::Seeded;

/// Entries in a part, on average, before the next one is split: what a split moves stays well
/// below a millisecond.
const PART_ENTRIES: usize = 1024;

/// Entries by key.
#[derive(Debug)]
pub(crate) struct Map<K, V> {
    /// Most maps have no other part: it is kept at hand.
    first: Part<K, V>,
    others: Vec<Part<K, V>>,
    len: usize,
}

type Part<K, V> = HashTable<(K, V)>;

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self { first: HashTable::new(), others: Vec::new(), len: 0 }
    }
}

impl<K: AsRef<[u8]>, V> Map<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&V> {
        let hash = hash_of(key);
        let part = match part_of(hash, self.parts()) {
            0 => &self.first,
            part => &self.others[part - 1],
        };
        part.find(hash, is(key)).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        let hash = hash_of(key);
        self.part_mut(hash).find_mut(hash, is(key)).map(|(_, value)| value)
    }

    /// The value of a key, which is made if there is none.
    pub(crate) fn get_or_insert_with(&mut self, key: &[u8], value: impl FnOnce() -> V) -> &mut V
    where
        K: for<'a> From<&'a [u8]>,
    {
        self.make_room();
        let hash = hash_of(key);
        let part = part_mut(&mut self.first, &mut self.others, hash);
        match part.entry(hash, is(key), rehash) {
            Entry::Occupied(entry) => &mut entry.into_mut().1,
            Entry::Vacant(entry) => {
                self.len += 1;
                &mut entry.insert((key.into(), value())).into_mut().1
            }
        }
    }

    /// Gives a key a value, in place of the one it had.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.make_room();
        let hash = hash_of(key.as_ref());
        let part = part_mut(&mut self.first, &mut self.others, hash);
        match part.entry(hash, is(key.as_ref()), rehash) {
            Entry::Occupied(mut entry) => entry.get_mut().1 = value,
            Entry::Vacant(entry) => {
                entry.insert((key, value));
                self.len += 1;
            }
        }
    }

    /// The value that the key had.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<V> {
        let hash = hash_of(key);
        let entry = self.part_mut(hash).find_entry(hash, is(key)).ok()?;
        let ((_, value), _) = entry.remove();
        self.len -= 1;
        Some(value)
    }

    /// All entries, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.first.iter().chain(self.others.iter().flatten()).map(|(key, value)| (key, value))
    }

    fn parts(&self) -> usize {
        1 + self.others.len()
    }

    fn part_mut(&mut self, hash: u64) -> &mut Part<K, V> {
        part_mut(&mut self.first, &mut self.others, hash)
    }

    /// Splits a part if all are full: the new part gets about half of its entries.
    fn make_room(&mut self) {
        let count = self.parts();
        if self.len < count * PART_ENTRIES {
            return;
        }
        let split = match choose(count, count) {
            0 => &mut self.first,
            part => &mut self.others[part - 1],
        };
        let entries = std::mem::take(split);
        let mut new = HashTable::with_capacity(entries.len() / 2);
        split.reserve(entries.len() / 2, rehash);
        for entry in entries {
            let hash = rehash(&entry);
            let moves = part_of(hash, count + 1) == count;
            let home = if moves { &mut new } else { &mut *split };
            home.insert_unique(hash, entry, rehash);
        }
        self.others.push(new);
    }
}

/// The part with the keys of this hash; a function of its own because it borrows only the parts.
fn part_mut<'a, K, V>(
    first: &'a mut Part<K, V>,
    others: &'a mut [Part<K, V>],
    hash: u64,
) -> &'a mut Part<K, V> {
    match part_of(hash, 1 + others.len()) {
        0 => first,
        part => &mut others[part - 1],
    }
}

/// Compares an entry's key with this one.
fn is<K: AsRef<[u8]>, V>(key: &[u8]) -> impl Fn(&(K, V)) -> bool {
    move |entry| entry.0.as_ref() == key
}

fn hash_of(key: &[u8]) -> u64 {
    Seeded.hash_one(key)
}

fn rehash<K: AsRef<[u8]>, V>(entry: &(K, V)) -> u64 {
    hash_of(entry.0.as_ref())
}

/// Which of so many parts has a key of this hash. A part's own table uses the lowest bits and the
/// highest.
fn part_of(hash: u64, count: usize) -> usize {
    choose((hash >> 32) as usize, count)
}

/// The part for these bits. With every further part only the keys of one other move to it.
fn choose(bits: usize, count: usize) -> usize {
    let range = count.next_power_of_two();
    let part = bits & (range - 1);
    if part < count { part } else { part & (range / 2 - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Box<[u8]> {
        format!("key-{number}").into_bytes().into()
    }

    #[test]
    fn it_agrees_with_an_ordinary_map_while_it_grows_and_shrinks() {
        let (mut map, mut model) = (Map::default(), std::collections::HashMap::new());
        for step in 0..60_000_usize {
            let number = step.wrapping_mul(7919) % 20_000;
            if step % 5 == 4 {
                assert_eq!(map.remove(&key(number)), model.remove(&number));
            } else if step % 2 == 0 {
                map.insert(key(number), step);
                model.insert(number, step);
            } else {
                let value = map.get_or_insert_with(&key(number), || step);
                assert_eq!(value, model.entry(number).or_insert(step));
            }
            assert_eq!(map.len(), model.len());
        }
        for number in 0..20_000 {
            assert_eq!(map.get(&key(number)), model.get(&number));
            assert_eq!(map.get_mut(&key(number)), model.get_mut(&number));
        }
        let mut keys: Vec<_> = map.iter().map(|(key, value)| (key.to_vec(), *value)).collect();
        let mut known: Vec<_> = model.iter().map(|(it, v)| (key(*it).to_vec(), *v)).collect();
        keys.sort();
        known.sort();
        assert_eq!(keys, known);
    }

    #[test]
    fn no_part_grows_far_beyond_its_size() {
        let mut map = Map::default();
        for number in 0..100_000 {
            map.insert(key(number), ());
        }
        let largest = map.others.iter().map(HashTable::len).max();
        assert!(largest.is_some_and(|largest| largest < 3 * PART_ENTRIES), "{largest:?}");
        assert!(map.parts() >= 100_000 / PART_ENTRIES);
    }

    #[test]
    fn a_further_part_takes_from_one_other_only() {
        for count in 1..200 {
            let mut from = std::collections::BTreeSet::new();
            for bits in 0..100_000_usize {
                let (before, after) = (choose(bits, count), choose(bits, count + 1));
                if before != after {
                    assert_eq!(after, count);
                    from.insert(before);
                }
            }
            assert_eq!(from.into_iter().collect::<Vec<_>>(), [choose(count, count)]);
        }
    }
}
