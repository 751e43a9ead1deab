//! Numbers as text, read and written the way Valkey does it: replies, scores and journal entries
//! must not differ between the two hosts.

/// Largest magnitude that is written as a plain integer; beyond it the shortest form is used.
const INTEGER_MAX: f64 = 4_611_686_018_427_387_904.0;

/// Appends a whole number in decimal.
pub(crate) fn write_int(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    write_uint(out, value.unsigned_abs());
}

/// Appends an unsigned whole number in decimal.
pub(crate) fn write_uint(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a floating point number: integers without fraction or exponent, everything else in the
/// shortest form that reads back as the same number.
pub(crate) fn write_double(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        out.extend_from_slice(b"nan");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
    } else if value.abs() <= INTEGER_MAX && value.trunc() == value {
        write_int(out, value as i64);
    } else {
        write_shortest(out, value);
    }
}

/// The layout rules of Valkey's formatter: plain where that is short, exponent otherwise.
fn write_shortest(out: &mut Vec<u8>, value: f64) {
    let text = format!("{:e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').expect("the exponent form has an e");
    let exponent: i32 = exponent.parse().expect("the exponent form ends in a number");
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let count = digits.len() as i32;
    let scale = exponent - (count - 1);
    if value < 0.0 {
        out.push(b'-');
    }
    if scale >= 0 && exponent.abs() < count + 7 {
        out.extend_from_slice(&digits);
        out.extend(std::iter::repeat_n(b'0', scale as usize));
    } else if scale < 0 && (scale > -7 || exponent.abs() < 4) {
        write_with_point(out, &digits, count + scale);
    } else {
        write_with_exponent(out, &digits, exponent);
    }
}

fn write_with_point(out: &mut Vec<u8>, digits: &[u8], whole: i32) {
    if whole <= 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', -whole as usize));
        out.extend_from_slice(digits);
    } else {
        let (before, after) = digits.split_at(whole as usize);
        out.extend_from_slice(before);
        out.push(b'.');
        out.extend_from_slice(after);
    }
}

fn write_with_exponent(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    out.push(digits[0]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    write_uint(out, u64::from(exponent.unsigned_abs()));
}

/// Reads a whole number in its one canonical spelling.
pub(crate) fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let magnitude = parse_uint(digits)?;
    if negative {
        (magnitude != 0).then(|| 0i64.checked_sub_unsigned(magnitude)).flatten()
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// Reads an unsigned whole number in its one canonical spelling.
pub(crate) fn parse_uint(digits: &[u8]) -> Option<u64> {
    match digits {
        [] => None,
        [b'0'] => Some(0),
        [b'0', ..] => None,
        _ => digits.iter().try_fold(0u64, |value, byte| {
            let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
            value.checked_mul(10)?.checked_add(u64::from(digit))
        }),
    }
}

/// Reads a score. Not-a-number and numbers that only fit as infinity or zero are refused.
pub(crate) fn parse_score(text: &[u8]) -> Option<f64> {
    if let Some(whole) = parse_int(text).filter(|whole| whole.unsigned_abs() < 1 << 53) {
        return Some(whole as f64);
    }
    let value = parse_bound(text)?;
    let spelled_infinite = text.iter().any(|byte| matches!(byte, b'i' | b'I'));
    if value.is_infinite() && !spelled_infinite || value == 0.0 && !spells_zero(text) {
        return None;
    }
    // One zero, so that members with equal scores are ordered by their bytes alone.
    Some(value + 0.0)
}

/// Reads a limit of a score range. Too large means infinite here.
pub(crate) fn parse_bound(text: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!value.is_nan()).then_some(value + 0.0)
}

fn spells_zero(text: &[u8]) -> bool {
    let mantissa = text.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or(text);
    !mantissa.iter().any(|byte| matches!(byte, b'1'..=b'9'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        write_double(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    /// Each line was answered by a real Valkey.
    #[test]
    fn doubles_are_written_as_valkey_writes_them() {
        for (value, expected) in [
            (1.0, "1"),
            (1.5, "1.5"),
            (-0.0, "0"),
            (1e15, "1000000000000000"),
            (1_794_768_315_577_123.0, "1794768315577123"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (1e17, "100000000000000000"),
            (4.6e18, "4600000000000000000"),
            (4_611_686_018_427_387_904.0, "4611686018427387904"),
            (4.7e18, "4.7e+18"),
            (9.2e18, "9.2e+18"),
            (1e19, "1e+19"),
            (1e22, "1e+22"),
            (1.2345678901234568e29, "1.2345678901234568e+29"),
            (1e308, "1e+308"),
            (-1.25e-7, "-1.25e-7"),
            (0.1, "0.1"),
            (0.001, "0.001"),
            (0.00001, "0.00001"),
            (0.00001234, "1.234e-5"),
            (5e-324, "5e-324"),
            (0.12345678901234568, "0.12345678901234568"),
            (123_456_789.123_456_79, "1.2345678912345679e+8"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    #[test]
    fn whole_numbers_have_one_spelling() {
        for (spelling, expected) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            (" 1", None),
            ("1.0", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(parse_int(spelling.as_bytes()), expected, "{spelling:?}");
        }
    }

    #[test]
    fn scores_that_cannot_be_kept_are_refused() {
        for refused in ["", "x", "nan", "1e309", "-1e309", "1e-400", "1 ", "0e"] {
            assert_eq!(parse_score(refused.as_bytes()), None, "{refused:?}");
        }
        for (taken, value) in [("1e3", 1000.0), ("-inf", f64::NEG_INFINITY), ("0.0e9", 0.0)] {
            assert_eq!(parse_score(taken.as_bytes()), Some(value), "{taken:?}");
        }
        assert!(parse_score(b"-0").is_some_and(|zero| zero.is_sign_positive()));
    }
}
