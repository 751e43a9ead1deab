//! The documentation: every command in it is run, and it names everything that there is.
//!
//! A block of shell says how it is to be taken: `sh` is run, `sh,background` runs beside the others
//! of its page, `sh,program` is a program that another test runs, and `sh,machine` wants a machine
//! of its own (services, containers, packages) and is only read by a shell.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::site::{Scratch, Site, alone, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join("docs").join(name)).expect(name)
}

/// The pages of the book.
fn pages() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("docs")).expect("docs");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("text"));
    let mut pages: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    pages.sort();
    pages
}

/// The blocks of shell of a page, each with how it is to be taken.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("```") {
        let (how, block) = after.split_once('\n').expect("a block");
        let (code, after) = block.split_once("```").expect("the end of a block");
        if how == "sh" || how.starts_with("sh,") {
            found.push((how, code));
        }
        rest = after;
    }
    found
}

/// A shell in the background, with everything it has started, until it is dropped.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let line = format!("kill -s KILL -- -{}", self.0.id());
        let _ = Command::new("sh").args(["-c", &line]).status();
        let _ = self.0.wait();
    }
}

/// Where the commands of a page are run: with the binary on the path, beside what they name, and
/// with a server of their own.
struct Place {
    site: Site,
    scratch: Scratch,
}

impl Place {
    fn new(page: &str) -> Self {
        let scratch = Scratch::new(&format!("docs-{page}"));
        for name in ["README.md", "examples", "docs", "deploy"] {
            symlink(root().join(name), scratch.path().join(name)).expect("a link");
        }
        let bin = scratch.path().join("bin");
        std::fs::create_dir(&bin).expect("a directory");
        symlink(env!("CARGO_BIN_EXE_flowfabric"), bin.join("flowfabric")).expect("a link");
        strict_curl(&bin.join("curl"));
        Self { site: Site::start(), scratch }
    }

    fn shell(&self, script: &str) -> Command {
        let path = std::env::var("PATH").expect("a path");
        let bin = self.scratch.path().join("bin");
        let script = script.replace("http://127.0.0.1:7480", &self.site.url);
        let mut shell = Command::new("bash");
        shell.args(["-euc", &script]).current_dir(self.scratch.path()).stdin(Stdio::null());
        shell.env("PATH", format!("{}:{path}", bin.display()));
        // A server of the page is one more, and keeps nothing.
        shell.env("FLOWFABRIC_URL", &self.site.url).env("FLOWFABRIC_LISTEN", "127.0.0.1:0");
        shell.env("FLOWFABRIC_STORE", "memory:");
        shell
    }

    fn beside(&self, script: &str) -> Background {
        let mut shell = self.shell(script);
        shell.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
        Background(shell.spawn().expect("a shell"))
    }
}

/// Refusals count as failures, except of the one request that shows what a refusal looks like.
fn strict_curl(path: &Path) {
    let curl = run(Command::new("sh").args(["-c", "command -v curl"])).text();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in\n*nonsense*) exec {curl} \"$@\" ;;\n\
         *) exec {curl} --fail-with-body \"$@\" ;;\nesac\n"
    );
    std::fs::write(path, script).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path, mode).expect("set");
}

/// Runs a page from its first command to its last, in one shell.
#[track_caller]
fn walk_through(page_name: &str) {
    let text = page(page_name);
    let place = Place::new(page_name);
    let blocks = blocks(&text);
    let of = |wanted: &str| -> Vec<&str> {
        let same = blocks.iter().filter(|(how, _)| *how == wanted);
        same.map(|(_, code)| *code).collect()
    };
    let _beside: Vec<Background> =
        of("sh,background").into_iter().map(|code| place.beside(code)).collect();
    let ran = run(&mut place.shell(&of("sh").concat()));
    assert_eq!(ran.code, Some(0), "{page_name}: {ran:?}");
    for (how, code) in blocks.iter().filter(|(how, _)| *how == "sh,machine") {
        let read = run(Command::new("bash").args(["-nc", code]));
        assert_eq!(read.code, Some(0), "{page_name}, {how}: {read:?}");
    }
}

macro_rules! pages {
    ($($test:ident $page:literal,)*) => {
        $(
            #[test]
            fn $test() {
                walk_through($page);
            }
        )*

        const WALKED: &[&str] = &[$($page),*];
    };
}

pages! {
    the_introduction_can_be_followed "introduction.md",
    the_concepts_can_be_followed "concepts.md",
    the_policies_can_be_followed "policy.md",
    lanes_can_be_followed "lanes.md",
    admission_can_be_followed "admission.md",
    quotas_can_be_followed "quotas.md",
    the_command_line_can_be_followed "command-line.md",
    the_http_api_can_be_followed "http.md",
    streaming_can_be_followed "streaming.md",
    waiting_can_be_followed "waiting.md",
    flows_can_be_followed "flows.md",
    operating_can_be_followed "operating.md",
    installing_can_be_followed "installing.md",
    metrics_can_be_followed "metrics.md",
}

#[test]
fn every_page_with_commands_is_walked_through_and_every_page_is_in_the_book() {
    let summary = page("SUMMARY.md");
    for name in pages() {
        let text = page(&name);
        let known = ["sh", "sh,background", "sh,program", "sh,machine"];
        let found = blocks(&text);
        assert!(found.iter().all(|(how, _)| known.contains(how)), "{name}: {found:?}");
        assert!(found.is_empty() || WALKED.contains(&name.as_str()), "{name} has commands");
        assert!(name == "SUMMARY.md" || summary.contains(&format!("({name})")), "{name}");
    }
}

#[test]
fn links_between_pages_lead_to_pages_and_headings() {
    for name in pages() {
        let text = page(&name);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            if file.contains("://") || file.starts_with("../") {
                assert!(file.contains("://") || root().join("docs").join(file).exists(), "{link}");
                continue;
            }
            let target = if file.is_empty() { text.clone() } else { page(file) };
            assert!(heading.is_empty() || headings(&target).contains(heading), "{name}: {link}");
        }
    }
}

/// The anchors of a page's headings.
fn headings(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
        kept.collect::<String>().replace(' ', "-")
    };
    lines.map(anchor).collect()
}

fn api() -> Value {
    serde_json::from_str(&ff_server::openapi_json()).expect("JSON")
}

#[test]
fn every_operation_of_the_api_is_in_its_page() {
    let (text, api) = (page("http.md"), api());
    for (path, methods) in api["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            let named = format!("`{} {path}`", method.to_uppercase());
            assert!(text.contains(&named), "{named}");
        }
    }
}

#[test]
fn every_field_of_a_policy_is_in_its_page() {
    let (text, api) = (page("policy.md"), api());
    let schemas = &api["components"]["schemas"];
    for name in [
        "ExecutionPolicy",
        "RetryPolicy",
        "TimeoutPolicy",
        "SuspensionPolicy",
        "RoutingRequirements",
        "StreamPolicy",
    ] {
        let fields = schemas[name]["properties"].as_object().expect(name);
        for field in fields.keys() {
            assert!(text.contains(&format!("| `{field}` |")), "{name}.{field}");
        }
    }
    for field in ["delay_ms", "initial_delay_ms", "max_delay_ms", "multiplier", "jitter"] {
        assert!(text.contains(&format!("| `{field}` |")), "{field}");
    }
}

#[test]
fn every_command_is_in_its_page() {
    let (text, help) = (page("command-line.md"), alone(&["--help"]).text());
    let commands = help.split_once("Commands:").expect("commands").1;
    let commands = commands.lines().skip(1).take_while(|line| !line.is_empty());
    // What is further in goes on with the line before.
    let names = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    for name in names.filter(|name| !["", "help"].contains(name)) {
        assert!(text.contains(&format!("`{name}")), "{name}");
    }
}

#[test]
fn every_setting_and_every_metric_is_in_its_page() {
    let text = page("operating.md");
    let settings = alone(&["config", "show", "--json"]).json().remove(0);
    for name in settings.as_object().expect("settings").keys() {
        let word = name.strip_prefix("limits.").unwrap_or(name);
        assert!(text.contains(&format!("`{word}`")), "{name}");
    }
    let (text, metrics) = (page("metrics.md"), Site::start().text("/metrics"));
    for name in metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = name.split(' ').next().expect("a name");
        assert!(text.contains(&format!("`{name}`")), "{name}");
    }
}
