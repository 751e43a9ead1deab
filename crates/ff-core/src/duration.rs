//! How long something takes, as people write it: `500ms`, `30s`, `1m30s`, `1.5h`, `7d`.

/// What to say about a text that is none.
pub const FORM: &str = "must be a time like 500ms, 30s, 10m, 2h, 1h30m or 7d";

const SECOND_MS: u64 = 1000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// The milliseconds of such a text; none if it is not one. A number needs its unit, so that nobody
/// has to guess which one was meant; only zero is the same in all of them.
///
/// ```
/// use ff_core::duration;
///
/// const TIMEOUT_MS: Option<u64> = duration::parse_ms("1m30s");
/// assert_eq!(TIMEOUT_MS, Some(90_000));
/// assert_eq!(duration::parse_ms("90"), None);
/// ```
pub const fn parse_ms(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    if matches!(bytes, b"0") {
        return Some(0);
    }
    let (mut at, mut sum, mut unit_before) = (0, 0u64, u64::MAX);
    while at < bytes.len() {
        let Some(part) = part(bytes, at) else { return None };
        if part.unit_ms >= unit_before {
            return None;
        }
        let Some(more) = sum.checked_add(part.millis) else { return None };
        (at, sum, unit_before) = (part.end, more, part.unit_ms);
    }
    if at == 0 { None } else { Some(sum) }
}

/// One number with its unit.
struct Part {
    millis: u64,
    unit_ms: u64,
    end: usize,
}

const fn part(bytes: &[u8], begin: usize) -> Option<Part> {
    let Some((whole, point)) = digits(bytes, begin) else { return None };
    let mut end = point;
    let mut fraction = (0, 1);
    if end < bytes.len() && bytes[end] == b'.' {
        let Some((decimals, after)) = digits(bytes, end + 1) else { return None };
        // More decimals would not change a millisecond of a day.
        if after - end > 9 {
            return None;
        }
        fraction = (decimals, 10u64.pow((after - end - 1) as u32));
        end = after;
    }
    let Some((unit_ms, end)) = unit(bytes, end) else { return None };
    let Some(millis) = whole.checked_mul(unit_ms) else { return None };
    let rest = fraction.0 * unit_ms;
    if rest % fraction.1 != 0 {
        return None;
    }
    match millis.checked_add(rest / fraction.1) {
        Some(millis) => Some(Part { millis, unit_ms, end }),
        None => None,
    }
}

/// A number, and where it ends.
const fn digits(bytes: &[u8], begin: usize) -> Option<(u64, usize)> {
    let (mut at, mut number) = (begin, 0u64);
    while at < bytes.len() && bytes[at].is_ascii_digit() {
        let Some(ten) = number.checked_mul(10) else { return None };
        let Some(sum) = ten.checked_add((bytes[at] - b'0') as u64) else { return None };
        (at, number) = (at + 1, sum);
    }
    if at == begin { None } else { Some((number, at)) }
}

/// A unit, and where it ends.
const fn unit(bytes: &[u8], begin: usize) -> Option<(u64, usize)> {
    let mut end = begin;
    while end < bytes.len() && bytes[end].is_ascii_alphabetic() {
        end += 1;
    }
    let unit_ms = match bytes.split_at(end).0.split_at(begin).1 {
        b"ms" => 1,
        b"s" | b"sec" => SECOND_MS,
        b"m" | b"min" => MINUTE_MS,
        b"h" => HOUR_MS,
        b"d" => DAY_MS,
        b"w" => 7 * DAY_MS,
        _ => return None,
    };
    Some((unit_ms, end))
}

/// The same for a person to read: whole units, without those that are zero.
pub fn text(millis: u64) -> String {
    let units = [(DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "m"), (SECOND_MS, "s"), (1, "ms")];
    let (mut rest, mut text) = (millis, String::new());
    for (unit_ms, unit) in units {
        if rest >= unit_ms {
            text.push_str(&format!("{}{unit}", rest / unit_ms));
            rest %= unit_ms;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_durations_with_their_units() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("500ms", 500),
            ("30s", 30_000),
            ("30sec", 30_000),
            ("10m", 600_000),
            ("10min", 600_000),
            ("1.5h", 5_400_000),
            ("0.25s", 250),
            ("1h30m", 5_400_000),
            ("1m30s", 90_000),
            ("7d", 604_800_000),
            ("2w", 1_209_600_000),
        ] {
            assert_eq!(parse_ms(text), Some(millis), "{text}");
        }
    }

    #[test]
    fn what_could_mean_several_things_is_refused() {
        for text in [
            "",
            "10",
            "s",
            "10x",
            "-1s",
            "1 s",
            "30s1m",
            "1s1s",
            ".5s",
            "1.s",
            "0.0001s",
            "1.0000000001d",
            "99999999999999999999s",
            "18446744073709551615h",
            "1e3s",
            "soon",
        ] {
            assert_eq!(parse_ms(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        for millis in [0, 1, 999, 1000, 90_000, 5_400_000, 86_400_000, 90_061_001] {
            assert_eq!(parse_ms(&text(millis)), Some(millis), "{}", text(millis));
        }
        assert_eq!(text(90_061_001), "1d1h1m1s1ms");
        assert_eq!(text(600_000), "10m");
    }
}
