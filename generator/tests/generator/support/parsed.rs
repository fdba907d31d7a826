//! What the formats' own readers say of a payload.

use pktgen_generator::wire::layout::Value;
use pktgen_generator::wire::libra::control::{Control, What};
use pktgen_generator::wire::{FORMATS, atp_ml, libra, olaf, olaf_strict, switchml, switchml_roce, trio_ml};

use super::Said;

/// What the reader of `format` says; none if it refuses the payload.
pub fn parsed(format: &str, payload: &[u8]) -> Option<Said> {
    match format {
        "libra" => return of_libra(payload),
        "atp_ml" => return of_atp_ml(payload),
        _ => {}
    }
    let of = FORMATS.iter().find(|of| of.name() == format).expect("a format");
    let mut fields = of.read(payload)?.fields;
    let (items, bytes) = match format {
        "olaf" => (floats_little(of_olaf(payload)?), Vec::new()),
        "trio_ml" => (ints(trio_ml::values(payload, &trio_ml::Header::parse(payload)?)), Vec::new()),
        "switchml" => (ints(switchml::values(payload, &switchml::Header::parse(payload)?)), Vec::new()),
        "olaf_strict" => (floats_little(of_olaf_strict(payload)?), Vec::new()),
        "switchml_roce" => (ints(switchml_roce::values(payload, &switchml_roce::Header::parse(payload)?)), Vec::new()),
        other => panic!("say here which items the reader of {other} finds"),
    };
    let tail = fields.split_off(fields.len() - of.layout().messages[0].tail.len());
    Some(Said { fields, items, tail, bytes })
}

fn int(value: impl Into<i128>) -> Value {
    Value::Int(value.into())
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
    match olaf::Header::parse_update(payload) {
        Some(header) => Some(olaf::values(payload, &header)),
        None => payload[olaf::ACK_HEAD..].get(..usize::from(olaf::Ack::parse(payload)?.header.elements) * 4),
    }
}

fn of_olaf_strict(payload: &[u8]) -> Option<&[u8]> {
    payload.get(if payload.len().is_multiple_of(4) { olaf_strict::UPDATE_HEAD } else { olaf_strict::ACK_HEAD }..)
}

fn of_libra(payload: &[u8]) -> Option<Said> {
    use libra::Kind;
    let h = libra::Header::parse(payload)?;
    let mut fields = vec![
        ("kind", int(h.kind as u8)),
        ("resent", int(u8::from(h.attempt > 0))),
        ("attempt", int(h.attempt)),
        ("job", int(h.job)),
        ("seq", int(h.seq >> 1)),
        ("cold", int(u8::from(h.is_cold()))),
    ];
    let float = |value: f32| Value::Float(value.to_bits());
    let (mut items, mut bytes) = (Vec::new(), Vec::new());
    match (h.kind, h.is_cold()) {
        (Kind::Push | Kind::Pull | Kind::Result, true) => {
            items = libra::cold_pairs(libra::pairs(payload)).map(|(key, value)| vec![int(key), float(value)]).collect();
        }
        (Kind::Push | Kind::Pull | Kind::Result, false) => {
            items = libra::hot_pairs(libra::pairs(payload)).map(|(i, value)| vec![int(i), float(value)]).collect();
            if h.kind == Kind::Result {
                let head = libra::ResultHead::parse(payload)?;
                let opener = head.opener.map_or(u64::MAX, |packet| packet.0);
                fields.extend([
                    ("part", int(head.part)),
                    ("parts", int(head.parts)),
                    ("iteration", int(head.iteration)),
                ]);
                fields.extend([
                    ("opener_worker", int(opener >> 40)),
                    ("opener_attempt", int(opener >> 32 & 0xff)),
                    ("opener_seq", int(opener & 0xffff_ffff)),
                ]);
            }
        }
        (Kind::End, _) => fields.push(("iteration", int(u32::from_be_bytes(*payload[libra::HEADER..].first_chunk()?)))),
        (Kind::Ack, _) => {}
        (Kind::Control, _) => bytes = control(payload, &mut fields)?,
    }
    Some(Said { fields, items, bytes, ..Said::default() })
}

fn control(payload: &[u8], fields: &mut Vec<(&'static str, Value)>) -> Option<Vec<u8>> {
    let control = Control::parse(&payload[libra::HEADER..])?;
    let what = payload[libra::HEADER];
    fields.extend([("what", int(what)), ("from", int(control.from)), ("to", int(control.to))]);
    fields.push(("session", int(control.session)));
    match control.what {
        What::Fetch(piece) | What::Restored(piece) => fields.push(("piece", int(piece))),
        What::Frozen(pieces) => fields.push(("pieces", int(pieces))),
        What::Prepare { fresh } => fields.push(("fresh", int(u8::from(fresh)))),
        What::Activate(node) => fields.push(("node", int(node))),
        What::Status { packets, dropped, memory_ppm } => {
            fields.extend([("packets", int(packets)), ("dropped", int(dropped)), ("memory_ppm", int(memory_ppm))]);
        }
        What::Restore(piece, state) | What::Piece(piece, state) => {
            fields.push(("piece", int(piece)));
            return Some(state.to_vec());
        }
        _ => {}
    }
    Some(Vec::new())
}

fn of_atp_ml(payload: &[u8]) -> Option<Said> {
    let h = atp_ml::Header::parse(payload)?;
    let flag = |flag: bool| int(u8::from(flag));
    let fields = vec![
        ("bitmap", int(h.bitmap)),
        ("workers", int(h.workers)),
        ("overflow", flag(h.overflow)),
        ("server", int(h.server)),
        ("second_half", flag(h.second_half)),
        ("ecn", flag(h.congested)),
        ("resent", flag(h.resent)),
        ("collision", flag(h.collision)),
        ("ack", flag(h.ack)),
        ("app", int(h.app)),
        ("seq", int(h.seq)),
        ("aggregator", int(h.aggregator)),
        ("second", int(h.second)),
    ];
    let tail = vec![("key_low", int(h.key as u32)), ("key_high", int((h.key >> 32) as u32)), ("tensor", int(h.tensor))];
    let values = atp_ml::values(payload)?;
    let items = if h.overflow { floats_little(values) } else { ints(values) };
    Some(Said { fields, items, tail, ..Said::default() })
}
