//! Short byte strings, kept where they are used. Most keys and members are a few letters and a
//! UUID, which takes 16 bytes instead of 36 characters and no allocation of its own.

use std::cmp::Ordering;
use std::ops::Deref;

use super::footprint::allocated;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

const UUID_BYTES: usize = 16;
const UUID_TEXT: usize = Hyphenated::LENGTH;
/// Set in a length if the last bytes are those of a UUID.
const ENDS_WITH_UUID: u8 = 0x80;
/// The longest text that is written out of packed bytes.
const EXPANDED_MAX: usize = 64;

/// A byte string of which up to `N` bytes are kept in place.
#[derive(Debug)]
pub(crate) enum Text<const N: usize> {
    Inline { length: u8, bytes: [u8; N] },
    Heap(Box<[u8]>),
}

/// A text as it was given.
pub(crate) enum Expanded<'a> {
    Whole(&'a [u8]),
    Written { length: usize, bytes: [u8; EXPANDED_MAX] },
}

impl Deref for Expanded<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Written { length, bytes } => &bytes[..*length],
        }
    }
}

impl<const N: usize> Text<N> {
    pub(crate) fn new(text: &[u8]) -> Self {
        match split(text) {
            Some((front, uuid)) if front.len() + UUID_BYTES <= N => {
                Self::inline(&[front, &uuid], ENDS_WITH_UUID)
            }
            _ if text.len() <= N => Self::inline(&[text], 0),
            _ => Self::Heap(text.into()),
        }
    }

    fn inline(parts: &[&[u8]], mark: u8) -> Self {
        let (mut bytes, mut length) = ([0; N], 0);
        for part in parts {
            bytes[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        }
        Self::Inline { length: length as u8 | mark, bytes }
    }

    /// The text as it was given.
    pub(crate) fn expand(&self) -> Expanded<'_> {
        match self {
            Self::Heap(text) => Expanded::Whole(text),
            Self::Inline { length, bytes } if length & ENDS_WITH_UUID == 0 => {
                Expanded::Whole(&bytes[..usize::from(*length)])
            }
            Self::Inline { length, bytes } => {
                written(&bytes[..usize::from(length & !ENDS_WITH_UUID)])
            }
        }
    }

    /// What it takes beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Heap(text) => allocated(text.len()),
            Self::Inline { .. } => 0,
        }
    }

    /// Is it this text?
    pub(crate) fn is(&self, text: &[u8]) -> bool {
        *self.expand() == *text
    }

    /// Where it stands beside a text, by their bytes.
    pub(crate) fn order(&self, text: &[u8]) -> Ordering {
        (*self.expand()).cmp(text)
    }
}

/// What stands before a UUID at the end of a text, and the UUID.
fn split(text: &[u8]) -> Option<(&[u8], [u8; UUID_BYTES])> {
    let (front, end) = text.split_at_checked(text.len().checked_sub(UUID_TEXT)?)?;
    Some((front, uuid_of(end)?))
}

/// The UUID that is spelled in the one way that comes back as it was: with hyphens, in lower case.
fn uuid_of(text: &[u8]) -> Option<[u8; UUID_BYTES]> {
    /// Where the hyphens are, and where each byte begins.
    const HYPHENS: [usize; 4] = [8, 13, 18, 23];
    const BYTES: [usize; UUID_BYTES] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    if HYPHENS.iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let mut uuid = [0; UUID_BYTES];
    for (byte, at) in uuid.iter_mut().zip(BYTES) {
        *byte = digit(text[at])? << 4 | digit(text[at + 1])?;
    }
    Some(uuid)
}

fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    }
}

fn written(packed: &[u8]) -> Expanded<'_> {
    let (front, uuid) = packed.split_at(packed.len() - UUID_BYTES);
    let mut bytes = [0; EXPANDED_MAX];
    bytes[..front.len()].copy_from_slice(front);
    let uuid = Uuid::from_slice(uuid).expect("as many bytes as a UUID has were split off");
    uuid.hyphenated().encode_lower(&mut bytes[front.len()..]);
    Expanded::Written { length: front.len() + UUID_TEXT, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "0190b7a0-5c3e-7f00-8a11-0123456789ab";

    fn is_packed(text: &str) -> bool {
        let kept = Text::<22>::new(text.as_bytes());
        assert!(kept.is(text.as_bytes()), "{text}");
        matches!(kept, Text::Inline { length, .. } if length & ENDS_WITH_UUID != 0)
    }

    #[test]
    fn every_text_comes_back_as_it_was() {
        assert!(is_packed(UUID));
        assert!(is_packed(&format!("w:{UUID}")));
        assert!(is_packed(&format!("123456{UUID}")));
        let others = ["", "a", "exactly twenty-two byte", "something that is quite a bit longer"];
        assert!(others.iter().all(|text| !is_packed(text)));
    }

    #[test]
    fn what_only_looks_like_a_uuid_is_not_packed() {
        let mut odd = vec![UUID.to_uppercase(), format!("1234567{UUID}"), format!("{UUID}x")];
        odd.extend((0..36).map(|at| {
            let mut text = UUID.to_owned();
            text.replace_range(at..=at, "g");
            text
        }));
        assert!(odd.iter().all(|text| !is_packed(text)));
    }

    #[test]
    fn texts_are_ordered_by_the_bytes_that_were_given() {
        let other = UUID.replace("0190", "a190");
        let mut texts =
            vec![UUID.to_owned(), other, format!("w:{UUID}"), "019".to_owned(), "f".to_owned()];
        texts.push(UUID.replace('b', "-"));
        for one in &texts {
            for two in &texts {
                let order = Text::<22>::new(one.as_bytes()).order(two.as_bytes());
                assert_eq!(order, one.cmp(two), "{one} {two}");
            }
        }
    }

    #[test]
    fn a_text_takes_no_more_than_its_place() {
        assert_eq!(size_of::<Text<22>>(), 24);
        assert_eq!(size_of::<Text<30>>(), 32);
    }
}
