//! `pktgen analyze --wrong`: lists the wrong packets of runs.

use std::path::Path;

use pktgen_core::record::PacketId;
use pktgen_core::{Error, Result};
use pktgen_realtime::run::{PayloadNumber, WrongKind, WrongPacket, WrongPackets, WrongValue, wrong_packets};
use pktgen_records::human::show;
use pktgen_registry::all;
use pktgen_report::run_dirs;
use serde_json::{Value, json};

use crate::args::Analyze;
use crate::schemas;
use crate::ui::Ui;

/// Maximum numbers of a packet's values in text and in JSON.
const SHOWN: usize = 4;
const LISTED: usize = 256;
/// Maximum number of members in text.
const MEMBERS: usize = 8;

/// Lists the wrong packets of every run that can be checked, and the other runs; returns 1 if there are any, and their
/// error if no run can be checked.
pub(super) fn run(args: &Analyze, ui: &Ui) -> Result<u8> {
    let of_metrics = args.all || args.table.is_some() || !args.metrics.is_empty();
    if of_metrics || args.age != Default::default() || args.memory.is_some() {
        return Err(Error::config(
            "--wrong: cannot be combined with --metric, --all, --table, --age or --memory; leave one of them out",
        ));
    }
    let (mut wrong, mut checked, mut bad) = (false, false, Vec::new());
    for path in &args.runs {
        for run in run_dirs(path, args.no_verify)? {
            let spinner = ui.spinner("settling again");
            let found =
                run.check(args.no_verify).and_then(|()| wrong_packets(all(), &run.dir, args.most, args.no_verify));
            spinner.finish_and_clear();
            match found {
                Ok(found) => {
                    checked = true;
                    wrong |= found.found > 0;
                    match ui.json() {
                        true => print_json(&run.dir, &found, ui),
                        false => print_text(&run.dir, &found, ui),
                    }
                }
                Err(error) => bad.push((run.dir, error)),
            }
        }
    }
    let last = if checked { None } else { bad.pop() };
    bad.iter().for_each(|(dir, error)| ui.error(&format!("{} was not checked: {error}", dir.display())));
    match last {
        Some((_, error)) => Err(error),
        None => Ok(u8::from(wrong || !bad.is_empty())),
    }
}

fn print_json(dir: &Path, found: &WrongPackets, ui: &Ui) {
    let all = json!({
        "run": dir.display().to_string(),
        "found": found.found,
        "listed": found.packets.len(),
        "received": found.received,
        "unchecked": found.unchecked,
        "counted_by_run": found.counted,
        "unproven": found.unproven,
    });
    ui.object(&schemas::WRONG, &all.to_string());
    for packet in &found.packets {
        let values =
            packet.differing.as_ref().map(|differing| differing.iter().take(LISTED).map(value).collect::<Vec<_>>());
        let one = json!({
            "run": dir.display().to_string(),
            "t_recv_ps": packet.t_recv,
            "packet": id(packet.packet),
            "kind": kind(packet.kind),
            "count": packet.count,
            "members": packet.members.iter().copied().map(id).collect::<Vec<_>>(),
            "values": packet.values,
            "differing": packet.differing.as_ref().map(Vec::len),
            "first_differing": values,
        });
        ui.object(&schemas::WRONG_PACKET, &one.to_string());
    }
}

fn id(packet: PacketId) -> Value {
    json!({ "worker": packet.worker(), "seq": packet.seq(), "attempt": packet.attempt() })
}

fn kind(kind: WrongKind) -> &'static str {
    match kind {
        WrongKind::Sum => "sum",
        WrongKind::Count => "count",
        WrongKind::Stranger => "stranger",
        WrongKind::Damaged => "damaged",
    }
}

fn value(value: &WrongValue) -> Value {
    let number = |number| match number {
        PayloadNumber::Float(value) => json!(value),
        PayloadNumber::Integer(value) => json!(value),
    };
    json!({ "at": value.at, "is": number(value.is), "should_be": number(value.should) })
}

fn print_text(dir: &Path, found: &WrongPackets, ui: &Ui) {
    ui.result(&format!("{}: {}", dir.display(), heading(found)));
    for packet in &found.packets {
        ui.result(&text(packet));
    }
    let rest = found.found - found.packets.len() as u64;
    if rest > 0 {
        ui.note(&format!("{rest} more: --most {} lists them", found.found));
    }
    if found.unchecked > 0 {
        ui.note(&format!(
            "{} of {} packets could not be checked: whose sum they are is not known (docs/provenance.md: format.lanes tells)",
            found.unchecked, found.received
        ));
    }
    if found.packets.iter().any(|packet| packet.values.is_some() && packet.differing.is_none()) {
        ui.note("what arrived was not kept where no value is shown: capture.pcap = true keeps it");
    }
    if found.unproven && found.found > 0 {
        ui.note("the last rows of a killed part are missing: these packets may be right");
    }
    if let Some(counted) = found.counted {
        let kind = if found.unproven { "differing" } else { "wrong" };
        ui.note(&format!(
            "the run itself counted {counted} {kind} sums: its records and its account do not agree on the order of events"
        ));
    }
}

fn heading(found: &WrongPackets) -> String {
    match found.found {
        0 if found.unchecked == 0 => format!("all {} packets are what they should be", found.received),
        0 => format!(
            "no packet that could be checked is wrong ({} of {})",
            found.received - found.unchecked,
            found.received
        ),
        differ if found.unproven => format!("{differ} of {} packets differ from what the rows explain", found.received),
        wrong => format!("{wrong} of {} packets are not what they should be", found.received),
    }
}

/// Formats a packet, with a line for each difference.
fn text(packet: &WrongPacket) -> String {
    let (worker, seq) = (packet.packet.worker(), packet.packet.seq());
    let head = format!("  {}  worker {worker}, number {seq}", show("ns", packet.t_recv as f64 / 1000.0));
    let head = match packet.kind {
        WrongKind::Stranger => return format!("{head}: no worker sent what it holds, or its fate was known already"),
        WrongKind::Count => {
            format!("{head}: it says {} members, and has {}: {}", packet.count, packet.members.len(), members(packet))
        }
        WrongKind::Sum => format!("{head}: it should be {}", members(packet)),
        WrongKind::Damaged if packet.again => format!("{head}: a copy of {} that differs", name(packet.packet)),
        WrongKind::Damaged => {
            format!("{head}: its cluster, generation time or reward is not that of {}", name(packet.packet))
        }
    };
    match (&packet.differing, packet.values) {
        (Some(differing), Some(values)) => format!("{head}\n{}", differing_text(differing, values)),
        _ => head,
    }
}

fn name(id: PacketId) -> String {
    match id.attempt() {
        0 => format!("{}/{}", id.worker(), id.seq()),
        attempt => format!("{}/{}/{attempt}", id.worker(), id.seq()),
    }
}

fn members(packet: &WrongPacket) -> String {
    let shown: Vec<String> = packet.members.iter().copied().take(MEMBERS).map(name).collect();
    let more = packet.members.len().saturating_sub(MEMBERS);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    match packet.members.len() {
        // Its own members are not known any more.
        0 => "another sum".to_owned(),
        1 => format!("what {} sent", shown[0]),
        _ => format!("the sum of {}{rest}", shown.join(", ")),
    }
}

fn differing_text(differing: &[WrongValue], values: usize) -> String {
    let number = |number| match number {
        PayloadNumber::Float(value) => format!("{value:?}"),
        PayloadNumber::Integer(value) => value.to_string(),
    };
    let one = |value: &WrongValue| {
        format!("value {} is {} and should be {}", value.at, number(value.is), number(value.should))
    };
    let shown: Vec<String> = differing.iter().take(SHOWN).map(one).collect();
    let more = differing.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!("; {more} more") } else { String::new() };
    // A payload may be too short, with no other fault.
    let colon = if shown.is_empty() { "" } else { ": " };
    format!("      {} of {values} values differ{colon}{}{rest}", differing.len(), shown.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_packets_say_what_differs() {
        let (packet, kind) = (PacketId::new(0, 4, 0), WrongKind::Damaged);
        let of = |again| {
            let (members, values, differing) = (vec![packet], None, None);
            super::text(&WrongPacket { t_recv: 0, packet, count: 1, again, kind, members, values, differing })
        };
        assert!(of(false).ends_with(": its cluster, generation time or reward is not that of 0/4"), "{}", of(false));
        assert!(of(true).ends_with(": a copy of 0/4 that differs"), "{}", of(true));
    }

    #[test]
    fn unproven_sums_are_not_said_to_be_wrong() {
        let heading = |unproven: bool| {
            let found =
                WrongPackets { packets: Vec::new(), found: 412, received: 900, unchecked: 0, counted: None, unproven };
            super::heading(&found)
        };
        assert_eq!(heading(false), "412 of 900 packets are not what they should be");
        assert_eq!(heading(true), "412 of 900 packets differ from what the rows explain");
    }
}
