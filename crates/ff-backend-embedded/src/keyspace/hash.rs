//! A hash: one packed buffer while it is small, a tree beyond that.

use std::collections::BTreeMap;

use super::footprint::allocated;
use super::{Bytes, length};

/// More fields than this, and a linear search no longer pays.
const PACKED_FIELDS_MAX: usize = 64;
/// More bytes than this, and moving the rest of the buffer when a value grows no longer pays.
const PACKED_BYTES_MAX: usize = 8 << 10;
/// The lengths of most fields and values take a byte each.
const LENGTHS: usize = 2;

/// Fields and values. Small hashes keep the order in which fields were added.
#[derive(Debug)]
pub(crate) enum Hash {
    Packed(Packed),
    Tree(Box<Tree>),
}

impl Default for Hash {
    fn default() -> Self {
        Self::Packed(Packed::default())
    }
}

impl Hash {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.len(),
            Self::Tree(tree) => tree.pairs.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.get_near(field, &mut 0)
    }

    /// As [`Self::get`], starting the search where the last one ended: records are mostly read in
    /// the order in which they were written.
    pub(crate) fn get_near(&self, field: &[u8], hint: &mut usize) -> Option<&[u8]> {
        match self {
            Self::Packed(packed) => {
                let pair = packed.find_near(field, *hint)?;
                *hint = pair.end;
                Some(&packed.bytes[pair.value..pair.end])
            }
            Self::Tree(tree) => tree.pairs.get(field).map(|value| &**value),
        }
    }

    /// Makes room for as many bytes of fields and values, so that a change allocates once.
    pub(crate) fn reserve(&mut self, fields: usize, bytes: usize) {
        let wanted = Packed::COUNT + bytes + fields * LENGTHS;
        if let Self::Packed(packed) = self
            && wanted <= PACKED_BYTES_MAX
        {
            packed.bytes.reserve_exact(wanted);
        }
    }

    /// Sets fields of a hash that has none yet; answers how many it has then. Records are mostly
    /// written whole: that must not mean a search for each of their fields.
    pub(crate) fn fill<'a>(&mut self, pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> usize {
        let mut seen = Seen::default();
        let set = |(field, value): &(&[u8], &[u8])| match self {
            Self::Packed(packed)
                if seen.is_first(field) && packed.has_room(field.len() + value.len()) =>
            {
                packed.append(field, value);
                true
            }
            _ => self.set(field, value),
        };
        pairs.filter(set).count()
    }

    /// True if the field is new.
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        if let Self::Packed(packed) = self
            && !packed.has_room(field.len() + value.len())
        {
            *self = Self::Tree(Box::new(Tree::of(packed.iter())));
        }
        match self {
            Self::Packed(packed) => packed.set(field, value),
            Self::Tree(tree) => tree.set(field, value),
        }
    }

    /// True if the field was there.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        match self {
            Self::Packed(packed) => packed.remove(field),
            Self::Tree(tree) => tree.remove(field),
        }
    }

    /// What it takes beside itself.
    pub(super) fn footprint(&self) -> usize {
        match self {
            Self::Packed(packed) => allocated(packed.bytes.capacity()),
            Self::Tree(tree) => tree.footprint(),
        }
    }

    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = (&[u8], &[u8])> + '_> {
        match self {
            Self::Packed(packed) => Box::new(packed.iter()),
            Self::Tree(tree) => {
                Box::new(tree.pairs.iter().map(|(field, value)| (&**field, &**value)))
            }
        }
    }
}

/// Which names may have been seen: one bit for all that look alike.
#[derive(Default)]
struct Seen(u128);

impl Seen {
    /// True if this name was certainly not seen before.
    fn is_first(&mut self, name: &[u8]) -> bool {
        let letter = |byte: Option<&u8>| byte.copied().map_or(0, usize::from);
        let look = letter(name.first()) * 31 + letter(name.last()) + name.len();
        let bit = 1 << (look % 128);
        let is_first = self.0 & bit == 0;
        self.0 |= bit;
        is_first
    }
}

/// Pairs in a tree, which large hashes are; there are few.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pairs: BTreeMap<Bytes, Bytes>,
    /// What fields and values take, beside their places in the tree.
    text_bytes: usize,
}

impl Tree {
    /// What the places of a pair take, about: nodes of eleven, two thirds of which are used.
    const PAIR_BYTES: usize = 48;

    fn of<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut tree = Self::default();
        for (field, value) in pairs {
            tree.set(field, value);
        }
        tree
    }

    fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        self.text_bytes += allocated(value.len());
        match self.pairs.get_mut(field) {
            Some(old) => {
                self.text_bytes -= allocated(old.len());
                *old = value.into();
                false
            }
            None => {
                self.text_bytes += allocated(field.len());
                self.pairs.insert(field.into(), value.into()).is_none()
            }
        }
    }

    fn remove(&mut self, field: &[u8]) -> bool {
        let Some((field, value)) = self.pairs.remove_entry(field) else { return false };
        self.text_bytes -= allocated(field.len()) + allocated(value.len());
        true
    }

    fn footprint(&self) -> usize {
        allocated(size_of::<Self>()) + self.text_bytes + self.pairs.len() * Self::PAIR_BYTES
    }
}

/// The number of pairs, and the pairs one after the other: length of the field, field, length of
/// the value, value. It grows by no more than it needs: most hashes are written a few times and
/// then kept.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    bytes: Vec<u8>,
}

/// Where a pair is: its beginning, the end of its field, its value, its end.
#[derive(Clone, Copy)]
struct Pair {
    start: usize,
    named: usize,
    value: usize,
    end: usize,
}

impl Packed {
    /// Bytes of the number of pairs.
    const COUNT: usize = 1;

    fn len(&self) -> usize {
        self.bytes.first().copied().map_or(0, usize::from)
    }

    fn has_room(&self, more: usize) -> bool {
        let lengths = Self::COUNT + length::size(more) * LENGTHS;
        self.len() < PACKED_FIELDS_MAX && self.bytes.len() + more + lengths <= PACKED_BYTES_MAX
    }

    fn find_between(&self, field: &[u8], from: usize, until: usize) -> Option<Pair> {
        let mut start = from.max(Self::COUNT);
        while start < until {
            let (size, name) = length::read(&self.bytes, start);
            let named = name + size;
            let (size, value) = length::read(&self.bytes, named);
            let (name, end) = (&self.bytes[name..named], value + size);
            // Names are short and mostly differ at once: no need to call out for each.
            if name.len() == field.len() && name.first() == field.first() && name == field {
                return Some(Pair { start, named, value, end });
            }
            start = end;
        }
        None
    }

    fn find(&self, field: &[u8]) -> Option<Pair> {
        self.find_between(field, 0, self.bytes.len())
    }

    /// `hint` is the start of a pair or the end of the last one.
    fn find_near(&self, field: &[u8], hint: usize) -> Option<Pair> {
        self.find_between(field, hint, self.bytes.len())
            .or_else(|| self.find_between(field, 0, hint))
    }

    fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        match self.find(field) {
            Some(pair) => {
                self.replace(pair, value);
                false
            }
            None => {
                self.append(field, value);
                true
            }
        }
    }

    fn append(&mut self, field: &[u8], value: &[u8]) {
        let lengths = length::size(field.len()) + length::size(value.len());
        self.bytes.reserve_exact(Self::COUNT + lengths + field.len() + value.len());
        if self.bytes.is_empty() {
            self.bytes.push(0);
        }
        self.bytes[0] += 1;
        length::write(&mut self.bytes, field.len());
        self.bytes.extend_from_slice(field);
        length::write(&mut self.bytes, value.len());
        self.bytes.extend_from_slice(value);
    }

    fn replace(&mut self, pair: Pair, value: &[u8]) {
        let (old, new) = (pair.end - pair.named, length::size(value.len()) + value.len());
        if old != new {
            let total = self.bytes.len();
            if new > old {
                self.bytes.reserve_exact(new - old);
                self.bytes.resize(total + new - old, 0);
            }
            self.bytes.copy_within(pair.end..total, pair.named + new);
            self.bytes.truncate(total - old + new);
            length::put(&mut self.bytes[pair.named..], value.len());
        }
        let end = pair.named + new;
        self.bytes[end - value.len()..end].copy_from_slice(value);
    }

    fn remove(&mut self, field: &[u8]) -> bool {
        let Some(pair) = self.find(field) else { return false };
        self.bytes.drain(pair.start..pair.end);
        self.bytes[0] -= 1;
        true
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = Self::COUNT;
        std::iter::from_fn(move || {
            (start < self.bytes.len()).then(|| {
                let (size, field) = length::read(&self.bytes, start);
                let named = field + size;
                let (size, value) = length::read(&self.bytes, named);
                start = value + size;
                (&self.bytes[field..named], &self.bytes[value..start])
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_grow_and_shrink_in_place() {
        let mut hash = Hash::default();
        for (field, value) in [("a", "1"), ("b", "two"), ("c", "")] {
            assert!(hash.set(field.as_bytes(), value.as_bytes()));
        }
        assert!(!hash.set(b"b", b"a longer value"));
        assert!(!hash.set(b"a", b""));
        assert!(!hash.set(b"c", b"x"));
        let pairs: Vec<_> = hash.iter().collect();
        let expected: [(&[u8], &[u8]); 3] = [(b"a", b""), (b"b", b"a longer value"), (b"c", b"x")];
        assert_eq!(pairs, expected);
        assert!(hash.remove(b"b") && !hash.remove(b"b"));
        assert_eq!(
            (hash.get(b"a"), hash.get(b"c"), hash.len()),
            (Some(&b""[..]), Some(&b"x"[..]), 2)
        );
    }

    #[test]
    fn a_hash_that_is_filled_at_once_is_the_same_as_one_filled_step_by_step() {
        let names: Vec<String> = (0..100).map(|n| format!("f{}", n * 7 % 90)).collect();
        for count in [0, 1, 2, 40, 64, 65, 100] {
            let pairs =
                || names[..count].iter().map(|name| (name.as_bytes(), &name.as_bytes()[1..]));
            let (mut filled, mut model) = (Hash::default(), Hash::default());
            let added = pairs().filter(|(field, value)| model.set(field, value)).count();
            assert_eq!(filled.fill(pairs()), added);
            assert!(filled.iter().eq(model.iter()), "{count}");
        }
    }

    #[test]
    fn a_large_hash_holds_what_the_small_one_held() {
        let mut hash = Hash::default();
        for n in 0..200u32 {
            hash.set(format!("f{n}").as_bytes(), format!("v{n}").as_bytes());
            assert_eq!(hash.get(b"f0"), Some(&b"v0"[..]));
        }
        assert!(matches!(hash, Hash::Tree(_)));
        assert_eq!(hash.len(), 200);
        assert!((0..200u32).all(|n| hash.remove(format!("f{n}").as_bytes())));
        assert!(hash.is_empty());
    }

    #[test]
    fn a_long_value_does_not_stay_in_the_packed_buffer() {
        let mut hash = Hash::default();
        hash.set(b"small", b"1");
        hash.set(b"long", &vec![7; 100_000]);
        assert!(matches!(hash, Hash::Tree(_)));
        assert_eq!(hash.get(b"small"), Some(&b"1"[..]));
    }

    #[test]
    fn a_search_that_starts_late_wraps_around() {
        let mut hash = Hash::default();
        for field in ["a", "b", "c"] {
            hash.set(field.as_bytes(), field.as_bytes());
        }
        let mut hint = 0;
        for field in [b"c", b"a", b"b", b"b"] {
            assert_eq!(hash.get_near(field, &mut hint), Some(&field[..]));
        }
        assert_eq!(hash.get_near(b"d", &mut hint), None);
    }
}
