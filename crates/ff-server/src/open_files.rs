//! The operating system's limit of open files: every connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are not connections of clients: the journal, the store's connections, logs.
const OTHER_FILES: u64 = 128;

/// Raises this process's limit as far as so many connections need and the system allows, and
/// answers how many there is room for.
pub(crate) fn make_room(connections: u32) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::from(connections) + OTHER_FILES;
    let reachable = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if limit.current.is_some_and(|current| current < reachable) {
        let raised = Rlimit { current: Some(reachable), ..limit };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of open files could not be raised");
        }
    }
    // None is no limit.
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    files.saturating_sub(OTHER_FILES)
}
