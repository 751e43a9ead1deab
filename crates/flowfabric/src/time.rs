//! Times as people read and write them.

use std::time::Duration;

use ff_core::duration;
use ff_sdk::TimestampMs;

const SECOND_MS: u64 = 1000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// This machine's clock, for times that are given relative to now.
#[allow(clippy::disallowed_methods, reason = "this is where time comes in")]
pub(crate) fn now() -> TimestampMs {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A clock before 1970 is set wrong; the epoch is as good an answer as any.
    let millis = since_epoch.map_or(0, |elapsed| elapsed.as_millis());
    TimestampMs::new(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// `2026-11-15 21:40:05.123`, in UTC.
pub(crate) fn moment(at: TimestampMs) -> String {
    let (days, rest_ms) = (at.as_millis() / DAY_MS, at.as_millis() % DAY_MS);
    let (year, month, day) = civil(days);
    let (hours, minutes) = (rest_ms / HOUR_MS, rest_ms / MINUTE_MS % 60);
    let (seconds, millis) = (rest_ms / SECOND_MS % 60, rest_ms % SECOND_MS);
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02}.{millis:03}")
}

/// `21:40:05`, in UTC.
pub(crate) fn time_of_day(at: TimestampMs) -> String {
    moment(at)[11..19].to_owned()
}

/// How long it is from one time to another, in the largest unit that it has at least one of: `3h`.
pub(crate) fn between(from: TimestampMs, to: TimestampMs) -> String {
    let millis = to.as_millis().saturating_sub(from.as_millis());
    let units = [(DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "m")];
    let largest = units.into_iter().find(|(unit_ms, _)| millis >= *unit_ms);
    let (unit_ms, unit) = largest.unwrap_or((SECOND_MS, "s"));
    format!("{}{unit}", millis / unit_ms)
}

/// How long something took, as precisely as people want it: `85 ms`, `2.5 s`, `3m 20s`, `2h 05m`.
pub(crate) fn span(from: TimestampMs, to: TimestampMs) -> String {
    let millis = to.as_millis().saturating_sub(from.as_millis());
    match millis {
        ..SECOND_MS => format!("{millis} ms"),
        SECOND_MS..MINUTE_MS => format!("{}.{} s", millis / SECOND_MS, millis % SECOND_MS / 100),
        MINUTE_MS..HOUR_MS => {
            format!("{}m {:02}s", millis / MINUTE_MS, millis % MINUTE_MS / SECOND_MS)
        }
        _ => format!("{}h {:02}m", millis / HOUR_MS, millis % HOUR_MS / MINUTE_MS),
    }
}

/// What `--since` and `--until` take: an age (`90s`, `10m`, `2h`, `7d`), a day, a moment as it is
/// printed, with T and Z if you like, or milliseconds since 1970.
pub(crate) fn parse(text: &str) -> Result<TimestampMs, String> {
    let moment = match age(text) {
        Some(age) => Some(TimestampMs::new(now().as_millis().saturating_sub(age))),
        None => parse_moment(text),
    };
    moment.ok_or_else(|| format!("must be an age like 10m, 2h or 7d, or {FORM}"))
}

/// How a moment is written, in words.
pub(crate) const FORM: &str = "a time like 2026-11-15 or \"2026-11-15 21:40:05\" (UTC)";

/// A day, a moment as it is printed, with T and Z if you like, or milliseconds since 1970.
pub(crate) fn parse_moment(text: &str) -> Option<TimestampMs> {
    text.parse().ok().or_else(|| date_and_time(text)).map(TimestampMs::new)
}

/// An age has its unit: a number alone is a time since 1970.
fn age(text: &str) -> Option<u64> {
    duration::parse_ms(text).filter(|_| text != "0")
}

/// What every option takes that says how long.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    duration::parse_ms(text).map(Duration::from_millis).ok_or_else(|| duration::FORM.to_owned())
}

/// A time as [`duration()`] reads it, in the largest unit of which it is a whole number.
pub(crate) fn written(ms: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let unit = UNITS.into_iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "ms"));
    format!("{}{name}", ms / unit)
}

/// The milliseconds of what [`duration()`] read.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn date_and_time(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once([' ', 'T']).unwrap_or((text, "00:00"));
    let (time, millis) = time.split_once('.').unwrap_or((time, "0"));
    let [year, month, day] = numbers(date, '-')?[..] else { return None };
    let (hours, minutes, seconds) = match numbers(time, ':')?[..] {
        [hours, minutes] => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let millis = format!("{millis:0<3}").get(..3)?.parse::<u64>().ok()?;
    let days = days(year, month, day)?;
    (hours < 24 && minutes < 60 && seconds < 60).then(|| {
        days * DAY_MS + hours * HOUR_MS + minutes * MINUTE_MS + seconds * SECOND_MS + millis
    })
}

fn numbers(text: &str, separator: char) -> Option<Vec<u64>> {
    text.split(separator).map(|part| part.parse().ok()).collect()
}

/// The number of a day since 1970; none if there is no such day.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (shifted_year, shifted_month) =
        if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - EPOCH_SHIFT;
    (civil(days) == (year, month, day)).then_some(days)
}

/// Days from the first of March of the year 0 to 1970.
const EPOCH_SHIFT: u64 = 719_468;

/// Year, month and day of a number of days since 1970. Years are counted from March, so that the
/// leap day is the last of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + EPOCH_SHIFT;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc() {
        let moment = |millis| super::moment(TimestampMs::new(millis));
        assert_eq!(moment(0), "1970-01-01 00:00:00.000");
        assert_eq!(moment(951_782_400_000), "2000-02-29 00:00:00.000");
        assert_eq!(moment(1_794_773_818_389), "2026-11-15 20:16:58.389");
        assert_eq!(time_of_day(TimestampMs::new(1_794_773_818_389)), "20:16:58");
    }

    #[test]
    fn what_is_written_can_be_read() {
        let read = |text: &str| parse(text).map(TimestampMs::as_millis);
        for millis in [0, 951_782_400_000, 1_794_773_818_389, 253_402_300_799_999] {
            assert_eq!(read(&moment(TimestampMs::new(millis))), Ok(millis));
        }
        assert_eq!(read("2000-02-29"), Ok(951_782_400_000));
        assert_eq!(read("2026-11-15T20:16Z"), Ok(1_794_773_760_000));
        assert_eq!(read("1794773818389"), Ok(1_794_773_818_389));
    }

    #[test]
    fn spans_are_as_precise_as_people_want_them() {
        let span = |millis: u64| super::span(TimestampMs::new(7), TimestampMs::new(7 + millis));
        let spans = [0, 999, 2_549, 59_999, 200_000, 7_500_000].map(span);
        assert_eq!(spans, ["0 ms", "999 ms", "2.5 s", "59.9 s", "3m 20s", "2h 05m"]);
    }

    #[test]
    fn an_age_is_counted_back_from_now() {
        let ago = now().as_millis() - parse("2h").expect("an age").as_millis();
        assert!((2 * HOUR_MS - 1000..=2 * HOUR_MS).contains(&ago), "{ago}");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "soon", "10", "10x", "2026-13-01", "2026-02-30", "2026-11-15 24:00", "-1h"]
        {
            let refused = parse(text).is_err();
            assert_eq!(refused, text != "10", "{text}");
        }
    }
}
