//! Metrics of a capture as lines: those of a run dir as far as they can be computed, and those of captures only.

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition, Label, Timing};
use pktgen_records::line::{Line, Measured, NS, PACKETS, SHARE, UPDATES};
use pktgen_records::metric::{aggregation, aom, fairness, latency, throughput};
use pktgen_records::quantile::Values;
use pktgen_wire::wire::sight::{Delivery, What};

use super::Side;
use super::clock::Clocks;
use super::input::{InputFacts, Tally};
use super::meter::{Meter, Totals};
use super::notes::notes;

/// A kind of packets that are not events: its name and its count.
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

/// Kinds of captured packets: those of formats, then [`ODDITIES`].
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
pub const DEFINITIONS: [Definition; 10] = [
    of_captures("captured_packets", PACKETS, Better::Neither, "Packets in the captures.").labels(&[SIDE]),
    of_captures("captured_bytes", "bytes", Better::Neither, "Bytes of those packets on the wire.").labels(&[SIDE]),
    of_captures("captured", PACKETS, Better::Neither, "Packets in the captures, by kind.").labels(&[
        Label::new("format", "wire format; none for what is of no format").optional(),
        Label::one_of("kind", &KINDS, "what they are"),
        SIDE,
    ]),
    of_captures(
        "numbered",
        UPDATES,
        Better::Neither,
        "Sequence numbers from each worker's lowest to its highest that arrived.",
    )
    .needs(SERVER),
    of_captures(
        "numbers_missing",
        UPDATES,
        Better::Lower,
        "Sequence numbers in that range that are in no packet that arrived; no value if packets hold updates that no header names.",
    )
    .needs(SERVER),
    of_captures("numbers_missing_share", SHARE, Better::Lower, "`numbers_missing` divided by `numbered`.")
        .needs(SERVER),
    of_captures(
        "missing",
        UPDATES,
        Better::Lower,
        "Different updates sent that are in no packet that arrived: dropped, replaced by a newer one, or in flight; no value if the \
         senders' captures lack some of what arrived, or do not show what was sent again.",
    )
    .needs(BOTH),
    of_captures("missing_share", SHARE, Better::Lower, "`missing` divided by the different updates sent.").needs(BOTH),
    of_captures("clock_offset", NS, Better::Neither, "Estimated offset of the server's clock from the senders' clock.")
        .timed(Timing::OneClock)
        .needs(BOTH),
    of_captures("clock_offset_error", NS, Better::Lower, "Uncertainty of `clock_offset`.")
        .timed(Timing::OneClock)
        .needs(BOTH),
];

/// Facts about the captures, besides the numbers.
pub(super) struct Facts<'a> {
    /// Whether there is a capture of the senders and of the server.
    pub(super) sides: [bool; 2],
    /// The device only forwards.
    pub(super) forwards: bool,
    /// The shard of clusters, unless all are analysed.
    pub(super) shard: Option<String>,
    /// The name of the format that the user gave for all packets.
    pub(super) format: Option<&'static str>,
    /// Relation of the clocks.
    pub(super) clocks: &'a Clocks,
    /// The files.
    pub(super) inputs: &'a [InputFacts],
}

impl Facts<'_> {
    /// Whether several addresses share a worker number: two jobs or two runs.
    pub(super) fn shares_numbers(&self) -> bool {
        self.inputs.iter().any(|input| input.tally.shared > 0)
    }

    /// Whether a file has sections of several runs, whose times count from different origins.
    pub(super) fn joins_runs(&self) -> bool {
        !self.clocks.has_given_origin() && self.inputs.iter().any(|input| input.several_runs)
    }

    /// Whether the captures of the server show what arrived. One without packets of a known format may be of another
    /// place; an empty one means that nothing arrived.
    pub(super) fn tells_of_server(&self, totals: &Totals) -> bool {
        let of_server = self.inputs.iter().filter(|input| input.side == Side::Server);
        totals.found(Side::Server) > 0 || of_server.map(|input| input.tally.packets).sum::<u64>() == 0
    }

    /// Whether the numbers of sums are reused, and the order of packets, which alone tells the next sum from a copy, is not known.
    pub(super) fn lacks_order(&self, totals: &Totals) -> bool {
        self.inputs.iter().any(InputFacts::is_unordered) && totals.reuses_slots()
    }

    /// Returns what adds the contributions that the senders' captures lack.
    pub(super) fn other_contributions(&self) -> String {
        const ALL: &str = "give captures of all workers, from before the first packet on (--sent FILE, repeatable)";
        if self.clocks.is_unrelated() {
            return ALL.to_owned();
        }
        format!("{ALL}; if these are all, the clocks do not agree ({})", self.clocks.option())
    }

    /// Whether copies of a result may look like other results, since less of its values was kept of one than of another.
    fn cuts_values(&self) -> bool {
        let of_server = || self.inputs.iter().filter(|input| input.side == Side::Server).map(|input| &input.tally);
        let most = of_server().map(|tally| tally.values_most).max().unwrap_or(0);
        of_server().filter_map(|tally| tally.values_cut).any(|least| least < most)
    }

    /// Returns the number of packets of a side that may hold updates but could not be read or were dropped while recording.
    pub(super) fn unread(&self, side: Side) -> u64 {
        let of_side = self.inputs.iter().filter(|input| input.side == side);
        // What a file says was dropped has no bound.
        let counts = of_side.flat_map(|input| [input.tally.unread(), input.dropped, input.damage.is_some().into()]);
        counts.fold(0, u64::saturating_add)
    }
}

/// Computes lines and notes of all packets read.
pub(super) fn measured(facts: &Facts, mut meter: Meter) -> Result<Measured> {
    let [sender, given] = facts.sides;
    let clocks = facts.clocks;
    let seen = given && facts.tells_of_server(&meter.totals);
    meter.count_contributors();
    let (merged, numbered) = (meter.has_merged(), meter.numbered());
    let (totals, latency_ps, [clusters, workers]) = meter.finish()?;
    let mut lines = Vec::new();
    captured(&totals, facts.inputs, &mut lines);
    let deliveries = Deliveries::of(facts, &totals);
    counts(facts, &totals, deliveries, numbered, &mut lines);
    let unordered = facts.inputs.iter().any(InputFacts::is_unordered);
    let comparable = clocks.comparable() && !facts.joins_runs();
    let is_in_time = comparable && !unordered && !facts.shares_numbers();
    let has_flows = !clusters.is_empty() || !workers.is_empty();
    let aged = seen && is_in_time && has_flows && !totals.bare;
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
        rates(&totals, deliveries, &mut lines);
    }
    if seen
        && sender
        && comparable
        && !unordered
        && !(latency_ps.is_empty() && (totals.ageless > 0 || deliveries != Deliveries::Counted))
    {
        latency::describe(&latency::HOST, &latency_ps, &mut lines)?;
    }
    clock_lines(clocks, &mut lines);
    let notes = notes(facts, &totals, Known { merged, aged, deliveries, numbered });
    Ok(Measured { lines, notes })
}

/// What is known about packets that deliver updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deliveries {
    /// Which packets these are, and how many updates each represents.
    Counted,
    /// Only which packets these are.
    Uncounted(Unsaid),
    /// Nothing.
    Unknown(Unsaid),
}

impl Deliveries {
    fn of(facts: &Facts, totals: &Totals) -> Self {
        // Results to several groups, in one or several files.
        let mut groups: Vec<u16> = facts.inputs.iter().filter_map(|input| input.tally.group).collect();
        groups.dedup();
        if totals.at_server_by(Delivery::Unsaid) > 0 {
            return Deliveries::Unknown(Unsaid::Count);
        }
        if facts.shares_numbers() {
            return Deliveries::Unknown(Unsaid::Workers);
        }
        if !totals.formats_without_results().is_empty() {
            return Deliveries::Unknown(Unsaid::Results);
        }
        if !totals.silent_jobs.is_empty() {
            return Deliveries::Unknown(Unsaid::JobResults);
        }
        if groups.len() > 1 || facts.inputs.iter().any(|input| input.tally.regrouped > 0) {
            return Deliveries::Unknown(Unsaid::Job);
        }
        if facts.lacks_order(totals) && totals.at_server_by(Delivery::ResultsOfAll) > 0 {
            return Deliveries::Unknown(Unsaid::Order);
        }
        if facts.cuts_values() {
            return Deliveries::Unknown(Unsaid::Values);
        }
        if totals.ambiguous > 0 {
            return Deliveries::Unknown(Unsaid::Transmission);
        }
        if totals.uncounted_results > 0 {
            return Deliveries::Uncounted(Unsaid::Contributors);
        }
        if totals.at_server_by(Delivery::UncountedUpdates) > 0 && !facts.forwards {
            return Deliveries::Uncounted(Unsaid::Members);
        }
        Deliveries::Counted
    }
}

/// Information that packets do not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsaid {
    /// For results to many workers: how many updates they represent.
    Count,
    /// For results: which of several jobs they belong to.
    Job,
    /// For workers: which of several jobs they belong to.
    Workers,
    /// Results: none were captured of a format.
    Results,
    /// Results: none were captured of a job.
    JobResults,
    /// For results: in which order they came.
    Order,
    /// For contributions: which transmission they are.
    Transmission,
    /// For results that were cut: which are copies.
    Values,
    /// For results: how many updates they represent, which only contributions that were not captured would show.
    Contributors,
    /// For updates: how many they represent.
    Members,
}

impl Unsaid {
    pub(super) fn text(self, facts: &Facts, totals: &Totals) -> String {
        let by = |delivery| totals.formats_at_server_by(delivery);
        let (what, of, text): (&str, Vec<&str>, &str) = match self {
            Unsaid::Count => (
                "results",
                by(Delivery::Unsaid),
                "go to many workers and do not say how many updates they represent: what was received, merged or is missing is not \
                 known from a capture; the run dir knows it",
            ),
            Unsaid::Job => (
                "results",
                by(Delivery::ResultsOfAll),
                "do not say of which of several jobs they are: what was received, merged or is missing is not known; capture one job \
                 at a time",
            ),
            Unsaid::Workers => (
                "updates",
                by(Delivery::Updates),
                "have worker numbers that several addresses use: what was received, merged or is missing of each is not known; capture one \
                 job at a time",
            ),
            Unsaid::Results => (
                "packets",
                totals.formats_without_results(),
                "are contributions only: no result was captured at the server's side, so what was received, merged or is missing is not \
                 known; capture both directions",
            ),
            Unsaid::JobResults => (
                "packets",
                totals.silent_jobs.iter().map(String::as_str).collect(),
                "have contributions to a job of which no result was captured at the server's side: what was received, merged or is missing \
                 is not known; capture both directions of all jobs, or one job at a time",
            ),
            Unsaid::Order => (
                "results",
                by(Delivery::ResultsOfAll),
                "have the numbers of earlier ones, and are too many to be put in the order of time here (--memory), which alone tells \
                 copies from the next sums: what was received, merged or is missing is not known; sort the file: reordercap",
            ),
            Unsaid::Transmission => (
                "packets",
                by(Delivery::Results),
                "do not say which transmission they are: of results to contributions that were sent again it is not known which are \
                 copies, so neither what was received, merged or is missing",
            ),
            Unsaid::Values => (
                "results",
                by(Delivery::Results),
                "were kept to different lengths, and only their first 64 bytes of values tell copies from other sums: what was received, \
                 merged or is missing is not known; capture at least 128 bytes of each packet",
            ),
            Unsaid::Contributors => (
                "results",
                by(Delivery::ResultsOfAll),
                "do not say how many updates they represent, and contributions of all workers to each of them were not seen before \
                 it: what was merged or is missing is not known",
            ),
            Unsaid::Members => (
                "updates",
                by(Delivery::UncountedUpdates),
                "do not say how many they represent: what was merged or is missing is not known; if the device only forwards, \
                 --forwards says so",
            ),
        };
        format!("{what} of {} {text}{}", of.join(" and "), self.advice(facts))
    }

    /// Returns what would say it, if anything; begins with a semicolon.
    fn advice(self, facts: &Facts) -> String {
        match (self, facts.clocks.is_unrelated()) {
            (Unsaid::Transmission | Unsaid::Contributors, true) => {
                "; --offset relates the clocks of the sides".to_owned()
            }
            (Unsaid::Contributors, false) if facts.sides[Side::Sender as usize] => {
                format!("; {}", facts.other_contributions())
            }
            (Unsaid::Contributors, false) => "; --sent FILE adds the workers' side".to_owned(),
            _ => String::new(),
        }
    }
}

fn rates(totals: &Totals, deliveries: Deliveries, out: &mut Vec<Line>) {
    match deliveries {
        Deliveries::Counted => {
            aggregation::lines(&totals.bins, out);
            totals.at_server.lines(out);
            let rest = totals.elements - totals.first_elements;
            out.push(throughput::elements(totals.received_ps.unwrap_or((0, 0)), rest));
        }
        Deliveries::Uncounted(_) => {
            let mut both = Vec::new();
            totals.at_server.lines(&mut both);
            out.extend(both.into_iter().filter(|line| line.metric == "throughput_bps"));
        }
        Deliveries::Unknown(_) => {}
    }
}

/// Outputs the number of packets of each side by kind.
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
        for (format, kinds) in totals.formats.iter().zip(kinds) {
            let named = |what: &What| {
                line("captured", PACKETS, kinds[*what as usize]).with("format", format.name()).with("kind", what.name())
            };
            out.extend(What::ALL.iter().filter(|what| kinds[**what as usize] > 0).map(named));
        }
        let odd = |(name, of): &Oddity| (sum(*of) > 0).then(|| line("captured", PACKETS, sum(*of)).with("kind", *name));
        out.extend(ODDITIES.iter().filter_map(odd));
    }
}

fn counts(facts: &Facts, totals: &Totals, deliveries: Deliveries, numbered: u64, out: &mut Vec<Line>) {
    let updates = |metric, n: f64| Line::new(metric, UPDATES, n);
    let share = |part: f64, whole: u64| (whole > 0).then(|| part / whole as f64);
    let [sender, given] = facts.sides;
    let server = given && facts.tells_of_server(totals);
    if sender {
        // Two workers with one number look like retransmissions of one update.
        let known = !facts.shares_numbers();
        out.push(Line::new("sent", UPDATES, known.then_some(totals.sent as f64)));
        let known = known && !facts.lacks_order(totals) && totals.hidden_transmissions().is_empty();
        let resent = known.then_some(totals.resent as f64);
        out.push(Line::new("retransmissions", UPDATES, resent));
    }
    if server && !matches!(deliveries, Deliveries::Unknown(_)) {
        out.push(Line::new("received", PACKETS, totals.received as f64));
    }
    let counted = deliveries == Deliveries::Counted;
    if server && counted {
        let merged: u64 = totals.bins.iter().zip(0u64..).skip(2).map(|(packets, n)| packets * n).sum();
        out.push(updates("merged", merged as f64));
        out.push(Line::new("represented", UPDATES, totals.distinct().map(|n| n as f64)));
        // Without generation times not all copies are known (of ATP those of first transmissions), and copies of results are intended.
        if totals.ageless == 0 {
            out.push(Line::new("duplicates", PACKETS, totals.duplicates as f64));
        }
        if numbered > 0 {
            out.push(updates("numbered", numbered as f64));
            let gaps = totals.distinct().and_then(|held| numbered.checked_sub(held));
            // Members that no header names may have numbers outside of the range.
            let gaps = gaps.filter(|_| facts.unread(Side::Server) == 0 && !(merged > 0 && totals.ageless == 0));
            let gaps = gaps.map(|gaps| gaps as f64);
            out.push(Line::new("numbers_missing", UPDATES, gaps));
            out.push(Line::new("numbers_missing_share", SHARE, gaps.and_then(|gaps| share(gaps, numbered))));
        }
    }
    if sender && given && counted {
        // Unreadable packets may be the missing ones, and what a part of the senders sent is not what all sent.
        let seen = Side::ALL.iter().all(|side| totals.found(*side) > 0 && facts.unread(*side) == 0);
        let seen = seen && !totals.lacks_senders();
        let of = |sent: u64, arrived: Option<u64>| {
            let missing = arrived.and_then(|arrived| sent.checked_sub(arrived)).filter(|_| seen);
            let missing = missing.map(|missing| missing as f64);
            (missing, missing.and_then(|missing| share(missing, sent)))
        };
        // Without marks, an update that was sent again counts as two.
        let are_marked = totals.hidden_transmissions().is_empty();
        let (missing, of_sent) = of(totals.sent_updates, totals.distinct().filter(|_| are_marked));
        out.push(Line::new("missing", UPDATES, missing));
        out.push(Line::new("missing_share", SHARE, of_sent));
        if facts.forwards {
            // Every transmission that did not arrive was lost.
            let (dropped, loss) = of(totals.sent, Some(totals.transmitted));
            out.push(Line::new("loss", SHARE, loss));
            out.push(Line::new("dropped", UPDATES, dropped));
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

/// Returns the uncertainty of times between the clocks, in ps.
pub(super) fn clocks_error(clocks: &Clocks) -> i64 {
    clocks.measured_offset().map_or(0, |(_, error)| error)
}

/// What could be determined.
pub(super) struct Known {
    pub(super) merged: bool,
    pub(super) aged: bool,
    pub(super) deliveries: Deliveries,
    pub(super) numbered: u64,
}
