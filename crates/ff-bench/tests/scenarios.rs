//! Every scenario runs and reports what it is there for. How fast things are is not tested here.

use std::process::Command;

use serde_json::Value;

fn report(words: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ff-bench"));
    let output = command.args(words.split(' ')).arg("--json").output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {errors}");
    serde_json::from_slice(&output.stdout).expect("a JSON object")
}

/// All of these are there, and above zero.
fn measured(report: &Value, names: &[&str]) {
    for name in ["yardstick_us"].iter().chain(names) {
        let value = report.get(name).and_then(Value::as_f64);
        assert!(value.is_some_and(|value| value > 0.0), "{name} is {value:?} in {report}");
    }
}

#[test]
fn lives_over_http_are_counted_and_timed() {
    for host in ["embedded", "valkey"] {
        let report =
            report(&format!("http --host {host} --concurrency 4 --seconds 1 --partitions 8"));
        let names = ["throughput_per_s", "p50_us", "p99_us", "bare_rtt_us", "claim_p99_us"];
        measured(&report, &names);
        measured(&report, &["half_throughput_per_s", "half_p99_us", "server_us_per_execution"]);
    }
}

#[test]
fn lives_over_http_begin_at_a_rate() {
    let report = report("http --rate 50 --seconds 2 --concurrency 4 --claim-batch 2");
    measured(&report, &["throughput_per_s", "submit_p50_us", "complete_p99_us"]);
    let lives = report["executions"].as_u64().expect("a number");
    assert!((90..=110).contains(&lives), "{lives} lives at 50 a second in 2 seconds");
}

#[test]
fn the_sdk_is_compared_with_a_list() {
    let report = report("sdk --workers 4 --waiting 200 --rounds 1 --partitions 8");
    let names = ["throughput_per_s", "raw_pushpop_per_s", "pushpop_ratio", "p50_us", "p99_us"];
    measured(&report, &names);
}

#[test]
fn the_way_from_a_submission_to_a_worker_is_timed() {
    for way in ["--host embedded", "--host valkey", "--host valkey --through server"] {
        let report = report(&format!("claim {way} --workers 4 --executions 50 --partitions 8"));
        measured(&report, &["pickup_p50_us", "pickup_p99_us", "bare_rtt_us"]);
    }
}

#[test]
fn the_commands_of_an_idle_deployment_are_counted() {
    let report = report("idle --workers 2 --seconds 2 --rest-seconds 1");
    measured(&report, &["commands_per_s"]);
}

#[test]
fn a_wait_and_its_end_are_timed() {
    for host in ["embedded", "valkey"] {
        let journal = if host == "embedded" { "always" } else { "off" };
        let report = report(&format!(
            "suspend --host {host} --journal {journal} --executions 40 --partitions 8"
        ));
        measured(&report, &["p50_us", "p99_us", "bare_rtt_us", "server_us", "client_us"]);
        let names = ["server_us_suspend", "server_us_signal", "server_us_claim"];
        if host == "valkey" {
            measured(&report, &names);
            measured(&report, &["server_us_refusal", "refusal_ratio"]);
            measured(&report, &["server_us_token_check", "token_check_ratio"]);
        } else {
            measured(&report, &["durable_call_us", "durable_ratio"]);
        }
        let noop = report["noop_call_us"].as_f64();
        assert_eq!(noop.is_some_and(|us| us > 0.0), host == "valkey", "{report}");
    }
}

#[test]
fn output_is_appended_and_followed() {
    let report = report("stream --tails 6 --streams 3 --frames 1000 --seconds 1 --partitions 8");
    measured(&report, &["frames_per_s", "server_us_per_frame", "noop_call_us"]);
    measured(&report, &["tail_p50_us", "tail_p99_us", "commands_per_frame"]);
    let (expected, arrived) = (&report["tail_frames_expected"], &report["tail_frames_arrived"]);
    assert_eq!((expected, arrived), (&120.into(), &120.into()), "{report}");
}

#[test]
fn flows_are_compared_with_plain_executions() {
    for shape in ["chain", "fanout", "fanin", "diamond", "random"] {
        let host = if shape == "chain" { "embedded" } else { "valkey" };
        let report = report(&format!(
            "flow --host {host} --shape {shape} --nodes 6 --flows 5 --workers 3 --rounds 1 \
             --partitions 8"
        ));
        measured(&report, &["flows_per_s", "nodes_per_s", "plain_per_s", "nodes_ratio"]);
        measured(&report, &["flow_p50_us", "flow_p99_us", "in_flight_ratio"]);
        measured(&report, &["server_us_per_node", "server_ratio"]);
        if host == "valkey" {
            // So few flows may take less than the noise of the measurement.
            assert!(report["bytes_per_edge"].is_number(), "{report}");
        }
        let limits = report["limits"].as_object().map(|limits| limits.contains_key("nodes_ratio"));
        assert_eq!(limits.unwrap_or(false), shape == "chain", "{report}");
    }
}

#[test]
fn tasks_are_routed_to_those_who_can_do_them() {
    for mode in ["happy", "partial", "scarce"] {
        let report = report(&format!(
            "routing --mode {mode} --workers 10 --capabilities 3 --tasks 60 --partitions 8"
        ));
        measured(&report, &["routed_share", "p50_us", "p99_us", "throughput_per_s"]);
        measured(&report, &["baseline_per_s", "throughput_ratio", "p99_ratio"]);
        assert_eq!(report["routed"], 60, "{report}");
    }
    let report = report("routing --mode happy --host embedded --workers 3 --tasks 20");
    assert_eq!(report["routed"], 20, "{report}");
}

#[test]
fn the_cost_of_a_claim_behind_unsuitable_executions_is_measured() {
    for host in ["embedded", "valkey"] {
        let report = report(&format!(
            "crowded --host {host} --unsuitable 300 --combinations 30 --workers 2 --tasks 1500 \
             --partitions 8"
        ));
        measured(&report, &["server_us", "server_us_alone", "server_ratio"]);
    }
}

#[test]
fn the_wait_of_one_behind_many_is_measured() {
    for host in ["embedded", "valkey"] {
        let report =
            report(&format!("fairness --host {host} --flood 500 --workers 2 --partitions 8"));
        measured(&report, &["wait_alone_us", "wait_us", "wait_ratio"]);
        assert_eq!(report["was_taken"], true, "{report}");
    }
}

#[test]
fn the_order_in_which_executions_are_taken_is_told() {
    let report =
        report("order --low 100 --high 5 --sequence 40 --partitions 8 --connections 2 --workers 2");
    measured(&report, &["high_priority_last_position", "claim_calls_per_execution"]);
    let positions = report["high_priority_positions"].as_array().map(Vec::len);
    assert_eq!(positions, Some(5), "{report}");
    let share = report["overtaken_share"].as_f64().expect("a number");
    assert!((0.0..=1.0).contains(&share) && report["worst_overtake_ms"].is_number(), "{report}");
}

#[test]
fn what_a_replicas_word_costs_is_measured() {
    let report =
        report("lifecycle --host valkey --durability replica --executions 400 --partitions 8");
    measured(&report, &["throughput_per_s"]);
    assert_eq!((&report["replicas"], &report["durability"]), (&1.into(), &"replica".into()));
}

/// What can be tested without fetching anything.
#[test]
fn without_npm_the_comparison_with_bullmq_says_what_it_needs() {
    let programs = tempfile::tempdir().expect("a directory");
    let path = std::env::var_os("PATH").expect("there is a path");
    for program in ["valkey-server", "setpriv"] {
        let places = std::env::split_paths(&path).map(|folder| folder.join(program));
        let place = { places }.find(|place| place.is_file()).expect("it is installed");
        std::os::unix::fs::symlink(place, programs.path().join(program)).expect("a link");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_ff-bench"));
    let output = command.arg("bullmq").env("PATH", programs.path()).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("node and npm are needed"), "{errors}");
}
