//! Times as people read them.

use ff_sdk::TimestampMs;

const DAY_MS: u64 = 86_400_000;

/// `2026-11-15 21:40:05.123`, in UTC.
pub(crate) fn moment(at: TimestampMs) -> String {
    let (days, rest_ms) = (at.as_millis() / DAY_MS, at.as_millis() % DAY_MS);
    let (year, month, day) = civil(days);
    let (hours, minutes) = (rest_ms / 3_600_000, rest_ms / 60_000 % 60);
    let (seconds, millis) = (rest_ms / 1000 % 60, rest_ms % 1000);
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02}.{millis:03}")
}

/// Year, month and day of a number of days since 1970. Years are counted from March, so that the
/// leap day is the last of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
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
    }
}
