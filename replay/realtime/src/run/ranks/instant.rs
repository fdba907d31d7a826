//! `--start-at`: a wall-clock time.

use std::str::FromStr;

/// Ns since 1970, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instant(pub u64);

const SECOND_NS: u64 = 1_000_000_000;

impl FromStr for Instant {
    type Err = String;

    /// Parses `2026-11-22T19:45:00Z`, with optional decimals of seconds, or seconds since 1970.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let instant = if text.contains('T') { utc(text) } else { seconds(text) };
        instant.map(Instant).ok_or_else(|| {
            format!(
                "\"{text}\" is no instant; write UTC as 2026-11-22T19:45:00Z, or seconds since 1970 as 1795376700 or \
                 1795376700.5"
            )
        })
    }
}

/// Parses digits only: `+3` is a mistake.
fn number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// Parses seconds with up to nine decimals, to ns.
fn seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let decimals = number(part).filter(|_| part.len() <= 9)?;
    let part = decimals * 10u64.pow(9 - part.len() as u32);
    number(whole)?.checked_mul(SECOND_NS)?.checked_add(part)
}

fn utc(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let fields = |text: &str, mark: char| -> Option<[String; 3]> {
        text.split(mark).map(str::to_owned).collect::<Vec<_>>().try_into().ok()
    };
    let [year, month, day] = fields(date, '-')?;
    let [hour, minute, second] = fields(time, ':')?;
    let lengths = [&year, &month, &day, &hour, &minute].map(String::len);
    if lengths != [4, 2, 2, 2, 2] || second.split('.').next().map(str::len) != Some(2) {
        return None;
    }
    let (year, month, day) = (number(&year)?, number(&month)?, number(&day)?);
    let (hour, minute, second) = (number(&hour)?, number(&minute)?, seconds(&second)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *lengths.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    if year < 1970 || !(1..=length).contains(&day) || hour > 23 || minute > 59 || second >= 60 * SECOND_NS {
        return None;
    }
    // Leap days before this year, without the 477 before 1970.
    let past = year - 1;
    let leaps = past / 4 - past / 100 + past / 400 - 477;
    let days = (year - 1970) * 365 + leaps + lengths[..month as usize - 1].iter().sum::<u64>() + day - 1;
    (((days * 24 + hour) * 60 + minute) * 60).checked_mul(SECOND_NS)?.checked_add(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_those_of_the_calendar() {
        // Reference: `date -u -d … +%s`.
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2001-03-01T00:00:00Z", 983_404_800),
            ("2026-11-22T19:45:00Z", 1_795_376_700),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
        ] {
            assert_eq!(text.parse(), Ok(Instant(expected * SECOND_NS)), "{text}");
            assert_eq!(expected.to_string().parse(), Ok(Instant(expected * SECOND_NS)));
        }
        assert_eq!("2026-11-22T19:45:00.25Z".parse(), Ok(Instant(1_795_376_700_250_000_000)));
        assert_eq!("1795376700.000000001".parse(), Ok(Instant(1_795_376_700_000_000_001)));
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for text in [
            "",
            "soon",
            "-5",
            "1e9",
            "1.",
            ".5",
            "1.0000000001",
            "99999999999999",
            "2026-11-22T19:45:00",
            "2026-11-22 19:45:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-11-31T00:00:00Z",
            "2026-11-22T24:00:00Z",
            "2026-11-22T19:60:00Z",
            "2026-11-22T19:45:60Z",
            "1969-12-31T23:59:59Z",
            "0000-01-01T00:00:00Z",
            "2026-1-22T19:45:00Z",
        ] {
            let message = text.parse::<Instant>().unwrap_err();
            assert!(message.contains("2026-11-22T19:45:00Z"), "{text}: {message}");
        }
    }
}
