//! Counting executions by kind and state.

use ff_conformance::{Deployment, LANE, conformance, lane};
use ff_script::calls::kind_counts::{CountKinds, CountKindsReply};
use ff_script::value::Value;
use ff_script::wire::Rest;

/// The counts, as `kind state number`, and whether they are exact.
async fn counts(d: &Deployment, look_at: u32) -> (Vec<String>, bool) {
    let call = CountKinds { look_at, lanes: Rest(vec![lane(LANE)]) };
    let CountKindsReply::Counts { counts, exact } = d.call(call).await;
    let text = |value: &Value| match value {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}").replace("Int(", "").replace(')', ""),
    };
    let row = |row: &Value| match row {
        Value::Array(parts) => parts.iter().map(text).collect::<Vec<_>>().join(" "),
        other => format!("{other:?}"),
    };
    (counts.0.iter().map(row).collect(), exact)
}

conformance! {
    async fn each_execution_is_counted_once_wherever_it_is_listed(d: &Deployment) {
        d.create().kind("mail").deadline_in(90_000).send().await;
        d.create().kind("mail").delayed_by(1000).send().await;
        for _ in 0..2 {
            d.create().lane("side").kind("render").send().await;
        }
        let done = d.claim("side").await;
        d.call(done.complete(b"")).await;
        d.claim("side").await;
        let expected = ["mail delayed 1", "mail waiting 1", "render active 1", "render completed 1"];
        assert_eq!(counts(d, 100).await, (expected.map(str::to_owned).to_vec(), true));
    }

    async fn many_are_counted_by_an_even_sample(d: &Deployment) {
        d.host().watch(false);
        for number in 0..40 {
            d.create().kind(if number % 4 == 0 { "mail" } else { "render" }).send().await;
        }
        let (told, exact) = counts(d, 8).await;
        assert!(!exact);
        assert!(told.iter().all(|row| row.contains(" waiting ")), "{told:?}");
    }
}
