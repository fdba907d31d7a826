//! What a capture tells, as lines: those of a run dir, as far as they can be known, and those of captures alone.

use pktgen_generator::Result;
use pktgen_generator::definition::{Better, Definition, Label};
use pktgen_generator::wire::FORMATS;
use pktgen_generator::wire::sight::What;

use super::Side;
use super::clock::Clocks;
use super::input::{InputFacts, Tally};
use super::meter::{Meter, Totals};
use crate::analyze::{Measured, Note};
use crate::column::Column;
use crate::line::{Line, NS, PACKETS, SHARE, UPDATES};
use crate::metric::{aggregation, aom, fairness, latency, throughput};
use crate::quantile::Values;

/// Packets that were no events: metric and number.
type Oddity = (&'static str, fn(&Tally) -> u64);

const ODDITIES: [Oddity; 7] = [
    ("other", |tally| tally.other),
    ("foreign", |tally| tally.foreign),
    ("unreadable", |tally| tally.unreadable),
    ("fragment", |tally| tally.fragments),
    ("timeless", |tally| tally.timeless),
    ("absurd", |tally| tally.absurd),
    ("unordered", |tally| tally.unordered),
];

/// Kinds of captured packets: of formats, then of [`ODDITIES`].
const KINDS: [&str; What::ALL.len() + ODDITIES.len()] = {
    let mut names = [""; What::ALL.len() + ODDITIES.len()];
    let mut i = 0;
    while i < names.len() {
        let own = i < What::ALL.len();
        names[i] = if own { What::ALL[i].name() } else { ODDITIES[i - What::ALL.len()].0 };
        i += 1;
    }
    names
};
const SIDES: [&str; 2] = [Side::ALL[0].name(), Side::ALL[1].name()];
const SIDE: Label = Label::one_of("side", &SIDES, "where the capture was made");

const fn of_captures(metric: &'static str, unit: &'static str, better: Better, definition: &'static str) -> Definition {
    Definition::new(metric, unit, better, definition).needs("captures")
}

const SERVER: &str = "a capture at the server";
const BOTH: &str = "captures of both sides";

/// Metrics that only captures have.
pub(crate) const DEFINITIONS: [Definition; 10] = [
    of_captures("captured_packets", PACKETS, Better::Neither, "Packets in the captures.").labels(&[SIDE]),
    of_captures("captured_bytes", "bytes", Better::Neither, "Bytes of those packets on the wire.").labels(&[SIDE]),
    of_captures("captured", PACKETS, Better::Neither, "Packets in the captures, by what they are.").labels(&[
        Label::new("format", "wire format; none for what is of no format").optional(),
        Label::one_of("kind", &KINDS, "what they are"),
        SIDE,
    ]),
    of_captures(
        "numbered",
        UPDATES,
        Better::Neither,
        "Numbers from each worker's lowest to its highest in what arrived.",
    )
    .needs(SERVER),
    of_captures("numbers_missing", UPDATES, Better::Lower, "Those of these numbers that are in nothing that arrived.")
        .needs(SERVER),
    of_captures("numbers_missing_share", SHARE, Better::Lower, "`numbers_missing` by `numbered`.").needs(SERVER),
    of_captures(
        "missing",
        UPDATES,
        Better::Lower,
        "Updates that were sent and are in nothing that arrived: dropped, replaced by a newer one, or under way.",
    )
    .needs(BOTH),
    of_captures("missing_share", SHARE, Better::Lower, "`missing` by `sent`.").needs(BOTH),
    of_captures(
        "clock_offset",
        NS,
        Better::Neither,
        "What the server's clock shows more than the senders', as estimated.",
    )
    .needs(BOTH),
    of_captures("clock_offset_error", NS, Better::Lower, "How far that may be wrong.").needs(BOTH),
];

/// What was read, besides the numbers.
pub(super) struct Facts<'a> {
    /// Was there a capture of the senders, and of the server?
    pub(super) sides: [bool; 2],
    /// The device only forwards.
    pub(super) forwards: bool,
    /// Which part of the clusters, if not all.
    pub(super) shard: Option<String>,
    /// How times belong together.
    pub(super) clocks: &'a Clocks,
    /// The files.
    pub(super) inputs: &'a [InputFacts],
}

/// Lines and notes of all that was read.
pub(super) fn measured(facts: &Facts, meter: Meter) -> Result<Measured> {
    let [sender, seen] = facts.sides;
    let clocks = facts.clocks;
    let (merged, numbered) = (meter.has_merged(), meter.numbered());
    let (totals, latency_ps, [clusters, workers]) = meter.finish()?;
    let mut lines = Vec::new();
    captured(&totals, facts.inputs, &mut lines);
    counts(facts, &totals, numbered, &mut lines);
    let aged = seen && clocks.comparable() && !(clusters.is_empty() && workers.is_empty());
    if aged {
        aom::lines("cluster", &clusters, &mut lines);
        if !merged {
            aom::lines("worker", &workers, &mut lines);
        }
        lines.push(fairness::line("cluster", &clusters));
        if !merged {
            lines.push(fairness::line("worker", &workers));
        }
    }
    if seen {
        aggregation::lines(&totals.bins, &mut lines);
        totals.at_server.lines(&mut lines);
        let rest = totals.elements - totals.first_elements;
        lines.push(throughput::elements(totals.received_ps.unwrap_or((0, 0)), rest));
    }
    if seen && sender && clocks.comparable() {
        latency::describe(&latency::HOST, &latency_ps, &mut lines)?;
    }
    clock_lines(clocks, &mut lines);
    let notes = notes(facts, &totals, Known { merged, aged, latency: &latency_ps });
    Ok(Measured { lines, notes })
}

/// Every packet of every side, by what it was.
fn captured(totals: &Totals, inputs: &[InputFacts], out: &mut Vec<Line>) {
    for side in Side::ALL {
        let line = |metric, unit, n: u64| Line::new(metric, unit, n as f64).with("side", side.name());
        let sum = |of: fn(&Tally) -> u64| -> u64 {
            inputs.iter().filter(|input| input.side == side).map(|input| of(&input.tally)).sum()
        };
        if !inputs.iter().any(|input| input.side == side) {
            continue;
        }
        out.push(line("captured_packets", PACKETS, sum(|tally| tally.packets)));
        out.push(line("captured_bytes", "bytes", sum(|tally| tally.bytes)));
        let kinds = &totals.kinds[side as usize];
        for (format, kinds) in FORMATS.iter().zip(kinds) {
            let named = |what: &What| {
                line("captured", PACKETS, kinds[*what as usize]).with("format", format.name()).with("kind", what.name())
            };
            out.extend(What::ALL.iter().filter(|what| kinds[**what as usize] > 0).map(named));
        }
        let odd = |(name, of): &Oddity| (sum(*of) > 0).then(|| line("captured", PACKETS, sum(*of)).with("kind", *name));
        out.extend(ODDITIES.iter().filter_map(odd));
    }
}

fn counts(facts: &Facts, totals: &Totals, numbered: u64, out: &mut Vec<Line>) {
    let updates = |metric, n: f64| Line::new(metric, UPDATES, n);
    let share = |part: f64, whole: u64| (whole > 0).then(|| part / whole as f64);
    let [sender, server] = facts.sides;
    let missing = totals.sent as f64 - totals.represented as f64;
    if sender {
        out.push(updates("sent", totals.sent as f64));
        out.push(updates("retransmissions", totals.resent as f64));
    }
    if server {
        out.push(Line::new("received", PACKETS, totals.received as f64));
        let merged: u64 = totals.bins.iter().zip(0u64..).skip(2).map(|(packets, n)| packets * n).sum();
        out.push(updates("merged", merged as f64));
        out.push(updates("represented", totals.represented as f64));
        out.push(Line::new("duplicates", PACKETS, totals.duplicates as f64));
        if numbered > 0 {
            out.push(updates("numbered", numbered as f64));
            let gaps = numbered as f64 - totals.represented as f64;
            out.push(updates("numbers_missing", gaps));
            out.push(Line::new("numbers_missing_share", SHARE, share(gaps, numbered)));
        }
    }
    if sender && server {
        out.push(updates("missing", missing));
        out.push(Line::new("missing_share", SHARE, share(missing, totals.sent)));
        if facts.forwards {
            out.push(Line::new("loss", SHARE, share(missing, totals.sent)));
            out.push(updates("dropped", missing));
        }
    }
    for side in Side::ALL {
        let n = totals.background[side as usize];
        let metric = if side == Side::Sender { "sent" } else { "received" };
        if n > 0 {
            out.push(Line::new(metric, PACKETS, n as f64).with("traffic", "background"));
        }
    }
}

fn clock_lines(clocks: &Clocks, out: &mut Vec<Line>) {
    if let Some((offset, error)) = clocks.measured_offset() {
        out.push(Line::new("clock_offset", NS, offset as f64 / 1000.0));
        out.push(Line::new("clock_offset_error", NS, error as f64 / 1000.0));
    }
}

/// What could be known.
struct Known<'a> {
    merged: bool,
    aged: bool,
    latency: &'a Column,
}

const NO_SENDER: &str = "what was sent is not known: \"numbers_missing\" counts gaps in the numbers of what arrived, and ages \
                         begin with the first generation that arrived; --sent FILE adds the senders' side";
const NO_FATES: &str = "\"missing\" was sent and is in nothing that arrived: dropped, replaced or under way; if the device only \
                        forwards, --forwards calls it loss";

/// What is wrong with files.
fn notes_of_files(inputs: &[InputFacts]) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut say = |note, text: String| notes.push(Note { note, text });
    for input in inputs {
        let (path, tally) = (&input.path, &input.tally);
        if let Some(error) = &input.damage {
            say("damaged", format!("{error}; what stands before it was analysed"));
        }
        if tally.unordered > 0 {
            let n = tally.unordered;
            let text =
                format!("{path}: {n} packets are earlier than the one before, which bends ages; sort it: reordercap");
            say("unordered", text);
        }
        for (n, what) in [
            (tally.unreadable, "are cut within their headers"),
            (tally.fragments, "are fragments"),
            (tally.timeless, "have no time"),
            (tally.absurd, "have a time or generation that no run has"),
        ] {
            if n > 0 {
                say("not_counted", format!("{path}: {n} packets {what}, and are not counted as updates"));
            }
        }
    }
    notes
}

fn notes(facts: &Facts, totals: &Totals, known: Known) -> Vec<Note> {
    let [sender, server] = facts.sides;
    let mut notes = notes_of_files(facts.inputs);
    let mut say = |note, text: String| notes.push(Note { note, text });
    let found: u64 = totals.kinds.iter().flatten().flatten().sum();
    if found == 0 {
        let names: Vec<_> = FORMATS.iter().map(|format| format.name()).collect();
        say(
            "nothing_found",
            format!("no packet is of a known format; if ports are others, name it: --format {}", names.join("|")),
        );
    }
    if let Some(shard) = &facts.shard {
        say(
            "shard",
            format!("this is shard {shard} of the clusters: merge the tables of all (--tables, pktgen merge)"),
        );
    }
    say("clocks", facts.clocks.about());
    if found > 0 && server && !known.aged {
        let why = if totals.ageless > 0 {
            "these formats carry no generation time"
        } else {
            "the clocks are not known to agree"
        };
        say("age_of_model_not_defined", format!("no Age-of-Model: {why}"));
    }
    if known.merged {
        say("members_unknown", "packets do not name all updates in an aggregate: no Age-of-Model by worker".to_owned());
    }
    if totals.early > 0 {
        let n = totals.early;
        say(
            "invalid",
            format!(
                "{n} packets were received before they were generated: the clocks do not agree (--offset, --anchor)"
            ),
        );
    }
    if totals.late > 0 {
        say("late", format!("{} packets came so late that duplicates among them are counted as new", totals.late));
    }
    if server && !sender {
        say("sender_not_seen", NO_SENDER.to_owned());
    } else if server && !facts.forwards {
        say("fates_unknown", NO_FATES.to_owned());
    }
    if totals.unseen > 0 && !known.latency.is_empty() {
        say("unseen", format!("{} packets arrived whose sending was not captured", totals.unseen));
    }
    notes
}
