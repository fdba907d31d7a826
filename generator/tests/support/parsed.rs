//! What the formats' own readers say of a payload.

use pktgen_generator::wire::layout::Value;
use pktgen_generator::wire::libra::control::{Control, What};
use pktgen_generator::wire::{libra, olaf, switchml, trio_ml};

use super::Said;

fn int(value: impl Into<i128>) -> Value {
    Value::Int(value.into())
}

/// What the reader of `format` says; none if it refuses the payload.
pub fn parsed(format: &str, payload: &[u8]) -> Option<Said> {
    match format {
        "olaf" => of_olaf(payload),
        "trio_ml" => of_trio_ml(payload),
        "switchml" => of_switchml(payload),
        "libra" => of_libra(payload),
        other => panic!("say here what the reader of {other} says"),
    }
}

fn floats_little(bytes: &[u8]) -> Vec<Vec<Value>> {
    bytes.as_chunks::<4>().0.iter().map(|four| vec![Value::Float(f32::from_le_bytes(*four).to_bits())]).collect()
}

fn ints(bytes: &[u8]) -> Vec<Vec<Value>> {
    bytes.as_chunks::<4>().0.iter().map(|four| vec![int(i32::from_be_bytes(*four))]).collect()
}

fn common(h: &olaf::Header) -> Vec<(&'static str, Value)> {
    let flag = |flag: u8| int(u8::from(h.flags & flag != 0));
    vec![
        ("result", flag(olaf::FLAG_RESULT)),
        ("partial", flag(olaf::FLAG_PARTIAL)),
        ("stamped", flag(olaf::FLAG_STAMPED)),
        ("lanes", flag(olaf::FLAG_LANES)),
        ("merged", flag(olaf::FLAG_MERGED)),
        ("cluster", int(h.cluster)),
        ("count", int(h.count)),
        ("worker", int(h.worker)),
        ("seq", int(h.seq)),
        ("generation", int(h.generation)),
        ("attempt", int(h.attempt)),
        ("elements", int(h.elements)),
    ]
}

fn of_olaf(payload: &[u8]) -> Option<Said> {
    let reward = |h: &olaf::Header| ("reward", Value::Float(h.reward.to_bits()));
    if let Some(h) = olaf::Header::parse_update(payload) {
        let fields = [common(&h), vec![reward(&h)]].concat();
        return Some(Said { fields, items: floats_little(olaf::values(payload, &h)), bytes: Vec::new() });
    }
    let olaf::Ack { header: h, status } = olaf::Ack::parse(payload)?;
    let own = vec![
        ("occupancy", int(status.occupancy)),
        ("active", int(status.active)),
        ("capacity", int(status.capacity)),
        reward(&h),
    ];
    let model = &payload[olaf::ACK_HEAD..olaf::ACK_HEAD + usize::from(h.elements) * 4];
    Some(Said { fields: [common(&h), own].concat(), items: floats_little(model), bytes: Vec::new() })
}

fn of_trio_ml(payload: &[u8]) -> Option<Said> {
    let h = trio_ml::Header::parse(payload)?;
    let fields = vec![
        ("job", int(h.job)),
        ("block", int(h.block)),
        ("age_op", int(h.age_op)),
        ("final", int(u8::from(h.last))),
        ("degraded", int(u8::from(h.degraded))),
        ("source", int(h.source)),
        ("sources", int(h.sources)),
        ("generation", int(h.generation)),
        ("elements", int(h.elements)),
    ];
    Some(Said { fields, items: ints(trio_ml::values(payload, &h)), bytes: Vec::new() })
}

fn of_switchml(payload: &[u8]) -> Option<Said> {
    let h = switchml::Header::parse(payload)?;
    let fields = vec![
        ("size", int(switchml::size_code(h.elements)?)),
        ("job", int(h.job)),
        ("packet", int(h.packet)),
        ("set", int(u8::from(h.set))),
        ("slot", int(h.slot)),
        ("exponent", int(h.exponent)),
        ("attempt", int(h.attempt)),
    ];
    Some(Said { fields, items: ints(switchml::values(payload, &h)), bytes: Vec::new() })
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
    Some(Said { fields, items, bytes })
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
