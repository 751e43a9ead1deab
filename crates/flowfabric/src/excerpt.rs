//! The beginning of somebody's bytes, for a person.

/// So many characters are shown.
const LETTERS_MAX: usize = 400;

/// Bytes as far as a person wants to see them: text without what a terminal would obey, cut, or
/// how many bytes there are.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "(empty)".to_owned();
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return format!("({} bytes that are no text)", bytes.len());
    };
    let shown = text.trim_end_matches('\n').chars().take(LETTERS_MAX);
    let shown: String = shown.map(|it| if it.is_control() { ' ' } else { it }).collect();
    match text.trim_end_matches('\n').chars().nth(LETTERS_MAX) {
        Some(_) => format!("{shown}… ({} bytes)", bytes.len()),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_far_as_a_person_wants_to_see_them() {
        assert_eq!(excerpt(b""), "(empty)");
        assert_eq!(excerpt(b"hello\n"), "hello");
        assert_eq!(excerpt(b"a\x1b[31mb\nc"), "a [31mb c");
        assert_eq!(excerpt(b"\xff\xfe"), "(2 bytes that are no text)");
        let long = excerpt("é".repeat(500).as_bytes());
        assert!(long.ends_with("é… (1000 bytes)"), "{long}");
    }
}
