//! What the process takes, by the names that Prometheus' own clients use. Linux tells it in
//! `/proc`; elsewhere there is nothing to tell.

use std::fs;

use rustix::process::{Resource, getrlimit};

use super::text::Text;

pub(super) fn render(text: &mut Text) {
    let Some(used) = Used::read() else { return };
    let about = "Processor time that the process took.";
    text.number("process_cpu_seconds_total", "counter", about, used.cpu_seconds);
    let about = "When the process started, in seconds since 1970.";
    text.number("process_start_time_seconds", "gauge", about, used.started_at);
    let about = "Memory of the process that is in use.";
    text.number("process_resident_memory_bytes", "gauge", about, used.resident_bytes);
    let about = "Memory that the process has reserved.";
    text.number("process_virtual_memory_bytes", "gauge", about, used.virtual_bytes);
    text.number("process_threads", "gauge", "Threads of the process.", used.threads);
    text.number("process_open_fds", "gauge", "Open files and connections.", used.open_files);
    if let Some(most) = getrlimit(Resource::Nofile).current {
        let about = "How many files and connections may be open.";
        text.number("process_max_fds", "gauge", about, most);
    }
}

struct Used {
    cpu_seconds: f64,
    started_at: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    threads: u64,
    open_files: usize,
}

impl Used {
    fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name in parentheses may have blanks in it; what follows is numbers.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        Some(Self {
            cpu_seconds: (number(11)? + number(12)?) as f64 / ticks,
            started_at: booted_at()? + number(19)? as f64 / ticks,
            resident_bytes: number(21)? * rustix::param::page_size() as u64,
            virtual_bytes: number(20)?,
            threads: number(17)?,
            open_files: fs::read_dir("/proc/self/fd").ok()?.count(),
        })
    }
}

/// When the machine started, in seconds since 1970.
fn booted_at() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_what_it_takes() {
        let used = Used::read().expect("Linux");
        assert!(used.resident_bytes > 1 << 20 && used.virtual_bytes >= used.resident_bytes);
        assert!(used.threads >= 1 && used.open_files >= 3);
        assert!(used.started_at > 1e9 && used.cpu_seconds < 1e6);
    }
}
