//! The wrong packets of a run, with their expected content: `pktgen analyze --wrong`.
//!
//! The account is settled once more from the records, and every packet is checked; the received content is found in the
//! run's capture, by its digest, or among the payloads kept for lanes.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use pktgen_core::config::Document;
use pktgen_core::record::digest::verify_run;
use pktgen_core::record::{Family, Fault, Manifest, PacketId, RunState, SumOk};
use pktgen_core::time::{HORIZON, MS, Time};
use pktgen_core::{Error, Result};
use pktgen_wire::pcap::Reader;
use pktgen_wire::wire::sight::{Look, look};
use pktgen_wire::wire::update;

use super::Experiment;
use super::merge::planned;
use super::shard::read;
use crate::capture::CAPTURE;
use crate::catalogue::Catalogue;
use crate::ledger::PayloadValues;
use crate::settle::{LanesOf, PacketSeen, SumFound, WrongSum, settle_watched};

/// Offsets of the clocks of a run's parts, tried in order until the numbers of wrong sums and of strangers are the run's.
const SLACKS: [Time; 3] = [0, 100 * MS, HORIZON / 2];
/// Bytes that may follow the values of a payload: none, or a checksum.
const BEHIND: [usize; 2] = [0, 4];

/// The defect of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrongKind {
    /// Its values are not the sum of its members'.
    Sum,
    /// It states another number of members.
    Count,
    /// Nobody sent it, it had already ended, or it holds nothing that its worker sent.
    Stranger,
    /// Cluster, generation time or reward of its header differ from its update's, or it is a copy that differs.
    Damaged,
}

/// A number of a payload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PayloadNumber {
    /// A gradient.
    Float(f64),
    /// A scaled gradient.
    Integer(i32),
}

/// A wrong value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WrongValue {
    /// Index of the value in the payload, from 0.
    pub at: usize,
    /// The received value.
    pub is: PayloadNumber,
    /// The expected value.
    pub should: PayloadNumber,
}

/// A wrong packet.
#[derive(Debug, Clone, PartialEq)]
pub struct WrongPacket {
    /// Its arrival.
    pub t_recv: Time,
    /// Its id.
    pub packet: PacketId,
    /// Number of members that it states.
    pub count: u16,
    /// Whether its update had arrived, behind a device without books.
    pub again: bool,
    /// Its defect.
    pub kind: WrongKind,
    /// The expected members; empty if unknown.
    pub members: Vec<PacketId>,
    /// The expected number of values; none if unknown.
    pub values: Option<usize>,
    /// All wrong values; none if the received content was not kept.
    pub differing: Option<Vec<WrongValue>>,
}

/// The wrong packets of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct WrongPackets {
    /// The first of them, in the order of arrival.
    pub packets: Vec<WrongPacket>,
    /// Their number.
    pub found: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Packets whose expected content is unknown.
    pub unchecked: u64,
    /// Number of wrong sums that the run itself counted, if it differs.
    pub counted: Option<u64>,
    /// Whether rows of a killed part are missing, so that these packets may be right.
    pub unproven: bool,
}

/// A packet whose payload is to be found.
struct WrongPending {
    row: usize,
    digest: Option<u64>,
    should: Option<PayloadValues>,
    packet: WrongPacket,
}

/// The wrong packets of one reading.
struct WrongSearch {
    most: usize,
    pending: Vec<WrongPending>,
    found: u64,
    wrong: u64,
    /// Rows about packets that nobody sent, or that had already ended.
    strangers: u64,
    received: u64,
    unchecked: u64,
    /// Rows that were found, and their index in the list.
    rows: HashMap<usize, Option<usize>>,
    /// Rows of right sums that claim to be one update, as lanes prove.
    right: HashSet<usize>,
    /// Whether the device keeps books.
    has_books: bool,
    /// Whether the device keeps no books and only forwards: every packet is one update, and even a right sum is damage.
    forwards: bool,
}

/// Returns the first `most` wrong packets of the run in `dir`. `waived`: digests of its files are not checked.
pub fn wrong_packets(catalogue: &'static Catalogue, dir: &Path, most: usize, waived: bool) -> Result<WrongPackets> {
    let path = dir.join("manifest.json");
    let manifest: Manifest = read(&path)?;
    check(&manifest, &path)?;
    if !waived {
        let text = std::fs::read(&path).map_err(Error::io("read", &path))?;
        verify_run(dir, &text, &manifest.files)?;
    }
    let experiment = Experiment::open(catalogue, Document::parse(&manifest.config, &path.display().to_string())?)?;
    if experiment.replays_trace() {
        planned(&experiment, &manifest)?;
    }
    let counted = manifest.incidents.unproven_sums().unwrap_or(manifest.counters.sums_wrong);
    let off = |all: &WrongSearch| all.wrong.abs_diff(counted) + all.strangers.abs_diff(manifest.strangers);
    let mut all = WrongSearch::read(&experiment, &manifest, dir, most, SLACKS[0])?;
    for slack in &SLACKS[1..] {
        if off(&all) == 0 {
            break;
        }
        let other = WrongSearch::read(&experiment, &manifest, dir, most, *slack)?;
        if off(&other) < off(&all) {
            all = other;
        }
    }
    if manifest.files.contains_key(CAPTURE) {
        all.find_payloads(&dir.join(CAPTURE))?;
    }
    Ok(WrongPackets {
        packets: all.pending.into_iter().map(|pending| pending.packet).collect(),
        found: all.found,
        received: all.received,
        unchecked: all.unchecked,
        counted: (all.wrong != counted).then_some(counted),
        unproven: manifest.incidents.faults.iter().any(Fault::is_kill),
    })
}

/// Refuses runs without packets to check.
fn check(manifest: &Manifest, path: &Path) -> Result<()> {
    let refuse = |why: &str| Err(Error::data(path, format!("--wrong: {why}")));
    if manifest.study.is_some() {
        return refuse("a study sends no packets");
    }
    if let Some(part) = &manifest.part {
        return refuse(&format!("it is the part \"{part}\" of a run; pktgen merge joins all parts"));
    }
    if manifest.state == RunState::Running {
        return refuse("the run has not ended, or was killed; pktgen analyze --recover makes it readable");
    }
    if manifest.records != "full" {
        return refuse(&format!(
            "records are \"{}\", and all packets are needed: capture.records = \"full\"",
            manifest.records
        ));
    }
    if manifest.family == Some(Family::Pairs) {
        return refuse("sums by key have no list of members; sums_wrong counts the wrong ones");
    }
    Ok(())
}

impl WrongSearch {
    /// Settles the account again, with clocks of parts `slack` apart.
    fn read(experiment: &Experiment, manifest: &Manifest, dir: &Path, most: usize, slack: Time) -> Result<Self> {
        let mut all = Self::of(most, HashSet::new());
        all.settle(experiment, manifest, dir, slack)?;
        // Only after settling do lanes prove sums right that claim to be one update: they took the places of wrong packets.
        if !all.right.is_empty() {
            all = Self::of(most, all.right);
            all.settle(experiment, manifest, dir, slack)?;
        }
        all.pending.sort_by_key(|pending| pending.row);
        all.pending.truncate(most);
        Ok(all)
    }

    fn of(most: usize, right: HashSet<usize>) -> Self {
        WrongSearch {
            most,
            pending: Vec::new(),
            found: 0,
            wrong: 0,
            strangers: 0,
            received: 0,
            unchecked: 0,
            rows: HashMap::new(),
            right,
            has_books: true,
            forwards: false,
        }
    }

    fn settle(&mut self, experiment: &Experiment, manifest: &Manifest, dir: &Path, slack: Time) -> Result<()> {
        let run = experiment.choose(None)?;
        let ledger = experiment.draft(run)?.parts.ledger;
        let unseen = ledger.unseen();
        self.has_books = unseen.is_none();
        self.forwards = unseen.is_some_and(|unseen| !unseen.merges);
        let settled =
            settle_watched(dir, experiment.updates(run)?.as_mut(), ledger, slack, &mut |seen| self.seen(seen))?;
        self.strangers = settled.ledger.strangers();
        if let Some(lanes) = LanesOf::checkable(manifest) {
            let updates = &mut experiment.updates(run)?;
            let proven = settled.found_by_lanes(dir, lanes, updates.as_mut(), &mut |found| self.by_lanes(&found))?;
            self.unchecked = self.unchecked.saturating_sub(proven.right);
        }
        Ok(())
    }

    /// Records what lanes prove of a packet.
    fn by_lanes(&mut self, found: &SumFound) {
        match found {
            SumFound::Wrong(sum) => self.wrong_sum(sum),
            SumFound::RightSingle(row) if !self.forwards => _ = self.right.insert(*row),
            SumFound::RightSingle(_) => {}
        }
    }

    fn seen(&mut self, seen: PacketSeen) {
        self.received += 1;
        if self.right.contains(&seen.row) {
            return;
        }
        let row = seen.received;
        let expected = seen.expected.map(|due| (due.members, Some(due.values)));
        let (mut members, mut should) = expected.unwrap_or_default();
        let other = should.as_ref().and_then(PayloadValues::digest).zip(row.digest).is_some_and(|(due, is)| due != is);
        // A device that merges and keeps no books states the members of a sum only by their count.
        let knows_count = self.has_books || self.forwards;
        let miscounts = knows_count && !members.is_empty() && members.len() != usize::from(row.count);
        let kind = match seen.verdict {
            SumOk::No if miscounts => WrongKind::Count,
            SumOk::No => WrongKind::Sum,
            _ if other => WrongKind::Sum,
            _ if seen.strange => WrongKind::Stranger,
            SumOk::Unknown if self.forwards && miscounts && !seen.again => WrongKind::Count,
            _ if seen.damaged => WrongKind::Damaged,
            SumOk::Yes => return,
            SumOk::Unknown => {
                self.unchecked += u64::from(should.is_none() && !seen.again);
                return;
            }
        };
        if kind == WrongKind::Damaged {
            // The values are right, or those of a copy.
            (members, should) = (vec![row.packet], None);
        }
        self.wrong += u64::from(kind != WrongKind::Stranger && seen.verdict == SumOk::No);
        self.found += 1;
        let listed = self.pending.len() < self.most;
        self.rows.insert(seen.row, listed.then_some(self.pending.len()));
        if listed {
            let values = should.as_ref().filter(|values| **values != PayloadValues::Unkept).map(PayloadValues::len);
            let packet = WrongPacket {
                t_recv: row.t_recv,
                packet: row.packet,
                count: row.count,
                again: seen.again,
                kind,
                members,
                values,
                differing: None,
            };
            self.pending.push(WrongPending { row: seen.row, digest: row.digest, should, packet });
        }
    }

    /// Adds a sum that lanes prove wrong.
    fn wrong_sum(&mut self, sum: &WrongSum) {
        self.wrong += 1;
        let differing = sum.differing.iter().map(|at| WrongValue {
            at: *at,
            is: PayloadNumber::Float(f32::from_bits(sum.payload[*at]).into()),
            should: PayloadNumber::Float(sum.exact[*at]),
        });
        if let Some(listed) = self.rows.get(&sum.row) {
            if let Some(at) = listed {
                self.pending[*at].packet.differing = Some(differing.collect());
            }
            return;
        }
        self.rows.insert(sum.row, None);
        self.found += 1;
        self.unchecked = self.unchecked.saturating_sub(1);
        if self.pending.len() >= self.most.saturating_mul(2) {
            return;
        }
        let packet = WrongPacket {
            t_recv: sum.t_recv,
            packet: sum.packet,
            count: u16::try_from(sum.members.len()).unwrap_or(u16::MAX),
            again: false,
            kind: WrongKind::Sum,
            members: sum.members.clone(),
            values: Some(sum.exact.len()),
            differing: Some(differing.collect()),
        };
        self.pending.push(WrongPending { row: sum.row, digest: None, should: None, packet });
    }

    /// Finds the received payloads in the capture at `path`, by the digests of the records.
    fn find_payloads(&mut self, path: &Path) -> Result<()> {
        let mut wanted: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut lengths: Vec<usize> = Vec::new();
        for (at, pending) in self.pending.iter().enumerate() {
            if let (Some(digest), Some(values)) = (pending.digest, pending.packet.values) {
                wanted.entry(digest).or_default().push(at);
                lengths.push(values * 4);
            }
        }
        lengths.sort_unstable();
        lengths.dedup();
        let mut reader = Reader::open(path)?;
        while let Some(packet) = reader.next()?.filter(|_| !wanted.is_empty()) {
            let Look::Udp(datagram) = look(packet.link_type, packet.bytes) else { continue };
            for (length, behind) in lengths.iter().flat_map(|length| BEHIND.map(|behind| (*length, behind))) {
                let Some(end) = datagram.payload.len().checked_sub(behind) else { continue };
                let Some(values) = end.checked_sub(length).and_then(|from| datagram.payload.get(from..end)) else {
                    continue;
                };
                for at in wanted.remove(&update::digest(values)).unwrap_or_default() {
                    let pending = &mut self.pending[at];
                    pending.packet.differing = pending.should.as_ref().map(|should| differing(values, should));
                }
            }
        }
        Ok(())
    }
}

/// Returns the values that differ from `should`.
fn differing(values: &[u8], should: &PayloadValues) -> Vec<WrongValue> {
    let words = values.as_chunks::<4>().0.iter().enumerate();
    match should {
        PayloadValues::Unkept => Vec::new(),
        PayloadValues::Floats(due) => words
            .zip(due)
            .filter(|((_, bytes), due)| **bytes != due.to_le_bytes())
            .map(|((at, bytes), due)| WrongValue {
                at,
                is: PayloadNumber::Float(f32::from_le_bytes(*bytes).into()),
                should: PayloadNumber::Float((*due).into()),
            })
            .collect(),
        PayloadValues::Integers(due) => words
            .zip(due)
            .filter(|((_, bytes), due)| i32::from_be_bytes(**bytes) != **due)
            .map(|((at, bytes), due)| WrongValue {
                at,
                is: PayloadNumber::Integer(i32::from_be_bytes(*bytes)),
                should: PayloadNumber::Integer(*due),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::DuePacket;
    use crate::settle::ReceivedRow;

    /// Returns the kinds of packets that state two updates and hold the one that was sent, after lanes proved them right.
    fn found_of(has_books: bool, forwards: bool) -> (u64, Vec<WrongKind>, usize) {
        let mut all = WrongSearch { has_books, forwards, ..WrongSearch::of(9, HashSet::new()) };
        for at in 0..3u32 {
            let (packet, values) = (PacketId::new(0, at, 0), PayloadValues::Floats(vec![1.0, at as f32]));
            let received = ReceivedRow::of(i64::from(at), packet, 2, values.digest());
            let expected = Some(DuePacket { members: vec![packet], values });
            // The last one came before.
            let (row, verdict, again) = (at as usize, SumOk::Unknown, at == 2);
            let (received, damaged) = (&received, forwards && !again);
            all.seen(PacketSeen { row, received, expected, verdict, strange: false, again, damaged });
        }
        (0..2).for_each(|row| all.by_lanes(&SumFound::RightSingle(row)));
        (all.found, all.pending.iter().map(|pending| pending.packet.kind).collect(), all.right.len())
    }

    #[test]
    fn behind_a_device_that_only_forwards_a_packet_of_several_updates_is_wrong() {
        assert_eq!(found_of(false, true), (2, vec![WrongKind::Count; 2], 0));
        assert_eq!(found_of(false, false), (0, vec![], 2));
    }

    /// A first packet with right gradients under a changed header; a copy that differs, whose expected content is not known.
    #[test]
    fn changed_headers_and_copies_that_differ_are_listed() {
        let mut all = WrongSearch { has_books: false, ..WrongSearch::of(9, HashSet::new()) };
        let (packet, values) = (PacketId::new(0, 7, 0), PayloadValues::Floats(vec![1.0]));
        let received = &ReceivedRow::of(0, packet, 1, values.digest());
        let expected = Some(DuePacket { members: vec![packet], values });
        let seen = |row, expected, verdict, damaged| PacketSeen {
            row,
            received,
            expected,
            verdict,
            strange: false,
            again: row > 0,
            damaged,
        };
        all.seen(seen(0, expected, SumOk::Yes, true));
        all.seen(seen(1, None, SumOk::Unknown, true));
        all.seen(seen(2, None, SumOk::Unknown, false));
        let of = |pending: &WrongPending| (pending.packet.kind, pending.packet.members.clone());
        assert_eq!(all.pending.iter().map(of).collect::<Vec<_>>(), vec![(WrongKind::Damaged, vec![packet]); 2]);
        assert_eq!((all.found, all.wrong, all.unchecked), (2, 0, 0));
    }
}
