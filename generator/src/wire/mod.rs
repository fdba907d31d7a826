//! Wire formats: views over bytes, and the meaning of them.
//!
//! A format file has its offsets in one private table, a view that reads a UDP payload, a plain
//! struct with the meaning, and an `emit` into a caller's buffer. Contract: `parse` checks lengths
//! once, and accessors of a parsed view never panic; `emit` panics only if the buffer is shorter than
//! the length it was told, which is the caller's bug. Printing arbitrary bytes never panics.
//!
//! [`frame`] has what all formats share: Ethernet, IPv4, UDP and our addresses; [`layout`] says the same as data, from
//! which [`dissector`] makes the one for Wireshark.

pub mod atp_ml;
pub mod build;
pub mod dissector;
pub mod frame;
pub mod layout;
pub mod libra;
pub mod olaf;
pub mod olaf_strict;
pub mod sight;
pub mod switchml;
pub mod switchml_roce;
pub mod trio_ml;

use crate::registry::Named;

/// What a format can do besides being emitted: enough for lists, printing, fuzzing and limits.
pub trait Format: Named + Sync {
    /// Is this one of its UDP ports?
    fn has_port(&self, port: u16) -> bool;

    /// The Ethernet type of its frames, where they have IPv4 but no UDP; what the methods below call a payload then begins
    /// behind IPv4.
    fn ether_type(&self) -> Option<u16> {
        None
    }

    /// What a captured datagram is to somebody who counts; none where it is not of this format. The payload may have been
    /// cut behind its header.
    fn sight(&self, datagram: &sight::Datagram) -> Option<sight::Sight>;

    /// Which captured packets deliver updates.
    fn delivery(&self) -> sight::Delivery {
        sight::Delivery::Updates
    }

    /// Does this UDP payload look like ours? `port` is the destination or source port.
    fn recognises(&self, port: u16, payload: &[u8]) -> bool;

    /// One line for people; never panics, whatever the bytes.
    fn print(&self, payload: &[u8]) -> String;

    /// Smallest and largest frame, in bytes without FCS.
    fn frame_bytes(&self) -> (usize, usize);

    /// Parses and emits again; none where the bytes are not of this format. For conformance tests.
    fn round_trip(&self, payload: &[u8]) -> Option<Vec<u8>>;

    /// The bits of its packets, as data: the dissector and the docs follow from it.
    fn layout(&self) -> &'static layout::Layout;
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
