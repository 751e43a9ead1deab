//! How fast executions end, and how long the rest will take: seen by looking again and again.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use ff_core::contracts::{ExecutionCounts, KindCounts};

use crate::stats;
use crate::stats::kinds::{Kinds, Speed};

/// Speeds are those of the last seconds.
const WINDOW: Duration = Duration::from_secs(10);
/// So many kinds are shown.
const KINDS_MAX: usize = 8;

/// What was seen lately of everything, and of each kind.
#[derive(Default)]
pub(super) struct Speeds {
    all: Lately,
    kinds: BTreeMap<String, Lately>,
}

/// How many had ended at which times.
#[derive(Default)]
struct Lately(VecDeque<(Instant, u64)>);

impl Lately {
    /// How many have ended; answers how many that is in a second.
    fn add(&mut self, now: Instant, ended: u64) -> f64 {
        self.0.push_back((now, ended));
        while self.0.len() > 2 && now - self.0[0].0 > WINDOW {
            self.0.pop_front();
        }
        let (begun, before) = self.0[0];
        let seconds = (now - begun).as_secs_f64();
        // What is purged is counted no more.
        let more = ended.saturating_sub(before);
        if seconds > 0.0 { more as f64 / seconds } else { 0.0 }
    }
}

impl Speeds {
    /// The lines above the table.
    pub(super) fn describe(
        &mut self,
        counts: Option<(ExecutionCounts, KindCounts)>,
        now: Instant,
    ) -> String {
        let Some((totals, kinds)) = counts else { return String::new() };
        let live = totals.waiting + totals.active;
        let rate = self.all.add(now, totals.total.saturating_sub(live));
        let (rate, left) = words(rate, live);
        let mut line = stats::line(&totals, &kinds);
        if !rate.is_empty() {
            line = format!("{line}   {rate} per second");
        }
        if !left.is_empty() {
            line = format!("{line}, {left} left");
        }
        let kinds = Kinds::of(&kinds);
        let speeds = self.of_kinds(&kinds, now);
        format!("{line}\n\n{}", kinds.table(&speeds, KINDS_MAX))
    }

    /// Estimates tell no speed: they differ more from each other than what ends in between.
    fn of_kinds(&mut self, kinds: &Kinds, now: Instant) -> Vec<(String, Speed)> {
        self.kinds.retain(|kind, _| kinds.exact && kinds.by_kind.contains_key(kind));
        let each = kinds.by_kind.iter().map(|(kind, counts)| {
            if !kinds.exact {
                return (kind.clone(), Speed::default());
            }
            let rate = self.kinds.entry(kind.clone()).or_default().add(now, counts.ended());
            (kind.clone(), words(rate, counts.live()))
        });
        each.collect()
    }
}

/// A rate and the time that the rest takes; nothing if nothing ends.
fn words(rate: f64, live: u64) -> Speed {
    if rate <= 0.0 {
        return Speed::default();
    }
    let shown = if rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") };
    let left = Duration::from_secs_f64((live as f64 / rate).min(1e9));
    let left = if live == 0 { String::new() } else { short(left) };
    (shown, left)
}

/// `45s`, `12m`, `3h`, `2d`.
fn short(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{}s", seconds.max(1)),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_what_ended_in_the_last_seconds_and_tells_how_long_the_rest_takes() {
        let (mut lately, begun) = (Lately::default(), Instant::now());
        assert_eq!(lately.add(begun, 100).to_string(), "0");
        for second in 1..=30_u32 {
            let at = begun + Duration::from_secs(second.into());
            let rate = lately.add(at, 100 + u64::from(second) * 20);
            assert_eq!(words(rate, 1000), ("20".to_owned(), "50s".to_owned()));
        }
        assert!(lately.0.len() <= 12, "it forgets");
        let rate = lately.add(begun + Duration::from_secs(31), 0);
        assert_eq!(words(rate, 5), Speed::default(), "a purge is no speed");
        assert_eq!(words(0.25, 3600), ("0.2".to_owned(), "4h".to_owned()));
    }
}
