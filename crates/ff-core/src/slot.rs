//! Slots: where a Valkey cluster keeps a key. Keys with one tag have one slot.

use crate::partition::{Partition, crc16};

/// How many slots a cluster has.
pub const SLOTS: u16 = 16_384;

/// What a key's slot depends on: the bytes between its first `{` and the next `}`, or the whole key
/// if there are none.
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    tag.unwrap_or(key)
}

/// The slot of a key.
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOTS
}

impl Partition {
    /// The slot of everything in the partition.
    pub fn slot(self) -> u16 {
        slot_of(self.hash_tag().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tag_of_a_key_counts() {
        for (key, tag) in [
            ("ff:{fp:7}:x", "fp:7"),
            ("{a}{b}", "a"),
            ("{}{b}", "{}{b}"),
            ("{a", "{a"),
            ("plain", "plain"),
            ("}{a}", "a"),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
        }
    }

    #[test]
    fn slots_are_those_of_valkey() {
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"a{foo}b"), 12_182);
        // CLUSTER KEYSLOT of `ff:{fp:0}` and `ff:{b:31}`.
        assert_eq!(Partition::flow(0).slot(), 14_926);
        assert_eq!("{b:31}".parse().map(Partition::slot), Ok(106));
    }
}
