//! The library under test: the one of this build, with the modules replaced that a directory holds.
//! That is how `scripts/mutate` runs a changed library without a rebuild. Only tests look there.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use ff_script::library::Library;

/// Names a directory of modules, laid out as `lua/`; unset, the library is the one of this build.
const DIRECTORY: &str = "FF_LUA_DIR";

/// Takes the time from a key of the partition, so that every test has a time of its own although
/// all share one server. Where no test has set it, time stands still at its beginning.
const TIME_MODULE: (&str, &str) = (
    "kernel/time",
    "return function(key) return tonumber(redis.call('GET', key .. ':clock') or 0) end\n",
);

/// A function that runs a command as it is given: the only way to a key of an embedded store around
/// the library.
const EXEC_SOURCE: &str = "
redis.register_function {
  function_name = 'ff_test_exec_v1',
  callback = function(_, argv)
    if not unpack then bind() end
    return redis.call(unpack(argv))
  end,
}

return true
";

/// The module that the function above is added to.
const LIBRARY_VERB: (&str, &str) = ("verb/library", include_str!("../../../lua/verb/library.lua"));

/// Name and source of every module that is replaced.
static REPLACED: LazyLock<Vec<(String, String)>> =
    LazyLock::new(|| match std::env::var_os(DIRECTORY) {
        Some(directory) => modules_in(Path::new(&directory)),
        None => Vec::new(),
    });

/// The library under test.
pub fn library() -> Library {
    with(&[])
}

/// The same with the time in the hands of the test.
pub fn timed_library() -> Library {
    with(&[TIME_MODULE])
}

/// The library under test, and a function that reaches every key.
pub fn reachable_library() -> Library {
    let (name, current) = LIBRARY_VERB;
    let other = REPLACED.iter().find(|(replaced, _)| replaced == name);
    let source = other.map_or(current, |(_, source)| source);
    let body = source.trim_end().strip_suffix("return true");
    let body = body.expect("a module ends in what it gives");
    with(&[(name, &format!("{body}{EXEC_SOURCE}"))])
}

fn with(first: &[(&str, &str)]) -> Library {
    let others = REPLACED.iter().map(|(name, source)| (name.as_str(), source.as_str()));
    let replaced: Vec<(&str, &str)> = first.iter().copied().chain(others).collect();
    Library::with_modules(&replaced)
}

fn modules_in(root: &Path) -> Vec<(String, String)> {
    let mut modules = Vec::new();
    for folder in ["kernel", "model", "verb"] {
        // A folder of which no module is replaced need not be there.
        for entry in fs::read_dir(root.join(folder)).into_iter().flatten() {
            let path = entry.expect("a readable folder").path();
            let stem = path.file_stem().expect("a file has a name").to_string_lossy();
            let source = fs::read_to_string(&path).expect("a readable module");
            modules.push((format!("{folder}/{stem}"), source));
        }
    }
    assert!(!modules.is_empty(), "{DIRECTORY} names {}, which holds no module", root.display());
    modules
}
