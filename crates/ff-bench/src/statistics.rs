//! Medians and percentiles, from all values: no run measures more than fits in memory.

use std::time::Duration;

/// Durations of many equal things.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn add(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The duration that this part of all durations does not exceed, in microseconds.
    pub(crate) fn percentile_us(&mut self, part: f64) -> Option<f64> {
        self.0.sort_unstable();
        let rank = (self.0.len() as f64 * part).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).map(|latency| latency.as_secs_f64() * 1e6)
    }
}

/// Values of several rounds, of which the median counts: a round that something else disturbed
/// does not move it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    pub(crate) fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn median(&self) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let (low, high) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
        Some(f64::midpoint(sorted[low], sorted[high]))
    }

    pub(crate) fn largest(&self) -> Option<f64> {
        self.0.iter().copied().max_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_measured_value() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile_us(0.5), None);
        (1..=200).rev().for_each(|us| latencies.add(Duration::from_micros(us)));
        for (part, us) in [(0.0, 1.0), (0.5, 100.0), (0.99, 198.0), (1.0, 200.0)] {
            assert_eq!(latencies.percentile_us(part), Some(us), "{part}");
        }
    }

    #[test]
    fn the_median_lies_in_the_middle() {
        let rounds = |values: &[f64]| Rounds(values.to_vec());
        assert_eq!(rounds(&[]).median(), None);
        assert_eq!(rounds(&[9.0, 1.0, 2.0]).median(), Some(2.0));
        assert_eq!(rounds(&[4.0, 1.0, 2.0, 9.0]).median(), Some(3.0));
        assert_eq!(rounds(&[4.0, 9.0]).largest(), Some(9.0));
    }
}
