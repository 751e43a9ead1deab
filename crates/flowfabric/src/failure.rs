//! How a command ends when it did not work.

/// What to tell the person, and the exit code: 1 if something is wrong with what was asked for, 2
/// if the data is.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) code: u8,
}

impl Failure {
    /// The data was read and is not in order.
    pub(crate) fn damaged(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 2 }
    }
}

/// Anything that went wrong on the way.
impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { message: error.to_string(), code: 1 }
    }
}
