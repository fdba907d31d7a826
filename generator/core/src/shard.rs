//! One part of divided work: `3/16` is the third of sixteen.
//!
//! Given on the command line (`--shard 3/16`); sweeps are divided by runs, captures by clusters. Shards are counted
//! from 1; launchers count from 0 and add one. No environment variable is read: a launcher passes its rank by the flag,
//! so that a manual run on the same machine is never a part by accident.

use std::fmt;
use std::str::FromStr;

/// Maximum number of parts.
pub(crate) const SHARDS_MAX: u64 = 1_000_000;

/// A part and the number of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    index: u64,
    of: u64,
}

impl Shard {
    /// All of the work: 1/1.
    pub const WHOLE: Shard = Shard { index: 1, of: 1 };

    /// Part `index`, from 1, of `of`.
    pub fn new(index: u64, of: u64) -> Result<Self, String> {
        let wrong = if !(1..=SHARDS_MAX).contains(&of) {
            format!("there are 1 to {SHARDS_MAX} shards, not {of}")
        } else if index == 0 {
            format!("shards are counted from 1: the first is 1/{of}, the last {of}/{of}")
        } else if index > of {
            format!("there is no shard {index} of {of}: the last is {of}/{of}")
        } else {
            return Ok(Shard { index, of });
        };
        Err(format!("{index}/{of}: {wrong}"))
    }

    /// Returns the number of the part, from 1.
    pub fn index(self) -> u64 {
        self.index
    }

    /// Returns the number of parts.
    pub fn of(self) -> u64 {
        self.of
    }

    /// Returns whether item number `index`, from 0, belongs to this shard. Every item belongs to exactly one, and adjacent items to
    /// different ones.
    pub fn takes(self, index: u64) -> bool {
        index % self.of == self.index - 1
    }

    /// Returns the shard, out of `of`, to which item number `index`, from 0, belongs.
    pub fn taking(index: u64, of: u64) -> Result<Self, String> {
        Shard::new(index.checked_rem(of).unwrap_or(0) + 1, of)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.trim().split_once('/').and_then(|(index, of)| Some((number(index)?, number(of)?)));
        let Some((index, of)) = numbers else {
            return Err(format!("\"{text}\" is no shard; write which of how many, counted from 1, as 3/16"));
        };
        Shard::new(index, of)
    }
}

/// Parses digits only: `+3` and `3.0` are mistakes.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_belongs_to_one_shard_and_shards_are_balanced() {
        for of in [1, 2, 3, 7, 16, 40] {
            let shards: Vec<_> = (1..=of).map(|index| Shard::new(index, of).unwrap()).collect();
            for item in 0..100 {
                let takers: Vec<_> = shards.iter().filter(|shard| shard.takes(item)).collect();
                assert_eq!(takers, [&Shard::taking(item, of).unwrap()], "item {item} of {of}");
            }
            let sizes = shards.iter().map(|shard| (0..100).filter(|item| shard.takes(*item)).count());
            let (least, most) = (sizes.clone().min().unwrap(), sizes.max().unwrap());
            assert!(most - least <= 1, "{of}: {least} to {most}");
        }
        assert!((0..9).all(|item| Shard::WHOLE.takes(item)));
    }

    #[test]
    fn a_shard_reads_as_it_is_written() {
        for text in ["1/1", "3/16", "16/16", "1000000/1000000"] {
            assert_eq!(text.parse::<Shard>().unwrap().to_string(), text);
        }
        assert_eq!(" 3/16 ".parse(), Shard::new(3, 16));
    }

    #[test]
    fn what_is_no_shard_is_refused_with_the_range() {
        for (text, part) in [
            ("", "\"\" is no shard"),
            ("3", "as 3/16"),
            ("a/b", "as 3/16"),
            ("-1/4", "as 3/16"),
            ("+1/4", "as 3/16"),
            ("1/2/3", "as 3/16"),
            ("/4", "as 3/16"),
            ("1/99999999999999999999", "as 3/16"),
            ("0/4", "0/4: shards are counted from 1: the first is 1/4, the last 4/4"),
            ("5/4", "5/4: there is no shard 5 of 4: the last is 4/4"),
            ("1/0", "1/0: there are 1 to 1000000 shards, not 0"),
            ("1/1000001", "not 1000001"),
        ] {
            let message = text.parse::<Shard>().unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
        assert!(Shard::taking(3, 0).is_err());
    }
}
