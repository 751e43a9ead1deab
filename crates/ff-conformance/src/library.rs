//! The library under test: the one of this build, with the modules replaced that a directory holds.
//! That is how `scripts/mutate` runs a changed library without a rebuild. Only tests look there.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use ff_core::limits;
use ff_script::library::Library;

/// Names a directory of modules, laid out as `lua/`; unset, the library is the one of this build.
const DIRECTORY: &str = "FF_LUA_DIR";

/// Takes the time from a key of the partition, so that every test has a time of its own although
/// all share one server. Where no test has set it, time stands still at its beginning.
const TIME_MODULE: (&str, &str) = (
    "kernel/time",
    "return function(key) return tonumber(redis.call('GET', key .. ':clock') or 0) end\n",
);

/// Functions for tests alone. One runs a command as it is given: the only way to a key of an
/// embedded store around the library. The others are pure parts of the library by themselves: a
/// digest, and a condition that signals come for one by one, each as name, type of source and
/// source.
const TEST_SOURCE: &str = "
redis.register_function {
  function_name = 'ff_test_exec_v1',
  callback = function(_, argv)
    if not unpack then bind() end
    return redis.call(unpack(argv))
  end,
}

redis.register_function {
  function_name = 'ff_test_hmac_v1',
  callback = function(_, argv)
    if not unpack then bind() end
    return { 1, 'OK', require('model.token').hmac(argv[1], argv[2]) }
  end,
}

redis.register_function {
  function_name = 'ff_test_condition_v1',
  callback = function(_, argv)
    if not unpack then bind() end
    local condition = require('model.condition')
    local tree, wrong = condition.read(argv[1])
    if not tree then return { 0, 'invalid_input', wrong } end
    local progress, counted = '', {}
    for i = 2, #argv, 3 do
      local s, number = condition.open(tree, progress), string.format('%d', (i + 1) / 3)
      local signal = { number = number, name = argv[i], source_type = argv[i + 1],
        source = argv[i + 2] }
      if condition.count(s, signal) then counted[#counted + 1] = number end
      progress = condition.progress(s)
      local met = condition.met(s)
      if met then return { 1, 'OK', table.concat(counted, ','), table.concat(met, ',') } end
    end
    return { 1, 'OK', table.concat(counted, ','), 'open' }
  end,
}

return true
";

/// The module that these functions are added to.
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

/// The same with the time in the hands of the test, and the functions for tests.
pub fn timed_library() -> Library {
    let (name, source) = library_verb();
    with(&[TIME_MODULE, (name, &source)])
}

/// The library under test, and the functions for tests.
pub fn reachable_library() -> Library {
    let (name, source) = library_verb();
    with(&[(name, &source)])
}

/// What one call does for all of a flow, in [`cramped`] libraries: so little that a flow of a few
/// members is gone over in several steps, between which anything can happen.
const CRAMPED: [(&str, u64, u64); 2] =
    [("edges_per_call", limits::EDGES_PER_CALL, 4), ("walk_batch", limits::WALK_BATCH, 3)];

/// The same library with less of a flow done by one call.
pub fn cramped(library: &Library) -> Library {
    let mut library = library.clone();
    for (name, many, few) in CRAMPED {
        let line = format!("\n  {name} = {many},\n");
        assert_eq!(library.source.matches(&line).count(), 1, "{name} is a limit");
        library.source = library.source.replace(&line, &format!("\n  {name} = {few},\n"));
    }
    library
}

/// The module that has the functions for tests.
fn library_verb() -> (&'static str, String) {
    let (name, current) = LIBRARY_VERB;
    let other = REPLACED.iter().find(|(replaced, _)| replaced == name);
    let source = other.map_or(current, |(_, source)| source);
    let body = source.trim_end().strip_suffix("return true");
    let body = body.expect("a module ends in what it gives");
    (name, format!("{body}{TEST_SOURCE}"))
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
