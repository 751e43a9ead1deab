//! The library about itself, and whether Rust knows it as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ff_conformance::{Answer, Deployment, HostKind, conformance, reachable_library, timed_library};
use ff_core::error::Code;
use ff_script::calls;
use ff_script::calls::library::{
    CheckRights, CheckRightsReply, Description, Version, VersionReply,
};
use libtest_mimic::Trial;

/// Tests that need no host.
pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, run: fn()| {
        Trial::test(format!("library::{name}"), move || {
            run();
            Ok(())
        })
    };
    vec![
        trial("the_embedded_host_has_exactly_the_commands_that_the_library_uses", same_commands),
        trial("the_right_to_every_command_that_the_library_uses_is_asked_for", same_rights),
        trial("w58_hot_paths_read_only_the_fields_they_need", lean_reads),
        trial("a_verb_file_has_a_file_of_calls_and_one_of_tests", parallel_files),
    ]
}

fn lua_files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lua");
    let folders = ["kernel", "model", "verb"].map(|folder| root.join(folder));
    let entries = folders.iter().flat_map(|folder| {
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
    });
    entries.map(|entry| entry.expect("a readable folder").path()).collect()
}

/// The commands that a source calls at once (`call('X'`) or collects as writes (`{ 'X'`).
fn commands(source: &str) -> BTreeSet<String> {
    let after = ["call('", "{ '", "{'"]
        .into_iter()
        .flat_map(|mark| source.match_indices(mark).map(|(at, mark)| &source[at + mark.len()..]));
    let words = after.filter_map(|rest| rest.split_once('\'')).map(|(word, _)| word);
    let command =
        |word: &&str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    words.filter(command).map(str::to_owned).collect()
}

/// The file that asks for the right to every command, and calls none.
const ASKS: &str = "verb/library.lua";

fn used_commands() -> BTreeSet<String> {
    let files = lua_files().into_iter().filter(|file| !file.ends_with(ASKS));
    let sources = files.map(|file| std::fs::read_to_string(file).expect("a readable file"));
    sources.flat_map(|source| commands(&source)).collect()
}

fn same_rights() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lua").join(ASKS);
    let source = std::fs::read_to_string(path).expect("a readable file");
    assert_eq!(commands(&source), used_commands());
}

/// Commands that the embedded host offers ahead of the functions that will call them.
const OFFERED_AHEAD: [&str; 17] = [
    "APPEND", "GETRANGE", "HINCRBY", "HKEYS", "HSETNX", "INCRBY", "LLEN", "LPOP", "RENAME",
    "SCARD", "SREM", "UNLINK", "XDEL", "XLEN", "ZCOUNT", "ZINCRBY", "ZMSCORE",
];

fn same_commands() {
    let used = used_commands();
    let offered: BTreeSet<String> =
        ff_backend_embedded::COMMANDS.iter().map(|name| (*name).to_owned()).collect();
    let missing: Vec<&String> = used.difference(&offered).collect();
    assert!(missing.is_empty(), "the embedded host lacks {missing:?}");
    let unused = offered.difference(&used).map(String::as_str);
    let unused: Vec<&str> = unused.filter(|name| !OFFERED_AHEAD.contains(name)).collect();
    assert!(unused.is_empty(), "the library does not use {unused:?}");
}

/// What workers call all the time names its fields: reading a whole record costs far more.
fn lean_reads() {
    for (file, function) in [
        ("complete", "ff_complete_execution"),
        ("lease", "ff_renew_lease"),
        ("progress", "ff_update_progress"),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../lua/verb/{file}.lua"));
        let source = std::fs::read_to_string(path).expect("a readable file");
        let begin = source.find(&format!("name = '{function}'")).expect("the function is there");
        let body = source[begin..].split("define {").next().unwrap_or_default();
        assert!(!body.contains("record.read("), "{function} reads the whole record");
    }
}

/// Know one, know all: `lua/verb/x.lua`, `calls/x.rs` and `suite/x.rs`.
fn parallel_files() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in lua_files() {
        if file.parent().is_some_and(|folder| folder.ends_with("verb")) {
            let name = file.file_stem().expect("a file has a name").to_string_lossy();
            let twins = [
                here.join(format!("../ff-script/src/calls/{name}.rs")),
                here.join(format!("tests/suite/{name}.rs")),
            ];
            for twin in twins {
                assert!(twin.is_file(), "{} has no {}", file.display(), twin.display());
            }
        }
    }
}

async fn descriptions(d: &Deployment) -> BTreeMap<String, Description> {
    let reply = d.try_raw_on(d.home(), "ff_describe_library", &[]).await;
    let all = Description::read_all(reply.expect("the library describes itself"));
    let all = all.expect("the description has its form");
    all.into_iter().map(|one| (one.name.clone(), one)).collect()
}

conformance! {
    async fn the_installed_library_is_the_one_of_this_build(d: &Deployment) {
        let expected =
            if d.kind() == HostKind::Embedded { reachable_library() } else { timed_library() };
        let VersionReply::Installed { version, hash } = d.call(Version {}).await;
        assert_eq!((version, hash), (expected.version, expected.hash));
    }

    async fn a_user_who_may_do_everything_lacks_no_right(d: &Deployment) {
        let CheckRightsReply::Rights { missing } = d.call(CheckRights {}).await;
        assert!(missing.0.is_empty(), "{missing:?}");
    }

    async fn rust_and_lua_declare_the_same_functions(d: &Deployment) {
        let lua: BTreeSet<String> = descriptions(d).await.into_keys().collect();
        let rust = calls::contracts().map(|contract| contract.name.to_owned());
        let rust: BTreeSet<String> = rust.chain(["ff_describe_library".to_owned()]).collect();
        assert_eq!(lua, rust);
    }

    async fn rust_and_lua_declare_the_same_arguments(d: &Deployment) {
        let lua = descriptions(d).await;
        for contract in calls::contracts() {
            let args = &lua[contract.name].args;
            let plain: Vec<&str> = args.iter().map(|name| name.trim_end_matches('…')).collect();
            assert_eq!(plain, contract.args, "{}", contract.name);
            let open = args.iter().position(|name| name.ends_with('…'));
            assert!(open.is_none_or(|at| at + 1 == args.len()), "{}: {args:?}", contract.name);
        }
    }

    async fn rust_and_lua_declare_the_same_outcomes(d: &Deployment) {
        let lua = descriptions(d).await;
        for contract in calls::contracts() {
            let (statuses, codes): (Vec<&str>, Vec<&str>) = lua[contract.name]
                .outcomes
                .iter()
                .map(String::as_str)
                .partition(|outcome| outcome.starts_with(|letter: char| letter.is_uppercase()));
            let with_values = |(word, values): &(&str, &[&str])| {
                format!("{word}({})", values.join(","))
            };
            let declared: BTreeSet<String> = contract.statuses.iter().map(with_values).collect();
            let given: BTreeSet<String> = statuses.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(given, declared, "{}", contract.name);
            let code = |text: &&str| text.split('(').next().unwrap_or(text).to_owned();
            let given: BTreeSet<String> = codes.iter().map(code).collect();
            let declared: BTreeSet<String> =
                contract.refusals.iter().map(|code| code.as_str().to_owned()).collect();
            assert_eq!(given, declared, "{}", contract.name);
        }
    }

    async fn every_code_that_the_library_gives_is_in_the_table_of_codes(d: &Deployment) {
        for description in descriptions(d).await.into_values() {
            for outcome in &description.outcomes {
                let word = outcome.split('(').next().unwrap_or(outcome);
                if word.starts_with(|letter: char| letter.is_lowercase()) {
                    assert!(Code::parse(word).is_ok(), "{} gives {word}", description.name);
                }
            }
        }
    }

    async fn every_function_has_a_sentence(d: &Deployment) {
        for (name, description) in descriptions(d).await {
            let doc = &description.doc;
            let sentence = doc.ends_with('.') && doc.starts_with(char::is_uppercase);
            assert!(sentence, "{name}: {doc:?}");
        }
    }

    async fn readers_are_flagged_as_such_and_writers_are_not(d: &Deployment) {
        let lua = descriptions(d).await;
        for contract in calls::contracts() {
            let no_writes = lua[contract.name].flags.split(',').any(|flag| flag == "no-writes");
            assert_eq!(no_writes, contract.read_only, "{}", contract.name);
        }
        assert_eq!(lua["ff_describe_library"].flags, "no-writes");
    }

    /// A store at its memory limit must drain: workers and servers come back, claim and finish.
    async fn only_what_adds_work_is_refused_at_the_memory_limit(d: &Deployment) {
        let adds_work = ["ff_create_execution", "ff_create_executions", "ff_replay_execution",
            "ff_append_frame", "ff_create_pending_waitpoint", "ff_deliver_signal",
            "ff_buffer_signal_for_pending_waitpoint", "ff_create_flow", "ff_submit_graph", "ff_add_children",
            "ff_stage_dependency_edge", "ff_add_dependency"];
        let lua = descriptions(d).await;
        for contract in calls::contracts().filter(|contract| !contract.read_only) {
            let allowed = lua[contract.name].flags.split(',').any(|flag| flag == "allow-oom");
            assert_eq!(allowed, !adds_work.contains(&contract.name), "{}", contract.name);
        }
    }

    /// Only raw commands can send such a key: our hosts make keys from partitions.
    async fn a_key_that_is_no_partition_is_refused(d: &Deployment) {
        let tag = d.home().hash_tag();
        for key in [format!("ff:{tag}:x"), tag.clone(), format!("x:{tag}"),
            format!("ff:{tag}{tag}"), format!("ff:{tag} ")] {
            let words: [&[u8]; 4] = [b"FCALL_RO", b"ff_list_lanes_v1", b"1", key.as_bytes()];
            if let Some(reply) = d.host().exec(d.home(), &words).await {
                assert_eq!(Answer::open(reply).code(), "invalid_input", "{key}");
            }
        }
        let words: [&[u8]; 3] = [b"FCALL_RO", b"ff_list_lanes_v1", b"0"];
        if let Some(reply) = d.host().exec(d.home(), &words).await {
            assert_eq!(Answer::open(reply).code(), "invalid_input");
        }
    }

    async fn a_wrong_number_of_arguments_is_refused(d: &Deployment) {
        let bare = ["ff_version", "ff_check_rights"];
        for contract in calls::contracts().filter(|contract| !bare.contains(&contract.name)) {
            let many = vec![b"x".as_slice(); contract.args.len() + 1];
            let rest = descriptions(d).await[contract.name].args.last()
                .is_some_and(|name| name.ends_with('…'));
            if !rest {
                assert_eq!(d.raw(contract.name, &many).await.code(), "invalid_input");
            }
            if !contract.args.is_empty() {
                let answer = d.raw(contract.name, &[]).await;
                let rotates = contract.name.starts_with("ff_rotate_");
                let code = if rotates { "invalid_kid" } else { "invalid_input" };
                assert_eq!(answer.code(), code, "{} {answer:?}", contract.name);
            }
        }
    }
}
