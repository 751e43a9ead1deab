//! The bytes that many executions begin with.

/// The inputs of many executions.
pub(super) enum Inputs {
    Lines { bytes: Vec<u8>, ranges: Vec<std::ops::Range<usize>> },
    Repeated { bytes: Vec<u8>, count: usize },
}

impl Inputs {
    /// One for each line that is not empty.
    pub(super) fn lines(bytes: Vec<u8>) -> Self {
        let mut ranges = Vec::new();
        let mut start = 0;
        for line in bytes.split(|byte| *byte == b'\n') {
            let end = start + line.strip_suffix(b"\r").unwrap_or(line).len();
            if start < end {
                ranges.push(start..end);
            }
            start += line.len() + 1;
        }
        Self::Lines { bytes, ranges }
    }

    /// The same again and again.
    pub(super) fn repeated(bytes: Vec<u8>, count: u64) -> Self {
        Self::Repeated { bytes, count: usize::try_from(count).unwrap_or(usize::MAX) }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Lines { ranges, .. } => ranges.len(),
            Self::Repeated { count, .. } => *count,
        }
    }

    pub(super) fn get(&self, index: usize) -> Vec<u8> {
        match self {
            Self::Lines { bytes, ranges } => bytes[ranges[index].clone()].to_vec(),
            Self::Repeated { bytes, .. } => bytes.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        let inputs = Inputs::lines(text.as_bytes().to_vec());
        let text = |index| String::from_utf8(inputs.get(index)).expect("text");
        (0..inputs.len()).map(text).collect()
    }

    #[test]
    fn every_line_that_is_not_empty_is_an_input() {
        assert_eq!(lines("a\nb c\n\nd"), ["a", "b c", "d"]);
        assert_eq!(lines("a\r\nb\n\r\n"), ["a", "b"]);
        assert_eq!(lines("\n\n"), [""; 0]);
    }
}
