//! Inputs and results as JSON. Nothing at all reads as `null`, so that handlers without input or
//! result need no ceremony.

use serde::de::DeserializeOwned;

/// Reads a value.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(if bytes.is_empty() { b"null" } else { bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reads_as_null() {
        assert!(decode::<()>(b"").is_ok());
        assert_eq!(decode::<Option<u8>>(b"").expect("null"), None);
        assert!(decode::<u8>(b"").is_err());
        assert_eq!(decode::<u8>(b" 7 ").expect("a number"), 7);
    }
}
