//! A server whose disk fails ends and says why; one whose disk is full says that it is not ready.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::site::{Scratch, Site, alone, eventually, flowfabric};

/// A library for LD_PRELOAD whose syncs fail as soon as a file is there.
const FAILING_SYNC: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
int fdatasync(int fd) {
  if (access(getenv("FF_SYNC_FAILS"), F_OK) == 0) { errno = EIO; return -1; }
  int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  return next(fd);
}
"#;

fn failing_sync(scratch: &Path) -> PathBuf {
    let (source, library) = (scratch.join("sync.c"), scratch.join("sync.so"));
    std::fs::write(&source, FAILING_SYNC).expect("written");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    assert!(compiler.status().expect("a C compiler, as the build needs one").success());
    library
}

/// The status of an answer.
fn status(site: &Site, path: &str) -> String {
    let address = site.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer.split(' ').nth(1).expect("a status").to_owned()
}

#[test]
fn a_server_whose_disk_fails_ends_and_says_why() {
    let scratch = Scratch::new("io-error");
    let (data, failing) = (scratch.path().join("data"), scratch.path().join("fails"));
    let told = std::fs::File::create(scratch.path().join("told")).expect("made");
    let mut command = flowfabric();
    command.env("LD_PRELOAD", failing_sync(scratch.path())).env("FF_SYNC_FAILS", &failing);
    command.stderr(Stdio::from(told));
    let data = data.to_str().expect("text");
    let site = Site::start_as(command, "127.0.0.1:0", &["--store", data]);
    let kept = site.submit(&["mail"]);
    assert_eq!(status(&site, "/readyz"), "200");
    std::fs::write(&failing, "").expect("written");
    assert_ne!(site.run(&["submit", "mail"]).code, Some(0), "it must not be acknowledged");
    assert_eq!(site.wait(), Some(1));
    let told = std::fs::read_to_string(scratch.path().join("told")).expect("text");
    assert!(told.contains("the store has stopped: the journal could not be"), "{told}");
    assert!(told.contains("Input/output error"), "{told}");

    let text = alone(&["store", "check", data]).text();
    assert!(text.contains("no violation"), "{text}");
    let site = Site::start_with(&["--store", data]);
    assert_eq!(site.field(&kept, "public_state"), "waiting");
}

#[test]
fn a_server_on_a_full_disk_is_alive_and_not_ready() {
    let scratch = Scratch::new("full");
    let data = scratch.path().join("data");
    // No file may become longer than 16 MiB, which is told like a full disk.
    let line = "trap '' XFSZ; ulimit -f 32768; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", line]).arg(flowfabric().get_program()).stdin(Stdio::null());
    command.stderr(Stdio::null());
    let site = Site::start_as(command, "127.0.0.1:0", &["--store", data.to_str().expect("text")]);
    assert_eq!(status(&site, "/readyz"), "200");
    let input = vec![b'x'; 4 << 20];
    let full = (0..6).find_map(|_| {
        let ran = site.run_with(&input, &["submit", "mail", "--input", "-"]);
        (ran.code != Some(0)).then_some(ran.stderr)
    });
    let said = full.expect("it must not take more than fits");
    assert!(said.contains("disk is full"), "{said}");
    eventually(|| status(&site, "/readyz") == "503");
    assert_eq!(status(&site, "/healthz"), "200");
    assert!(!site.run(&["ls", "--json"]).json().is_empty(), "reads are served");
}
