//! The house rules that a machine can check: sizes, headers, directions of dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const LINES_MAX: usize = 600;
const COLUMNS_MAX: usize = 100;

/// Which crates of ours a crate may use outside its tests. What is not listed is not allowed.
const EDGES: &[(&str, &[&str])] = &[
    ("ff-no-schema", &[]),
    ("ff-core", &["ff-no-schema"]),
    ("ff-script", &["ff-core"]),
    ("ff-backend-embedded", &["ff-core", "ff-script"]),
    ("ff-backend-valkey", &["ff-core", "ff-script"]),
    ("ff-engine", &["ff-core", "ff-script"]),
    ("ff-scheduler", &["ff-core", "ff-script"]),
    (
        "ff-store",
        &[
            "ff-backend-embedded",
            "ff-backend-valkey",
            "ff-core",
            "ff-engine",
            "ff-scheduler",
            "ff-script",
        ],
    ),
    ("ff-api", &["ff-core", "ff-no-schema"]),
    (
        "ff-sdk",
        &[
            "ff-api",
            "ff-backend-embedded",
            "ff-backend-valkey",
            "ff-core",
            "ff-engine",
            "ff-script",
            "ff-store",
        ],
    ),
    (
        "ff-server",
        &[
            "ff-api",
            "ff-backend-embedded",
            "ff-backend-valkey",
            "ff-core",
            "ff-engine",
            "ff-scheduler",
            "ff-script",
            "ff-store",
        ],
    ),
    (
        "flowfabric",
        &[
            "ff-api",
            "ff-backend-embedded",
            "ff-backend-valkey",
            "ff-core",
            "ff-engine",
            "ff-scheduler",
            "ff-script",
            "ff-sdk",
            "ff-server",
        ],
    ),
];

/// Tools for tests and measurements: they may use anything, and nothing else may use them.
const TOOLS: &[&str] = &["ff-test-seed", "ff-test-valkey", "ff-conformance", "ff-bench"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// Every tracked or new file with one of these endings, as a path and its text.
fn sources(endings: &[&str]) -> Vec<(String, String)> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    assert!(listed.status.success(), "git must list the files");
    let names = String::from_utf8(listed.stdout).expect("names are text");
    names
        .lines()
        .filter(|name| endings.iter().any(|ending| name.ends_with(ending)))
        .filter_map(|name| Some((name.to_owned(), fs::read_to_string(root().join(name)).ok()?)))
        .collect()
}

fn report(broken: Vec<String>) {
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn files_are_short_enough_to_read() {
    let sources = sources(&[".rs", ".lua"]);
    assert!(sources.len() > 50, "the files were not found");
    let long = sources.into_iter().filter(|(_, text)| text.lines().count() > LINES_MAX);
    report(long.map(|(name, text)| format!("{name}: {} lines", text.lines().count())).collect());
}

#[test]
fn lines_fit_on_the_screen() {
    let mut broken = Vec::new();
    for (name, text) in sources(&[".rs", ".lua"]) {
        for (number, line) in text.lines().enumerate() {
            // A text cannot always be broken; code can.
            let text = line.contains('"') || line.ends_with('\\');
            if line.chars().count() > COLUMNS_MAX && !text {
                broken.push(format!("{name}:{}: {} columns", number + 1, line.chars().count()));
            }
        }
    }
    report(broken);
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent = sources(&[".rs", ".lua"]).into_iter().filter(|(name, text)| {
        let header = if name.ends_with(".rs") { "//!" } else { "-- " };
        !text.starts_with(header)
    });
    report(silent.map(|(name, _)| format!("{name}: does not begin with its purpose")).collect());
}

#[test]
fn nothing_is_left_undone_or_skipped() {
    let marks =
        ["todo!(", "unimplemented!(", "#[ignore", concat!("FIX", "ME"), concat!("TO", "DO")];
    let mut broken = Vec::new();
    for (name, text) in sources(&[".rs", ".lua", ".sh"]) {
        if name.ends_with("tidy.rs") {
            continue;
        }
        for mark in marks {
            if text.contains(mark) {
                broken.push(format!("{name}: contains {mark}"));
            }
        }
    }
    report(broken);
}

/// The names of our crates in the `[dependencies]` section of a manifest.
fn own_dependencies(manifest: &str) -> BTreeSet<String> {
    let mut inside = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.trim() == "[dependencies]";
        } else if inside && line.starts_with("ff-") {
            let end = line.find(|letter: char| !letter.is_alphanumeric() && letter != '-');
            found.insert(line[..end.unwrap_or(line.len())].to_owned());
        }
    }
    found
}

#[test]
fn dependencies_point_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    let mut broken = Vec::new();
    for (path, manifest) in sources(&["Cargo.toml"]) {
        let Some(name) =
            path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        if TOOLS.contains(&name) {
            continue;
        }
        let Some(edges) = allowed.get(name) else {
            broken.push(format!("{name}: not in the table of crates"));
            continue;
        };
        for used in own_dependencies(&manifest) {
            if !edges.contains(&used.as_str()) {
                broken.push(format!("{name} must not use {used}"));
            }
        }
    }
    report(broken);
}

/// What makes random numbers of a seed, but for those that are handed one.
const GENERATORS: &[&str] = &["Dice::new(", "Random::new(", "Plan::random("];

#[test]
fn random_tests_take_their_seeds_from_one_place() {
    let takes_none = |(name, text): &(String, String)| {
        let of_the_model = name.starts_with("crates/ff-conformance/src/model");
        let random = GENERATORS.iter().any(|generator| text.contains(generator));
        random && !of_the_model && !name.ends_with("tidy.rs") && !text.contains("random_test!")
    };
    let broken = sources(&[".rs"]).into_iter().filter(takes_none);
    report(broken.map(|(name, _)| format!("{name}: does not use random_test!")).collect());
}

#[test]
fn keys_are_built_in_one_module_of_each_language() {
    let mut broken = Vec::new();
    for (name, text) in sources(&[".lua"]) {
        if name != "lua/kernel/keys.lua" && text.contains("'ff:") {
            broken.push(format!("{name}: builds a key"));
        }
    }
    report(broken);
}
