//! Somebody else's bytes for a terminal: without what a terminal would obey.

/// Text as it comes, in pieces that may end within a character.
#[derive(Default)]
pub(super) struct Printable {
    rest: Vec<u8>,
}

impl Printable {
    /// What of this, and of what was left before, can be shown.
    pub(super) fn of(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let mut shown = String::new();
        let mut rest = self.rest.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    shown.push_str(text);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (text, others) = rest.split_at(error.valid_up_to());
                    shown.push_str(&String::from_utf8_lossy(text));
                    rest = others;
                    // None: what is there may be the beginning of a character.
                    let Some(wrong) = error.error_len() else { break };
                    shown.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[wrong..];
                }
            }
        }
        self.rest = rest.to_vec();
        shown.retain(|it| matches!(it, '\n' | '\t') || !it.is_control());
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_told_nothing_but_text() {
        let mut printable = Printable::default();
        let attack = "\x1b[2J\x1b]0;title\x07safe\r\n\ttext\u{9b}31m\x7f\u{0}".as_bytes();
        assert_eq!(printable.of(attack), "[2J]0;titlesafe\n\ttext31m");
    }

    #[test]
    fn a_character_in_two_pieces_is_shown_once_it_is_whole() {
        let mut printable = Printable::default();
        let bytes = "é€😀".as_bytes();
        let shown: String = bytes.chunks(1).map(|byte| printable.of(byte)).collect();
        assert_eq!(shown, "é€😀");
    }

    #[test]
    fn what_is_no_text_is_shown_as_such() {
        let mut printable = Printable::default();
        assert_eq!(printable.of(b"a\xffb\xc3"), "a\u{fffd}b");
        assert_eq!(printable.of(b"c"), "\u{fffd}c");
    }
}
