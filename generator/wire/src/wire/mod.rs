//! Wire formats: views over bytes, and the meaning of them.
//!
//! A format file has its fields in the tables of [`header!`](header), from which follow the plain struct with the meaning, its
//! reader and writer and the layout. Contract: `parse` checks lengths once; `emit` panics only if the buffer is shorter than
//! the length it was told, which is the caller's bug. Printing arbitrary bytes never panics.
//!
//! [`frame`] has what all formats share: Ethernet, IPv4, UDP and our addresses; [`layout`] says the same as data, from
//! which [`dissector`] makes the one for Wireshark.

pub mod atp_ml;
pub mod dissector;
pub mod frame;
mod header;
pub mod integers;
pub mod layout;
pub mod libra;
pub mod olaf;
pub mod olaf_strict;
pub mod sight;
pub mod switchml;
pub mod switchml_roce;
pub mod trio_ml;
pub mod update;

use crate::registry::Named;

/// A packet, as its format's reader has it; for prints and tests.
#[derive(Debug, Clone, PartialEq)]
pub struct Packet {
    /// One line for people.
    pub line: String,
    /// What its fields say, those behind its items last.
    pub fields: header::Fields,
    /// The payload with all fields written anew.
    pub again: Vec<u8>,
}

impl Packet {
    fn new(payload: &[u8], fields: header::Fields, emit: impl FnOnce(&mut [u8]), line: String) -> Self {
        let mut again = payload.to_vec();
        emit(&mut again);
        Packet { line, fields, again }
    }
}

/// What a format can do besides being emitted: enough for lists, printing, fuzzing and limits.
pub trait Format: Named + Sync {
    /// The bits of its packets, as data: the dissector and the docs follow from it.
    fn layout(&self) -> &'static layout::Layout;

    /// Reads a payload; none if it is not of this format.
    fn read(&self, payload: &[u8]) -> Option<Packet>;

    /// What a captured datagram is to somebody who counts; none where it is not of this format. The payload may have been
    /// cut behind its header.
    fn sight(&self, datagram: &sight::Datagram) -> Option<sight::Sight>;

    /// Smallest and largest frame, in bytes without FCS.
    fn frame_bytes(&self) -> (usize, usize);

    /// Is this one of its UDP ports?
    fn has_port(&self, port: u16) -> bool {
        self.layout().ports.iter().any(|(first, last)| (*first..=*last).contains(&port))
    }

    /// The Ethernet type of its frames, where they have IPv4 but no UDP; what the methods here call a payload then begins
    /// behind IPv4.
    fn ether_type(&self) -> Option<u16> {
        None
    }

    /// Which captured packets deliver updates.
    fn delivery(&self) -> sight::Delivery {
        sight::Delivery::Updates
    }

    /// The line of a payload that is not of this format.
    fn refuse(&self, payload: &[u8]) -> String {
        format!("not {}: {} bytes, first {:02x?}", self.name(), payload.len(), &payload[..payload.len().min(4)])
    }
}

impl<'a> dyn Format + 'a {
    /// Does this UDP payload look like ours? `port` is the destination or source port.
    pub fn recognises(&self, port: u16, payload: &[u8]) -> bool {
        (self.ether_type().is_some() || self.has_port(port)) && self.read(payload).is_some()
    }

    /// One line for people; never panics, whatever the bytes.
    pub fn print(&self, payload: &[u8]) -> String {
        self.read(payload).map_or_else(|| self.refuse(payload), |packet| packet.line)
    }

    /// Parses and emits again; none where the bytes are not of this format. For conformance tests.
    pub fn round_trip(&self, payload: &[u8]) -> Option<Vec<u8>> {
        self.read(payload).map(|packet| packet.again)
    }
}

/// Every wire format, by name.
pub static FORMATS: &[&dyn Format] = &[
    &olaf::Olaf,
    &trio_ml::TrioMl,
    &switchml::SwitchMl,
    &libra::Libra,
    &olaf_strict::OlafStrict,
    &switchml_roce::SwitchMlRoce,
    &atp_ml::AtpMl,
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn printing_and_parsing_arbitrary_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), port: u16) {
            for format in FORMATS {
                let _ = format.print(&bytes);
                let _ = format.recognises(port, &bytes);
                if let Some(again) = format.round_trip(&bytes) {
                    prop_assert!(format.round_trip(&again) == Some(again));
                }
            }
            let _ = frame::Datagram::parse(&bytes);
        }
    }
}
