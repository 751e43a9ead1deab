//! The arguments of one call: opaque byte strings in one buffer.

use std::fmt::Write as _;

/// A list of byte strings, kept in one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Args {
    /// An empty list with room for `count` arguments.
    pub fn with_capacity(count: usize) -> Self {
        Self { bytes: Vec::with_capacity(count * 24), ends: Vec::with_capacity(count) }
    }

    /// Appends one argument.
    pub fn push(&mut self, argument: &[u8]) {
        self.bytes.extend_from_slice(argument);
        self.end();
    }

    /// Appends the text form of a value.
    pub fn push_display(&mut self, value: &dyn std::fmt::Display) {
        let mut writer = Tail(&mut self.bytes);
        write!(writer, "{value}").expect("writing to a buffer cannot fail");
        self.end();
    }

    fn end(&mut self) {
        let end = u32::try_from(self.bytes.len()).expect("arguments are capped far below 4 GiB");
        self.ends.push(end);
    }

    /// Removes the empty arguments at the end.
    pub fn drop_empty_tail(&mut self) {
        while let Some(end) = self.ends.pop() {
            if self.ends.last().copied().unwrap_or_default() != end {
                self.ends.push(end);
                return;
            }
        }
    }

    /// How many arguments there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many bytes all arguments have together.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// True if there is no argument.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The arguments in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0usize;
        self.ends.iter().map(move |end| {
            let argument = &self.bytes[start..*end as usize];
            start = *end as usize;
            argument
        })
    }
}

impl<'a> FromIterator<&'a [u8]> for Args {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(arguments: I) -> Self {
        let mut args = Self::default();
        arguments.into_iter().for_each(|argument| args.push(argument));
        args
    }
}

struct Tail<'a>(&'a mut Vec<u8>);

impl std::fmt::Write for Tail<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_empty_tail_is_dropped() {
        let shortened = |arguments: &[&[u8]]| {
            let mut args: Args = arguments.iter().copied().collect();
            args.drop_empty_tail();
            args
        };
        let kept: Args = [&b""[..], b"a", b"", b"b"].into_iter().collect();
        assert_eq!(shortened(&[b"", b"a", b"", b"b", b"", b""]), kept);
        assert_eq!(shortened(&[b"", b""]), Args::default());
        assert_eq!(shortened(&[]), Args::default());
    }

    #[test]
    fn arguments_come_back_as_they_went_in() {
        let mut args = Args::with_capacity(3);
        args.push(b"");
        args.push(&[0, 255, 13, 10]);
        args.push_display(&42);
        let back: Vec<&[u8]> = args.iter().collect();
        assert_eq!(back, [b"".as_slice(), &[0, 255, 13, 10], b"42"]);
        assert_eq!(args.len(), 3);
    }
}
