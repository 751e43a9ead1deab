//! What a scenario found: the same first fields everywhere, then its own.

use serde_json::Value;

use crate::arguments::{LoadOptions, StoreOptions};
use crate::statistics::Latencies;

/// Named values in reading order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    fields: Vec<(&'static str, Value)>,
}

impl Report {
    /// A report with the fields that all scenarios have in common: what was run, and where.
    pub(crate) fn about(scenario: &str, store: &StoreOptions) -> Self {
        Self::default()
            .field("scenario", scenario)
            .field("host", store.host.to_string())
            .field("journal", store.journal.to_string())
            .field("partitions", store.partitions)
    }

    /// The same, with what callers do that talk to the store themselves.
    pub(crate) fn new(scenario: &str, store: &StoreOptions, load: &LoadOptions) -> Self {
        Self::about(scenario, store)
            .known("shards", store.shard_count())
            .field("executions", load.executions)
            .field("concurrency", load.concurrency)
            .field("payload_bytes", load.payload)
            .field("result_bytes", load.result)
    }

    /// Adds the middle and the slow end of durations, under names that begin alike.
    pub(crate) fn percentiles(self, names: [&'static str; 2], times: &mut Latencies) -> Self {
        self.measured(names[0], times.percentile_us(0.5))
            .measured(names[1], times.percentile_us(0.99))
    }

    /// Adds a value.
    pub(crate) fn field(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// Adds a value if there is one: what a host cannot tell is left out.
    pub(crate) fn known(self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.field(name, value),
            None => self,
        }
    }

    /// Adds a measured value, with as many digits as mean something.
    pub(crate) fn measured(self, name: &'static str, value: Option<f64>) -> Self {
        self.known(name, value.map(rounded))
    }

    /// Prints the report to stdout.
    pub(crate) fn print(&self, json: bool) {
        if json { println!("{}", self.json()) } else { print!("{}", self.table()) }
    }

    fn json(&self) -> String {
        let field = |(name, value): &(&str, Value)| format!("{}:{value}", Value::from(*name));
        let fields: Vec<String> = self.fields.iter().map(field).collect();
        format!("{{{}}}", fields.join(","))
    }

    fn table(&self) -> String {
        let width = self.fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let line = |(name, value): &(&str, Value)| format!("{name:width$}  {}\n", plain(value));
        self.fields.iter().map(line).collect()
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Two digits behind the point are plenty for microseconds; large numbers need none.
pub(crate) fn rounded(value: f64) -> f64 {
    let step = if value.abs() >= 1000.0 { 1.0 } else { 100.0 };
    (value * step).round() / step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_keeps_its_order_and_leaves_out_what_is_unknown() {
        let report = Report::default()
            .field("scenario", "a \"b\"")
            .measured("p50_us", Some(1.23456))
            .measured("p99_us", None)
            .field("executions", 7);
        assert_eq!(report.json(), r#"{"scenario":"a \"b\"","p50_us":1.23,"executions":7}"#);
        assert_eq!(report.table(), "scenario    a \"b\"\np50_us      1.23\nexecutions  7\n");
    }

    #[test]
    fn large_numbers_have_no_fraction() {
        assert_eq!(rounded(12345.678), 12346.0);
        assert_eq!(rounded(0.126), 0.13);
    }
}
