//! The day of the host's clock.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: u64 = 86_400;

/// Today's date in UTC, as `2026-01-31`.
pub(crate) fn today() -> String {
    #[expect(
        clippy::disallowed_methods,
        reason = "the date of a record is for people; nothing is simulated by it"
    )]
    let now = SystemTime::now();
    let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since_epoch.as_secs() / SECONDS_PER_DAY)
}

/// The date so many days after 1970-01-01.
fn date(mut days: u64) -> String {
    let mut year = 1970;
    while days >= days_of_year(year) {
        days -= days_of_year(year);
        year += 1;
    }
    let february = days_of_year(year) - 337;
    let mut month = 1;
    for days_of_month in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < days_of_month {
            break;
        }
        days -= days_of_month;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

fn days_of_year(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (789, "1972-02-29"),
            (11_016, "2000-02-29"),
            (20_484, "2026-01-31"),
            (47_541, "2100-03-01"),
            (364, "1970-12-31"),
        ] {
            assert_eq!(date(days), expected);
        }
    }
}
