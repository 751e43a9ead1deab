//! All keys of one shard, in memory.

mod hash;
mod list;
mod sorted_set;
mod stream;

mod footprint;
mod length;
mod map;
mod text;

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::OnceLock;

use ff_script::dump::{Dump, Stored};

use crate::error::CommandError;

pub(crate) use footprint::{Changing, allocated};
pub(crate) use hash::Hash;
pub(crate) use list::List;
use map::{Hashed, Map};
pub(crate) use sorted_set::{Bound, SortedSet};
pub(crate) use stream::{EntryId, Stream};
pub(crate) use text::Expanded;
use text::{Sought, Text};

/// An owned byte string.
pub(crate) type Bytes = Box<[u8]>;
/// Members, ordered by their bytes, so that listings are the same in every run.
pub(crate) type Set = BTreeSet<Bytes>;

/// What a member of a set takes, about: there are few sets, and they are small.
const SET_MEMBER_BYTES: usize = 64;

/// A stored value. Most are small hashes: everything else that takes more room lies elsewhere.
#[derive(Debug)]
pub(crate) enum Object {
    String(Bytes),
    Hash(Hash),
    SortedSet(Box<SortedSet>),
    List(Box<List>),
    Set(Box<Set>),
    Stream(Box<Stream>),
}

/// Keys and values of one shard.
#[derive(Debug, Default)]
pub(crate) struct Keyspace {
    /// In boxes of their own, because a third of a table's places is empty.
    slots: Map<Box<Slot>>,
    /// What the boxes take, with keys and values.
    held: usize,
}

/// A key and its value. The key of an execution fits in.
#[derive(Debug)]
struct Slot {
    key: Text<KEY_BYTES>,
    object: Object,
}

/// A key that is looked for.
type Key<'a> = Sought<'a, KEY_BYTES>;
const KEY_BYTES: usize = 30;

impl Hashed for Box<Slot> {
    fn hash(&self) -> u64 {
        self.key.hash()
    }
}

/// A type that can be the value of a key.
pub(crate) trait Kind: Default {
    /// What it takes beside the [`Object`] that holds it.
    fn footprint(&self) -> usize;
    fn of(object: &Object) -> Option<&Self>;
    fn of_mut(object: &mut Object) -> Option<&mut Self>;
    fn into_object(self) -> Object;
}

macro_rules! kinds {
    ($($type:ty => $variant:ident, $wrap:expr, $footprint:expr;)*) => {$(
        impl Kind for $type {
            fn footprint(&self) -> usize {
                let footprint: fn(&$type) -> usize = $footprint;
                footprint(self)
            }
            fn of(object: &Object) -> Option<&Self> {
                match object {
                    Object::$variant(value) => Some(value),
                    _ => None,
                }
            }
            fn of_mut(object: &mut Object) -> Option<&mut Self> {
                match object {
                    Object::$variant(value) => Some(value),
                    _ => None,
                }
            }
            fn into_object(self) -> Object {
                let wrap: fn($type) -> Object = $wrap;
                wrap(self)
            }
        }
    )*

        impl Object {
            /// What it takes beside itself.
            fn footprint(&self) -> usize {
                match self {
                    $(Self::$variant(value) => <$type as Kind>::footprint(value),)*
                }
            }
        }
    };
}

kinds! {
    Bytes => String, Object::String, |value| allocated(value.len());
    Hash => Hash, Object::Hash, Hash::footprint;
    SortedSet => SortedSet, |value| Object::SortedSet(Box::new(value)), |value| {
        allocated(size_of::<SortedSet>()) + value.content_bytes()
    };
    List => List, |value| Object::List(Box::new(value)), |value| {
        allocated(size_of::<List>()) + value.content_bytes()
    };
    Set => Set, |value| Object::Set(Box::new(value)), |value| {
        allocated(size_of::<Set>()) + value.len() * SET_MEMBER_BYTES
    };
    Stream => Stream, |value| Object::Stream(Box::new(value)), |value| {
        allocated(size_of::<Stream>()) + value.content_bytes()
    };
}

impl Keyspace {
    fn find(&self, key: &[u8]) -> Option<&Object> {
        let key = Key::new(key);
        self.slots.find(key.hash(), |slot| slot.key.is(&key)).map(|slot| &slot.object)
    }

    /// The value of a key, if there is one of this type; another type is a fault.
    pub(crate) fn get<T: Kind>(&self, key: &[u8]) -> Result<Option<&T>, CommandError> {
        match self.find(key) {
            None => Ok(None),
            Some(object) => T::of(object).map(Some).ok_or(CommandError::WRONG_TYPE),
        }
    }

    /// As [`Self::get`], to change it.
    pub(crate) fn get_mut<T: Kind>(
        &mut self,
        key: &[u8],
    ) -> Result<Option<Changing<'_, T>>, CommandError> {
        let key = Key::new(key);
        let found = self.slots.find_mut(key.hash(), |slot| slot.key.is(&key));
        let Some(slot) = found else { return Ok(None) };
        let value = T::of_mut(&mut slot.object).ok_or(CommandError::WRONG_TYPE)?;
        Ok(Some(Changing::new(value, &mut self.held)))
    }

    /// The value of a key, which is made if there is none.
    pub(crate) fn get_or_new<T: Kind>(
        &mut self,
        key: &[u8],
    ) -> Result<Changing<'_, T>, CommandError> {
        let (key, held) = (Key::new(key), &mut self.held);
        let make = || {
            let slot = Slot::new(&key, T::default().into_object());
            *held += slot.footprint();
            slot
        };
        let slot = self.slots.find_or_insert(key.hash(), |slot| slot.key.is(&key), make);
        let value = T::of_mut(&mut slot.object).ok_or(CommandError::WRONG_TYPE)?;
        Ok(Changing::new(value, &mut self.held))
    }

    /// Replaces whatever the key held.
    pub(crate) fn put<T: Kind>(&mut self, key: &[u8], value: T) {
        self.put_object(key, value.into_object());
    }

    fn put_object(&mut self, key: &[u8], object: Object) {
        let key = Key::new(key);
        match self.slots.find_mut(key.hash(), |slot| slot.key.is(&key)) {
            Some(slot) => {
                self.held = self.held + object.footprint() - slot.object.footprint();
                slot.object = object;
            }
            None => {
                let slot = Slot::new(&key, object);
                self.held += slot.footprint();
                self.slots.insert(slot);
            }
        }
    }

    /// True if there is such a key.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.find(key).is_some()
    }

    fn take(&mut self, key: &[u8]) -> Option<Object> {
        let key = Key::new(key);
        let slot = self.slots.remove(key.hash(), |slot| slot.key.is(&key))?;
        self.held -= slot.footprint();
        Some(slot.object)
    }

    /// True if the key was there.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        self.take(key).is_some()
    }

    /// Gives the value of a key to another one, which loses its own.
    pub(crate) fn rename(&mut self, key: &[u8], to: &[u8]) {
        if let Some(object) = self.take(key) {
            self.put_object(to, object);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Makes room for as many keys.
    pub(crate) fn expect(&mut self, keys: usize) {
        self.slots.expect(keys);
    }

    /// Bytes of memory that all keys and values take.
    pub(crate) fn bytes(&self) -> usize {
        self.held + self.slots.table_bytes()
    }

    /// Every key with its value, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Expanded<'_>, &Object)> {
        self.slots.iter().map(|slot| (slot.key.expand(), &slot.object))
    }

    /// Adds a copy of everything to a dump.
    pub(crate) fn dump_into(&self, dump: &mut Dump) {
        // Put in order all at once, which a tree is built of faster than one by one.
        let mut mine: Dump =
            self.iter().map(|(key, object)| (key.to_vec(), object.stored())).collect();
        dump.append(&mut mine);
    }
}

impl Slot {
    fn new(key: &Key<'_>, object: Object) -> Box<Self> {
        Box::new(Self { key: Text::new(key), object })
    }

    /// What the box takes, with the key and the value.
    fn footprint(&self) -> usize {
        allocated(size_of::<Self>()) + self.key.heap_bytes() + self.object.footprint()
    }
}

impl Object {
    fn stored(&self) -> Stored {
        match self {
            Self::String(value) => Stored::String(value.to_vec()),
            Self::Hash(hash) => Stored::Hash(
                hash.iter().map(|(field, value)| (field.to_vec(), value.to_vec())).collect(),
            ),
            Self::SortedSet(set) => Stored::SortedSet(
                set.iter().map(|(score, member)| (member.to_vec(), score)).collect(),
            ),
            Self::List(list) => Stored::List(list.iter().map(<[u8]>::to_vec).collect()),
            Self::Set(set) => Stored::Set(set.iter().map(|member| member.to_vec()).collect()),
            Self::Stream(stream) => {
                Stored::Stream(stream.iter().map(|entry| entry.stored()).collect())
            }
        }
    }
}

/// Builds hashers from one seed per process: maps stay small, and keys that callers choose cannot
/// be aimed at one bucket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seeded;

impl BuildHasher for Seeded {
    type Hasher = ahash::AHasher;

    fn build_hasher(&self) -> Self::Hasher {
        static SEED: OnceLock<ahash::RandomState> = OnceLock::new();
        SEED.get_or_init(ahash::RandomState::new).build_hasher()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_takes_no_more_than_its_place() {
        assert_eq!(size_of::<Object>(), 24);
        assert_eq!(size_of::<Slot>(), 56);
        let key = b"ff:{fp:255}:x:0190b7a0-5c3e-7f00-8a11-0123456789ab";
        assert!(matches!(Key::new(key), Key::Inline { .. }));
    }

    #[test]
    fn a_renamed_key_takes_the_place_of_another() {
        let mut keyspace = Keyspace::default();
        keyspace.put::<Bytes>(b"a", (*b"1").into());
        keyspace.put::<Bytes>(b"b", (*b"2").into());
        keyspace.rename(b"a", b"b");
        keyspace.rename(b"nothing", b"b");
        assert_eq!(keyspace.len(), 1);
        assert_eq!(
            keyspace.get::<Bytes>(b"b").map(|it| it.map(|it| it.to_vec())),
            Ok(Some(b"1".to_vec()))
        );
    }
}
