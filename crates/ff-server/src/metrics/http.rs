//! Requests and their durations, by method, route template and status.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::histogram::Histogram;
use super::text::Text;

/// Upper bounds of the buckets, in seconds.
const BOUNDS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0];

/// The requests of one route.
pub(crate) struct Series {
    method: &'static str,
    route: &'static str,
    by_status: Mutex<BTreeMap<u16, Histogram>>,
}

impl Series {
    pub(super) fn new(method: &'static str, route: &'static str) -> Self {
        Self { method, route, by_status: Mutex::default() }
    }

    /// A request was answered.
    pub(crate) fn count(&self, status: u16, took: Duration) {
        let seconds = took.as_secs_f64();
        let mut by_status = self.by_status.lock().unwrap_or_else(PoisonError::into_inner);
        by_status.entry(status).or_insert_with(|| Histogram::new(&BOUNDS)).observe(seconds);
    }

    fn snapshot(&self) -> BTreeMap<u16, Histogram> {
        self.by_status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// `unmatched` are the requests that no route matched, by status.
pub(super) fn render(series: &[Arc<Series>], unmatched: &BTreeMap<u16, u64>, text: &mut Text) {
    let snapshots: Vec<_> = series.iter().map(|series| (series, series.snapshot())).collect();
    text.family("ff_http_requests_total", "counter", "Requests answered.");
    for (series, by_status) in &snapshots {
        for (status, histogram) in by_status {
            let status = status.to_string();
            let labels = labels(series, &status);
            text.sample("ff_http_requests_total", &labels, histogram.count);
        }
    }
    for (status, count) in unmatched {
        let status = status.to_string();
        let labels = [("method", "unknown"), ("route", "unknown"), ("status", &status)];
        text.sample("ff_http_requests_total", &labels, count);
    }
    let name = "ff_http_request_duration_seconds";
    text.family(name, "histogram", "How long requests took, waits included.");
    for (series, by_status) in &snapshots {
        for (status, histogram) in by_status {
            histogram.render(name, &labels(series, &status.to_string()), text);
        }
    }
}

fn labels<'a>(series: &'a Series, status: &'a str) -> [(&'static str, &'a str); 3] {
    [("method", series.method), ("route", series.route), ("status", status)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let series = Arc::new(Series::new("GET", "/x"));
        series.count(200, Duration::from_millis(2));
        series.count(200, Duration::from_millis(30));
        series.count(200, Duration::from_secs(100));
        let mut text = Text::default();
        render(&[series], &BTreeMap::new(), &mut text);
        let text = text.finish();
        let bucket = |le: &str| {
            let start = format!(
                "ff_http_request_duration_seconds_bucket\
                 {{method=\"GET\",route=\"/x\",status=\"200\",le=\"{le}\"}} "
            );
            text.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
        };
        assert_eq!(bucket("0.001").as_deref(), Some("0"));
        assert_eq!(bucket("0.0025").as_deref(), Some("1"));
        assert_eq!(bucket("60").as_deref(), Some("2"));
        assert_eq!(bucket("+Inf").as_deref(), Some("3"));
    }
}
