//! How long things take, in buckets.

use super::text::Text;

/// Counts by upper bounds, in seconds.
#[derive(Clone)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    buckets: Vec<u64>,
    pub(super) count: u64,
    seconds: f64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, buckets: vec![0; bounds.len()], count: 0, seconds: 0.0 }
    }

    pub(super) fn observe(&mut self, seconds: f64) {
        if let Some(bucket) = self.bounds.iter().position(|bound| seconds <= *bound) {
            self.buckets[bucket] += 1;
        }
        self.count += 1;
        self.seconds += seconds;
    }

    /// The samples of one series: each bucket counts what is below it, too.
    pub(super) fn render(&self, name: &str, labels: &[(&str, &str)], text: &mut Text) {
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        for (bound, count) in self.bounds.iter().zip(&self.buckets) {
            below += count;
            text.sample(&bucket, &[labels, &[("le", &bound.to_string())]].concat(), below);
        }
        text.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), self.count);
        text.sample(&format!("{name}_sum"), labels, self.seconds);
        text.sample(&format!("{name}_count"), labels, self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let mut histogram = Histogram::new(&[0.1, 1.0]);
        for seconds in [0.05, 0.5, 0.5, 7.0] {
            histogram.observe(seconds);
        }
        let mut text = Text::default();
        histogram.render("x", &[("kind", "a")], &mut text);
        assert_eq!(
            text.finish(),
            "x_bucket{kind=\"a\",le=\"0.1\"} 1\nx_bucket{kind=\"a\",le=\"1\"} 3\n\
             x_bucket{kind=\"a\",le=\"+Inf\"} 4\nx_sum{kind=\"a\"} 8.05\nx_count{kind=\"a\"} 4\n"
        );
    }
}
