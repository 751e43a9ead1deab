//! The examples with one command, and the worker of the documentation, as written.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::flow::cells;
use crate::site::{Site, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_shell_worker_example_prints_what_it_promises() {
    let mut example = Command::new(root().join("examples/shell-worker/run.sh"));
    example.env("FLOWFABRIC", env!("CARGO_BIN_EXE_flowfabric"));
    let ran = run(&mut example);
    let expected = "\
        hello, Ada (attempt 1)\n\
        hello, shy Grace (attempt 2)\n\
        hello, Linus (attempt 1)\n\
        1 of 4 failed: there is nobody to greet\n";
    assert_eq!(ran.stdout, expected, "{ran:?}");
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn the_approval_gate_opens_by_a_signed_link() {
    let mut example = Command::new(root().join("examples/approval-gate/run.sh"));
    example.env("FLOWFABRIC", env!("CARGO_BIN_EXE_flowfabric"));
    let ran = run(&mut example);
    let expected = "\
        ann is asked: Deploy release 7?\n\
        ann decides: Approve\n\
        deployed release 7, as ann decided\n";
    assert_eq!(ran.stdout, expected, "{ran:?}");
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn the_media_flow_joins_what_it_split() {
    let mut example = Command::new(root().join("examples/media-flow/run.sh"));
    example.env("FLOWFABRIC", env!("CARGO_BIN_EXE_flowfabric"));
    let ran = run(&mut example);
    let lines = cells(&ran.stdout);
    assert!(lines[1].starts_with("5 completed, 1 failed, took "), "{ran:?}");
    let expected = [
        "",
        "TASK | KIND | STATE | ATTEMPT | TIME",
        "split | split | completed | 1",
        "├─ left | encode | completed | 1",
        "│ | └─ join | join | completed | 1 | also after right",
        "├─ poster | poster | failed | 1 | optional",
        "│ | └─ report | report | completed | 1 | also after join",
        "└─ right | encode | completed | 1",
        "",
        "join: encoded(clip.mp4 in two parts) + encoded(clip.mp4 in two parts)",
    ];
    assert_eq!(
        (&*lines[0], &lines[2..]),
        ("media … is completed", &expected.map(str::to_owned)[..])
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn the_saga_gives_back_what_was_booked() {
    let mut example = Command::new(root().join("examples/saga-flow/run.sh"));
    example.env("FLOWFABRIC", env!("CARGO_BIN_EXE_flowfabric"));
    let ran = run(&mut example);
    let lines = cells(&ran.stdout);
    assert!(lines[1].starts_with("5 completed, 1 failed, 1 skipped, took "), "{ran:?}");
    let expected = [
        "",
        "TASK | KIND | STATE | ATTEMPT | TIME",
        "flight | book | completed | 1",
        "└─ hotel | book | completed | 1",
        "├─ car | book | failed | 1",
        "│ | ├─ cancel-hotel | cancel | completed | 2 | on failure",
        "│ | └─ confirm | tell | skipped",
        "└─ cancel-flight | cancel | completed | 1 | on failure; also after car",
        "└─ apologise | tell | completed | 1 | also after cancel-hotel",
        "",
        "cancel-hotel: the hotel is given back",
        "cancel-flight: the flight is given back",
        "apologise: mail: there is no car",
    ];
    assert_eq!((&*lines[0], &lines[2..]), ("trip … is failed", &expected.map(str::to_owned)[..]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

/// The shell of the documentation after a heading, for this server.
fn documented(heading: &str, url: &str) -> String {
    shell_of("docs/http.md", heading).replace("http://127.0.0.1:7480", url)
}

/// The first block of shell after a heading of a page.
fn shell_of(page: &str, heading: &str) -> String {
    let text = std::fs::read_to_string(root().join(page)).expect("the page");
    let after = text.split_once(heading).expect("the heading").1;
    let block = after.split_once("```sh").and_then(|(_, block)| block.split_once('\n'));
    let code = block.and_then(|(_, code)| code.split_once("```"));
    code.expect("a block of shell").0.to_owned()
}

/// A shell, with everything it has started, until it is dropped.
struct Shell(Child);

impl Shell {
    fn start(script: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-euc", script]).process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        Self(shell.spawn().expect("a shell"))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let line = format!("kill -s KILL -- -{}", self.0.id());
        let _ = Command::new("sh").args(["-c", &line]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn a_worker_of_curl_and_shell_works_as_documented() {
    let curl = Command::new("curl").arg("--version").output();
    assert!(curl.is_ok_and(|curl| curl.status.success()), "this needs curl: scripts/need curl");
    let site = Site::start();
    let _worker = Shell::start(&documented("## A worker in ten lines of shell", &site.url));
    let submit = documented("## Submit, and read the result", &site.url);
    let ran = run(Command::new("sh").args(["-euc", &submit]).current_dir(root()));
    assert!(ran.stdout.ends_with("HELLO"), "{ran:?}");
    let bytes = site.run(&["submit", "upper", "--input", "a\"b\\c é\n", "--wait"]);
    assert_eq!(bytes.text(), "A\"B\\C é");
}

#[test]
fn a_program_waits_as_documented() {
    let site = Site::start();
    let program = shell_of("docs/waiting.md", "## Programs that wait");
    let _worker = site.worker(&["--kind", "gate"], &["sh", "-c", &program]);
    let ids = ["approve", "reject"].map(|decision| {
        let id = site.submit(&["gate"]);
        site.until(&id, "suspended");
        site.run(&[decision, &id]).text();
        id
    });
    assert_eq!(site.run(&["result", &ids[0], "--wait"]).text(), "");
    let rejected = site.run(&["result", &ids[1], "--wait"]).complaint(3);
    assert!(rejected.contains("it was not approved"), "{rejected}");
}
