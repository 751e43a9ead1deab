//! The function library: assembled from `lua/` in reading order, recognised by its content hash.

/// A loadable function library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The name it registers under, with the contract's major version.
    pub name: &'static str,
    /// Grows with every change of the contract; a newer library is never replaced by an older one.
    pub version: u64,
    /// Hash of the source, answered by `ff_version`.
    pub hash: String,
    /// The source, with the shebang line that `FUNCTION LOAD` wants.
    pub source: String,
}
