//! All keys of one shard, in memory.

mod hash;
mod map;
mod sorted_set;
mod stream;

use std::collections::{BTreeSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::OnceLock;

use ff_script::dump::{Dump, Stored};

use crate::error::CommandError;

pub(crate) use hash::Hash;
use map::Map;
pub(crate) use sorted_set::{Bound, SortedSet};
pub(crate) use stream::{EntryId, Stream};

/// An owned byte string.
pub(crate) type Bytes = Box<[u8]>;
/// Values in order.
pub(crate) type List = VecDeque<Bytes>;
/// Members, ordered by their bytes, so that listings are the same in every run.
pub(crate) type Set = BTreeSet<Bytes>;

/// A stored value.
#[derive(Debug)]
pub(crate) enum Object {
    String(Bytes),
    Hash(Hash),
    SortedSet(Box<SortedSet>),
    List(List),
    Set(Set),
    Stream(Box<Stream>),
}

/// Keys and values of one shard.
#[derive(Debug, Default)]
pub(crate) struct Keyspace {
    objects: Map<Bytes, Object>,
}

/// A type that can be the value of a key.
pub(crate) trait Kind: Default {
    fn of(object: &Object) -> Option<&Self>;
    fn of_mut(object: &mut Object) -> Option<&mut Self>;
    fn into_object(self) -> Object;
}

macro_rules! kinds {
    ($($type:ty => $variant:ident, $wrap:expr;)*) => {$(
        impl Kind for $type {
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
    )*};
}

kinds! {
    Bytes => String, Object::String;
    Hash => Hash, Object::Hash;
    SortedSet => SortedSet, |value| Object::SortedSet(Box::new(value));
    List => List, Object::List;
    Set => Set, Object::Set;
    Stream => Stream, |value| Object::Stream(Box::new(value));
}

impl Keyspace {
    /// The value of a key, if there is one of this type; another type is a fault.
    pub(crate) fn get<T: Kind>(&self, key: &[u8]) -> Result<Option<&T>, CommandError> {
        match self.objects.get(key) {
            None => Ok(None),
            Some(object) => T::of(object).map(Some).ok_or(CommandError::WRONG_TYPE),
        }
    }

    /// As [`Self::get`], to change it.
    pub(crate) fn get_mut<T: Kind>(&mut self, key: &[u8]) -> Result<Option<&mut T>, CommandError> {
        match self.objects.get_mut(key) {
            None => Ok(None),
            Some(object) => T::of_mut(object).map(Some).ok_or(CommandError::WRONG_TYPE),
        }
    }

    /// The value of a key, which is made if there is none.
    pub(crate) fn get_or_new<T: Kind>(&mut self, key: &[u8]) -> Result<&mut T, CommandError> {
        let object = self.objects.get_or_insert_with(key, || T::default().into_object());
        T::of_mut(object).ok_or(CommandError::WRONG_TYPE)
    }

    /// Replaces whatever the key held.
    pub(crate) fn put<T: Kind>(&mut self, key: &[u8], value: T) {
        self.objects.insert(key.into(), value.into_object());
    }

    /// True if there is such a key.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.objects.get(key).is_some()
    }

    /// True if the key was there.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        self.objects.remove(key).is_some()
    }

    /// Gives the value of a key to another one, which loses its own.
    pub(crate) fn rename(&mut self, key: &[u8], to: &[u8]) {
        if let Some(object) = self.objects.remove(key) {
            self.objects.insert(to.into(), object);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Every key with its value, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Object)> {
        self.objects.iter().map(|(key, object)| (&**key, object))
    }

    /// Adds a copy of everything to a dump.
    pub(crate) fn dump_into(&self, dump: &mut Dump) {
        dump.extend(self.iter().map(|(key, object)| (key.to_vec(), object.stored())));
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
            Self::List(list) => Stored::List(list.iter().map(|value| value.to_vec()).collect()),
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
