//! What is said when something is wrong, and how a command ends then.

use serde_json::json;

use crate::site::{Scratch, Site, alone, flowfabric, run};

const NOBODY: &str = "{fp:1}:550e8400-e29b-41d4-a716-446655440000";

#[test]
fn a_server_that_is_not_there_is_explained() {
    let said = alone(&["ls", "--url", "http://127.0.0.1:1"]).complaint(6);
    for part in ["no server answers at http://127.0.0.1:1", "refused", "flowfabric serve", "--url"]
    {
        assert!(said.contains(part), "{said}");
    }
    let said = alone(&["ls", "--url", "localhost:7480"]).complaint(2);
    let rule = r#"--url or FLOWFABRIC_URL: "localhost:7480" must look like http://host:7480"#;
    assert!(said.contains(rule), "{said}");
    let json = alone(&["--json", "get", NOBODY, "--url", "http://127.0.0.1:1"]).complaint(6);
    let error: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(error["exit_code"], 6);
}

#[test]
fn a_server_that_takes_connections_and_answers_nobody_is_given_up_on() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    let begun = std::time::Instant::now();
    for command in [&["ls"][..], &["worker", "run", "--kind", "mail", "--", "cat"]] {
        let said = run(flowfabric().args(command).env("FLOWFABRIC_URL", &url)).complaint(6);
        assert!(said.contains("takes connections, but has not answered within 6 s"), "{said}");
    }
    assert!(begun.elapsed().as_secs() < 18, "{:?}", begun.elapsed());
}

#[test]
fn a_time_behind_wait_says_how_it_is_written() {
    let said = alone(&["result", NOBODY, "--wait", "30s"]).complaint(2);
    assert!(said.contains("a time to wait is written --wait=30s"), "{said}");
    let json = alone(&["--json", "submit", "mail", "--wait", "30s"]).complaint(2);
    assert!(json.contains("; a time to wait is written --wait=30s"), "{json}");
    let other = alone(&["result", NOBODY, "--wait", "soon"]).complaint(2);
    assert!(!other.contains("--wait=soon"), "{other}");
}

#[test]
fn a_variable_that_is_no_setting_is_named() {
    let show = |name: &str| run(flowfabric().args(["config", "show"]).env(name, "x"));
    let said = show("FLOWFABRIC_LISTN").stderr;
    assert!(said.contains("FLOWFABRIC_LISTN is no setting"), "{said}");
    let said = show("FLOWFABRIC_SERVICE_HOST").stderr;
    assert!(!said.contains("is no setting"), "{said}");
}

#[test]
fn a_missing_token_is_asked_for() {
    let site = Site::start_with(&["--store", "memory:", "--tokens", "long-secret"]);
    for arguments in [&["ls"][..], &["ls", "--token", "wrong-token"][..]] {
        let said = site.run(arguments).complaint(1);
        assert!(said.contains("--token or FLOWFABRIC_TOKEN"), "{said}");
        assert!(!said.contains("wrong-token"), "{said}");
    }
    site.run(&["ls", "--token", "long-secret"]).text();
    run(site.command(&["ls"]).env("FLOWFABRIC_TOKEN", "long-secret")).text();
}

#[test]
fn an_execution_that_is_not_there_is_named() {
    let site = Site::start();
    for command in ["get", "result", "cancel", "replay"] {
        let said = site.run(&[command, NOBODY]).complaint(1);
        assert!(said.contains(&format!("there is no execution {NOBODY}")), "{command}: {said}");
        assert!(!said.contains("whole id"), "it was given: {said}");
    }
}

#[test]
fn help_says_what_the_exit_codes_mean() {
    for arguments in [&["--help"][..], &["result", "--help"][..], &["submit", "--help"][..]] {
        let help = alone(arguments).text();
        assert!(help.contains("6  the server could not be reached"), "{help}");
    }
    let help = alone(&["--help"]).text();
    assert!(!help.contains("demo-worker"), "{help}");
    alone(&["no-such-command"]).complaint(2);
    let help = alone(&[]).complaint(2);
    assert!(help.contains("Commands:") && help.contains("Run the server"), "{help}");
}

#[test]
fn a_server_that_does_not_answer_to_a_name_is_told_as_one() {
    let site = Site::start();
    let said = alone(&["ls", "--url", &site.url.replace("127.0.0.1", "127.1")]).complaint(1);
    assert!(said.contains("answers only to names of its own"), "{said}");
    assert!(!said.contains("is no FlowFabric"), "{said}");
}

#[test]
fn what_was_mistyped_is_told_in_words() {
    let submit = |flags: &[&str]| alone(&[&["submit", "mail"], flags].concat()).complaint(2);
    let said = submit(&["--tag", "team=search"]);
    assert!(said.contains("': A tag key is a lower-case word, a dot and a name"), "{said}");
    let said = alone(&["ls", "--tag", "team"]).complaint(2);
    assert!(said.contains("': A tag key is a lower-case word, a dot and a name"), "{said}");
    let said = alone(&["quota", "create", "--rate", "5", "--window", "1500ms"]).complaint(2);
    assert!(said.contains("must be whole seconds"), "{said}");
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let completions = alone(&["completions", shell]).text();
        assert!(completions.contains("idempotency-key"), "{shell}");
    }
}

#[test]
fn settings_are_shown_with_their_source() {
    let mut command = flowfabric();
    command
        .args(["config", "show", "--listen", "127.0.0.1:1234"])
        .env("FLOWFABRIC_TOKENS", "s3cret");
    let text = run(&mut command).text();
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).expect("a row");
    assert!(row("listen").contains("127.0.0.1:1234") && row("listen").ends_with("flag"), "{text}");
    assert!(row("tokens").contains("(hidden)") && row("tokens").ends_with("environment"), "{text}");
    assert!(row("store").ends_with("default"), "{text}");
    let json = run(command.arg("--json")).json().remove(0);
    assert_eq!(json["listen"]["value"], "127.0.0.1:1234");
    assert_eq!(json["tokens"]["value"], "(hidden)");
    assert_eq!(json["allowed_hosts"]["value"], "");
    let hosts = alone(&["config", "show", "--allowed-hosts", "flow.example.com, b:80"]).text();
    assert!(hosts.contains("flow.example.com, b:80"), "{hosts}");
    let wrong = alone(&["config", "show", "--allowed-hosts", "http://flow/"]).complaint(2);
    assert!(wrong.contains("allowed_hosts") && wrong.contains("is no host"), "{wrong}");
    let wrong = alone(&["config", "show", "--journal", "sometimes"]).complaint(2);
    assert!(wrong.contains("always, everysec or off"), "{wrong}");
    let on_valkey =
        ["config", "show", "--store", "valkey://h", "--durability", "replica", "--json"];
    let durability = alone(&on_valkey).json().remove(0);
    assert_eq!(durability["durability"], json!({"value": "replica", "source": "flag"}));
    let wrong = alone(&["config", "show", "--durability", "disk"]).complaint(2);
    assert!(wrong.contains("durability (flag) must be primary or replica"), "{wrong}");
    let wrong = alone(&["config", "show", "--durability", "replica"]).complaint(2);
    assert!(wrong.contains("is for a store like valkey://host"), "{wrong}");
}

#[test]
fn a_waitpoint_secret_comes_by_file_or_environment_and_is_not_shown() {
    const SECRET: &str = "00112233445566778899aabbccddeeff";
    let scratch = Scratch::new("waitpoint-secret");
    let file = scratch.path().join("secret").display().to_string();
    std::fs::write(&file, format!("{SECRET}\n")).expect("written");
    let show = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = flowfabric();
        command.args(["config", "show", "--json"]).args(arguments);
        run(command.envs(variables.iter().copied()))
    };
    let shown = show(&[], &[("FLOWFABRIC_WAITPOINT_SECRET", SECRET)]);
    assert!(!format!("{shown:?}").contains(SECRET), "{shown:?}");
    let shown = shown.json().remove(0);
    assert_eq!(shown["waitpoint_secret"], json!({"value": "(hidden)", "source": "environment"}));

    let by_file = [("FLOWFABRIC_WAITPOINT_SECRET_FILE", "/nowhere")];
    let missing = show(&[], &by_file).complaint(1);
    assert!(missing.contains("waitpoint_secret_file /nowhere"), "{missing}");
    let flag = show(&["--waitpoint-secret-file", &file], &by_file).json().remove(0);
    assert_eq!(flag["waitpoint_secret_file"], json!({"value": file, "source": "flag"}));

    let both = [("FLOWFABRIC_WAITPOINT_SECRET", SECRET)];
    let both = show(&["--waitpoint-secret-file", &file], &both).complaint(1);
    assert!(both.contains("only one") && !both.contains(SECRET), "{both}");
    let wrong = show(&[], &[("FLOWFABRIC_WAITPOINT_SECRET", &SECRET[..31])]).complaint(1);
    assert!(wrong.contains("16 to 128 bytes") && !wrong.contains("0011"), "{wrong}");

    let grace = show(&["--waitpoint-grace", "5s"], &[]).json().remove(0);
    assert_eq!(grace["waitpoint_grace"]["value"], "5s");
    let wrong = show(&["--waitpoint-grace", "soon"], &[]).complaint(2);
    assert!(wrong.contains("waitpoint_grace"), "{wrong}");
}

#[test]
fn a_reader_that_stops_reading_is_no_error() {
    let site = Site::start();
    site.run(&["submit", "idle", "--count", "3000"]).text();
    for command in ["ls --limit 5000", "ls --json --limit 5000", "submit idle --count 3000"] {
        let line = format!("{} {command} | head -n 1", env!("CARGO_BIN_EXE_flowfabric"));
        let mut shell = std::process::Command::new("sh");
        let ran = run(shell.args(["-c", &line]).env("FLOWFABRIC_URL", &site.url));
        assert_eq!((ran.stdout.lines().count(), ran.stderr.as_str()), (1, ""), "{ran:?}");
    }
}

#[test]
fn words_that_there_are_not_are_answered_with_those_that_there_are() {
    let said = alone(&["ls", "--state", "running"]).complaint(2);
    assert!(said.contains("waiting, delayed") && said.contains("cancelled"), "{said}");
    let json = alone(&["--json", "ls", "--state", "running"]).complaint(2);
    let error: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(error["exit_code"], 2);
    assert!(error["error"].as_str().expect("words").contains("completed"), "{json}");
}

#[test]
fn details_of_a_refusal_have_names() {
    let site = Site::start();
    let scratch = Scratch::new("large-input");
    let file = scratch.path().join("input");
    std::fs::write(&file, vec![b'x'; 9_000_000]).expect("written");
    let input = format!("@{}", file.display());
    let said = site.run(&["submit", "k", "--input", &input]).complaint(2);
    assert!(said.contains("bytes: 9000000, bytes allowed: 8388608"), "{said}");
}

#[test]
fn every_setting_can_be_given_in_each_way() {
    let show = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = flowfabric();
        command.args(["config", "show", "--json"]).args(arguments);
        run(command.envs(variables.iter().copied()))
    };
    let variables = [("FLOWFABRIC_LIMITS_REQUESTS", "70"), ("FLOWFABRIC_OPEN_METRICS", "true")];
    let shown = show(&["--set", "limits.waiting=90", "--access-log"], &variables);
    let shown = shown.json().remove(0);
    assert_eq!(shown["limits.requests"], json!({"value": "70", "source": "environment"}));
    assert_eq!(shown["limits.waiting"], json!({"value": "90", "source": "flag"}));
    assert_eq!(shown["open_metrics"]["value"], "true");
    assert_eq!(shown["access_log"]["value"], "true");
    let scratch = Scratch::new("settings-file");
    let file = scratch.path().join("settings.toml").display().to_string();
    std::fs::write(&file, "[limits]\nbody_timeout = '5s'\n").expect("written");
    let shown = show(&["--config", &file], &[]).json().remove(0);
    assert_eq!(shown["limits.body_timeout"]["value"], "5s");
    for (set, complaint) in [
        ("limits.nothing=1", "there is no setting"),
        ("limits.requests=many", "limits.requests (flag) must be a number"),
        ("drain=10", "must be a time like"),
        ("valkey_ca=ca.pem", "are for a store like valkeys://host"),
    ] {
        let said = show(&["--set", set], &[]).complaint(2);
        assert!(said.contains(complaint), "{said}");
    }
}

#[test]
fn what_only_a_server_can_do_says_as_well_that_there_is_none() {
    let said = alone(&["store", "backup", "monday", "--url", "http://127.0.0.1:1"]).complaint(6);
    assert!(said.contains("no server answers") && said.contains("flowfabric serve"), "{said}");
}

#[test]
fn an_address_where_something_else_answers_says_so() {
    let site = Site::start();
    let elsewhere = format!("{}/elsewhere", site.url);
    let said = alone(&["ls", "--url", &elsewhere]).complaint(1);
    assert!(said.contains("is no FlowFabric") && said.contains("no path"), "{said}");
}

#[test]
fn a_taken_port_says_what_to_do() {
    let site = Site::start();
    let address = site.url.strip_prefix("http://").expect("http");
    let said = alone(&["serve", "--store", "memory:", "--listen", address]).complaint(1);
    assert!(said.contains("in use") && said.contains("`listen` names another"), "{said}");
}

#[test]
fn times_and_numbers_that_are_too_large_say_how_large_they_may_be() {
    for (flag, value, rule) in [
        ("--retention", "400d", "must be 366d at most"),
        ("--retries", "5000", "5000 is not in 0..=1000"),
        ("--priority", "10000", "must be a number from 0 to 9000"),
        ("--priority", "high", "must be a number from 0 to 9000"),
    ] {
        let said = alone(&["submit", "mail", flag, value]).complaint(2);
        assert!(said.contains(flag) && said.contains(rule), "{said}");
    }
}

#[test]
fn the_help_of_serve_tells_the_defaults_that_config_show_tells() {
    let help = alone(&["serve", "--help"]).text();
    let defaults = alone(&["config", "show", "--json"]).json().remove(0);
    let server = ["listen", "store", "journal", "durability", "partitions"];
    for name in server.into_iter().chain(["log", "log_format", "drain", "waitpoint_grace"]) {
        let value = defaults[name]["value"].as_str().expect("a value");
        let (_, behind) = help.split_once(&flag(name)).expect("a flag");
        let told = behind.split("\n      --").next().unwrap_or_default();
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(&format!("[default: {value}]")), "{name}: {told}");
    }
}

fn flag(name: &str) -> String {
    format!("--{} <", name.replace('_', "-"))
}
