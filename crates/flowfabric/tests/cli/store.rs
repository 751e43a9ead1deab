//! `store check` and `store export`, and a server that ends and starts on its directory.

use std::path::{Path, PathBuf};

use crate::site::{Scratch, Site, alone};

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

/// The file that the journal appends to.
fn journal(data: &Path) -> PathBuf {
    let files = std::fs::read_dir(data.join("appendonlydir")).expect("the journal");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    let increment = |file: &PathBuf| file.to_string_lossy().contains(".incr.");
    files.into_iter().rfind(increment).expect("an increment")
}

#[test]
fn data_that_was_changed_is_damage() {
    let scratch = Scratch::new("changed");
    let data = scratch.path().to_str().expect("text");
    let site = Site::start_with(&["--store", data]);
    site.run(&["submit", "mail", "--input", "a distinct payload", "--count", "20"]).text();
    site.stop();
    let file = journal(scratch.path());
    let mut bytes = std::fs::read(&file).expect("readable");
    let payload = b"a distinct payload";
    let at = bytes.windows(payload.len()).position(|window| window == payload).expect("there");
    bytes[at] = b'A';
    std::fs::write(&file, bytes).expect("written");
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
