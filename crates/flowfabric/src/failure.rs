//! How a command ends when it did not work.

/// What to tell the person, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    /// 1: it could not be done. 2: the data is damaged. 3: the execution did not succeed. 4: it has
    /// not ended yet.
    pub(crate) code: u8,
}

impl Failure {
    /// The data was read and is not in order.
    pub(crate) fn damaged(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 2 }
    }

    /// The execution ended, but not in success.
    pub(crate) fn unsuccessful(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 3 }
    }

    /// The execution has not ended.
    pub(crate) fn not_yet(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 4 }
    }
}

/// Anything that went wrong on the way.
impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { message: error.to_string(), code: 1 }
    }
}
