//! The function library: assembled from `lua/` in reading order, recognised by its content hash.

use std::fmt::Write as _;

use ff_core::limits;

/// The version of the library, which grows with every change of it, and the hash of the source that
/// has it. A newer library is never replaced by an older one. A test keeps the file up to date.
const STAMP: &str = include_str!("../../../lua/version");

fn version() -> u64 {
    let number = STAMP.split(' ').next().and_then(|number| number.parse().ok());
    number.expect("a version begins with a number")
}

/// A loadable function library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The name it registers under, with the contract's major version.
    pub name: &'static str,
    /// Grows with every change of the library; a newer one is never replaced by an older one.
    pub version: u64,
    /// Hash of the source, answered by `ff_version`.
    pub hash: String,
    /// The source, with the shebang line that `FUNCTION LOAD` wants.
    pub source: String,
}

macro_rules! modules {
    ($($name:literal)*) => {
        /// Name and source of every module, in reading order.
        const MODULES: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../../lua/", $name, ".lua")))),*
        ];
    };
}

modules! {
    "kernel/number" "kernel/time" "kernel/keys" "kernel/reply" "kernel/arg" "kernel/writes"
    "kernel/define" "kernel/batch" "kernel/json" "kernel/pack"
    "model/field" "model/record" "model/blob" "model/event" "model/state" "model/log"
    "model/capability" "model/need" "model/fact" "model/lane" "model/fair" "model/outbox"
    "model/gate" "model/index" "model/runnable" "model/flow" "model/commit" "model/due" "model/stream"
    "model/lease"
    "model/secret" "model/token" "model/condition" "model/waitpoint" "model/signal"
    "model/parking" "model/attempt" "model/retry" "model/children" "model/edge" "model/throttle"
    "model/ending"
    "model/suspension" "model/decision" "model/failure" "model/loss" "model/timer"
    "model/waiting" "model/quota" "model/batch" "model/undo" "model/reached"
    "model/policy" "model/kind" "model/tags" "model/purge" "model/walk" "model/rank"
    "model/member" "model/creation" "model/part" "model/reopening" "model/request" "model/input"
    "model/claim" "model/queue" "model/pick" "model/next_task" "model/pause" "model/patch"
    "model/page" "model/worker" "model/attachment" "model/fields" "model/amount"
    "model/budget" "model/usage" "model/effective" "model/description"
    "verb/library" "verb/deployment" "verb/fact" "verb/lane" "verb/kind" "verb/create"
    "verb/claim_next" "verb/grant" "verb/claim"
    "verb/lease" "verb/progress" "verb/stream" "verb/complete" "verb/fail" "verb/cancel"
    "verb/pause" "verb/suspend" "verb/waitpoint" "verb/signal" "verb/approval" "verb/secret"
    "verb/expire" "verb/replay" "verb/change" "verb/worker" "verb/mark" "verb/describe"
    "verb/list" "verb/kind_counts" "verb/waits" "verb/hold" "verb/gate" "verb/waiting" "verb/quota"
    "verb/explain" "verb/flow"
    "verb/flow_cancel" "verb/edge" "verb/graph" "verb/children" "verb/flow_reads" "verb/inputs"
    "verb/events" "verb/flow_events" "verb/tick" "verb/attachment"
    "verb/budget" "verb/usage" "verb/stop"
}

/// What stands before the modules.
const PRELUDE: &str = include_str!("../../../lua/prelude.lua");

impl Library {
    /// The library of this build.
    pub fn current() -> Self {
        Self::assemble(&[])
    }

    /// The library with some modules replaced, for tests that bring their own clock.
    pub fn with_modules(replaced: &[(&str, &str)]) -> Self {
        Self::assemble(replaced)
    }

    fn assemble(replaced: &[(&str, &str)]) -> Self {
        let mut body = String::from(PRELUDE);
        module(&mut body, "kernel/limit", &limit_module());
        for (name, source) in MODULES {
            let other = replaced.iter().find(|(replaced, _)| replaced == name);
            module(&mut body, name, other.map_or(*source, |(_, source)| source));
        }
        for (name, _) in MODULES.iter().filter(|(name, _)| name.starts_with("verb/")) {
            let _ = writeln!(body, "require('{}')", dotted(name));
        }
        let hash = format!("{:016x}", fnv1a(body.as_bytes()));
        let version = version();
        let about = format!("return {{ version = {version}, hash = '{hash}' }}\n");
        let mut source = String::from("#!lua name=flowfabric_v1\n");
        let split = PRELUDE.len();
        source.push_str(&body[..split]);
        module(&mut source, "kernel/about", &about);
        source.push_str(&body[split..]);
        Self { name: "flowfabric_v1", version, hash, source }
    }
}

fn dotted(name: &str) -> String {
    name.replace('/', ".")
}

fn module(out: &mut String, name: &str, source: &str) {
    let _ = writeln!(out, "modules['{}'] = function()\n{source}end", dotted(name));
}

/// The same numbers as [`ff_core::limits`], for the Lua side.
fn limit_module() -> String {
    let rows: String = limits::ALL.iter().fold(String::new(), |mut rows, (name, value)| {
        let _ = writeln!(rows, "  {name} = {value},");
        rows
    });
    format!("return {{\n{rows}}}\n")
}

/// FNV-1a: recognises a library, which needs no cryptography.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    fnv1a_on(None, bytes)
}

/// As above, behind what was hashed before.
pub(crate) fn fnv1a_on(before: Option<u64>, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before.unwrap_or(0xcbf2_9ce4_8422_2325), |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_follows_the_source() {
        let current = Library::current();
        assert_eq!(current, Library::current());
        let other = Library::with_modules(&[("kernel/time", "return function() return 0 end\n")]);
        assert_ne!(current.hash, other.hash);
        assert!(current.source.contains(&current.hash));
    }

    #[test]
    fn a_changed_library_has_a_new_version() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lua/version");
        let hash = Library::current().hash;
        let (stamp, next) =
            (format!("{} {hash}\n", version()), format!("{} {hash}\n", version() + 1));
        let stamped = std::fs::read_to_string(path).expect("the file is there");
        if stamped != stamp && std::env::var_os("FF_UPDATE").is_some() {
            std::fs::write(path, &next).expect("the file can be written");
            return;
        }
        assert_eq!(
            stamped,
            stamp,
            "the library is not the one that version {} was given to: a server would take the two \
             for the same and refuse. Run `FF_UPDATE=1 cargo test -p ff-script version` once",
            version()
        );
    }

    #[test]
    fn every_module_is_listed_and_none_is_missing() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lua");
        let mut found = Vec::new();
        for folder in ["kernel", "model", "verb"] {
            for entry in std::fs::read_dir(root.join(folder)).expect("the lua folder is there") {
                let path = entry.expect("a readable entry").path();
                let stem = path.file_stem().expect("a file name").to_string_lossy().into_owned();
                found.push(format!("{folder}/{stem}"));
            }
        }
        found.sort();
        let mut listed: Vec<&str> = MODULES.iter().map(|(name, _)| *name).collect();
        listed.sort_unstable();
        assert_eq!(listed, found);
    }
}
