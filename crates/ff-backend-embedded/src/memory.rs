//! How much memory a store may take: a share of what there is, or what it was told.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a store takes by default of what there is. The rest is for what the allocator cannot use,
/// calls and requests under way, a rewrite of the journal, and the system's copies of files.
const SHARE_PERCENT: u64 = 60;

/// How much memory the keys and values of a store may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit(u64);

impl MemoryLimit {
    /// No limit but that of the system.
    pub const NONE: Self = Self(u64::MAX);

    /// As many bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A share of what this machine, or the control group that we run in, offers, in whole MiB.
    pub fn of_this_machine() -> Self {
        let share = |bytes: u64| bytes / 100 * SHARE_PERCENT;
        offered(Path::new("/"))
            .map_or(Self::NONE, |bytes| Self(share(bytes).max(1 << 20) >> 20 << 20))
    }

    /// The number of bytes, if there is a limit.
    pub fn as_bytes(self) -> Option<u64> {
        (self != Self::NONE).then_some(self.0)
    }
}

/// The units that a limit may be written in.
const UNITS: [(&str, u32); 8] = [
    ("KiB", 10),
    ("MiB", 20),
    ("GiB", 30),
    ("TiB", 40),
    ("kb", 10),
    ("mb", 20),
    ("gb", 30),
    ("tb", 40),
];

impl FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => return Ok(Self::of_this_machine()),
            "none" => return Ok(Self::NONE),
            _ => {}
        }
        let unit = UNITS.iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, *bits)));
        let (number, bits) = unit.unwrap_or((text, 0));
        let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << bits));
        bytes.filter(|bytes| *bytes > 0).map(Self).ok_or_else(|| {
            format!("a memory limit is auto, none, or a size like 6GiB or 512MiB, not {text:?}")
        })
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_bytes() {
            None => f.write_str("none"),
            Some(bytes) if bytes % (1 << 20) == 0 => write!(f, "{}MiB", bytes >> 20),
            Some(bytes) => write!(f, "{bytes}"),
        }
    }
}

/// What the keyspaces of a store take together.
#[derive(Debug)]
pub(crate) struct Memory {
    used: AtomicU64,
    limit: MemoryLimit,
}

impl Memory {
    pub(crate) fn new(limit: MemoryLimit) -> Self {
        Self { used: AtomicU64::new(0), limit }
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn limit(&self) -> MemoryLimit {
        self.limit
    }

    /// True if nothing may be added.
    pub(crate) fn is_full(&self) -> bool {
        self.used() >= self.limit.0
    }
}

/// What one keyspace takes of it.
#[derive(Debug)]
pub(crate) struct Portion {
    memory: Arc<Memory>,
    counted: u64,
}

impl Portion {
    pub(crate) fn new(memory: Arc<Memory>, bytes: usize) -> Self {
        let mut portion = Self { memory, counted: 0 };
        portion.count(bytes);
        portion
    }

    /// The keyspace takes as many bytes now.
    pub(crate) fn count(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        if bytes != self.counted {
            self.memory.used.fetch_add(bytes.wrapping_sub(self.counted), Ordering::Relaxed);
            self.counted = bytes;
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.memory.is_full()
    }
}

/// What the machine has, or what the control groups leave of it. `root` is where the system's files
/// are found.
fn offered(root: &Path) -> Option<u64> {
    let machine = of_machine(root);
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    machine.into_iter().chain(groups.lines().filter_map(|line| of_group(root, line))).min()
}

fn of_machine(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The least limit of a control group and those above it, by a line of `/proc/self/cgroup`.
fn of_group(root: &Path, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (number, kinds, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (top, file) = match (number, kinds) {
        ("0", "") => ("sys/fs/cgroup", "memory.max"),
        (_, kinds) if kinds.split(',').any(|kind| kind == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let top = root.join(top);
    // Inside a container the path may be that of the system outside: then only the top is there.
    let group: PathBuf = top.join(path.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|group| group.starts_with(&top));
    let limit = |group: &Path| std::fs::read_to_string(group.join(file)).ok()?.trim().parse().ok();
    groups.filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

    use super::*;

    fn machine(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        offered(root.path())
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:       2097152 kB\nMemFree: 1 kB\n");

    #[test]
    fn a_machine_offers_what_it_has() {
        assert_eq!(machine(&[]), None);
        assert_eq!(machine(&[MEMINFO]), Some(2 << 30));
    }

    #[test]
    fn a_control_group_offers_what_it_and_those_above_it_leave() {
        let group = ("proc/self/cgroup", "0::/a/b\n");
        let max = |name, text| machine(&[MEMINFO, group, (name, text)]);
        assert_eq!(max("sys/fs/cgroup/a/b/memory.max", "1048576\n"), Some(1 << 20));
        assert_eq!(max("sys/fs/cgroup/a/memory.max", "1048576\n"), Some(1 << 20));
        assert_eq!(max("sys/fs/cgroup/memory.max", "1048576\n"), Some(1 << 20));
        assert_eq!(max("sys/fs/cgroup/a/b/memory.max", "max\n"), Some(2 << 30));
        assert_eq!(max("sys/fs/cgroup/other/memory.max", "1\n"), Some(2 << 30));
    }

    #[test]
    fn control_groups_of_the_first_version_count_too() {
        let groups = ("proc/self/cgroup", "4:cpu,memory:/a\n3:pids:/p\n");
        let limit = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4096\n");
        assert_eq!(machine(&[MEMINFO, groups, limit]), Some(4096));
        let unlimited = (limit.0, "9223372036854771712\n");
        assert_eq!(machine(&[MEMINFO, groups, unlimited]), Some(2 << 30));
    }

    #[test]
    fn a_limit_is_read_as_it_is_written() {
        for (text, bytes) in [("1", 1), ("2KiB", 2 << 10), ("6GiB", 6 << 30), ("512mb", 512 << 20)]
        {
            assert_eq!(text.parse(), Ok(MemoryLimit::bytes(bytes)), "{text}");
        }
        assert_eq!("none".parse(), Ok(MemoryLimit::NONE));
        assert_eq!("auto".parse(), Ok(MemoryLimit::of_this_machine()));
        for text in ["", "0", "-1", "1.5GiB", "GiB", "1 GiB", "18446744073709551615TiB", "lots"] {
            assert!(text.parse::<MemoryLimit>().is_err(), "{text}");
        }
        assert_eq!(MemoryLimit::bytes(6 << 30).to_string(), "6144MiB");
    }
}
