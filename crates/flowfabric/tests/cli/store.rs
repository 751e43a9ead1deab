//! `store backup`, `store check` and `store export`, and a server that ends and starts on its
//! directory.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::site::{Scratch, Site, alone, eventually};

#[test]
fn a_directory_is_checked_and_exported() {
    let scratch = Scratch::new("store");
    let data = scratch.path().join("data");
    let data = data.to_str().expect("text");
    let site = Site::start_with(&["--store", data]);
    let id = site.submit(&["mail", "--input", "hello"]);
    let locked = alone(&["store", "check", data]).complaint(1);
    assert!(locked.contains("is in use by process"), "{locked}");
    site.stop();

    let text = alone(&["store", "check", data]).text();
    assert!(text.contains("all checksums right") && text.contains("no violation"), "{text}");
    let json = alone(&["store", "check", "--json", data]).json().remove(0);
    assert_eq!(json["executions"]["waiting"], 1);
    assert_eq!(json["violations"], serde_json::json!([]));

    let out = scratch.path().join("export");
    let ran = alone(&["store", "export", data, "--output", out.to_str().expect("text")]);
    assert!(ran.stderr.contains("exported "), "{ran:?}");
    let exported = std::fs::read_to_string(&out).expect("written");
    assert!(exported.contains("hello"), "{exported}");
    let piped = alone(&["store", "export", data]);
    assert_eq!(piped.stdout.len(), exported.len());

    let site = Site::start_with(&["--store", data]);
    assert_eq!(site.field(&id, "public_state"), "waiting");
}

/// The families of partitions that quotas and budgets live in belong to the store like all others.
#[test]
fn what_gates_hold_is_checked_and_exported_too() {
    let scratch = Scratch::new("store-gates");
    let data = scratch.path().join("data");
    let data = data.to_str().expect("text");
    let site = Site::start_with(&["--store", data]);
    let quota = site.run(&["quota", "create", "--concurrent", "1"]).text();
    let budget = site.run(&["budget", "create", "lane=other", "--hard", "tokens=100"]).text();
    let policy = json!({
        "quota": {"policy_id": quota, "key": "k"},
        "budget_ids": [budget], "reserve_usage": {"tokens": 5},
    });
    for _ in 0..2 {
        site.submit(&["mail", "--input", "x", "--policy", &policy.to_string()]);
    }
    let options = ["--kind", "mail", "--concurrency", "2"];
    let worker = site.worker(&options, &["sleep", "60"]);
    let shown = |words: &[&str]| site.run(&[words, &["--json"]].concat()).json().remove(0);
    eventually(|| shown(&["quota", "show", &quota, "--key", "k"])["running"] == 1);
    eventually(|| shown(&["budget", "show", &budget])["dimensions"]["tokens"]["reserved"] == 5);
    eventually(|| site.run(&["ls", "--state", "rate_limited", "-q"]).text().lines().count() == 1);
    drop(worker);
    site.stop();

    let text = alone(&["store", "check", data]).text();
    assert!(text.contains("no violation"), "{text}");
    let exported = alone(&["store", "export", data]).stdout;
    for part in [":policy:", ":holders:q:", ":budget:", ":gate:q:"] {
        assert!(exported.contains(part), "{part} is in the export");
    }
}

#[test]
fn a_running_store_is_copied_and_the_copy_is_started_on() {
    let scratch = Scratch::new("backup");
    let data = scratch.path().join("data");
    let site = Site::start_with(&["--store", data.to_str().expect("text")]);
    let id = site.submit(&["mail", "--input", "hello"]);
    let made = site.run(&["store", "backup", "first", "--json"]).json().remove(0);
    let copy = made["directory"].as_str().expect("a path").to_owned();
    assert_eq!(Path::new(&copy), data.join("backups/first"));
    let later = site.submit(&["mail", "--input", "later"]);
    let again = site.run(&["store", "backup", "first"]).complaint(1);
    assert!(again.contains("There is a backup of this name"), "{again}");
    let outside = site.run(&["store", "backup", "../first"]).complaint(2);
    assert!(outside.contains("letters, digits"), "{outside}");

    let checked = alone(&["store", "check", "--json", &copy]).json().remove(0);
    assert_eq!(checked["executions"]["waiting"], 1);
    let restored = Site::start_with(&["--store", &copy]);
    assert_eq!(restored.field(&id, "public_state"), "waiting");
    restored.run(&["get", &later]).complaint(1);
    assert_eq!(site.field(&later, "public_state"), "waiting", "the store itself goes on");
}

#[test]
fn copies_are_made_where_the_server_was_told_to_and_one_in_memory_has_none() {
    let scratch = Scratch::new("elsewhere");
    let text = |name: &str| scratch.path().join(name).display().to_string();
    let set = format!("backup_dir={}", text("copies"));
    let site = Site::start_with(&["--store", &text("data"), "--set", &set]);
    site.run(&["store", "backup", "a"]).text();
    assert_eq!(names(&scratch.path().join("copies")), ["a"]);
    let in_memory = Site::start_with(&["--store", "memory:"]);
    let refused = in_memory.run(&["store", "backup", "a"]).complaint(1);
    assert!(refused.contains("in memory only"), "{refused}");
}

#[test]
fn an_export_has_no_secrets_unless_they_are_asked_for() {
    let scratch = Scratch::new("secrets");
    let data = scratch.path().join("data");
    let data = data.to_str().expect("text");
    let site = Site::start_with(&["--store", data]);
    site.post("/v1/admin/rotate-link-key", r#"{"new_kid":"canary"}"#);
    site.stop();
    let plain = alone(&["store", "export", data]).text();
    assert!(plain.contains("deployment") && !plain.contains("canary"), "{plain}");
    let whole = alone(&["store", "export", data, "--secrets"]).text();
    assert!(whole.contains("canary"), "{whole}");
}

#[test]
fn an_export_that_fails_leaves_the_file_as_it_was() {
    let scratch = Scratch::new("kept");
    let data = scratch.path().join("data");
    let data = data.to_str().expect("text");
    let site = Site::start_with(&["--store", data]);
    site.run(&["submit", "mail", "--input", PAYLOAD, "--count", "20"]).text();
    let out = scratch.path().join("export");
    std::fs::write(&out, "the only export there is").expect("written");
    let options = ["store", "export", data, "-o", out.to_str().expect("text")];
    let locked = alone(&options).complaint(1);
    assert!(locked.contains("is in use by process"), "{locked}");
    let kept = || std::fs::read_to_string(&out).expect("readable");
    assert_eq!(kept(), "the only export there is");
    site.stop();
    damage(Path::new(data));
    alone(&options).complaint(5);
    assert_eq!(kept(), "the only export there is");
    assert_eq!(names(scratch.path()), ["data", "export"], "nothing else is left");
}

#[test]
fn an_export_replaces_the_file_and_nothing_else() {
    let scratch = Scratch::new("replaced");
    let data = scratch.path().join("data");
    let data = data.to_str().expect("text");
    let site = Site::start_with(&["--store", data]);
    site.submit(&["mail", "--input", "hello"]);
    site.stop();
    let (file, link) = (scratch.path().join("file"), scratch.path().join("link"));
    std::fs::write(&file, "old").expect("written");
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("changed");
    std::os::unix::fs::symlink(&file, &link).expect("linked");
    alone(&["store", "export", data, "-o", link.to_str().expect("text")]).text();
    assert!(std::fs::read_to_string(&file).expect("readable").contains("hello"));
    assert_eq!(std::fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
    assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());
    alone(&["store", "export", data, "-o", "/dev/null"]).text();
    assert!(!std::fs::metadata("/dev/null").expect("there").is_file());
    assert_eq!(names(scratch.path()), ["data", "file", "link"]);
}

/// What is in a directory.
fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory");
    let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<_> = entries.map(|entry| name(entry.expect("an entry"))).collect();
    names.sort();
    names
}

/// The file that the journal appends to.
fn journal(data: &Path) -> PathBuf {
    let files = std::fs::read_dir(data.join("appendonlydir")).expect("the journal");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    let increment = |file: &PathBuf| file.to_string_lossy().contains(".incr.");
    files.into_iter().rfind(increment).expect("an increment")
}

const PAYLOAD: &str = "a distinct payload";

/// Changes a byte of the first payload in the journal.
fn damage(data: &Path) {
    let file = journal(data);
    let mut bytes = std::fs::read(&file).expect("readable");
    let payload = PAYLOAD.as_bytes();
    let at = bytes.windows(payload.len()).position(|window| window == payload).expect("there");
    bytes[at] = b'A';
    std::fs::write(&file, bytes).expect("written");
}

#[test]
fn data_that_was_changed_is_damage() {
    let scratch = Scratch::new("changed");
    let data = scratch.path().to_str().expect("text");
    let site = Site::start_with(&["--store", data]);
    site.run(&["submit", "mail", "--input", PAYLOAD, "--count", "20"]).text();
    site.stop();
    damage(scratch.path());
    for command in ["check", "export"] {
        let said = alone(&["store", command, data]).complaint(5);
        assert!(said.contains("is damaged at byte"), "{command}: {said}");
    }
}

#[test]
fn damage_is_told_apart_from_a_directory_without_a_store() {
    let scratch = Scratch::new("damage");
    let path = scratch.path().to_str().expect("text");
    let none = alone(&["store", "check", path]).complaint(1);
    assert!(none.contains("there is no store here"), "{none}");
    let missing = alone(&["store", "export", "/no/such/dir", "-o", "/tmp/x"]).complaint(1);
    assert!(missing.contains("/no/such/dir"), "{missing}");
}
