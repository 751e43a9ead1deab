//! Writes whose loss would be noticed, and the look for it afterwards.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use ff_backend_embedded::{CompactionConfig, EmbeddedConfig, EmbeddedHost, SyncMode};
use ff_core::partition::Partition;
use ff_script::dump::{Dump, Stored};

use super::{call, on_disk};

/// What was acknowledged last, by partition.
pub(crate) type Acknowledged = BTreeMap<Partition, u32>;

/// A store that rewrites its journal all the time.
pub(crate) fn restless(root: &Path) -> EmbeddedConfig {
    let compaction = CompactionConfig { min_bytes: 1500, growth: 1, piece_bytes: 1 };
    EmbeddedConfig { compaction, ..on_disk(root, SyncMode::Always) }
}

/// Writes these numbers, many over the same keys, until the disk fails.
pub(crate) async fn write_until_it_fails(host: &EmbeddedHost, numbers: Range<u32>) -> Acknowledged {
    let mut acknowledged = BTreeMap::new();
    for n in numbers {
        let partition = Partition::flow((n % 5) as u16);
        let key = partition.key();
        let text = format!("RPUSH {key}:l {n} ; LTRIM {key}:l -3 -1 ; HSET {key}:h last {n}");
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        match call(host, "run", partition, &words).await {
            Ok(_) => acknowledged.insert(partition, n),
            Err(_) => break,
        };
    }
    acknowledged
}

/// What was acknowledged and is not in the dump.
pub(crate) fn missing(dump: &Dump, acknowledged: &Acknowledged) -> Option<String> {
    acknowledged.iter().find_map(|(partition, n)| {
        let key = format!("{}:h", partition.key()).into_bytes();
        let Some(Stored::Hash(hash)) = dump.get(&key) else { return Some(format!("{n} is gone")) };
        let found = std::str::from_utf8(&hash[&b"last"[..]]).unwrap().parse::<u32>().unwrap();
        (found < *n).then(|| format!("{n} was acknowledged, {found} is there"))
    })
}
