//! Entries found by a hash, in tables that grow a little at a time. An ordinary hash map moves
//! everything at once when it is full, and all calls wait; this one is made of parts, and a full
//! map splits one of them in two (linear hashing).

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::footprint::allocated;

/// Entries in a part, on average, before the next one is split: what a split moves stays well
/// below a millisecond. The part that waits longest for its turn has twice as many, which is what
/// a table of 2,048 places holds with a little to spare, so that none has to grow before.
const PART_ENTRIES: usize = 832;

/// What a map is made of. An entry knows the hash that it is found by.
pub(crate) trait Hashed {
    fn hash(&self) -> u64;
}

/// Entries by their hashes.
#[derive(Debug)]
pub(crate) struct Map<T> {
    /// Most maps have no other part: it is kept at hand.
    first: HashTable<T>,
    others: Vec<HashTable<T>>,
    len: usize,
    /// What the tables take.
    bytes: usize,
}

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self { first: HashTable::new(), others: Vec::new(), len: 0, bytes: 0 }
    }
}

impl<T: Hashed> Map<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry of this hash that is the one.
    pub(crate) fn find(&self, hash: u64, is: impl FnMut(&T) -> bool) -> Option<&T> {
        let part = match part_of(hash, self.parts()) {
            0 => &self.first,
            part => &self.others[part - 1],
        };
        part.find(hash, is)
    }

    pub(crate) fn find_mut(&mut self, hash: u64, is: impl FnMut(&T) -> bool) -> Option<&mut T> {
        self.part_mut(hash).find_mut(hash, is)
    }

    /// The entry of this hash that is the one; it is made if there is none.
    pub(crate) fn find_or_insert(
        &mut self,
        hash: u64,
        is: impl FnMut(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> &mut T {
        self.make_room();
        let part = part_mut(&mut self.first, &mut self.others, hash);
        self.bytes += grow(part);
        match part.entry(hash, is, T::hash) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(place) => {
                self.len += 1;
                place.insert(make()).into_mut()
            }
        }
    }

    /// Adds an entry that is not there yet.
    pub(crate) fn insert(&mut self, entry: T) {
        self.make_room();
        self.len += 1;
        let hash = entry.hash();
        let part = part_mut(&mut self.first, &mut self.others, hash);
        self.bytes += grow(part);
        part.insert_unique(hash, entry, T::hash);
    }

    /// Makes room for as many entries: what comes then is not moved again and again.
    pub(crate) fn expect(&mut self, entries: usize) {
        if entries <= self.len {
            return;
        }
        for _ in self.parts()..entries / PART_ENTRIES {
            self.split();
        }
        let count = self.parts();
        let parts = std::iter::once(&mut self.first).chain(&mut self.others);
        for (place, part) in parts.enumerate() {
            let (share, before) = (share(entries, place, count), table_bytes(part));
            part.reserve(share.saturating_sub(part.len()), T::hash);
            self.bytes = self.bytes + table_bytes(part) - before;
        }
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, hash: u64, is: impl FnMut(&T) -> bool) -> Option<T> {
        let found = self.part_mut(hash).find_entry(hash, is).ok()?;
        let (entry, _) = found.remove();
        self.len -= 1;
        Some(entry)
    }

    /// All entries, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.others.iter().flatten())
    }

    /// What the tables take, with all that is kept in them.
    pub(crate) fn table_bytes(&self) -> usize {
        self.bytes + allocated(self.others.capacity() * size_of::<HashTable<T>>())
    }

    fn parts(&self) -> usize {
        1 + self.others.len()
    }

    fn part_mut(&mut self, hash: u64) -> &mut HashTable<T> {
        part_mut(&mut self.first, &mut self.others, hash)
    }

    /// Splits a part if all are full.
    fn make_room(&mut self) {
        if self.len >= self.parts() * PART_ENTRIES {
            self.split();
        }
    }

    /// Splits the part whose turn it is: the new part gets about half of its entries.
    fn split(&mut self) {
        let count = self.parts();
        let split = match choose(count, count) {
            0 => &mut self.first,
            part => &mut self.others[part - 1],
        };
        let entries = std::mem::take(split);
        self.bytes -= table_bytes(&entries);
        let mut new = HashTable::with_capacity(entries.len() / 2);
        split.reserve(entries.len() / 2, T::hash);
        for entry in entries {
            let hash = entry.hash();
            let moves = part_of(hash, count + 1) == count;
            let home = if moves { &mut new } else { &mut *split };
            home.insert_unique(hash, entry, T::hash);
        }
        self.bytes += table_bytes(split) + table_bytes(&new);
        self.others.push(new);
    }
}

/// The part with the entries of this hash; a function of its own because it borrows only the parts.
fn part_mut<'a, T>(
    first: &'a mut HashTable<T>,
    others: &'a mut [HashTable<T>],
    hash: u64,
) -> &'a mut HashTable<T> {
    match part_of(hash, 1 + others.len()) {
        0 => first,
        part => &mut others[part - 1],
    }
}

fn table_bytes<T>(part: &HashTable<T>) -> usize {
    allocated(part.allocation_size())
}

/// Makes room for one more entry; answers how much larger the table became.
fn grow<T: Hashed>(part: &mut HashTable<T>) -> usize {
    if part.len() < part.capacity() {
        return 0;
    }
    let before = table_bytes(part);
    part.reserve(1, T::hash);
    table_bytes(part).saturating_sub(before)
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

/// How many of so many entries come into one of so many parts: twice as many as into others where
/// its turn to be split has not come.
fn share(entries: usize, place: usize, count: usize) -> usize {
    let range = count.next_power_of_two();
    let is_whole = (count - range / 2..range / 2).contains(&place);
    if is_whole { entries / range * 2 } else { entries / range }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::super::Seeded;
    use super::*;

    /// A number under a key made from another.
    #[derive(Debug, PartialEq)]
    struct Numbered(usize, usize);

    impl Hashed for Numbered {
        fn hash(&self) -> u64 {
            key(self.0)
        }
    }

    fn key(number: usize) -> u64 {
        Seeded.hash_one(number)
    }

    fn is(number: usize) -> impl Fn(&Numbered) -> bool {
        move |entry| entry.0 == number
    }

    #[test]
    fn it_agrees_with_an_ordinary_map_while_it_grows_and_shrinks() {
        let (mut map, mut model) = (Map::default(), std::collections::HashMap::new());
        for step in 0..60_000_usize {
            let number = step.wrapping_mul(7919) % 20_000;
            if step % 5 == 4 {
                let removed = map.remove(key(number), is(number)).map(|entry| entry.1);
                assert_eq!(removed, model.remove(&number));
            } else {
                map.find_or_insert(key(number), is(number), || Numbered(number, 0)).1 = step;
                model.insert(number, step);
            }
            assert_eq!(map.len(), model.len());
        }
        for number in 0..20_000 {
            let found = map.find(key(number), is(number)).map(|entry| &entry.1);
            assert_eq!(found, model.get(&number));
        }
        let mut entries: Vec<_> = map.iter().map(|entry| (entry.0, entry.1)).collect();
        let mut known: Vec<_> = model.into_iter().collect();
        entries.sort_unstable();
        known.sort_unstable();
        assert_eq!(entries, known);
    }

    #[test]
    fn no_part_grows_far_beyond_its_size() {
        let mut map = Map::default();
        for number in 0..100_000 {
            map.insert(Numbered(number, 0));
        }
        let largest = map.others.iter().map(HashTable::len).max();
        assert!(largest.is_some_and(|largest| largest < 3 * PART_ENTRIES), "{largest:?}");
        assert!(map.parts() >= 100_000 / PART_ENTRIES);
    }

    #[test]
    fn entries_that_were_expected_find_room() {
        for expected in [0, 1, 900, 5_000, 53_248, 100_000] {
            let mut map = Map::default();
            (0..10).for_each(|number| map.insert(Numbered(number, 0)));
            map.expect(expected);
            let (parts, bytes) = (map.parts(), map.table_bytes());
            (10..expected).for_each(|number| map.insert(Numbered(number, 0)));
            assert!((0..expected).all(|number| map.find(key(number), is(number)).is_some()));
            assert!(map.parts() <= parts + 1, "{expected}");
            // A part may get a few more than its share.
            assert!(map.table_bytes() <= bytes + bytes / 8, "{expected}: {bytes}");
            map.expect(expected / 2);
            assert_eq!(map.len(), expected.max(10));
        }
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
