//! A hash: one packed buffer while it is small, a tree beyond that.

use std::collections::BTreeMap;

use super::Bytes;

/// More fields than this, and a linear search no longer pays.
const PACKED_FIELDS_MAX: usize = 64;
/// More bytes than this, and moving the rest of the buffer when a value grows no longer pays.
const PACKED_BYTES_MAX: usize = 8 << 10;
/// Two lengths in front of every pair.
const HEADER: usize = 8;

/// Fields and values. Small hashes keep the order in which fields were added.
#[derive(Debug)]
pub(crate) enum Hash {
    Packed(Packed),
    Tree(BTreeMap<Bytes, Bytes>),
}

impl Default for Hash {
    fn default() -> Self {
        Self::Packed(Packed::default())
    }
}

impl Hash {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.count,
            Self::Tree(tree) => tree.len(),
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
            Self::Tree(tree) => tree.get(field).map(|value| &**value),
        }
    }

    /// Makes room for as many bytes of fields and values, so that a new hash is allocated once.
    pub(crate) fn reserve(&mut self, fields: usize, bytes: usize) {
        let wanted = bytes + fields * HEADER;
        if let Self::Packed(packed) = self
            && wanted <= PACKED_BYTES_MAX
        {
            packed.bytes.reserve(wanted);
        }
    }

    /// True if the field is new.
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        if let Self::Packed(packed) = self
            && !packed.has_room(field.len() + value.len())
        {
            *self = Self::Tree(packed.iter().map(|(f, v)| (f.into(), v.into())).collect());
        }
        match self {
            Self::Packed(packed) => packed.set(field, value),
            Self::Tree(tree) => match tree.get_mut(field) {
                Some(old) => {
                    *old = value.into();
                    false
                }
                None => tree.insert(field.into(), value.into()).is_none(),
            },
        }
    }

    /// True if the field was there.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        match self {
            Self::Packed(packed) => packed.remove(field),
            Self::Tree(tree) => tree.remove(field).is_some(),
        }
    }

    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = (&[u8], &[u8])> + '_> {
        match self {
            Self::Packed(packed) => Box::new(packed.iter()),
            Self::Tree(tree) => Box::new(tree.iter().map(|(field, value)| (&**field, &**value))),
        }
    }
}

/// Pairs one after the other: field length, value length, field, value.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    bytes: Vec<u8>,
    count: usize,
}

/// Where a pair is: its header, its value, its end.
#[derive(Clone, Copy)]
struct Pair {
    start: usize,
    value: usize,
    end: usize,
}

impl Packed {
    fn has_room(&self, more: usize) -> bool {
        self.count < PACKED_FIELDS_MAX && self.bytes.len() + more + HEADER <= PACKED_BYTES_MAX
    }

    fn length_at(&self, at: usize) -> usize {
        let bytes = self.bytes[at..at + 4].try_into().expect("a length has four bytes");
        u32::from_le_bytes(bytes) as usize
    }

    fn pair_at(&self, start: usize) -> Pair {
        let value = start + HEADER + self.length_at(start);
        Pair { start, value, end: value + self.length_at(start + 4) }
    }

    fn find_between(&self, field: &[u8], from: usize, until: usize) -> Option<Pair> {
        let mut start = from;
        while start < until {
            let pair = self.pair_at(start);
            let name = &self.bytes[start + HEADER..pair.value];
            // Names are short and mostly differ at once: no need to call out for each.
            if name.len() == field.len() && name.first() == field.first() && name == field {
                return Some(pair);
            }
            start = pair.end;
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
        self.bytes.reserve(HEADER + field.len() + value.len());
        self.bytes.extend_from_slice(&length(field.len()));
        self.bytes.extend_from_slice(&length(value.len()));
        self.bytes.extend_from_slice(field);
        self.bytes.extend_from_slice(value);
        self.count += 1;
    }

    fn replace(&mut self, pair: Pair, value: &[u8]) {
        let (old, new) = (pair.end - pair.value, value.len());
        if old != new {
            let total = self.bytes.len();
            if new > old {
                self.bytes.resize(total + new - old, 0);
            }
            self.bytes.copy_within(pair.end..total, pair.value + new);
            self.bytes.truncate(total - old + new);
            self.bytes[pair.start + 4..pair.start + 8].copy_from_slice(&length(new));
        }
        self.bytes[pair.value..pair.value + new].copy_from_slice(value);
    }

    fn remove(&mut self, field: &[u8]) -> bool {
        let Some(pair) = self.find(field) else { return false };
        self.bytes.drain(pair.start..pair.end);
        self.count -= 1;
        true
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        std::iter::from_fn(move || {
            (start < self.bytes.len()).then(|| {
                let pair = self.pair_at(start);
                let field = &self.bytes[start + HEADER..pair.value];
                start = pair.end;
                (field, &self.bytes[pair.value..pair.end])
            })
        })
    }
}

fn length(value: usize) -> [u8; 4] {
    u32::try_from(value).expect("a packed hash is far smaller than 4 GiB").to_le_bytes()
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
