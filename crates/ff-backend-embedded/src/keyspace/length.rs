//! Lengths in front of packed bytes: seven bits a byte, the lowest first.

/// Bytes that the length of so many bytes takes.
pub(super) fn size(value: usize) -> usize {
    let bits = usize::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Writes a length to the beginning of these bytes, which are as many as it takes or more.
pub(super) fn put(out: &mut [u8], mut value: usize) {
    let last = size(value) - 1;
    for byte in &mut out[..last] {
        *byte = value as u8 | 0x80;
        value >>= 7;
    }
    out[last] = value as u8;
}

/// Appends a length.
pub(super) fn write(out: &mut Vec<u8>, value: usize) {
    // Nearly all are short.
    if value < 0x80 {
        return out.push(value as u8);
    }
    let at = out.len();
    out.resize(at + size(value), 0);
    put(&mut out[at..], value);
}

/// The length at this place, and the place behind it.
pub(super) fn read(bytes: &[u8], at: usize) -> (usize, usize) {
    let first = bytes[at];
    // Nearly all are short.
    if first < 0x80 {
        return (usize::from(first), at + 1);
    }
    let (mut value, mut shift, mut at) = (usize::from(first & 0x7f), 7, at + 1);
    while bytes[at] >= 0x80 {
        value |= usize::from(bytes[at] & 0x7f) << shift;
        (shift, at) = (shift + 7, at + 1);
    }
    (value | usize::from(bytes[at]) << shift, at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_comes_back_and_takes_what_was_said() {
        for value in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, u32::MAX as usize] {
            let mut bytes = vec![9];
            write(&mut bytes, value);
            assert_eq!(read(&bytes, 1), (value, bytes.len()));
            assert_eq!(bytes.len() - 1, size(value), "{value}");
        }
    }
}
