//! Requirements of every format: how it handles arbitrary bytes, and what the dissector must be able to show of it.

use pktgen_registry::all;
use pktgen_wire::wire::dissector::{lua, problems, tables};
use pktgen_wire::wire::frame::Datagram;
use pktgen_wire::wire::sight::{Look, look};
use proptest::prelude::*;

proptest! {
    #[test]
    fn printing_parsing_and_counting_arbitrary_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), port: u16) {
        for format in all().protocols.formats {
            let _ = format.print(&bytes);
            let _ = format.recognises(port, &bytes);
            if let Some(again) = format.round_trip(&bytes) {
                prop_assert!(format.round_trip(&again) == Some(again));
            }
            if let Look::Udp(datagram) | Look::Layer(_, datagram) = look(1, &bytes) {
                let _ = format.sight(&datagram);
            }
        }
        let _ = Datagram::parse(&bytes);
    }
}

#[test]
fn every_format_can_be_shown() {
    let found: Vec<_> = all().protocols.formats.iter().flat_map(|format| problems(*format)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_format_is_in_the_dissector_and_in_the_tables() {
    let formats = all().protocols.formats;
    let (lua, tables) = (lua(formats), tables(formats));
    for format in formats {
        assert!(lua.contains(&format!("name = {:?}", format.name())), "{}", format.name());
        assert!(tables.contains(&format!("\n{}: ", format.name())) || tables.starts_with(format.name()));
    }
    assert!(lua.is_ascii() && tables.is_ascii(), "Wireshark shows other characters by the locale");
}
