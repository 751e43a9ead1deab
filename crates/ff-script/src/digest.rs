//! Digests of what a client asked for: parts, each with its length before it, so that nothing can
//! move from one part into the next unnoticed.

use crate::library::fnv1a_on;

/// A digest of parts, the same in every build.
pub(crate) struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(fnv1a_on(None, &[]))
    }
}

impl Digest {
    pub(crate) fn bytes(&mut self, part: &[u8]) -> &mut Self {
        self.number(part.len() as u64);
        self.0 = fnv1a_on(Some(self.0), part);
        self
    }

    pub(crate) fn text(&mut self, part: &str) -> &mut Self {
        self.bytes(part.as_bytes())
    }

    pub(crate) fn number(&mut self, part: u64) -> &mut Self {
        self.0 = fnv1a_on(Some(self.0), &part.to_le_bytes());
        self
    }

    pub(crate) fn hex(&self) -> String {
        format!("{:016x}", self.0)
    }
}
