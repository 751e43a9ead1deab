//! `tail`: the output of an execution, followed to its end.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use crate::site::{Scratch, Site};

/// A program that counts on standard error, a step at a time, and waits for files.
fn counting(scratch: &Scratch) -> String {
    let go = scratch.path().display();
    format!(
        "echo one >&2; until [ -e '{go}/1' ]; do sleep 0.02; done; \
         echo two >&2; until [ -e '{go}/2' ]; do sleep 0.02; done; \
         echo three >&2; echo result"
    )
}

fn go(scratch: &Scratch, step: u32) {
    std::fs::write(scratch.path().join(step.to_string()), "").expect("written");
}

/// A `tail` that goes on.
struct Tail {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Tail {
    fn start(site: &Site, arguments: &[&str]) -> Self {
        let mut command = site.command(&[&["tail"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    /// What comes up to the end, and the exit code.
    fn finish(mut self) -> (String, Option<i32>) {
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("text");
        (text, self.child.wait().expect("it ends").code())
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn standard_error_is_followed_while_the_program_runs() {
    let site = Site::start();
    let scratch = Scratch::new("tail");
    let _worker = site.worker(&["--kind", "k"], &["sh", "-c", &counting(&scratch)]);
    let id = site.submit(&["k"]);
    let mut tail = Tail::start(&site, &[&id, "--from-start"]);
    assert_eq!(tail.line(), "one");
    go(&scratch, 1);
    assert_eq!(tail.line(), "two");
    go(&scratch, 2);
    assert_eq!(tail.finish(), ("three\n".to_owned(), Some(0)));
    assert_eq!(site.run(&["result", &id]).text(), "result");
    assert_eq!(site.run(&["tail", &id, "--from-start"]).text(), "one\ntwo\nthree");
    assert_eq!(site.run(&["tail", &id]).text(), "");
    let lines = site.run(&["tail", &id, "--from-start", "--lines"]).text();
    assert!(lines.lines().next().is_some_and(|line| line.ends_with("stderr  one")), "{lines}");
    let events = site.run(&["tail", &id, "--from-start", "--json"]).json();
    assert_eq!((&events[0]["event"], &events[0]["attempt_index"]), (&"attempt".into(), &0.into()));
    assert_eq!((&events[1]["text"], &events[1]["sequence"]), (&"one\n".into(), &1.into()));
    let end = events.last().expect("an end");
    assert_eq!((&end["event"], &end["public_state"]), (&"end".into(), &"completed".into()));
}

#[test]
fn the_exit_code_tells_how_it_ended() {
    let site = Site::start();
    let _worker = site.worker(&["--kind", "k"], &["sh", "-c", "echo oops >&2; exit 1"]);
    let id = site.submit(&["k"]);
    let failed = site.run(&["tail", &id, "--from-start"]);
    assert_eq!(failed.stdout, "oops\n");
    assert!(failed.complaint(3).contains("failed (transient): oops"));
    let unknown = "550e8400-e29b-41d4-a716-446655440000";
    let said = site.run(&["tail", unknown]).complaint(1);
    assert!(said.contains(unknown), "{said}");
}

#[test]
fn a_server_that_is_killed_and_started_again_costs_a_follower_nothing() {
    let scratch = Scratch::new("killed");
    let store = scratch.path().join("data").display().to_string();
    let site = Site::start_with(&["--store", &store]);
    let program = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo line $i >&2; sleep 0.02; done";
    let _worker = site.worker(&["--kind", "k"], &["sh", "-c", program]);
    let id = site.submit(&["k"]);
    let mut tail = Tail::start(&site, &[&id, "--from-start"]);
    for number in 1..=20 {
        assert_eq!(tail.line(), format!("line {number}"));
    }
    let (address, url) = (site.url.replace("http://", ""), site.url.clone());
    site.kill();
    let site = Site::start_at(&address, &["--store", &store]);
    assert_eq!(site.url, url);
    let expected: String = (21..=200).map(|number| format!("line {number}\n")).collect();
    assert_eq!(tail.finish(), (expected, Some(0)));
}
