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

    /// The text of a byte string that is one.
    pub fn as_text(&self) -> Option<&str> {
        self.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// What kind of value it is, for a message about a wrong one.
    pub fn shape(&self) -> Shape {
        match self {
            Self::Nil => Shape::Nil,
            Self::Int(number) => Shape::Int(*number),
            Self::Bytes(bytes) => Shape::Bytes(bytes.len()),
            Self::Array(values) => Shape::Array(values.len()),
        }
    }
}

/// A value without what may be large or secret: its kind and its number or length.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// No value.
    Nil,
    /// A number.
    Int(i64),
    /// So many bytes.
    Bytes(usize),
    /// So many values.
    Array(usize),
}
