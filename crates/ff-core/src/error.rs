//! Errors by who must act: refused (the caller), unavailable (wait and repeat), broken (a bug or
//! damaged data: loud). Every refusal's code, class, status and sentence stand in one table.

mod code;
mod details;
mod engine;

pub use code::Code;
pub use engine::EngineError;

use crate::literal::literals;

literals! {
    /// What a caller should do about an error.
    ErrorClass("error class") {
        /// Stop: the same call cannot succeed.
        Terminal = "terminal",
        /// Wait a little and call again.
        Retryable = "retryable",
        /// Finish what you are doing, then stop.
        Cooperative = "cooperative",
        /// Nothing to do: what was wanted is so already, or no longer matters.
        Informational = "informational",
        /// Worth knowing; the call had its effect.
        Advisory = "advisory",
        /// Tell somebody: this must not happen.
        Bug = "bug",
        /// Nothing there yet, which is normal.
        Expected = "expected",
        /// Warn and go on.
        SoftError = "soft_error",
    }

    /// What kind of error it is.
    ErrorKind("error kind") {
        /// The thing does not exist.
        NotFound = "not_found",
        /// The request itself is wrong.
        Validation = "validation",
        /// Somebody else was first, or nothing is free now.
        Contention = "contention",
        /// The request contradicts what is stored.
        Conflict = "conflict",
        /// The thing is not in a state that allows this.
        State = "state",
        /// A mistake in our code, in the deployment or in the data.
        Bug = "bug",
        /// The store did not answer.
        Unavailable = "unavailable",
    }
}
