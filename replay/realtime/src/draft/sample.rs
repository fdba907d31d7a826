//! The first frames of a run, decoded.

use std::fmt::Write as _;

use pktgen_core::Result;
use pktgen_core::time::{NEVER, Time};
use pktgen_wire::wire::Format;
use pktgen_wire::wire::frame::Datagram;
use pktgen_wire::wire::layout::Value;
use serde::Serialize;

use super::outward::Outward;
use crate::endpoint::Host;
use crate::frame::Pool;
use crate::plan::Plan;

/// Maximum number of calls to endpoints.
const ASKS: usize = 2000;
/// Maximum number of bytes shown.
const SHOWN: usize = 128;

/// A frame as it would be on the wire.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrameSample {
    /// Its kind.
    pub kind: String,
    /// Its departure, in ps.
    pub t_ps: Time,
    /// Its worker.
    pub worker: u32,
    /// Its length.
    pub bytes: usize,
    /// All fields: name and value.
    pub fields: Vec<(String, String)>,
    /// Its first bytes.
    pub hex: String,
}

/// Returns the first frames of each kind that the workers send.
pub(super) fn first(plan: &mut Plan, per_kind: usize) -> Result<Vec<FrameSample>> {
    // Raw frames have no format of ours.
    let whole = plan.parts.facts.protocol.whole;
    let mut outward = (!whole).then(|| Outward::of(plan)).transpose()?;
    let parts = &mut plan.parts;
    let name = parts.facts.protocol.format;
    let format = (!whole).then(|| plan.spec.catalogue.format(name, "the experiment")).transpose()?;
    let mut pool = Pool::new(parts.frame_bytes, 64);
    let mut host = Host::default();
    let mut samples: Vec<FrameSample> = Vec::new();
    for _ in 0..ASKS {
        let wake = parts.workers.next_wake();
        if wake == NEVER || wake > plan.spec.capture.until {
            break;
        }
        parts.workers.pull(wake, &mut pool, &mut host);
        for outgoing in host.outgoing.drain(..) {
            let frame = pool.frame(&outgoing.frame);
            let kind = format.map_or_else(|| name.to_owned(), |format| kind_of(format, pool.payload(&outgoing.frame)));
            if samples.iter().filter(|sample| sample.kind == kind).count() < per_kind {
                let on_wire = outward.as_ref().map(|outward| outward.format);
                let bytes = outward.as_mut().map_or(frame, |outward| outward.frame(frame));
                samples.push(sample(on_wire, kind, bytes, outgoing.frame.t, outgoing.frame.worker));
            }
            pool.release(outgoing.frame.buffer);
        }
        host.withheld.clear();
        host.states.clear();
        host.iterations.clear();
    }
    samples.sort_by(|a, b| (&a.kind, a.t_ps).cmp(&(&b.kind, b.t_ps)));
    Ok(samples)
}

/// Returns the kind of a packet: the summary line up to the first number.
fn kind_of(format: &dyn Format, payload: &[u8]) -> String {
    let line = format.print(payload);
    let words = line.split(' ').take_while(|word| !word.starts_with(|c: char| c.is_ascii_digit()));
    let words: Vec<_> = words.collect();
    // The word before the number is its name.
    words[..words.len().saturating_sub(1).max(1).min(words.len())].join(" ")
}

fn sample(format: Option<&dyn Format>, kind: String, bytes: &[u8], t_ps: Time, worker: u32) -> FrameSample {
    let mut fields = heads(bytes);
    if let Some((format, datagram)) = format.zip(Datagram::parse(bytes)) {
        match format.layout().decode(datagram.payload) {
            None => fields.push((format.name().into(), format.print(datagram.payload))),
            Some(decoded) => {
                let text = |value: Value| match value {
                    Value::Int(n) => n.to_string(),
                    Value::Float(bits) => f32::from_bits(bits).to_string(),
                };
                let own = decoded.fields.iter();
                fields.extend(
                    own.map(|read| (format!("{}.{}", format.name(), read.placed.field.name), text(read.value))),
                );
                let items: Vec<_> = decoded.items.iter().take(3).flatten().map(|read| text(read.value)).collect();
                if !items.is_empty() {
                    let more = if decoded.items.len() > 3 {
                        format!(", ... ({} in all)", decoded.items.len())
                    } else {
                        String::new()
                    };
                    fields.push((format!("{}.content", format.name()), items.join(", ") + &more));
                }
            }
        }
    }
    FrameSample { kind, t_ps, worker, bytes: bytes.len(), fields, hex: hex(bytes) }
}

/// Returns the fields of Ethernet, VLAN, IPv4 and UDP.
fn heads(bytes: &[u8]) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let mut put = |name: &str, value: String| fields.push((name.to_owned(), value));
    let mac = |from: usize| bytes[from..from + 6].iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":");
    let skip = if bytes.len() > 16 && bytes[12..14] == [0x81, 0x00] { 4 } else { 0 };
    if bytes.len() < 42 + skip || bytes[12 + skip..14 + skip] != [0x08, 0x00] {
        return fields;
    }
    let word = |at: usize| u16::from_be_bytes([bytes[at + skip], bytes[at + skip + 1]]);
    let ip = |at: usize| bytes[at + skip..at + skip + 4].iter().map(u8::to_string).collect::<Vec<_>>().join(".");
    put("eth.dst", mac(0));
    put("eth.src", mac(6));
    if skip > 0 {
        put("vlan", (u16::from_be_bytes([bytes[14], bytes[15]]) & 0xfff).to_string());
    }
    put("ip.length", word(16).to_string());
    put("ip.ttl", bytes[22 + skip].to_string());
    put("ip.checksum", format!("{:#06x}", word(24)));
    put("ip.src", ip(26));
    put("ip.dst", ip(30));
    put("udp.src", word(34).to_string());
    put("udp.dst", word(36).to_string());
    put("udp.length", word(38).to_string());
    put("udp.checksum", format!("{:#06x}", word(40)));
    fields
}

/// Formats a hex dump in lines of 16 bytes.
fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (line, chunk) in bytes[..bytes.len().min(SHOWN)].chunks(16).enumerate() {
        let _ = write!(out, "{:04x} ", line * 16);
        chunk.iter().for_each(|byte| _ = write!(out, " {byte:02x}"));
        out.push('\n');
    }
    if bytes.len() > SHOWN {
        let _ = writeln!(out, "...   {} bytes more", bytes.len() - SHOWN);
    }
    out
}
