//! Why a store could not be opened.

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration makes no sense.
    #[error("the configuration is wrong: {0}")]
    Config(&'static str),
    /// The function library does not load.
    #[error("the function library does not load: {0}")]
    Library(String),
    /// The operating system refused something.
    #[error("the embedded store could not start: {0}")]
    Io(#[from] std::io::Error),
}
