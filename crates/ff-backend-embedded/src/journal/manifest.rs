//! The list of the journal's files, in Valkey's own format.

use std::path::Path;

use super::disk::{Disk, write_all};
use super::layout::{Layout, base_name, increment_name};
use crate::error::StoreError;

/// Which files make up the journal, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Number of the rewritten journal, if there is one.
    pub(crate) base: Option<u64>,
    /// Numbers of the parts that follow it. The last one is being written.
    pub(crate) increments: Vec<u64>,
}

impl Manifest {
    /// Reads the manifest. `None` if there is none.
    pub(crate) fn read(layout: &Layout) -> Result<Option<Self>, StoreError> {
        let path = layout.manifest();
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text, &path).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io(&path)(error)),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Self, StoreError> {
        let mut manifest = Self::default();
        let mut offset = 0;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let ["file", name, "seq", number, "type", kind] = words[..] else {
                let reason = "a line is not `file <name> seq <number> type <b|i>`";
                return Err(StoreError::damaged(path, offset, reason));
            };
            let number: u64 = number
                .parse()
                .map_err(|_| StoreError::damaged(path, offset, "a file's number is no number"))?;
            manifest.add(name, number, kind, path)?;
            offset += line.len() as u64 + 1;
        }
        if manifest.increments.is_empty() {
            return Err(StoreError::damaged(path, offset, "no file to append to is listed"));
        }
        Ok(manifest)
    }

    fn add(&mut self, name: &str, number: u64, kind: &str, path: &Path) -> Result<(), StoreError> {
        if kind == "b" && name == base_name(number) {
            self.base = Some(number);
        } else if kind == "i" && name == increment_name(number) {
            self.increments.push(number);
        } else if name.ends_with(".rdb") {
            let reason = format!(
                "{name} is a snapshot that Valkey wrote, which the embedded store does not read"
            );
            return Err(StoreError::foreign(path, reason));
        } else {
            let reason = format!("{name} of type {kind} is not a file that this store writes");
            return Err(StoreError::foreign(path, reason));
        }
        Ok(())
    }

    fn text(&self) -> String {
        let base = self.base.iter().map(|number| (base_name(*number), number, 'b'));
        let increments =
            self.increments.iter().map(|number| (increment_name(*number), number, 'i'));
        base.chain(increments)
            .map(|(name, number, kind)| format!("file {name} seq {number} type {kind}\n"))
            .collect()
    }

    /// Puts this manifest in the place of the old one, at once and to stay.
    pub(crate) fn store(&self, layout: &Layout, disk: &dyn Disk) -> std::io::Result<()> {
        let new = layout.new_manifest();
        let mut file = disk.create(&new)?;
        write_all(&mut *file, self.text().as_bytes())?;
        file.sync()?;
        disk.rename(&new, &layout.manifest())?;
        disk.sync_directory(&layout.journal)
    }

    /// True if the manifest lists a file of this name.
    pub(crate) fn lists(&self, name: &str) -> bool {
        self.base.is_some_and(|number| name == base_name(number))
            || self.increments.iter().any(|number| name == increment_name(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Manifest, String> {
        Manifest::parse(text, Path::new("manifest")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_manifest_reads_back_as_it_was_written() {
        for manifest in [
            Manifest { base: None, increments: vec![1] },
            Manifest { base: Some(3), increments: vec![4, 5] },
        ] {
            assert_eq!(parse(&manifest.text()), Ok(manifest));
        }
    }

    #[test]
    fn what_we_cannot_read_is_named() {
        for (text, expected) in [
            ("", "no file to append to"),
            ("nonsense", "a line is not"),
            ("file appendonly.aof.1.base.rdb seq 1 type b\n", "snapshot that Valkey wrote"),
            ("file other.aof seq 1 type i\n", "not a file that this store writes"),
        ] {
            let refused = parse(text).expect_err("it must not parse");
            assert!(refused.contains(expected), "{text}: {refused}");
        }
    }
}
