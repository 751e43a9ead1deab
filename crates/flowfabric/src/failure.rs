//! How a command ends when it did not work.

/// Shown by `--help`: what scripts may rely on.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  it was done
  1  it could not be done
  2  the command was not understood
  3  the execution ended without success
  4  the execution has not ended yet
  5  the data is damaged
  6  the server could not be reached";

/// What to tell the person, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    /// One of [`EXIT_CODES`].
    pub(crate) code: u8,
}

impl Failure {
    /// The execution ended, but not in success.
    pub(crate) fn unsuccessful(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 3 }
    }

    /// The execution has not ended.
    pub(crate) fn not_yet(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 4 }
    }

    /// The data was read and is not in order.
    pub(crate) fn damaged(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 5 }
    }

    /// Nobody answers at the server's address.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 6 }
    }

    /// Ended by the person, as shells count it: 128 and the number of SIGINT.
    pub(crate) fn interrupted() -> Self {
        Self { message: "interrupted".to_owned(), code: 130 }
    }

    /// Tells the person, or the program that reads JSON, on standard error.
    pub(crate) fn report(&self, json: bool) {
        if json {
            let report = serde_json::json!({ "error": self.message, "exit_code": self.code });
            eprintln!("{report}");
        } else {
            eprintln!("flowfabric: {}", self.message);
        }
    }
}

/// Anything that went wrong on the way.
impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { message: error.to_string(), code: 1 }
    }
}
