//! Processor time and memory of a process, as the kernel counts them. Elsewhere than on Linux
//! nothing is known.

use std::fs;
use std::path::Path;

/// Processor time in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadTimes {
    /// The embedded store's threads.
    pub(crate) store_us: f64,
    /// All others: callers, connections.
    pub(crate) client_us: f64,
}

/// Time that this process used so far; `None` where the kernel does not tell.
pub(crate) fn times() -> Option<ThreadTimes> {
    times_of(std::process::id())
}

/// The same of any process.
pub(crate) fn times_of(process: u32) -> Option<ThreadTimes> {
    let mut times = ThreadTimes::default();
    for entry in fs::read_dir(format!("/proc/{process}/task")).ok()? {
        let task = entry.ok()?.path();
        // A thread may end while it is looked at.
        let Some(used_us) = used_us(&task) else { continue };
        if is_store(process, &task) {
            times.store_us += used_us;
        } else {
            times.client_us += used_us;
        }
    }
    Some(times)
}

fn used_us(task: &Path) -> Option<f64> {
    let text = fs::read_to_string(task.join("schedstat")).ok()?;
    let ns: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(ns / 1000.0)
}

/// The embedded store names its threads `ff-…`, as workers do theirs; the main thread has the
/// program's name.
fn is_store(process: u32, task: &Path) -> bool {
    let main = task.file_name().is_some_and(|id| *id == *process.to_string());
    let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
    !main && name.starts_with("ff-") && name.trim_end() != "ff-upkeep"
}

/// Memory that this process occupied at most.
pub(crate) fn peak_bytes() -> Option<u64> {
    peak_bytes_of(std::process::id())
}

/// The same of any process.
pub(crate) fn peak_bytes_of(process: u32) -> Option<u64> {
    status_bytes(process, "VmHWM:")
}

/// Begins anew with what it occupies now. Where that cannot be done, the peak is that of all times.
pub(crate) fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Memory that this process occupies.
pub(crate) fn resident_bytes() -> Option<u64> {
    resident_bytes_of(std::process::id())
}

/// The same of any process.
pub(crate) fn resident_bytes_of(process: u32) -> Option<u64> {
    status_bytes(process, "VmRSS:")
}

fn status_bytes(process: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}
