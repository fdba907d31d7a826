//! Addresses in their usual notation: `10.1.0.1`, `02:00:0a:01:00:01`.

use std::fmt;
use std::str::FromStr;

use crate::config::{FromValue, Value};
use crate::wire::frame::Ip;

/// An IPv4 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub Ip);

impl Address {
    /// Returns the `n`-th address after it; `None` beyond the last.
    pub fn after(self, n: u32) -> Option<Address> {
        self.0.checked_add(n).map(Address)
    }

    /// Returns whether it is a multicast address (224.0.0.0/4).
    pub(crate) fn is_group(self) -> bool {
        self.0 >> 28 == 0xe
    }

    /// Returns whether no interface can have it: this network (0.0.0.0/8), loopback (127.0.0.0/8), reserved
    /// (240.0.0.0/4) including broadcast.
    pub(crate) fn is_nobodys(self) -> bool {
        matches!(self.0 >> 24, 0 | 127) || self.0 >> 28 == 0xf
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is no IPv4 address; write for example 10.1.0.1");
        let mut ip = 0;
        let mut parts = 0;
        for part in text.split('.') {
            let plain = !part.is_empty() && part.len() <= 3 && part.bytes().all(|b| b.is_ascii_digit());
            let byte: u8 = part.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
            (ip, parts) = (ip << 8 | u32::from(byte), parts + 1);
            if parts > 4 {
                return Err(wrong());
            }
        }
        if parts == 4 { Ok(Address(ip)) } else { Err(wrong()) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.0.to_be_bytes();
        f.pad(&format!("{a}.{b}.{c}.{d}"))
    }
}

/// An Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Returns the address as a number.
    pub fn number(self) -> u64 {
        self.0.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }

    /// Returns the `n`-th address after it; `None` beyond the last.
    pub fn after(self, n: u32) -> Option<Mac> {
        let number = self.number() + u64::from(n);
        let [high, low, rest @ ..] = number.to_be_bytes();
        (high == 0 && low == 0).then_some(Mac(rest))
    }

    /// Returns whether it is a multicast or broadcast address.
    pub(crate) fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Returns whether it is all zeros.
    pub(crate) fn is_nobodys(self) -> bool {
        self.0 == [0; 6]
    }
}

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is no Ethernet address; write for example 02:00:0a:01:00:01");
        let parts: Vec<_> = text.split(':').collect();
        let mut mac = [0; 6];
        if parts.len() != mac.len() {
            return Err(wrong());
        }
        for (byte, part) in mac.iter_mut().zip(parts) {
            let plain = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
            *byte = u8::from_str_radix(part, 16).ok().filter(|_| plain).ok_or_else(wrong)?;
        }
        Ok(Mac(mac))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        f.pad(&format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}"))
    }
}

macro_rules! from_text {
    ($($type:ty: $takes:literal),*) => {$(
        impl FromValue for $type {
            fn takes() -> String {
                $takes.to_owned()
            }

            fn from_value(value: &Value) -> Result<Self, String> {
                match value {
                    Value::Text(text) => text.parse(),
                    other => Err(format!("{} is {}; it must be a text", other.to_toml(), other.kind())),
                }
            }
        }
    )*};
}
from_text!(Address: "an IPv4 address", Mac: "a MAC address");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["0.0.0.0", "10.1.0.1", "255.255.255.255"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "10", "10.1.0", "10.1.0.1.2", "10.1.0.256", "10.1.0.+1", "10.1..1", "10.1.0.1 "] {
            assert!(text.parse::<Address>().unwrap_err().contains("10.1.0.1"), "{text}");
        }
        for text in ["00:00:00:00:00:00", "02:00:0a:01:00:ff"] {
            assert_eq!(text.parse::<Mac>().unwrap().to_string(), text);
        }
        for text in ["", "02:00", "02:00:0a:01:00:fg", "2:0:a:1:0:f", "02:00:0a:01:00:ff:00", "+2:00:0a:01:00:ff"] {
            assert!(text.parse::<Mac>().unwrap_err().contains("02:00:0a:01:00:01"), "{text}");
        }
        assert_eq!(Address(0xffff_fffe).after(1), Some(Address(u32::MAX)));
        assert_eq!(Address(u32::MAX).after(1), None);
        let last: Mac = "ff:ff:ff:ff:ff:fe".parse().unwrap();
        assert_eq!((last.after(1).unwrap().number(), last.after(2)), ((1 << 48) - 1, None));
    }
}
