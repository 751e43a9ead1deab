//! What a scenario found: the same first fields everywhere, then its own.

use serde_json::Value;

use crate::arguments::{LoadOptions, StoreOptions};
use crate::statistics::Latencies;

/// Named values in reading order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    fields: Vec<Field>,
}

#[derive(Clone, Debug)]
struct Field {
    name: &'static str,
    value: Value,
    limit: Option<Limit>,
}

/// What a value has to keep to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    fn is_reached(self, value: &Value) -> bool {
        value.as_f64().is_some_and(|value| match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        })
    }

    fn words(self) -> (&'static str, f64) {
        match self {
            Self::AtLeast(least) => ("at_least", least),
            Self::AtMost(most) => ("at_most", most),
        }
    }
}

impl Field {
    fn limit_json(&self) -> Option<String> {
        let (Self { name, value, .. }, limit) = (self, self.limit?);
        let ((word, bound), reached) = (limit.words(), limit.is_reached(value));
        Some(format!(r#""{name}":{{"{word}":{bound},"reached":{reached}}}"#))
    }

    fn limit_text(&self) -> Option<String> {
        let limit = self.limit?;
        let ((word, bound), reached) = (limit.words(), limit.is_reached(&self.value));
        let outcome = if reached { "reached" } else { "NOT reached" };
        Some(format!("  ({} {bound}: {outcome})", word.replace('_', " ")))
    }
}

impl Report {
    /// A report with the fields that all scenarios have in common: what was run, and where.
    pub(crate) fn about(scenario: &str, store: &StoreOptions) -> Self {
        Self::default()
            .field("scenario", scenario)
            .field("host", store.host.to_string())
            .field("journal", store.journal.to_string())
            .field("partitions", store.partitions)
            .known("replicas", Some(store.replica_count()).filter(|count| *count > 0))
            .known("durability", store.durability_told())
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
        self.fields.push(Field { name, value: value.into(), limit: None });
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

    /// Adds a measured value, which may have a limit.
    pub(crate) fn limited(
        self,
        name: &'static str,
        value: Option<f64>,
        limit: impl Into<Option<Limit>>,
    ) -> Self {
        let (is_known, mut report) = (value.is_some(), self.measured(name, value));
        if let Some(field) = report.fields.last_mut().filter(|_| is_known) {
            field.limit = limit.into();
        }
        report
    }

    /// Prints the report to stdout.
    pub(crate) fn print(&self, json: bool) {
        if json { println!("{}", self.json()) } else { print!("{}", self.table()) }
    }

    /// The limits come last, by the names of their values.
    fn json(&self) -> String {
        let mut fields: Vec<String> = self
            .fields
            .iter()
            .map(|field| format!("{}:{}", Value::from(field.name), field.value))
            .collect();
        let limits: Vec<String> = self.fields.iter().filter_map(Field::limit_json).collect();
        if !limits.is_empty() {
            fields.push(format!(r#""limits":{{{}}}"#, limits.join(",")));
        }
        format!("{{{}}}", fields.join(","))
    }

    fn table(&self) -> String {
        let width = self.fields.iter().map(|field| field.name.len()).max().unwrap_or(0);
        let line = |field: &Field| {
            let (value, limit) = (plain(&field.value), field.limit_text().unwrap_or_default());
            format!("{:width$}  {value}{limit}\n", field.name)
        };
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
    fn beside_a_value_stands_whether_it_keeps_to_its_limit() {
        let report = Report::default()
            .limited("ratio", Some(0.5), Limit::AtLeast(0.6))
            .limited("unknown", None, Limit::AtMost(1.0))
            .limited("call_us", Some(7.0), Limit::AtMost(7.0));
        let table =
            "ratio    0.5  (at least 0.6: NOT reached)\ncall_us  7.0  (at most 7: reached)\n";
        assert_eq!(report.table(), table);
        let limits = r#""limits":{"ratio":{"at_least":0.6,"reached":false},"call_us":{"at_most":7,"reached":true}}}"#;
        assert!(report.json().ends_with(limits), "{}", report.json());
    }

    #[test]
    fn large_numbers_have_no_fraction() {
        assert_eq!(rounded(12345.678), 12346.0);
        assert_eq!(rounded(0.126), 0.13);
    }
}
