//! Why a function gave no value.

/// Why a function gave no value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FunctionError {
    /// The function raised or answered an error: its text and, if known, its line.
    Raised { text: String, line: Option<u32> },
    /// There was not enough memory for it.
    NoMemory,
    /// A command panicked: what the keyspace holds now is not to be trusted.
    CommandPanicked,
}
