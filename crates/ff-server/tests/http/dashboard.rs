//! The dashboard and the alert rules that come with the server: they ask only for what it tells.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::client::Client;
use crate::deployment::valkey;
use crate::server;
use crate::suite::{claim, complete, submit};

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What the panels ask for.
fn panels() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&file("grafana/flowfabric.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    targets.map(|target| target["expr"].as_str().expect("a question").to_owned()).collect()
}

/// What the rules ask for.
fn rules() -> Vec<String> {
    let rules = file("prometheus/alerts.yml");
    let asked = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    asked.map(str::to_owned).collect()
}

/// The metrics of a question, each with the labels that it is asked by, in braces or by name.
fn asked(question: &str) -> Vec<(String, BTreeSet<String>)> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut found = Vec::new();
    for (at, _) in question.char_indices() {
        let before = question[..at].chars().next_back();
        if before.is_some_and(is_word) {
            continue;
        }
        let rest = &question[at..];
        if !rest.starts_with("ff_") && !rest.starts_with("process_") {
            continue;
        }
        let name: String = rest.chars().take_while(|letter| is_word(*letter)).collect();
        let labels = match rest[name.len()..].strip_prefix('{') {
            Some(inside) => labels_in(inside.split('}').next().unwrap_or_default()),
            None => BTreeSet::new(),
        };
        found.push((name, labels));
    }
    found
}

fn labels_in(braces: &str) -> BTreeSet<String> {
    let pairs = braces.split(',').filter_map(|pair| pair.split(['=', '!']).next());
    pairs.map(str::trim).filter(|label| !label.is_empty()).map(str::to_owned).collect()
}

/// The labels of every metric that was told.
type Told = BTreeMap<String, BTreeSet<String>>;

fn scrape(client: &Client, told: &mut Told) {
    submit(client, &json!({"kind": "job", "lane": "dashboard"}));
    complete(client, &claim(client, "dashboard"), b"");
    submit(client, &json!({"kind": "job", "lane": "dashboard"}));
    client.get("/v1/executions/nonsense").expect(400);
    let text = String::from_utf8(client.get("/metrics").expect(200).body).expect("text");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = match line.split_once('{') {
            Some((name, rest)) => (name, labels_in(rest.split('}').next().unwrap_or_default())),
            None => (line.split(' ').next().unwrap_or_default(), BTreeSet::new()),
        };
        told.entry(name.to_owned()).or_default().extend(labels);
    }
}

#[test]
fn the_dashboard_and_the_alerts_ask_for_what_a_server_tells() {
    let mut told = Told::new();
    scrape(&server::embedded().client(), &mut told);
    let valkey = valkey();
    scrape(&server::on(&valkey.url()).client(), &mut told);
    let (panels, rules) = (panels(), rules());
    assert!(panels.len() >= 15 && rules.len() >= 10, "they were found");
    for question in panels.iter().chain(&rules) {
        let metrics = asked(question);
        assert!(!metrics.is_empty(), "{question}");
        for (name, labels) in metrics {
            let known =
                told.get(&name).unwrap_or_else(|| panic!("{name} is never told: {question}"));
            // Prometheus itself adds the job.
            let strange: Vec<&String> =
                labels.iter().filter(|label| *label != "job" && !known.contains(*label)).collect();
            assert!(strange.is_empty(), "{name} has no {strange:?}: {question}");
        }
    }
}

#[test]
fn a_question_is_taken_apart_into_its_metrics_and_labels() {
    let question = r#"sum by (a) (rate(ff_x_total{state=~"b|c",job="d"}[5m])) > 2 * process_y"#;
    let labels = BTreeSet::from(["job".to_owned(), "state".to_owned()]);
    let expected = [("ff_x_total".to_owned(), labels), ("process_y".to_owned(), BTreeSet::new())];
    assert_eq!(asked(question), expected);
}
