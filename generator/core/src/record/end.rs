//! Frames of an end by the count of its sockets: a fact of a host, written for readers and read by the diagnosis.

use std::fmt;
use std::str::FromStr;

/// What comes before each number of the fact.
const WORDS: [&str; 4] = ["sent ", ", received ", ", dropped on the way out ", ", dropped before they were read "];

/// Frames of an end, as `sent 5, received 4, dropped on the way out 0, dropped before they were read 1`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndCounts {
    /// Frames that were handed over.
    pub sent: u64,
    /// Frames that were read.
    pub received: u64,
    /// Frames dropped on the way out.
    pub dropped_out: u64,
    /// Frames dropped before they were read.
    pub dropped_unread: u64,
}

impl EndCounts {
    /// Returns the name of the fact of an end.
    pub fn fact(end: &str) -> String {
        format!("frames.{end}")
    }
}

impl fmt::Display for EndCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = [self.sent, self.received, self.dropped_out, self.dropped_unread];
        WORDS.iter().zip(numbers).try_for_each(|(word, number)| write!(f, "{word}{number}"))
    }
}

impl FromStr for EndCounts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" does not say how many frames an end sent, received and dropped");
        let (mut rest, mut numbers) = (text, [0u64; 4]);
        for (word, number) in WORDS.iter().zip(&mut numbers) {
            let own = rest.strip_prefix(*word).ok_or_else(wrong)?;
            let digits = own.bytes().take_while(u8::is_ascii_digit).count();
            *number = own[..digits].parse().map_err(|_| wrong())?;
            rest = &own[digits..];
        }
        let [sent, received, dropped_out, dropped_unread] = numbers;
        if rest.is_empty() { Ok(EndCounts { sent, received, dropped_out, dropped_unread }) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_they_are_written() {
        let counts = EndCounts { sent: 5, received: 4, dropped_out: 0, dropped_unread: u64::MAX };
        let text = counts.to_string();
        assert!(text.starts_with("sent 5, received 4, dropped on the way out 0, "), "{text}");
        assert_eq!(text.parse(), Ok(counts));
        // Another number, other words, other places, or none: no number is taken for another.
        let others =
            [format!("{text}, lost 3"), text.replace("read", "seen"), text.replace("sent 5, ", ""), "none".into()];
        for other in others {
            assert!(other.parse::<EndCounts>().is_err(), "{other}");
        }
    }
}
