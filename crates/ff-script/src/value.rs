//! What a function answers, before it is decoded.

/// A raw reply, as both hosts produce it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// No value.
    Nil,
    /// A whole number.
    Int(i64),
    /// A byte string.
    Bytes(Vec<u8>),
    /// A list of values.
    Array(Vec<Value>),
}

impl Value {
    /// The bytes of a byte string.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}
