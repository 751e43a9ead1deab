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
    let said = alone(&["ls", "--url", "localhost:7480"]).complaint(1);
    assert!(said.contains("--url") && said.contains("must look like http://host:7480"), "{said}");
    let json = alone(&["--json", "get", NOBODY, "--url", "http://127.0.0.1:1"]).complaint(6);
    let error: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(error["exit_code"], 6);
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
    let wrong = alone(&["config", "show", "--allowed-hosts", "http://flow/"]).complaint(1);
    assert!(wrong.contains("allowed_hosts") && wrong.contains("is no host"), "{wrong}");
    let wrong = alone(&["config", "show", "--journal", "sometimes"]).complaint(1);
    assert!(wrong.contains("always, everysec or off"), "{wrong}");
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

    let grace = show(&["--waitpoint-grace-ms", "5"], &[]).json().remove(0);
    assert_eq!(grace["waitpoint_grace_ms"]["value"], "5");
    let wrong = show(&["--waitpoint-grace-ms", "soon"], &[]).complaint(1);
    assert!(wrong.contains("waitpoint_grace_ms"), "{wrong}");
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
