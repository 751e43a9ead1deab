//! The file that says that a store is here, and how much of it there must be: a directory whose
//! journal is gone is not an empty store.

use std::path::Path;

use super::disk::{self, Disk};
use super::layout::Layout;
use crate::error::StoreError;

/// What a data directory is known to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// At least as many transactions were on the disk once.
    pub(crate) transactions: u64,
}

impl Marker {
    /// Reads the marker. `None` if there is none.
    pub(crate) fn read(layout: &Layout) -> Result<Option<Self>, StoreError> {
        let path = layout.marker();
        match std::fs::read(&path) {
            Ok(text) => Self::parse(&text, &path).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io(&path)(error)),
        }
    }

    fn parse(text: &[u8], path: &Path) -> Result<Self, StoreError> {
        let number = std::str::from_utf8(text).ok().and_then(|text| text.split(' ').nth(2));
        let marker =
            number.and_then(|number| number.parse().ok()).map(|transactions| Self { transactions });
        marker
            .filter(|marker| marker.text().as_bytes() == text)
            .ok_or_else(|| StoreError::damaged(path, 0, "the marker does not match its checksum"))
    }

    fn text(self) -> String {
        let text = format!("flowfabric store: {} transactions or more", self.transactions);
        let crc = crc32fast::hash(text.as_bytes());
        format!("{text}, crc={crc:08x}\n")
    }

    /// Puts this marker in the place of the old one, at once and to stay.
    pub(crate) fn store(self, layout: &Layout, disk: &dyn Disk) -> Result<(), StoreError> {
        let path = layout.marker();
        disk::replace(disk, &layout.new_marker(), &path, &self.text())
            .map_err(StoreError::io(&path))
    }

    /// There is no manifest, but once there was a store.
    pub(crate) fn journal_is_gone(layout: &Layout) -> StoreError {
        let reason = "the journal of the store that was here is gone: put it back, or remove \
                      flowfabric.store to begin with an empty store";
        StoreError::damaged(&layout.journal, 0, reason)
    }

    /// Refuses a journal that ends before what is known to have been there.
    pub(crate) fn require(self, found: u64, file: &Path, offset: u64) -> Result<(), StoreError> {
        if found >= self.transactions {
            return Ok(());
        }
        let reason = format!(
            "the last transactions are missing: there were {}, and {found} are left; if this is \
             an older copy that was put back on purpose, remove flowfabric.store",
            self.transactions
        );
        Err(StoreError::damaged(file, offset, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_reads_back_as_it_was_written_and_no_other_way() {
        let path = Path::new("marker");
        let marker = Marker { transactions: 120 };
        let text = marker.text().into_bytes();
        assert!(matches!(Marker::parse(&text, path), Ok(read) if read == marker));
        for length in 0..text.len() {
            assert!(Marker::parse(&text[..length], path).is_err(), "cut at {length}");
        }
        for bit in 0..text.len() * 8 {
            let mut flipped = text.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Marker::parse(&flipped, path).is_err(), "flip of bit {bit}");
        }
    }
}
