//! A server process of its own for each test, and the commands that talk to it.

use std::io::{BufRead, BufReader, Lines, Read as _, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_flowfabric");
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// How a command went.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// It worked; this is what it printed, without the last line's end.
    #[track_caller]
    pub(crate) fn text(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout.trim_end_matches('\n').to_owned()
    }

    /// It worked and printed one JSON object per line.
    #[track_caller]
    pub(crate) fn json(self) -> Vec<Value> {
        let read = |line: &str| serde_json::from_str(line).expect("a line is JSON");
        self.text().lines().map(read).collect()
    }

    /// It did not work: this code, and what it complained about.
    #[track_caller]
    pub(crate) fn complaint(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        self.stderr
    }
}

/// The binary, without anything from this environment.
pub(crate) fn flowfabric() -> Command {
    let mut command = Command::new(BINARY);
    for name in ["URL", "TOKEN", "CA", "LISTEN", "STORE", "TOKENS", "JOURNAL", "LOG"] {
        command.env_remove(format!("FLOWFABRIC_{name}"));
    }
    command.stdin(Stdio::null());
    command
}

pub(crate) fn run(command: &mut Command) -> Ran {
    let output = command.output().expect("it starts");
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// A command that needs no server.
pub(crate) fn alone(arguments: &[&str]) -> Ran {
    run(flowfabric().args(arguments))
}

/// A process that goes on, and the lines that it prints.
pub(crate) struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, lines }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line, as JSON.
    #[track_caller]
    pub(crate) fn event(&mut self) -> Value {
        let line = self.lines.next().expect("there is a line").expect("it is text");
        serde_json::from_str(&line).expect("it is JSON")
    }

    /// The next line about such an event.
    #[track_caller]
    pub(crate) fn event_named(&mut self, name: &str) -> Value {
        std::iter::repeat_with(|| self.event())
            .find(|event| event["event"] == name)
            .expect("endless")
    }

    /// Sends a signal, as `kill` does.
    pub(crate) fn signal(&self, signal: &str) {
        let line = format!("kill {signal} {}", self.pid());
        assert!(Command::new("sh").args(["-c", &line]).status().expect("a shell").success());
    }

    /// How it ends.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory that is gone afterwards.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ff-cli-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server process on a free port.
pub(crate) struct Site {
    server: Running,
    pub(crate) url: String,
}

impl Site {
    pub(crate) fn start() -> Self {
        Self::start_with(&["--store", "memory:"])
    }

    pub(crate) fn start_with(options: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", options)
    }

    pub(crate) fn start_at(address: &str, options: &[&str]) -> Self {
        Self::start_as(flowfabric(), address, options)
    }

    /// Starts the binary by a shell, after it did something first.
    pub(crate) fn start_after(first: &str, options: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{first}; exec \"$0\" \"$@\""), BINARY]);
        Self::start_as(shell, "127.0.0.1:0", options)
    }

    /// A server that is started by a command which takes our arguments at its end.
    pub(crate) fn start_as(command: Command, address: &str, options: &[&str]) -> Self {
        Self::start_with_log(command, address, "error", options)
    }

    /// A store in memory, and warnings in this file.
    pub(crate) fn start_warning(file: &Path) -> Self {
        let mut command = flowfabric();
        command.stderr(std::fs::File::create(file).expect("a file"));
        Self::start_with_log(command, "127.0.0.1:0", "warn", &["--store", "memory:"])
    }

    fn start_with_log(mut command: Command, address: &str, log: &str, options: &[&str]) -> Self {
        command.args(["serve", "--json", "--listen", address, "--log", log]);
        command.args(["--partitions", "16"]).args(options);
        let mut server = Running::start(&mut command);
        let url = server.event()["url"].as_str().expect("an address").to_owned();
        Self { server, url }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Sends a signal, as `kill` does.
    pub(crate) fn signal(&self, signal: &str) {
        self.server.signal(signal);
    }

    /// Sends SIGHUP, and answers what the server says to it.
    pub(crate) fn hang_up(&mut self) -> Value {
        self.server.signal("-HUP");
        self.server.event()
    }

    /// A command for this server.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = flowfabric();
        command.args(arguments).env("FLOWFABRIC_URL", &self.url);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        run(&mut self.command(arguments))
    }

    /// A command that reads its standard input.
    pub(crate) fn run_with(&self, input: &[u8], arguments: &[&str]) -> Ran {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        child.stdin.take().expect("piped").write_all(input).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// A worker that runs a program, and tells what it does.
    pub(crate) fn worker(&self, options: &[&str], program: &[&str]) -> Running {
        let mut command = self.command(&["worker", "run", "--json"]);
        let mut worker = Running::start(command.args(options).arg("--").args(program));
        assert_eq!(worker.event()["event"], "working");
        worker
    }

    /// Submits one and answers its id.
    #[track_caller]
    pub(crate) fn submit(&self, arguments: &[&str]) -> String {
        self.run(&[&["submit"], arguments].concat()).text()
    }

    /// One field of an execution.
    #[track_caller]
    pub(crate) fn field(&self, id: &str, name: &str) -> Value {
        self.run(&["get", "--json", id]).json()[0][name].clone()
    }

    /// What the server answers to whoever has this API token.
    #[track_caller]
    pub(crate) fn get(&self, path: &str, token: &str) -> Value {
        self.exchange(&format!("GET {path}"), &format!("authorization: Bearer {token}\r\n"), "")
    }

    /// Sends JSON to the server and answers what it says, which must be a success.
    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &str) -> Value {
        self.exchange(&format!("POST {path}"), "content-type: application/json\r\n", body)
    }

    /// What the server answers, as text.
    #[track_caller]
    pub(crate) fn text(&self, path: &str) -> String {
        self.send(&format!("GET {path}"), "", "")
    }

    #[track_caller]
    fn exchange(&self, what: &str, header: &str, body: &str) -> Value {
        serde_json::from_str(&self.send(what, header, body)).expect("json")
    }

    #[track_caller]
    fn send(&self, what: &str, header: &str, body: &str) -> String {
        let address = self.url.split("://").nth(1).expect("a URL");
        let request = format!(
            "{what} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{header}\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        body.to_owned()
    }

    /// Waits until an execution is in a state.
    #[track_caller]
    pub(crate) fn until(&self, id: &str, state: &str) {
        eventually(|| self.field(id, "public_state") == state);
    }

    /// Waits for the server to end by itself; answers its code.
    pub(crate) fn wait(mut self) -> Option<i32> {
        self.server.wait()
    }

    /// Ends the server at once, as SIGKILL does.
    pub(crate) fn kill(mut self) {
        self.server.signal("-KILL");
        self.server.wait();
    }

    /// Ends the server in order, as SIGTERM does.
    pub(crate) fn stop(mut self) {
        self.server.signal("-TERM");
        assert_eq!(self.server.wait(), Some(0));
    }
}

/// What the execution that a line of JSON is about is called where people read it.
#[track_caller]
pub(crate) fn uuid_in(line: &Value) -> &str {
    let id = line["execution_id"].as_str().expect("an id");
    let (partition, uuid) = id.rsplit_once(':').expect("JSON has the whole id");
    assert!(partition.starts_with("{fp:"), "{id}");
    uuid
}

/// Looks again and again until it is so.
#[track_caller]
pub(crate) fn eventually(mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < TIME_LIMIT, "it never came true");
        std::thread::sleep(Duration::from_millis(20));
    }
}
