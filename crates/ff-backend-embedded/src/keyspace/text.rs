//! Short byte strings, kept where they are used. Most keys and members are a few letters and a
//! UUID, which takes 16 bytes instead of 36 characters and no allocation of its own.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hasher};
use std::ops::Deref;

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::Seeded;
use super::footprint::allocated;

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

/// A text that is looked for, in the form in which it would be kept: then nothing that is kept has
/// to be written out to be compared or hashed.
#[derive(Clone, Copy)]
pub(crate) enum Sought<'a, const N: usize> {
    Inline { length: u8, bytes: [u8; N] },
    Whole(&'a [u8]),
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

impl<'a, const N: usize> Sought<'a, N> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        match split(text) {
            Some((front, uuid)) if front.len() + UUID_BYTES <= N => {
                Self::inline(front, &uuid, ENDS_WITH_UUID)
            }
            _ if text.len() <= N => Self::inline(text, &[], 0),
            _ => Self::Whole(text),
        }
    }

    fn inline(front: &[u8], end: &[u8], mark: u8) -> Self {
        let (mut bytes, length) = ([0; N], front.len() + end.len());
        bytes[..front.len()].copy_from_slice(front);
        bytes[front.len()..length].copy_from_slice(end);
        Self::Inline { length: length as u8 | mark, bytes }
    }

    /// The hash that it is found by.
    pub(crate) fn hash(&self) -> u64 {
        let mut hasher = Seeded.build_hasher();
        match self {
            Self::Inline { length, bytes } => {
                hasher.write_u8(*length);
                hasher.write(packed(*length, bytes));
            }
            Self::Whole(text) => hasher.write(text),
        }
        hasher.finish()
    }

    fn expand(&self) -> Expanded<'_> {
        match self {
            Self::Whole(text) => Expanded::Whole(text),
            Self::Inline { length, bytes } => expand(*length, bytes),
        }
    }
}

impl<const N: usize> Text<N> {
    pub(crate) fn new(text: &Sought<'_, N>) -> Self {
        match *text {
            Sought::Inline { length, bytes } => Self::Inline { length, bytes },
            Sought::Whole(text) => Self::Heap(text.into()),
        }
    }

    fn sought(&self) -> Sought<'_, N> {
        match self {
            Self::Inline { length, bytes } => Sought::Inline { length: *length, bytes: *bytes },
            Self::Heap(text) => Sought::Whole(text),
        }
    }

    /// The text as it was given.
    pub(crate) fn expand(&self) -> Expanded<'_> {
        match self {
            Self::Heap(text) => Expanded::Whole(text),
            Self::Inline { length, bytes } => expand(*length, bytes),
        }
    }

    /// What it takes beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Heap(text) => allocated(text.len()),
            Self::Inline { .. } => 0,
        }
    }

    /// The hash that it is found by.
    pub(crate) fn hash(&self) -> u64 {
        self.sought().hash()
    }

    /// Is it this text?
    pub(crate) fn is(&self, text: &Sought<'_, N>) -> bool {
        match (self, text) {
            (Self::Inline { length, bytes }, Sought::Inline { length: other, bytes: others }) => {
                length == other && bytes == others
            }
            (Self::Heap(text), Sought::Whole(other)) => **text == **other,
            _ => false,
        }
    }

    /// Where it stands beside a text, by the bytes that were given.
    pub(crate) fn order(&self, text: &Sought<'_, N>) -> Ordering {
        match (self, text) {
            // Digits are ordered as the bytes that they spell.
            (Self::Inline { length, bytes }, Sought::Inline { length: other, bytes: others })
                if length == other || (length | other) & ENDS_WITH_UUID == 0 =>
            {
                packed(*length, bytes).cmp(packed(*other, others))
            }
            _ => (*self.expand()).cmp(&*text.expand()),
        }
    }
}

/// The bytes in place that are used.
fn packed<const N: usize>(length: u8, bytes: &[u8; N]) -> &[u8] {
    &bytes[..usize::from(length & !ENDS_WITH_UUID)]
}

fn expand<const N: usize>(length: u8, bytes: &[u8; N]) -> Expanded<'_> {
    let packed = packed(length, bytes);
    if length & ENDS_WITH_UUID == 0 { Expanded::Whole(packed) } else { written(packed) }
}

/// What stands before a UUID at the end of a text, and the UUID.
fn split(text: &[u8]) -> Option<(&[u8], [u8; UUID_BYTES])> {
    let (front, end) = text.split_last_chunk()?;
    Some((front, uuid_of(end)?))
}

/// The value of each letter that is a digit, in lower case; others have a bit that no digit has.
const DIGITS: [u8; 256] = {
    let mut values = [0xf0; 256];
    let digits = b"0123456789abcdef";
    let mut value = 0;
    while value < digits.len() {
        values[digits[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// The UUID that is spelled in the one way that comes back as it was: with hyphens, in lower case.
fn uuid_of(text: &[u8; UUID_TEXT]) -> Option<[u8; UUID_BYTES]> {
    /// Where the hyphens are, and where each byte begins.
    const HYPHENS: [usize; 4] = [8, 13, 18, 23];
    const BYTES: [usize; UUID_BYTES] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    if HYPHENS.iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let (mut uuid, mut all) = ([0; UUID_BYTES], 0);
    for (byte, at) in uuid.iter_mut().zip(BYTES) {
        let (high, low) = (DIGITS[usize::from(text[at])], DIGITS[usize::from(text[at + 1])]);
        *byte = high << 4 | low;
        all |= high | low;
    }
    (all & 0xf0 == 0).then_some(uuid)
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
        let sought = Sought::<22>::new(text.as_bytes());
        let kept = Text::new(&sought);
        assert_eq!(*kept.expand(), *text.as_bytes());
        assert!(kept.is(&sought) && kept.hash() == sought.hash(), "{text}");
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
        texts.extend([format!("x:{UUID}"), "01".to_owned(), String::new()]);
        texts.extend((0..36).map(|length| UUID[..length].to_owned()));
        for one in &texts {
            for two in &texts {
                let kept = Text::<22>::new(&Sought::new(one.as_bytes()));
                let sought = Sought::new(two.as_bytes());
                assert_eq!(kept.order(&sought), one.cmp(two), "{one} {two}");
                assert_eq!(kept.is(&sought), one == two, "{one} {two}");
            }
        }
    }

    #[test]
    fn a_text_takes_no_more_than_its_place() {
        assert_eq!(size_of::<Text<22>>(), 24);
        assert_eq!(size_of::<Text<30>>(), 32);
    }
}
