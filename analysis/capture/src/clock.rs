//! Decides whether times of the two sides may be compared.
//!
//! Generation times and captures of the senders are in the senders' clock; captures of the server are in the server's clock. In virtual
//! time and within one process these are the same clock. Between two hosts, the offset is stated by the user (PTP: `--offset 0s`) or
//! bounded by the packets: neither an update on its way to the server nor an acknowledgement on its way back takes negative time, so the
//! offset lies between the largest difference of one kind and the smallest of the other. The middle is the estimate, half of the width its
//! uncertainty. Senders' captures without a common worker may be of several hosts, each with a clock of its own: the bounds contain the
//! offsets of all. Otherwise one-way times are withheld.

mod drift;
mod hosts;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use pktgen_core::record::Manifest;
use pktgen_core::time::{HORIZON, SECOND};
use pktgen_core::{Error, Result};
use pktgen_records::human::show;
use pktgen_records::run::read_json;
use pktgen_wire::pcap::Stamp;
use pktgen_wire::wire::sight::{Sight, What};

use serde::{Deserialize, Serialize};

use super::input::Input;
use super::{CapturePlan, Side};
use hosts::Hosts;

/// Origin of generation times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor(pub u64);

impl Anchor {
    /// Returns the anchor of the run in `dir`.
    pub fn of_run(dir: &Path) -> Result<Anchor> {
        let manifest: Manifest = read_json(&dir.join("manifest.json"), "a run dir")?;
        Ok(Anchor(manifest.anchor_unix_ns))
    }
}

/// How far the server's clock is ahead of the senders', and the uncertainty of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    /// Server minus sender, in ps.
    pub ps: i64,
    /// Maximum error in either direction.
    pub error_ps: i64,
}

/// Relation of the two clocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Relation {
    /// One clock.
    Same,
    /// Stated by the user.
    Given(Offset),
    /// Estimated from acknowledgements: the offset, and the numbers of updates and acknowledgements used.
    Estimated(Offset, usize, usize),
    /// Unknown, with the reason.
    Unknown(String),
}

/// Source of the anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Origin {
    Given,
    Noted,
    /// Times begin in 1970: virtual time.
    Virtual,
    /// The first packet of a known format; generation times have no meaning then.
    FirstPacket,
}

/// What is known about the clocks of captures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// Origin of times, in ns since 1970, in the senders' clock.
    pub anchor_unix_ns: u64,
    origin: Origin,
    relation: Relation,
    /// Origin of the server's times if they are not known to be in the senders' clock; the two may be years apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server_unix_ns: Option<u64>,
    /// What the clocks of several sending hosts add to the uncertainty of an estimated offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hosts_ps: Option<i64>,
}

/// The largest offset, and what to do about a larger one.
pub const OFFSET_LIMIT: &str = "at most 106 days: editcap -t SECONDS moves a file by more";

/// The cause if the files of a side were given as those of the other.
pub(super) const EXCHANGED: &str = "the files are exchanged (--sent takes those of the workers)";

/// Maximum number of packets per side that an estimate uses.
const LOOKED_AT: usize = 2_000_000;

impl Clocks {
    /// Determines the clocks from the plan, notes in files, and packets.
    pub(super) fn find(plan: &CapturePlan, progress: &mut dyn FnMut(u64, u64)) -> Result<Clocks> {
        let firsts = [first_of(plan, Side::Sender)?, first_of(plan, Side::Server)?];
        let noted = firsts.each_ref().map(|first| first.as_ref().and_then(|first| first.noted));
        let anchors = || firsts.iter().flatten().filter_map(|first| first.anchor);
        let earliest = anchors().min();
        let is_mixed = firsts.iter().flatten().any(|first| first.mixed);
        let is_virtual =
            plan.anchor.is_none() && !is_mixed && earliest == Some(0) && anchors().all(|anchor| anchor == 0);
        let (anchor_unix_ns, origin) = match (plan.anchor, noted[0].or(noted[1])) {
            (Some(Anchor(given)), _) => (given, Origin::Given),
            (None, Some(noted)) if is_mixed => (noted, Origin::FirstPacket),
            (None, Some(noted)) => (noted, Origin::Noted),
            (None, None) if is_virtual => (0, Origin::Virtual),
            (None, None) => (earliest.unwrap_or(0), Origin::FirstPacket),
        };
        let both = firsts.iter().all(Option::is_some);
        let mut anchor_unix_ns = anchor_unix_ns;
        let (relation, hosts_ps) = match plan.offset {
            Some(offset) => (Relation::Given(offset), None),
            None if !both || is_virtual => (Relation::Same, None),
            None if noted[0].is_some() && noted[0] == noted[1] => (Relation::Same, None),
            None => estimate(plan, progress)?,
        };
        let mut server_unix_ns = None;
        if matches!(relation, Relation::Unknown(_)) {
            let [sender, server] = firsts.each_ref().map(|first| first.as_ref().and_then(|first| first.anchor));
            server_unix_ns = server;
            if origin == Origin::FirstPacket {
                anchor_unix_ns = sender.unwrap_or(anchor_unix_ns);
            }
        }
        Ok(Clocks { anchor_unix_ns, origin, relation, server_unix_ns, hosts_ps })
    }

    /// Returns the origin of a side's times, in ns since 1970, in the clock of that side.
    pub(super) fn anchor_of(&self, side: Side) -> u64 {
        self.server_unix_ns.filter(|_| side == Side::Server).unwrap_or(self.anchor_unix_ns)
    }

    /// Returns the offset that is subtracted from the server's times.
    pub(super) fn offset_ps(&self) -> i64 {
        self.measured_offset().map_or(0, |(offset, _)| offset)
    }

    /// Returns the subtracted offset and its uncertainty; `None` with one clock.
    pub(super) fn measured_offset(&self) -> Option<(i64, i64)> {
        match &self.relation {
            Relation::Given(offset) | Relation::Estimated(offset, ..) => Some((offset.ps, offset.error_ps)),
            Relation::Same | Relation::Unknown(_) => None,
        }
    }

    /// Returns the option that relates the clocks, for advice: one that was given may be wrong.
    pub(super) fn option(&self) -> &'static str {
        if matches!(self.relation, Relation::Given(_)) { "another --offset" } else { "--offset" }
    }

    /// The same of the option that gives the origin of times.
    pub(super) fn origin_option(&self) -> &'static str {
        if self.has_given_origin() { "another --anchor" } else { "--anchor" }
    }

    /// Whether nothing relates the two clocks.
    pub(super) fn is_unrelated(&self) -> bool {
        matches!(self.relation, Relation::Unknown(_))
    }

    /// Returns whether a time at the server may be compared with one at a sender.
    pub fn comparable(&self) -> bool {
        !matches!(self.relation, Relation::Unknown(_)) && self.origin != Origin::FirstPacket
    }

    /// Whether generation times have no meaning, since the origin of times is not known.
    pub(super) fn lacks_origin(&self) -> bool {
        self.origin == Origin::FirstPacket
    }

    /// Whether the user stated the origin of times.
    pub(super) fn has_given_origin(&self) -> bool {
        self.origin == Origin::Given
    }

    /// Describes the clocks in one sentence.
    pub fn about(&self) -> String {
        if self.origin == Origin::FirstPacket {
            return "no file has the beginning of the run's times, or files of one side have different ones: one-way times are \
                    withheld; --anchor RUN (the senders' run dir) or --anchor NS (since 1970) gives it; captures of several runs \
                    are analysed one by one"
                .to_owned();
        }
        let ns = |ps: i64| show("ns", ps as f64 / 1000.0);
        match &self.relation {
            Relation::Same if self.origin == Origin::Virtual => {
                "times begin with 1970: they are taken to be virtual, of one clock; --anchor and --offset say otherwise"
                    .to_owned()
            }
            Relation::Same if self.anchor_unix_ns == 0 => "times are virtual: one clock".to_owned(),
            Relation::Same => "senders and server are taken to have one clock; --offset says otherwise".to_owned(),
            Relation::Given(offset) => {
                format!("the server's clock is set back by {}, as --offset says", ns(offset.ps))
            }
            Relation::Estimated(offset, updates, acks) => format!(
                "the server's clock is {} ahead of the senders', give or take {}: {updates} updates and {acks} \
                 acknowledgements were seen at both sides; ages are wrong by as much; with steady delays that includes a drift of the clocks, and a step but at the ends{}",
                ns(offset.ps),
                ns(offset.error_ps),
                self.hosts_ps.map(hosts::note).unwrap_or_default()
            ),
            Relation::Unknown(why) => {
                format!(
                    "one-way times are withheld: {why}; give the difference of the clocks by --offset, {OFFSET_LIMIT}"
                )
            }
        }
    }
}

/// Time information of the first file of a side.
struct First {
    /// The origin of times that is written in its files.
    noted: Option<u64>,
    /// Whether they have different ones.
    mixed: bool,
    anchor: Option<u64>,
}

fn first_of(plan: &CapturePlan, side: Side) -> Result<Option<First>> {
    let mut inputs = plan.open(side)?;
    if inputs.is_empty() {
        return Ok(None);
    }
    let begins: Vec<Option<Stamp>> = inputs.iter_mut().map(begin_of).collect();
    let first = begins.iter().flatten().min().copied();
    let mut origins: Vec<u64> = inputs.iter().filter_map(|input| input.noted_anchor_unix_ns()).collect();
    origins.dedup();
    if plan.anchor.is_none() && origins.is_empty() {
        refuse_two_origins(&inputs, &begins)?;
    }
    let (noted, mixed) = (origins.first().copied(), origins.len() > 1);
    Ok(Some(First { noted, mixed, anchor: first.map(|first| inputs[0].anchor_for(first)) }))
}

/// Returns the time of a file's first packet of a known format. Other packets may have been captured long before, or before the host's clock
/// was set. A noted origin depends on no packet.
fn begin_of(input: &mut Input) -> Option<Stamp> {
    for _ in 0..LOOKED_AT {
        let (stamp, _, sight) = input.next_stamped()?;
        if sight.is_some() || input.noted_anchor_unix_ns().is_some() {
            return Some(stamp);
        }
    }
    None
}

/// Refuses files of one side of which only some seem to be of virtual time: no origin is that of all.
fn refuse_two_origins(inputs: &[Input], begins: &[Option<Stamp>]) -> Result<()> {
    let origins = || inputs.iter().zip(begins).filter_map(|(input, begin)| Some((input, input.anchor_for((*begin)?))));
    let (early, late) = (origins().find(|(_, origin)| *origin == 0), origins().find(|(_, origin)| *origin > 0));
    let Some(((early, _), (late, origin))) = early.zip(late) else { return Ok(()) };
    Err(Error::config(format!(
        "{} begins within {} days of 1970, as virtual time does, and {}, of the same side, begins {} s after 1970: they are of different \
         clocks or runs; analyse them one by one, or move one of them (editcap -t SECONDS) and give --anchor",
        early.path().display(),
        HORIZON / (86_400 * SECOND),
        late.path().display(),
        origin / 1_000_000_000
    )))
}

/// Capture times of packets in ps, by worker, sequence number, attempt and generation time: numbers may restart.
type Stamps = HashMap<(u32, u32, u8, i64), i128>;

/// Updates and acknowledgements with their capture times at one side.
#[derive(Default)]
struct Seen {
    updates: Stamps,
    acks: Stamps,
    /// Workers of these packets in the file that is read.
    workers: HashSet<u32>,
    hosts: Hosts,
}

impl Seen {
    /// Records a packet captured at `side` from `unix_ps` on, within `resolution_ps`: stamps are rounded down. What left counts at the
    /// earliest time and what arrived at the latest, so that differences remain bounds. Of copies the first counts in any order of files.
    fn add(&mut self, side: Side, sight: &Sight, unix_ps: i128, resolution_ps: u64) {
        // Without a generation time, a packet of one side cannot be identified at the other.
        let (Some(worker), Some(generation)) = (sight.worker, sight.generation) else { return };
        let map = match sight.what {
            What::Update if sight.count == 1 => &mut self.updates,
            What::Ack => &mut self.acks,
            _ => return,
        };
        self.workers.insert(worker);
        let arrived = (side == Side::Server) == (sight.what == What::Update);
        let at = if arrived { unix_ps + i128::from(resolution_ps) } else { unix_ps };
        let first = map.entry((worker, sight.seq, sight.attempt, generation)).or_insert(at);
        *first = at.min(*first);
    }
}

fn look_at(plan: &CapturePlan, side: Side) -> Result<Seen> {
    let mut seen = Seen::default();
    for mut input in plan.open(side)? {
        for _ in 0..LOOKED_AT {
            let Some((stamp, resolution_ps, sight)) = input.next_stamped() else { break };
            if let Some(sight) = sight {
                seen.add(side, &sight, stamp.unix_ps(), resolution_ps);
            }
        }
        seen.hosts.add(input.path(), &std::mem::take(&mut seen.workers));
    }
    Ok(seen)
}

/// Estimates bounds of the offset from packets captured at both sides, and what several hosts add to them.
fn estimate(plan: &CapturePlan, progress: &mut dyn FnMut(u64, u64)) -> Result<(Relation, Option<i64>)> {
    progress(0, 0);
    let [sender, server] = [look_at(plan, Side::Sender)?, look_at(plan, Side::Server)?];
    Ok(related(&sender, &server))
}

/// Number of equal parts of the time of a recording in which changes of the clocks are looked for.
const PARTS: usize = 32;

/// A lower and an upper bound of the offset, as far as known.
type Bounds = (Option<i128>, Option<i128>);

/// Returns the tightest bounds of all `parts`.
fn common(parts: &[Bounds]) -> Bounds {
    let lows = parts.iter().filter_map(|(low, _)| *low);
    (lows.max(), parts.iter().filter_map(|(_, high)| *high).min())
}

/// Returns both bounds of each part that has one: a missing one is as far from the other as in the widest part with both, or by `width`.
fn completed(parts: &[Bounds], width: i128) -> Vec<Option<(i128, i128)>> {
    let width = parts.iter().filter_map(|(low, high)| Some((*high)? - (*low)?)).max().unwrap_or(width);
    let both = |low: Option<i128>, high: Option<i128>| {
        Some((low.or(high.map(|high| high - width))?, high.or(low.map(|low| low + width))?))
    };
    parts.iter().map(|(low, high)| both(*low, *high)).collect()
}

/// Returns the largest change of the clocks between two of `parts`. It moves both bounds alike; a queue moves one of them.
fn largest_change(parts: &[Option<(i128, i128)>]) -> i128 {
    let known: Vec<_> = parts.iter().flatten().collect();
    let mut largest = 0;
    for (i, before) in known.iter().enumerate() {
        for after in &known[i + 1..] {
            let (low, high) = (after.0 - before.0, after.1 - before.1);
            if low.signum() == high.signum() {
                largest = low.abs().min(high.abs()).max(largest);
            }
        }
    }
    largest
}

/// Packets that both sides have: their times at the sender, and how much later they were captured at the server. For acknowledgements, which
/// are captured there earlier, the difference is negative without an offset.
#[derive(Default)]
struct Differences {
    up: Vec<(i128, i128)>,
    down: Vec<(i128, i128)>,
}

impl Differences {
    fn bounds(&self) -> Bounds {
        (self.down.iter().map(|(_, least)| *least).max(), self.up.iter().map(|(_, most)| *most).min())
    }

    /// Returns the bounds `least` and `most` of the whole recording, widened by changes of the clocks.
    fn widened(&self, (mut least, mut most): (i128, i128)) -> (i128, i128) {
        let Differences { up, down } = self;
        let width = most - least;
        // Drift makes the bounds of the whole recording too narrow; those of each quarter of the time hold at a time in it.
        let timed = if up.is_empty() { down } else { up };
        let times = || timed.iter().map(|(at, _)| *at);
        let (first, last) = times().min().zip(times().max()).unwrap_or_default();
        let part = |at: i128| {
            (PARTS as i128 * (at - first)).div_euclid((last - first).max(1)).clamp(0, PARTS as i128 - 1) as usize
        };
        let mut parts: [Bounds; PARTS] = [(None, None); PARTS];
        for (at, difference) in down {
            let low = &mut parts[part(*at)].0;
            *low = (*low).max(Some(*difference));
        }
        for (at, difference) in up {
            let high = &mut parts[part(*at)].1;
            *high = Some(high.map_or(*difference, |high| high.min(*difference)));
        }
        let quarters: Vec<_> = parts.chunks(PARTS / 4).map(common).collect();
        let (quarters, parts) = (completed(&quarters, width), completed(&parts, width));
        let steady = drift::permitted(up, down, part, width);
        // Within a quarter, too, the lower bound is that of the largest offset, and the upper one of the smallest: each is wider by the change
        // of the clocks there. The parts beside a quarter show changes at its ends.
        for (number, bounds) in quarters.iter().enumerate() {
            let Some((low, high)) = bounds else { continue };
            let begin = number * PARTS / 4;
            let change = largest_change(&parts[begin.saturating_sub(1)..(begin + PARTS / 4 + 1).min(PARTS)]);
            least = least.min(low - change);
            most = most.max(high + change);
        }
        if let Some((low, high)) = steady {
            (least, most) = (least.min(low), most.max(high));
        }
        (least, most)
    }
}

fn related(sender: &Seen, server: &Seen) -> (Relation, Option<i64>) {
    let unknown = |why: String| (Relation::Unknown(why), None);
    let mut hosts: BTreeMap<usize, Differences> = BTreeMap::new();
    for (id, at) in &sender.updates {
        let Some(other) = server.updates.get(id) else { continue };
        hosts.entry(sender.hosts.of(id.0)).or_default().up.push((*at, other - at));
    }
    for (id, at) in &sender.acks {
        let Some(other) = server.acks.get(id) else { continue };
        hosts.entry(sender.hosts.of(id.0)).or_default().down.push((*at, other - at));
    }
    let count = |of: fn(&Differences) -> &Vec<(i128, i128)>| hosts.values().map(|own| of(own).len()).sum::<usize>();
    let (updates, acks) = (count(|own| &own.up), count(|own| &own.down));
    let bounds: Vec<Bounds> = hosts.values().map(Differences::bounds).collect();
    let (Some(least), Some(most)) = common(&bounds) else {
        let what = if updates == 0 { "updates" } else { "acknowledgements" };
        return unknown(format!(
            "the sides are captures of different clocks, and no {what} with generation times were seen at both"
        ));
    };
    if least > most {
        return unknown(sender.hosts.contradiction(&hosts));
    }
    // Each host has a clock of its own: the bounds of one say nothing of another.
    let (mut low, mut high) = (least, most);
    let bounds = completed(&bounds, most - least);
    for (own, bounds) in hosts.values().zip(&bounds) {
        let Some((least, most)) = bounds.map(|bounds| own.widened(bounds)) else { continue };
        (low, high) = (low.min(least), high.max(most));
    }
    let fits = |ps: i128| i64::try_from(ps).ok();
    match (fits((high + low).div_euclid(2)), fits((high - low + 1) / 2)) {
        (Some(ps), Some(error_ps)) => {
            (Relation::Estimated(Offset { ps, error_ps }, updates, acks), hosts::added(&bounds, most - least))
        }
        _ => unknown("the clocks are more than 106 days apart".to_owned()),
    }
}

#[cfg(test)]
fn bounded(sender: &Seen, server: &Seen) -> Relation {
    related(sender, server).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_offset_is_within_its_bounds(offset in -1i64 << 60..1 << 60, ways in prop::collection::vec((0i64..1 << 40, 0i64..1 << 40, 0i128..1 << 70), 1..50)) {
            let (mut sender, mut server) = (Seen::default(), Seen::default());
            for (i, (there, back, at)) in ways.iter().enumerate() {
                let id = (1, i as u32, 0, i as i64);
                sender.updates.insert(id, *at);
                server.updates.insert(id, at + i128::from(offset) + i128::from(*there));
                server.acks.insert(id, at + i128::from(offset));
                sender.acks.insert(id, at + i128::from(*back));
            }
            let Relation::Estimated(found, ups, downs) = bounded(&sender, &server) else { panic!("no estimate") };
            prop_assert!((found.ps - offset).abs() <= found.error_ps, "{:?} {}", found, offset);
            let most = |way: fn(&(i64, i64, i128)) -> i64| ways.iter().map(way).max().unwrap();
            let width = most(|w| w.0) + most(|w| w.1);
            // Both bounds move alike by no more than the shorter of the longest ways.
            prop_assert!(found.error_ps <= width / 2 + most(|w| w.0).min(most(|w| w.1)) + 1);
            prop_assert_eq!((ups, downs), (ways.len(), ways.len()));
        }

        /// Stamps of the sides are rounded down to ticks of different lengths.
        #[test]
        fn rounded_stamps_are_within_the_uncertainty(offset in -1i64 << 60..1 << 60, ticks in (1u64..1 << 41, 1u64..1 << 41), ways in prop::collection::vec((0i64..1 << 40, 0i64..1 << 40, 0i128..1 << 70), 1..50)) {
            let (mut sender, mut server) = (Seen::default(), Seen::default());
            let down = |t: i128, tick: u64| t - t.rem_euclid(i128::from(tick));
            for (i, (there, back, at)) in ways.iter().enumerate() {
                let (update, ack) = (sight(What::Update, i as u32), sight(What::Ack, i as u32));
                let arrived = at + i128::from(*there);
                let at_server = down(arrived + i128::from(offset), ticks.1);
                sender.add(Side::Sender, &update, down(*at, ticks.0), ticks.0);
                server.add(Side::Server, &update, at_server, ticks.1);
                server.add(Side::Server, &ack, at_server, ticks.1);
                sender.add(Side::Sender, &ack, down(arrived + i128::from(*back), ticks.0), ticks.0);
            }
            let Relation::Estimated(found, ..) = bounded(&sender, &server) else { panic!("no estimate") };
            prop_assert!((found.ps - offset).abs() <= found.error_ps, "{:?} {}", found, offset);
        }

        /// Both ways take a steady time, one longer than the other; the server's clock drifts, or is set once, by less than both take.
        /// A step in the first or last of the 32 parts is not in the uncertainty.
        #[test]
        fn steady_drifts_and_steps_are_within_the_uncertainty(there in 1i128..1 << 28, back in 1i128..1 << 28, percent in -98i128..=98, step in prop::option::of(4i128..97), count in 100u32..400) {
            const LAST: i128 = 900_000_000_000;
            let size = (there + back) * percent / 100;
            let offset = |t: i128| match step {
                None => size * t / LAST,
                Some(at) if t * 100 < at * LAST => 0,
                Some(_) => size,
            };
            let (mut sender, mut server, mut offsets) = (Seen::default(), Seen::default(), Vec::new());
            for i in 0..count {
                let (id, at) = ((1, i, 0, i64::from(i)), i128::from(i) * LAST / i128::from(count - 1));
                let arrived = at + there;
                offsets.push(offset(arrived));
                sender.updates.insert(id, at);
                server.updates.insert(id, arrived + offset(arrived));
                server.acks.insert(id, arrived + offset(arrived));
                sender.acks.insert(id, arrived + back);
            }
            let Relation::Estimated(found, ..) = bounded(&sender, &server) else { panic!("no estimate") };
            let (ps, error) = (i128::from(found.ps), i128::from(found.error_ps));
            // The offset is known at packets: between two of them the clocks drift by this much.
            let between = step.map_or(size.abs() / i128::from(count - 1), |_| 0);
            for own in offsets {
                prop_assert!((own - ps).abs() <= error + between + 4, "{own} {found:?}");
            }
            prop_assert!(error <= (there + back + 3 * size.abs()) / 2 + 4, "{found:?}");
            // Without a change of the clocks it is as narrow as the ways allow.
            prop_assert!(size != 0 || error == (there + back + 1) / 2, "{found:?}");
        }
    }

    /// 20 ppm over 2.5 s: each direction takes 25 µs, and the offset changes from 0 to 50 or -50 µs. Acknowledgements may end before.
    #[test]
    fn a_drift_is_within_the_uncertainty() {
        for (sign, acknowledged) in [(1, 1001), (1, 701), (1, 301), (-1, 1001), (-1, 701), (-1, 301)] {
            let (mut sender, mut server) = (Seen::default(), Seen::default());
            for i in 0..=1000u32 {
                let (at, offset) = (i128::from(i) * 2_500_000_000, sign * i128::from(i) * 50_000);
                sender.updates.insert((1, i, 0, i64::from(i)), at);
                server.updates.insert((1, i, 0, i64::from(i)), at + offset + 25_000_000);
                if i < acknowledged {
                    server.acks.insert((1, i, 0, i64::from(i)), at + offset);
                    sender.acks.insert((1, i, 0, i64::from(i)), at + 25_000_000);
                }
            }
            let Relation::Estimated(found, ..) = bounded(&sender, &server) else { panic!("no estimate") };
            let [low, high] = if sign > 0 { [100_000, 49_900_000] } else { [-49_900_000, -100_000] };
            let is_within = found.ps - found.error_ps <= low && found.ps + found.error_ps >= high;
            assert!(is_within, "{sign} {acknowledged} {found:?}");
            assert!(found.error_ps < 50_200_000, "{sign} {acknowledged} {found:?}");
        }
    }

    /// Stamps of whole ms, and 100 µs for each direction: the bounds move by 1 ms, or not at all, and never both.
    #[test]
    fn a_drift_that_coarse_stamps_hide_is_within_the_uncertainty() {
        const MS: i128 = 1_000_000_000;
        for (tenths, most) in [(-11, 900), (11, 900), (-8, 700), (8, 700), (0, 1_050)] {
            let (mut sender, mut server, mut offsets) = (Seen::default(), Seen::default(), Vec::new());
            let down = |ps: i128| ps - ps.rem_euclid(MS);
            for seq in 0..200u32 {
                let at = i128::from(seq) * 50 * MS + i128::from(seq) * 618_033_989 % MS;
                let arrived = at + MS / 10;
                let offset = tenths * MS / 10 * arrived / (10_000 * MS);
                let (update, ack) = (sight(What::Update, seq), sight(What::Ack, seq));
                let at_server = down(arrived + offset);
                sender.add(Side::Sender, &update, down(at), MS as u64);
                server.add(Side::Server, &update, at_server, MS as u64);
                server.add(Side::Server, &ack, at_server, MS as u64);
                sender.add(Side::Sender, &ack, down(arrived + MS / 10), MS as u64);
                offsets.push(offset);
            }
            let Relation::Estimated(found, ..) = bounded(&sender, &server) else { panic!("no estimate") };
            let (ps, error) = (i128::from(found.ps), i128::from(found.error_ps));
            assert!(offsets.iter().all(|own| (own - ps).abs() <= error), "{tenths} {found:?}");
            assert!(error <= most * 1_000_000, "{tenths} {found:?}");
        }
    }

    /// Each direction takes 10 µs; updates wait in a queue for 1 ms more from some time on. Only the upper bound moves. Behind its last packet
    /// without the queue, a steady drift remains possible.
    #[test]
    fn a_queue_is_no_change_of_the_clocks() {
        for (from, error) in [(1001, 10_000_000), (760, 13_333_369), (740, 510_000_000), (500, 510_000_000)] {
            let (mut sender, mut server) = (Seen::default(), Seen::default());
            for i in 0..=1000u32 {
                let (id, at) = ((1, i, 0, i64::from(i)), i128::from(i) * 2_500_000_000);
                let arrived = at + 10_000_000 + if i < from { 0 } else { 1_000_000_000 };
                sender.updates.insert(id, at);
                server.updates.insert(id, arrived);
                server.acks.insert(id, arrived);
                sender.acks.insert(id, arrived + 10_000_000);
            }
            let Relation::Estimated(found, ..) = bounded(&sender, &server) else { panic!("no estimate") };
            assert_eq!(found.error_ps, error, "{from} {found:?}");
        }
    }

    fn sight(what: What, seq: u32) -> Sight {
        Sight {
            what,
            cluster: 0,
            worker: Some(1),
            seq,
            round: 0,
            attempt: 0,
            generation: Some(7),
            count: 1,
            elements: 2,
        }
    }

    /// The server's clock is 1 µs behind, and each direction takes 150 µs. A mirror captures the sent packets 2 ms later.
    #[test]
    fn copies_of_packets_change_no_offset_in_any_order_of_files() {
        let found = [[0, 2_000_000_000], [2_000_000_000, 0]].map(|files| {
            let (mut sender, mut server) = (Seen::default(), Seen::default());
            for later in files {
                for seq in 0..4 {
                    let sent = i128::from(seq) * 1_000_000_000;
                    let (update, ack) = (sight(What::Update, seq), sight(What::Ack, seq));
                    sender.add(Side::Sender, &update, sent + later, 0);
                    server.add(Side::Server, &update, sent + 149_000_000, 0);
                    server.add(Side::Server, &ack, sent + 149_000_000, 0);
                    sender.add(Side::Sender, &ack, sent + 300_000_000 + later, 0);
                }
            }
            bounded(&sender, &server)
        });
        let offset = Offset { ps: -1_000_000, error_ps: 150_000_000 };
        assert_eq!(found, [Relation::Estimated(offset, 4, 4), Relation::Estimated(offset, 4, 4)]);
    }

    /// Each direction takes 100 µs, and the server's clock is 1.3 ms ahead.
    #[test]
    fn the_resolution_of_stamps_is_in_the_uncertainty() {
        const MS: u64 = 1_000_000_000;
        let found = |ticks: [u64; 2]| {
            let (mut sender, mut server) = (Seen::default(), Seen::default());
            let down = |ps: u64, tick: u64| i128::from(ps / tick * tick);
            for (seq, sent) in (0..).zip([10 * MS, 21 * MS]) {
                let at_server = down(sent + 1_400_000_000, ticks[1]);
                sender.add(Side::Sender, &sight(What::Update, seq), down(sent, ticks[0]), ticks[0]);
                server.add(Side::Server, &sight(What::Update, seq), at_server, ticks[1]);
                server.add(Side::Server, &sight(What::Ack, seq), at_server, ticks[1]);
                sender.add(Side::Sender, &sight(What::Ack, seq), down(sent + 200_000_000, ticks[0]), ticks[0]);
            }
            let Relation::Estimated(Offset { ps, error_ps }, ..) = bounded(&sender, &server) else {
                panic!("no estimate")
            };
            [ps - error_ps, ps + error_ps]
        };
        // Stamps of whole ms are at least as early, and less than 1 ms earlier.
        assert_eq!(found([MS, MS]), [0, 2_000_000_000]);
        assert_eq!(found([1000, MS]), [799_999_000, 2_000_000_000]);
        assert_eq!(found([MS, 1000]), [400_000_000, 1_400_001_000]);
        assert_eq!(found([1000, 1000]), [1_199_999_000, 1_400_001_000]);
    }

    /// A board whose clock begins in 1970.
    #[test]
    fn clocks_that_are_too_far_apart_for_an_offset_are_moved_by_another_tool() {
        let (mut sender, mut server) = (Seen::default(), Seen::default());
        let ahead = 1_700_000_000 * i128::from(SECOND);
        sender.updates.insert((1, 1, 0, 7), 0);
        server.updates.insert((1, 1, 0, 7), ahead + 5);
        server.acks.insert((1, 1, 0, 7), ahead + 5);
        sender.acks.insert((1, 1, 0, 7), 10);
        let relation = bounded(&sender, &server);
        assert!(matches!(relation, Relation::Unknown(_)), "{relation:?}");
        let (origin, server_unix_ns, hosts_ps) = (Origin::Given, None, None);
        let about = Clocks { anchor_unix_ns: 0, origin, relation, server_unix_ns, hosts_ps }.about();
        assert!(about.contains("more than 106 days apart") && about.contains("editcap -t"), "{about}");
    }

    #[test]
    fn clocks_that_drift_or_say_nothing_give_no_offset() {
        let (mut sender, mut server) = (Seen::default(), Seen::default());
        assert!(matches!(bounded(&sender, &server), Relation::Unknown(why) if why.contains("no updates")));
        sender.updates.insert((1, 1, 0, 7), 0);
        server.updates.insert((1, 1, 0, 7), 5);
        assert!(matches!(bounded(&sender, &server), Relation::Unknown(why) if why.contains("no acknowledgements")));
        // The acknowledgement proves an offset of at least 9.
        server.acks.insert((1, 1, 0, 7), 109);
        sender.acks.insert((1, 1, 0, 7), 100);
        assert!(matches!(bounded(&sender, &server), Relation::Unknown(why) if why.contains("different speeds")));
    }
}
