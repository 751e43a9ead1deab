//! What a function answers, before it is decoded.

pub use ff_core::value::{Shape, Value};
