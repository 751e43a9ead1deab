//! Why a command was refused, in Valkey's words.

use std::borrow::Cow;

/// The text of an error reply, with its code in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandError(pub(crate) Cow<'static, str>);

impl CommandError {
    pub(crate) const WRONG_TYPE: Self =
        Self::new("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(crate) const SYNTAX: Self = Self::new("ERR syntax error");
    pub(crate) const NOT_AN_INTEGER: Self =
        Self::new("ERR value is not an integer or out of range");
    pub(crate) const NOT_A_FLOAT: Self = Self::new("ERR value is not a valid float");
    pub(crate) const OVERFLOW: Self = Self::new("ERR increment or decrement would overflow");
    pub(crate) const NO_SUCH_KEY: Self = Self::new("ERR no such key");
    pub(crate) const UNKNOWN_COMMAND: Self = Self::new("ERR Unknown command called from script");
    pub(crate) const WRONG_ARITY: Self =
        Self::new("ERR Wrong number of args calling command from script");
    pub(crate) const READ_ONLY: Self =
        Self::new("ERR Write commands are not allowed from read-only scripts.");
    pub(crate) const OTHER_PARTITION: Self =
        Self::new("ERR Script attempted to access keys that do not hash to the same slot");

    pub(crate) const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
