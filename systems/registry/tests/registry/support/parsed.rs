//! What the formats' own readers say of a payload.

use pktgen_atp::format as atp_ml;
use pktgen_libra::format as libra;
use pktgen_libra::format::control::{Control, What};
use pktgen_olaf::strict as olaf_strict;
use pktgen_registry::all;
use pktgen_switchml::format as switchml;
use pktgen_switchml::roce as switchml_roce;
use pktgen_trio_ml::format as trio_ml;
use pktgen_wire::wire::layout::Value;
use pktgen_wire::wire::update;

use super::Said;

/// What the reader of `format` says; none if it refuses the payload.
pub fn parsed(format: &str, payload: &[u8]) -> Option<Said> {
    let of = all().protocols.formats.iter().find(|of| of.name() == format).expect("a format");
    let mut fields = of.read(payload)?.fields;
    let (items, bytes) = match format {
        "olaf" => (floats_little(of_olaf(payload)?), Vec::new()),
        "trio_ml" => (ints(trio_ml::values(payload, &trio_ml::Header::parse(payload)?)), Vec::new()),
        "switchml" => (ints(switchml::values(payload, &switchml::Header::parse(payload)?)), Vec::new()),
        "libra" => of_libra(payload)?,
        "olaf_strict" => (floats_little(of_olaf_strict(payload)?), Vec::new()),
        "switchml_roce" => (ints(switchml_roce::values(payload, &switchml_roce::Header::parse(payload)?)), Vec::new()),
        "atp_ml" if atp_ml::Header::parse(payload)?.overflow => (floats_little(atp_ml::values(payload)?), Vec::new()),
        "atp_ml" => (ints(atp_ml::values(payload)?), Vec::new()),
        other => panic!("say here which items the reader of {other} finds"),
    };
    let tail = fields.split_off(fields.len() - of.layout().messages[0].tail.len());
    Some(Said { fields, items, tail, bytes })
}

fn floats_little(bytes: &[u8]) -> Vec<Vec<Value>> {
    bytes.as_chunks::<4>().0.iter().map(|four| vec![float(f32::from_le_bytes(*four))]).collect()
}

fn ints(bytes: &[u8]) -> Vec<Vec<Value>> {
    bytes.as_chunks::<4>().0.iter().map(|four| vec![Value::Int(i32::from_be_bytes(*four).into())]).collect()
}

fn float(value: f32) -> Value {
    Value::Float(value.to_bits())
}

fn of_olaf(payload: &[u8]) -> Option<&[u8]> {
    match update::Header::parse_update(payload) {
        Some(header) => Some(update::values(payload, &header)),
        None => payload[update::ACK_HEAD..].get(..usize::from(update::Ack::parse(payload)?.header.elements) * 4),
    }
}

fn of_olaf_strict(payload: &[u8]) -> Option<&[u8]> {
    payload.get(if payload.len().is_multiple_of(4) { olaf_strict::UPDATE_HEAD } else { olaf_strict::ACK_HEAD }..)
}

/// Pairs, and bytes of a switch's state.
fn of_libra(payload: &[u8]) -> Option<(Vec<Vec<Value>>, Vec<u8>)> {
    use libra::Kind;
    let header = libra::Header::parse(payload)?;
    let pairs = libra::pairs(payload);
    let (mut items, mut bytes) = (Vec::new(), Vec::new());
    match (header.kind, header.is_cold()) {
        (Kind::Push | Kind::Pull | Kind::Result, true) => {
            items = libra::cold_pairs(pairs).map(|(key, value)| vec![Value::Int(key.into()), float(value)]).collect();
        }
        (Kind::Push | Kind::Pull | Kind::Result, false) => {
            if header.kind == Kind::Result {
                libra::ResultHead::parse(payload)?;
            }
            items = libra::hot_pairs(pairs).map(|(i, value)| vec![Value::Int(i.into()), float(value)]).collect();
        }
        (Kind::End | Kind::Ack, _) => {}
        (Kind::Control, _) => match Control::parse(&payload[libra::HEADER..])?.what {
            What::Restore(_, state) | What::Piece(_, state) => bytes = state.to_vec(),
            _ => {}
        },
    }
    Some((items, bytes))
}
