//! Fresh ids. The only file that draws random numbers.

use std::hash::{BuildHasher, Hasher, RandomState};

use uuid::Uuid;

/// A source of ids that no other source and no other run gives.
#[derive(Debug)]
pub(crate) struct Ids(u64);

impl Ids {
    pub(crate) fn new() -> Self {
        // The standard library's hasher is seeded by the operating system.
        Self(RandomState::new().build_hasher().finish())
    }

    pub(crate) fn uuid(&mut self) -> Uuid {
        let bits = u128::from(self.number()) << 64 | u128::from(self.number());
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
    }

    /// An index below `count`.
    pub(crate) fn below(&mut self, count: u16) -> u16 {
        let index = self.number() % u64::from(count.max(1));
        u16::try_from(index).expect("it is below a u16")
    }

    /// SplitMix64: fast, and good enough for ids that only have to differ.
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
