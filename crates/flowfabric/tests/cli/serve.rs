//! The server process: what it does at the limits of its system, and while it goes on running.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::site::{Running, Scratch, Site, flowfabric, run};

const TIME_LIMIT: Duration = Duration::from_secs(20);
const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

fn connect(site: &Site) -> TcpStream {
    let address = site.url.split("://").nth(1).expect("a URL");
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(TIME_LIMIT)).expect("set");
    stream
}

/// Sends a request on a connection, and answers the status.
fn ask(mut stream: &TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).expect("sent");
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("an answer");
    String::from_utf8_lossy(&head[9..]).into_owned()
}

/// The soft and the hard limit of open files of a process.
fn open_files(pid: u32) -> (u64, u64) {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("limits");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let mut numbers = line
        .expect("a line")
        .split_whitespace()
        .map(|word| if word == "unlimited" { u64::MAX } else { word.parse().unwrap_or(0) });
    (numbers.next().expect("soft"), numbers.next().expect("hard"))
}

#[test]
fn idle_connections_at_the_limit_of_open_files_stop_nobody() {
    let site = Site::start_after("ulimit -n 192", &["--store", "memory:"]);
    assert_eq!(open_files(site.pid()), (192, 192));
    let submit = "POST /v1/executions HTTP/1.1\r\nhost: localhost\r\nflowfabric-kind: a\r\n\
        connection: close\r\ncontent-length: 0\r\n\r\n";
    // About four times as many as there are files.
    let mut idle = Vec::new();
    for round in 0..40 {
        idle.extend((0..20).map(|_| connect(&site)));
        assert_eq!(ask(&connect(&site), HEALTH), "200", "round {round}");
        assert_eq!(ask(&connect(&site), submit), "201", "round {round}");
    }
    let cut = idle.iter().filter(|stream| is_closed(stream)).count();
    assert!(cut >= 800 - 64, "{cut} were cut");
    site.stop();
}

fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("set");
    match stream.read(&mut [0]) {
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        Ok(read) => read == 0,
    }
}

#[test]
fn the_limit_of_open_files_is_raised_as_far_as_it_may_be() {
    let (_, hard) = open_files(std::process::id());
    let site = Site::start_after("ulimit -S -n 160", &["--store", "memory:"]);
    assert_eq!(open_files(site.pid()), (hard.min(8192 + 128), hard), "as far as is needed");
    site.stop();
}

fn with_token(token: &str) -> String {
    format!("GET /v1/workers HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n")
}

#[test]
fn tokens_are_read_again_on_sighup_and_wrong_ones_are_not() {
    let scratch = Scratch::new("sighup-tokens");
    let file = scratch.path().join("settings.toml");
    let write = |text: &str| std::fs::write(&file, text).expect("written");
    write("tokens = ['first-token']");
    let config = file.to_str().expect("text");
    let mut site = Site::start_with(&["--store", "memory:", "--config", config]);
    let kept = connect(&site);
    assert_eq!(ask(&kept, &with_token("first-token")), "200");

    write("tokens = ['second-token', 'third-token']\npartitions = 8");
    let said = site.hang_up();
    assert_eq!(said["event"], "reloaded", "{said}");
    // Flags win over the file, so that nothing but the tokens is different.
    assert_eq!(said["waiting_for_a_restart"], serde_json::json!([]), "{said}");
    assert_eq!(ask(&connect(&site), &with_token("first-token")), "401");
    assert_eq!(ask(&connect(&site), &with_token("third-token")), "200");
    read_rest(&kept);
    assert_eq!(ask(&kept, &with_token("second-token")), "200", "the connection goes on");

    for (wrong, why) in [
        ("tokens = ['short']", "at least 8 characters"),
        ("tokens = ['fourth-token", "settings.toml, line 1"),
        ("tokens = []", "no tokens any more"),
        ("token = ['fourth-token']", "there is no setting"),
        ("tokens = ['fourth-token']\nallowed_hosts = ['a b']", "is no host"),
        ("tokens = ['fourth-token']\npublic_url = 'flow'", "is no public URL"),
        ("tokens = ['fourth-token']\ntls_cert = 'a.pem'\ntls_key = 'b.pem'", "only by a restart"),
    ] {
        write(wrong);
        let said = site.hang_up();
        assert_eq!(said["event"], "not_reloaded", "{wrong}: {said}");
        let reason = said["reason"].to_string();
        assert!(reason.contains(why) && !reason.contains("fourth"), "{wrong}: {said}");
        assert_eq!(ask(&connect(&site), &with_token("third-token")), "200", "{wrong}");
        assert_eq!(ask(&connect(&site), &with_token("fourth-token")), "401", "{wrong}");
    }
    std::fs::remove_file(&file).expect("removed");
    assert_eq!(site.hang_up()["event"], "not_reloaded");

    write("tokens = ['fourth-token']\nlog_format = 'json'");
    let said = site.hang_up();
    assert_eq!(said["waiting_for_a_restart"], serde_json::json!(["log_format"]), "{said}");
    assert_eq!(ask(&connect(&site), &with_token("fourth-token")), "200");
    site.stop();
}

/// What is left of an answer whose status was read.
fn read_rest(mut stream: &TcpStream) {
    let mut text = String::new();
    while !text.ends_with('}') {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the rest");
        text.push(char::from(byte[0]));
    }
}

/// A certificate that signs itself, and its key. The name tells it from others.
fn certify(directory: &Path, name: &str) {
    let words = format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
         -subj /CN={name} -keyout key.pem -out cert.pem"
    );
    let made = openssl(&words).current_dir(directory).output().expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn openssl(words: &str) -> Command {
    let mut command = Command::new("openssl");
    command.args(words.split_ascii_whitespace()).stdin(std::process::Stdio::null());
    command
}

/// The name in the certificate that the server shows.
fn shown_name(site: &Site) -> String {
    let address = site.url.trim_start_matches("https://");
    let shown = openssl(&format!("s_client -connect {address}")).output().expect("openssl runs");
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let subject = text.lines().find_map(|line| line.strip_prefix("subject=")).expect(&text);
    subject.trim().trim_start_matches("CN").trim_start_matches([' ', '=']).to_owned()
}

#[test]
fn certificates_are_read_again_on_sighup_and_wrong_ones_are_not() {
    let scratch = Scratch::new("sighup-certificates");
    certify(scratch.path(), "first");
    let path = |name: &str| scratch.path().join(name).to_str().expect("text").to_owned();
    let files = ["--tls-cert", &path("cert.pem"), "--tls-key", &path("key.pem")];
    let mut site = Site::start_with(&[&["--store", "memory:"], &files[..]].concat());
    assert_eq!(shown_name(&site), "first");

    certify(scratch.path(), "second");
    assert_eq!(shown_name(&site), "first", "nothing is read by itself");
    assert_eq!(site.hang_up()["event"], "reloaded");
    assert_eq!(shown_name(&site), "second");

    let key = std::fs::read(path("key.pem")).expect("a key");
    certify(scratch.path(), "third");
    std::fs::write(path("key.pem"), key).expect("the key of another certificate");
    let said = site.hang_up();
    assert_eq!(said["event"], "not_reloaded", "{said}");
    assert!(said["reason"].to_string().contains("TLS"), "{said}");
    std::fs::write(path("cert.pem"), "").expect("an empty file");
    assert_eq!(site.hang_up()["event"], "not_reloaded");
    assert_eq!(shown_name(&site), "second", "the old one stays");
    site.stop();
}

#[test]
fn a_store_is_opened_with_the_partitions_that_it_has() {
    let scratch = Scratch::new("partitions");
    let data = scratch.path().join("data");
    let serve = |more: &[&str]| {
        let mut command = flowfabric();
        command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--log", "error"]);
        command.arg("--store").arg(&data).args(more);
        command
    };
    let mut first = Running::start(&mut serve(&["--partitions", "8"]));
    assert_eq!(first.event()["event"], "listening");
    first.signal("-TERM");
    assert_eq!(first.wait(), Some(0));
    let mut again = Running::start(&mut serve(&[]));
    let url = again.event()["url"].as_str().expect("an address").to_owned();
    let id = run(flowfabric().args(["submit", "mail"]).env("FLOWFABRIC_URL", &url)).text();
    assert_eq!(id.len(), 36, "{id}");
    drop(again);
    let said = run(&mut serve(&["--partitions", "9"])).complaint(1);
    assert!(said.contains("deployment_mismatch") && said.contains("flow partitions: 8"), "{said}");
}
