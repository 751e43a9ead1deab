//! What the audience sees.

use std::collections::BTreeMap;
use std::time::Instant;

use ff_core::contracts::ExecutionSnapshot;
use ff_engine::EngineStats;

/// Prints lines with the time since the beginning.
#[derive(Clone)]
pub(crate) struct Story {
    begun: Instant,
}

impl Story {
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now() }
    }

    pub(crate) fn tell(&self, line: &str) {
        println!("{:>7.3}s  {line}", self.begun.elapsed().as_secs_f64());
    }

    /// The end: how each kind of execution fared.
    pub(crate) fn conclude(&self, ended: &[ExecutionSnapshot], stats: &EngineStats) {
        self.tell("everything has ended\n");
        println!("{:<10} {:>9} {:>7} {:>9}", "kind", "completed", "failed", "attempts");
        let mut kinds: BTreeMap<&str, (u32, u32, u32)> = BTreeMap::new();
        for execution in ended {
            let row = kinds.entry(execution.kind.as_str()).or_default();
            match execution.public_state().as_str() {
                "completed" => row.0 += 1,
                _ => row.1 += 1,
            }
            row.2 += execution.total_attempt_count;
        }
        for (kind, (completed, failed, attempts)) in kinds {
            println!("{kind:<10} {completed:>9} {failed:>7} {attempts:>9}");
        }
        println!(
            "\n{} executions: {} retries were waited for, {} lost lease was taken over.",
            ended.len(),
            stats.promoted(),
            stats.lapsed()
        );
    }
}
