//! Losses of a device that should forward every frame: finds the rule that explains them, by worker, length, time and load.

use std::collections::{BTreeMap, HashMap, HashSet};

use pktgen_core::record::InterfaceCounts;

use crate::cause::{
    DEVICE_DROPS, DEVICE_ENDED, DEVICE_LATE_START, DEVICE_STOPPED, DROPPED_AT_RANDOM, DROPPED_BY_COUNT,
    DROPPED_IN_BURSTS, NO_CARRIER, RATE_LIMITED, REORDERED, TOO_LONG, WORKER_UNKNOWN,
};
use crate::evidence::{Evidence, named};
use crate::finding::{CauseFound, Certainty, EvidenceItem};
use crate::frame::Quick;
use crate::hosts::is_counted;
use crate::links::LostOnLinks;

/// Minimum number of frames for a statement about one worker or about an end of a run.
const FEW: usize = 20;
/// Logarithm of the probability below which something is not considered chance.
const NO_ACCIDENT: f64 = -16.0;
/// Minimum number of losses whose pattern can be determined.
const PATTERN_MIN: usize = 12;
/// Minimum number of windows of frames.
const WINDOWS: usize = 8;
/// Desired number of losses per window of frames.
const PER_WINDOW: f64 = 8.0;
/// Standard deviations beyond which losses are not independent.
const FAR: f64 = 4.5;
/// Standard deviations within which they are independent.
const NEAR: f64 = 3.0;
/// Lateness of a frame that shows a pause of a host or the device.
const STOOD_STILL_PS: i64 = 5_000_000_000;
/// Maximum number of frames that are compared with a bucket.
const BUCKET_MAX: usize = 100_000;
/// Agreement of a bucket with losses above which it explains them.
const AGREES: f64 = 0.3;

/// Share of losses at one distance from the loss before that shows losses by count.
const BY_COUNT: f64 = 0.9;
/// Minimum distance of such losses: a limit without a burst passes every other frame, too.
const COUNT_MIN: usize = 3;
/// Range of the middle eight tenths of the times between frames, as a share of their median, up to which a limit of rate may lose every n-th
/// frame.
const REGULAR: f64 = 0.4;

/// A frame that was sent.
#[derive(Clone, Copy)]
struct Row {
    t_ps: i64,
    worker: u32,
    seq: u32,
    bytes: u32,
    came: bool,
}

/// Finds causes of the losses. `altered` frames arrived without a name that can be read, so they are among those that are
/// missing; `on_links` were lost on links, as shown by counters of their ends.
pub(crate) fn look(evidence: &Evidence, altered: u64, on_links: LostOnLinks, found: &mut Vec<CauseFound>) {
    let mut rows = rows(evidence);
    let lost = rows.iter().filter(|row| !row.came).count();
    if rows.len() == lost || lost as u64 <= altered {
        return;
    }
    by_worker(&mut rows, found);
    by_length(&mut rows, found);
    let lost = rows.iter().filter(|row| !row.came).count();
    if is_counted(found, lost as u64, on_links) {
        return;
    }
    by_time(&evidence.arrived.recv_ps, &mut rows, 0, on_links, found);
    taken_elsewhere(evidence, found);
    // The remaining losses include the altered frames.
    let lost = rows.iter().filter(|row| !row.came).count();
    if lost as u64 > altered {
        found.extend(by_pattern(&rows, lost, altered, evidence));
    }
}

/// Finds out whether a merging device started late or stopped: arrivals are the newest members of packets.
pub(crate) fn ends(evidence: &Evidence, on_links: LostOnLinks, found: &mut Vec<CauseFound>) {
    // Frames that the device received and does not account for, by its own counters.
    let leaks = found.iter().find(|found| found.cause == &DEVICE_DROPS).map_or(0, |found| found.explains as usize);
    by_time(&evidence.arrived.recv_ps, &mut rows(evidence), leaks, on_links, found);
    taken_elsewhere(evidence, found);
}

/// Frames that reached the interface but not the run were taken by something else on this host: then it is unknown
/// whether the device stopped.
fn taken_elsewhere(evidence: &Evidence, found: &mut [CauseFound]) {
    let Some(stopped) = found.iter_mut().find(|found| found.cause == &DEVICE_STOPPED) else { return };
    let total = |count: fn(&InterfaceCounts) -> u64| evidence.interfaces("server").map(count).sum::<u64>();
    let (rx_packets, received) = (total(|counts| counts.rx_packets), total(|counts| counts.received));
    if rx_packets.saturating_sub(received + evidence.manifest.counters.foreign) <= stopped.explains / 4 {
        return;
    }
    let says = format!(
        "{rx_packets} packets came, and the run had {received}: something else on this host took them (an XDP program, another capture, a filter)"
    );
    stopped.certainty = Certainty::Possible;
    stopped.proofs.push(EvidenceItem::new(named(evidence.interfaces("server")), says));
}

fn rows(evidence: &Evidence) -> Vec<Row> {
    let sent = &evidence.sent;
    let mut rows: Vec<Row> = (0..sent.packet.len())
        .filter_map(|i| {
            let (t_ps, packet) = (sent.sent_ps[i]?, sent.packet[i]);
            let (worker, seq) = (packet.worker(), packet.seq());
            Some(Row { t_ps, worker, seq, bytes: sent.bytes[i], came: evidence.join.came(i).is_some() })
        })
        .collect();
    rows.sort_by_key(|row| row.t_ps);
    rows
}

/// Finds workers none of whose frames arrived.
fn by_worker(rows: &mut Vec<Row>, found: &mut Vec<CauseFound>) {
    let mut of: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for row in rows.iter() {
        let (sent, came) = of.entry(row.worker).or_default();
        *sent += 1;
        *came += usize::from(row.came);
    }
    let others = of.values().filter(|(_, came)| *came > 0).fold((0, 0), |all, of| (all.0 + of.0, all.1 + of.1));
    let loss = 1.0 - others.1 as f64 / others.0.max(1) as f64;
    let alone = |sent: usize| sent >= FEW && sent as f64 * loss.max(1e-3).ln() < NO_ACCIDENT;
    let silent: Vec<_> = of.iter().filter(|(_, (sent, came))| *came == 0 && alone(*sent)).collect();
    if silent.is_empty() {
        return;
    }
    let frames: usize = silent.iter().map(|(_, (sent, _))| sent).sum();
    let names: Vec<_> = silent.iter().map(|(worker, _)| worker.to_string()).collect();
    let first = rows.iter().find(|row| silent.iter().any(|(worker, _)| **worker == row.worker));
    let mut proofs = vec![EvidenceItem::new(
        "sent.parquet, received.parquet",
        format!(
            "none of {frames} frames of worker {} came; of the others {} of {} did",
            names.join(", "),
            others.1,
            others.0
        ),
    )];
    proofs.extend(first.map(|row| {
        EvidenceItem::new(
            "device table",
            format!(
                "look for the entry of worker {}: its number {} was the first that is missing",
                row.worker, row.seq
            ),
        )
    }));
    let gone: HashSet<u32> = silent.iter().map(|(worker, _)| **worker).collect();
    let of_gone = rows.iter().filter(|row| gone.contains(&row.worker)).map(|row| row.bytes).min();
    let longest = rows.iter().filter(|row| row.came).map(|row| row.bytes).max();
    if of_gone > longest {
        // Length distinguishes these workers equally well: one limit is more likely than several missing table entries.
        let says = format!(
            "none of {frames} frames of {} B and more came, and all of them are of these workers; the longest that came has {} B",
            of_gone.unwrap_or_default(),
            longest.unwrap_or_default()
        );
        let certainty = if gone.len() > 1 { Certainty::Likely } else { Certainty::Possible };
        let proof = EvidenceItem::new("sent.parquet, received.parquet", says);
        found.push(CauseFound::new(&TOO_LONG, certainty, frames as u64, vec![proof]));
        found.push(CauseFound::new(&WORKER_UNKNOWN, Certainty::Possible, frames as u64, proofs));
    } else {
        found.push(CauseFound::new(&WORKER_UNKNOWN, Certainty::Certain, frames as u64, proofs));
    }
    rows.retain(|row| !gone.contains(&row.worker));
}

/// Finds the length above which no frame arrived.
fn by_length(rows: &mut Vec<Row>, found: &mut Vec<CauseFound>) {
    let Some(longest) = rows.iter().filter(|row| row.came).map(|row| row.bytes).max() else { return };
    let longer: Vec<u32> = rows.iter().filter(|row| row.bytes > longest).map(|row| row.bytes).collect();
    let within = rows.len() - longer.len();
    let came = rows.iter().filter(|row| row.came).count();
    let loss = 1.0 - came as f64 / within.max(1) as f64;
    if longer.len() < 8 || longer.len() as f64 * loss.max(1e-3).ln() > NO_ACCIDENT {
        return;
    }
    let shortest = longer.iter().min().copied().unwrap_or_default();
    let says = format!(
        "none of {} frames of {shortest} B and more came; {came} of {within} of up to {longest} B did",
        longer.len()
    );
    let proof = EvidenceItem::new("sent.parquet, received.parquet", says);
    found.push(CauseFound::new(&TOO_LONG, Certainty::Certain, longer.len() as u64, vec![proof]));
    rows.retain(|row| row.bytes <= longest);
}

/// Examines runs of losses at the beginning and at the end: far longer than others, or exactly what the device `leaks`.
/// If the missing packets may have been lost on links, the device may have continued. Sums arrive without listing all
/// their members: a device from which anything arrives has neither stopped nor started late.
fn by_time(arrived_ps: &[i64], rows: &mut Vec<Row>, leaks: usize, on_links: LostOnLinks, found: &mut Vec<CauseFound>) {
    let (Some(first), Some(last)) = (rows.iter().position(|row| row.came), rows.iter().rposition(|row| row.came))
    else {
        return;
    };
    let (head, tail) = (first, rows.len() - 1 - last);
    let middle = &rows[first..=last];
    let lost = middle.iter().filter(|row| !row.came).count();
    let loss = (lost as f64 / middle.len() as f64).max(1e-3);
    let longest = middle.split(|row| row.came).map(<[Row]>::len).max().unwrap_or(0);
    let leaked = |run: usize| leaks >= FEW && run.abs_diff(leaks) * 50 <= leaks;
    let odd = |run: usize| run >= FEW && run as f64 * loss.ln() < NO_ACCIDENT && (run > 3 * longest || leaked(run));
    let silent = |from: usize, to: usize, of: fn(i64, i64) -> bool| {
        let half = rows[from].t_ps + (rows[to].t_ps - rows[from].t_ps) / 2;
        !arrived_ps.iter().any(|t| of(*t, half))
    };
    let late = odd(head) && silent(0, first, |t, half| t < half);
    // A queue may be emptied after the device stopped receiving frames.
    let stopped = odd(tail) && silent(last + 1, rows.len() - 1, |t, half| t > half);
    let at = |row: &Row| row.t_ps as f64 / 1e12;
    let certainty = |run: usize| match on_links.may_explain((run as f64 * (1.0 - loss)).ceil() as u64) {
        true => Certainty::Possible,
        false => Certainty::Certain,
    };
    if late {
        let says = format!(
            "the first {head} frames are missing, up to {:.6} s; then {lost} of {} are",
            at(&rows[first]),
            middle.len()
        );
        found.push(CauseFound::new(
            &DEVICE_LATE_START,
            certainty(head),
            head as u64,
            vec![EvidenceItem::new("sent.parquet", says)],
        ));
    }
    // A cable or device that is known to have disappeared explains the end.
    let gone = |found: &CauseFound| {
        [&NO_CARRIER, &DEVICE_ENDED].contains(&found.cause) && found.certainty == Certainty::Certain
    };
    if stopped && !found.iter().any(gone) {
        let says = format!(
            "all {tail} frames after {:.6} s are missing; before, {lost} of {} are",
            at(&rows[last]),
            middle.len()
        );
        let proof = EvidenceItem::new("sent.parquet", says);
        found.push(CauseFound::new(&DEVICE_STOPPED, certainty(tail), tail as u64, vec![proof]));
    }
    let keep = if late { first } else { 0 }..if stopped { last + 1 } else { rows.len() };
    *rows = rows[keep].to_vec();
}

/// Returns how even losses are, in standard deviations of independent ones: negative values are more even, positive
/// ones less. `None` if there are too few.
fn evenness(lost: &[bool]) -> Option<(f64, f64)> {
    if lost.len() < 2 * WINDOWS {
        return None;
    }
    let n = lost.len() as f64;
    let p = lost.iter().filter(|lost| **lost).count() as f64 / n;
    let variance = p * (1.0 - p);
    let size = ((PER_WINDOW / variance) as usize).clamp(2, lost.len() / WINDOWS);
    let windows = lost.chunks_exact(size);
    let freedom = windows.len() as f64 - 1.0;
    if freedom < 5.0 || size as f64 * variance < 1.0 {
        return None;
    }
    let mean = size as f64 * p;
    let squares: f64 = windows.map(|w| (w.iter().filter(|lost| **lost).count() as f64 - mean).powi(2)).sum();
    let index = squares / (size as f64 * variance) / freedom;
    // Wilson and Hilferty: the cube root of a chi-square is approximately normal.
    let spread = 2.0 / (9.0 * freedom);
    Some((index, (index.cbrt() - (1.0 - spread)) / spread.sqrt()))
}

/// Returns how well a token bucket that fills at the observed rate predicts which frames are lost: 0 means chance, 1
/// always. The best of several sizes and rates.
fn bucket(rows: &[Row]) -> f64 {
    let rows = &rows[..rows.len().min(BUCKET_MAX)];
    let (n, passed) = (rows.len() as f64, rows.iter().filter(|row| row.came).count() as f64);
    let span = (rows[rows.len() - 1].t_ps - rows[0].t_ps) as f64;
    let mut best = 0.0f64;
    for (size, factor) in (0..10).flat_map(|log| [0.96, 1.0, 1.04].map(|factor| (f64::from(1 << log), factor))) {
        let rate = passed / span.max(1.0) * factor;
        let (mut tokens, mut before, mut right, mut passes) = (0.0f64, rows[0].t_ps, 0.0, 0.0);
        for row in rows {
            tokens = (tokens + (row.t_ps - before) as f64 * rate).min(size);
            before = row.t_ps;
            let takes = tokens >= 1.0;
            if takes {
                tokens -= 1.0;
                passes += 1.0;
            }
            right += f64::from(u8::from(takes == row.came));
        }
        // Cohen's kappa: agreement beyond chance.
        let chance = (passed * passes + (n - passed) * (n - passes)) / (n * n);
        if chance < 1.0 {
            best = best.max((right / n - chance) / (1.0 - chance));
        }
    }
    best
}

/// Returns the number of frames from one loss to the next if it is the same almost everywhere, and at least 2.
fn every_nth(lost: &[bool]) -> Option<usize> {
    let at: Vec<usize> = lost.iter().enumerate().filter(|(_, lost)| **lost).map(|(at, _)| at).collect();
    let mut of: BTreeMap<usize, usize> = BTreeMap::new();
    at.windows(2).for_each(|pair| *of.entry(pair[1] - pair[0]).or_default() += 1);
    let (distance, count) = of.into_iter().max_by_key(|(_, count)| *count)?;
    let is_most = count as f64 >= BY_COUNT * (at.len() - 1) as f64;
    (distance >= 2 && is_most).then_some(distance)
}

/// Whether frames are sent at about equal distances of time, apart from pauses.
fn is_regular(rows: &[Row]) -> bool {
    let mut gaps: Vec<i64> = rows.windows(2).map(|pair| pair[1].t_ps - pair[0].t_ps).collect();
    gaps.sort_unstable();
    let at = |tenths: usize| gaps.get(gaps.len() * tenths / 10).copied().unwrap_or_default() as f64;
    at(9) - at(1) <= REGULAR * at(5)
}

/// Returns the maximum number of consecutive losses.
fn longest(lost: &[bool]) -> usize {
    lost.split(|lost| !lost).map(<[bool]>::len).max().unwrap_or(0)
}

/// Returns the number of runs of lost and of other frames, compared with independent losses, in standard deviations
/// (Wald and Wolfowitz): negative values mean fewer runs, so losses are clustered.
fn stretches(lost: &[bool]) -> f64 {
    let (n, gone) = (lost.len() as f64, lost.iter().filter(|lost| **lost).count() as f64);
    let found = 1.0 + lost.windows(2).filter(|pair| pair[0] != pair[1]).count() as f64;
    let expected = 2.0 * gone * (n - gone) / n + 1.0;
    let variance = (expected - 1.0) * (expected - 2.0) / (n - 1.0);
    if variance > 0.0 { (found - expected) / variance.sqrt() } else { 0.0 }
}

/// Whether more losses are consecutive than expected of independent losses among `frames` frames.
fn in_a_row(lost: &[bool], frames: usize) -> bool {
    let share = lost.iter().filter(|lost| **lost).count() as f64 / frames as f64;
    longest(lost) as f64 * share.ln() + (frames as f64).ln() < NO_ACCIDENT || stretches(lost) < -FAR
}

/// Whether frames left so late, or took so long, that a host or the device must have paused.
fn stood_still(evidence: &Evidence) -> bool {
    let sent = &evidence.sent;
    let late = sent.sent_ps.iter().zip(&sent.due_ps).filter_map(|(sent, due)| Some((*sent)? - due)).max();
    let arrived = evidence.arrived.recv_ps.iter().enumerate();
    let under_way = arrived.filter_map(|(at, t)| Some(t - sent.sent_ps[evidence.join.sent(at)?]?)).max();
    late.max(under_way).is_some_and(|late| late > STOOD_STILL_PS)
}

/// Classifies the remaining losses: by count, rate limit, bursts, or independent.
fn by_pattern(rows: &[Row], lost: usize, altered: u64, evidence: &Evidence) -> Option<CauseFound> {
    let gone = lost as u64 - altered;
    let mut proofs = vec![EvidenceItem::new(
        "sent.parquet, received.parquet",
        format!("{lost} of {} frames are missing", rows.len()),
    )];
    proofs.extend(
        evidence
            .device(&["dropped", "full", "overrun"])
            .map(|(name, value)| EvidenceItem::new(format!("device counter {name}"), value.to_string())),
    );
    if lost < PATTERN_MIN {
        return Some(CauseFound::new(&DROPPED_AT_RANDOM, Certainty::Possible, gone, proofs));
    }
    // A queue or a bucket accepts everything until it is full.
    let first = rows.iter().position(|row| !row.came)?;
    let last = rows.iter().rposition(|row| !row.came)?;
    let lossy = &rows[first..=last];
    let flags: Vec<bool> = lossy.iter().map(|row| !row.came).collect();
    let (bucket, evenness) = (bucket(lossy), evenness(&flags));
    let even = evenness.map_or(0.0, |(_, deviations)| deviations);
    proofs.push(EvidenceItem::new(
        "pattern of losses",
        format!(
            "{}; a limit of rate says which frames are lost with an agreement of {bucket:.2}",
            evenness.map_or("too few to tell whether they are even".into(), |(index, deviations)| format!(
                "spread {index:.2} times that of independent ones ({deviations:+.1} standard deviations)"
            ))
        ),
    ));
    let dense = flags.iter().filter(|lost| **lost).count() as f64 / flags.len() as f64;
    let accident = FAR / (lost as f64).sqrt();
    let explains = bucket > AGREES.max(accident);
    let every = every_nth(&flags);
    if let Some(n) = every {
        let says = format!("the distance from one loss to the next is {n} frames for nine of ten or more");
        proofs.push(EvidenceItem::new("sent.parquet", says));
    }
    let by_count = every.is_some_and(|n| n >= COUNT_MIN) && !explains && !is_regular(lossy);
    let (cause, certainty) = if by_count {
        (&DROPPED_BY_COUNT, Certainty::Likely)
    } else if even < -FAR || explains {
        let seconds = (lossy[lossy.len() - 1].t_ps - lossy[0].t_ps) as f64 / 1e12;
        let rate = lossy.iter().filter(|row| row.came).count() as f64 / seconds.max(1e-9);
        proofs.push(EvidenceItem::new("received.parquet", format!("{rate:.0} frames/s passed while frames were lost")));
        // Of evenly spaced frames, a limit loses every n-th, and so does a device that counts.
        (&RATE_LIMITED, if every.is_some() { Certainty::Possible } else { Certainty::Likely })
    } else if even > FAR || in_a_row(&flags, rows.len()) {
        let longest = longest(&flags);
        proofs.push(EvidenceItem::new("sent.parquet", format!("up to {longest} missing in a row")));
        // A host that paused sends in bursts itself, which makes a rate limit look like this; so does a bucket that
        // agrees more than by chance.
        let limit = stood_still(evidence) || bucket > accident;
        (&DROPPED_IN_BURSTS, if limit { Certainty::Possible } else { Certainty::Likely })
    } else if evenness.is_some() && even.abs() < NEAR {
        proofs.push(EvidenceItem::new("sent.parquet", format!("{:.2} % missing, at any time and load", dense * 100.0)));
        (&DROPPED_AT_RANDOM, Certainty::Likely)
    } else {
        // Bursts are usually far from independent losses: smaller deviations are more likely chance. A rate limit may be close.
        (if even < -NEAR { &RATE_LIMITED } else { &DROPPED_AT_RANDOM }, Certainty::Possible)
    };
    Some(CauseFound::new(cause, certainty, gone, proofs))
}

/// Finds frames that arrived after others that were sent later. `unlike` frames changed on the way, and possibly their
/// ids. Frames of different workers have no defined order if they arrive together or if a host or the device paused: a
/// device may process a batch from its port worker by worker. Those of several senders reach the device by different
/// ways, and their times may be of different clocks: only a worker's own frames have an order there.
pub(crate) fn order(evidence: &Evidence, unlike: u64) -> Option<CauseFound> {
    let (sent, came_ps) = (&evidence.sent, &evidence.arrived.recv_ps);
    let (together, one_sender) = (spacing(evidence), evidence.senders() == 1);
    // Arrivals sent later than all before them: their send time, arrival time and index.
    let mut latest: Vec<(i64, i64, usize)> = Vec::new();
    let mut of_worker: HashMap<u32, i64, Quick> = HashMap::default();
    let (mut first, mut behind) = (None, 0);
    for (at, came) in came_ps.iter().enumerate() {
        let Some(row) = evidence.join.first(at) else { continue };
        let Some(t) = sent.sent_ps[row] else { continue };
        let own = of_worker.entry(sent.packet[row].worker()).or_insert(t);
        let overtaken = t < *own;
        *own = t.max(*own);
        match latest.last() {
            Some((last, ..)) if t < *last => {
                let (_, earlier, of) = latest[latest.partition_point(|(sent, ..)| *sent <= t)];
                if overtaken || one_sender && came - earlier > together && came - t < STOOD_STILL_PS {
                    behind += 1;
                    first.get_or_insert((at, row, of));
                }
            }
            _ => latest.push((t, *came, row)),
        }
    }
    let (at, row, after) = first.filter(|_| behind >= 3)?;
    let (packet, after) = (sent.packet[row], sent.packet[after]);
    let says = format!(
        "number {} of worker {} came after number {} of worker {}, which was sent later",
        packet.seq(),
        packet.worker(),
        after.seq(),
        after.worker()
    );
    let proof = EvidenceItem::packet("received.parquet, by rows", at as u64 + 1, says);
    // Several queues have no defined order.
    let sure = unlike == 0 && evidence.manifest.queues.is_empty();
    let certainty = if sure { Certainty::Likely } else { Certainty::Possible };
    Some(CauseFound::new(&REORDERED, certainty, behind, vec![proof]))
}

/// Returns the mean time between two sent frames.
fn spacing(evidence: &Evidence) -> i64 {
    let left = || evidence.sent.sent_ps.iter().flatten();
    let (first, last) = (left().min(), left().max());
    let n = left().count().max(2) as i64 - 1;
    first.zip(last).map_or(0, |(first, last)| (last - first) / n)
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::PacketId;

    use super::*;
    use crate::join::Join;

    /// Returns a reproducible sequence of pseudo-random numbers.
    fn numbers(mut state: u64) -> impl FnMut() -> f64 {
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    fn sent(n: usize, mut passes: impl FnMut(usize, i64) -> bool) -> Vec<Row> {
        let mut next = numbers(7);
        let mut t = 0;
        (0..n)
            .map(|i| {
                t += (200.0 * (0.7 + 0.6 * next())) as i64 * 1_000_000;
                Row { t_ps: t, worker: i as u32 % 9, seq: i as u32 / 9, bytes: 256, came: passes(i, t) }
            })
            .collect()
    }

    /// Returns evenness, agreement with a bucket, and whether more losses are consecutive than by chance.
    fn pattern(rows: &[Row]) -> (f64, f64, bool) {
        let first = rows.iter().position(|row| !row.came).unwrap();
        let flags: Vec<_> = rows[first..].iter().map(|row| !row.came).collect();
        (evenness(&flags).unwrap().1, bucket(&rows[first..]), in_a_row(&flags, rows.len()))
    }

    #[test]
    fn independent_losses_are_neither_even_nor_in_bursts() {
        for (seed, share) in [(1, 0.02), (2, 0.1), (3, 0.5), (4, 0.9)] {
            let mut next = numbers(seed);
            let (even, bucket, row) = pattern(&sent(2000, |_, _| next() >= share));
            assert!(even.abs() < NEAR && bucket < AGREES && !row, "{share}: {even} {bucket}");
        }
    }

    #[test]
    fn of_few_losses_nothing_is_said() {
        for count in PATTERN_MIN..40 {
            assert_eq!(evenness(&vec![true; count]), None);
        }
    }

    #[test]
    fn a_bucket_is_even_or_explains_what_is_lost() {
        for share in [0.9, 0.7, 0.4] {
            let (mut tokens, mut before) = (4.0, 0);
            let (even, bucket, row) = pattern(&sent(2000, |_, t| {
                tokens = f64::min(4.0, tokens + (t - before) as f64 / 200e6 * share);
                before = t;
                let passes = tokens >= 1.0;
                tokens -= f64::from(u8::from(passes));
                passes
            }));
            // A limit that drops little is at least not mistaken for something else.
            assert!((even < -NEAR || bucket > AGREES) && !row, "{share}: {even} {bucket}");
        }
    }

    /// Returns the code and certainty of the pattern of losses.
    fn cause_of(rows: &[Row]) -> (&'static str, Certainty) {
        let evidence = Evidence::of(std::path::Path::new(""), crate::evidence::manifest(&[0, 0]));
        let lost = rows.iter().filter(|row| !row.came).count();
        let found = by_pattern(rows, lost, 0, &evidence).unwrap();
        (found.cause.code, found.certainty)
    }

    #[test]
    fn every_nth_frame_is_lost_by_count_and_not_by_a_limit_of_rate() {
        for n in [3, 7, 20] {
            assert_eq!(cause_of(&sent(1200, |i, _| i % n != 0)), ("dropped_by_count", Certainty::Likely), "{n}");
        }
        // A limit without a burst loses every other frame, too.
        assert_eq!(cause_of(&sent(1200, |i, _| i % 2 != 0)), ("rate_limited", Certainty::Possible));
        let mut even = sent(1200, |i, _| i % 7 != 0);
        even.iter_mut().enumerate().for_each(|(i, row)| row.t_ps = i as i64 * 200_000_000);
        assert_eq!(cause_of(&even), ("rate_limited", Certainty::Possible));
        let (mut tokens, mut before) = (4.0, 0);
        let limited = sent(1200, |_, t| {
            tokens = f64::min(4.0, tokens + (t - before) as f64 / 200e6 * 0.7);
            before = t;
            let passes = tokens >= 1.0;
            tokens -= f64::from(u8::from(passes));
            passes
        });
        assert_eq!(cause_of(&limited), ("rate_limited", Certainty::Likely));
    }

    #[test]
    fn a_limit_of_evenly_spaced_frames_of_a_host_that_paused_is_no_count() {
        let (mut tokens, mut before) = (4.0, 0);
        let mut paused = sent(1000, |_, _| true);
        for (i, row) in paused.iter_mut().enumerate() {
            row.t_ps = (i as i64 + if i < 500 { 0 } else { 100 }) * 1_000_000_000;
            tokens = f64::min(4.0, tokens + (row.t_ps - before) as f64 / 1e9 * 0.9);
            before = row.t_ps;
            row.came = tokens >= 1.0;
            tokens -= f64::from(u8::from(row.came));
        }
        assert_eq!(cause_of(&paused), ("rate_limited", Certainty::Possible));
    }

    #[test]
    fn a_device_that_merges_begins_late_or_stops_where_no_packet_has_a_newest_member() {
        // One in three merged updates is the newest of its packet.
        let found = |passes: fn(usize) -> bool| {
            let (mut rows, mut found) = (sent(1350, |i, _| i % 3 == 0 && passes(i)), Vec::new());
            by_time(&[], &mut rows, 0, LostOnLinks::NONE, &mut found);
            found.iter().map(|found| (found.cause.code, found.explains)).collect::<Vec<_>>()
        };
        assert_eq!(found(|_| true), []);
        assert_eq!(found(|i| i < 700), [("device_stopped", 650)]);
        assert_eq!(found(|i| i >= 500), [("device_late_start", 501)]);
    }

    /// Sums do not list all their members: while any arrive, nothing has stopped or started late.
    #[test]
    fn a_device_from_which_sums_arrive_has_not_stopped() {
        for named in [0, 700, 1349] {
            let mut rows = sent(1350, |i, _| i == named || i == named + 1);
            let arrived: Vec<_> = rows.iter().map(|row| row.t_ps).collect();
            let mut found = Vec::new();
            by_time(&arrived, &mut rows, 0, LostOnLinks::NONE, &mut found);
            assert!(found.is_empty() && rows.len() == 1350, "{named}");
        }
    }

    /// Returns the cause of the order in which 100 frames of two workers arrive, sent in turn by so many processes, 200 µs apart. `late_us`
    /// is the lateness of a frame, by worker and number.
    fn order_of(senders: usize, late_us: impl Fn(u32, u32) -> i64) -> Option<(&'static str, Certainty)> {
        let mut evidence = Evidence::of(std::path::Path::new(""), crate::evidence::manifest(&[0, 0]));
        for rank in 0..senders {
            evidence.manifest.host.insert(format!("rank-{rank}.rank.role"), format!("workers {}/{senders}", rank + 1));
        }
        evidence.manifest.host.insert(format!("rank-{senders}.rank.role"), "server".to_owned());
        let mut arrivals = Vec::new();
        for at in 0..100u32 {
            let (worker, seq, t_us) = (at % 2, at / 2, i64::from(at) * 200);
            let packet = PacketId::new(worker, seq, 0);
            evidence.sent.packet.push(packet);
            evidence.sent.sent_ps.push(Some(t_us * 1_000_000));
            arrivals.push(((t_us + 50 + late_us(worker, seq)) * 1_000_000, packet));
        }
        arrivals.sort_by_key(|(t, _)| *t);
        evidence.arrived.recv_ps = arrivals.iter().map(|(t, _)| *t).collect();
        evidence.join = Join::new(&evidence.sent.packet, arrivals.iter().map(|(_, packet)| Some(*packet)));
        order(&evidence, 0).map(|found| (found.cause.code, found.certainty))
    }

    #[test]
    fn frames_of_several_senders_have_an_order_within_a_worker_only() {
        let way_of_one = |worker: u32, _| if worker == 1 { 1000 } else { 0 };
        assert_eq!(order_of(1, way_of_one), Some(("reordered", Certainty::Likely)));
        assert_eq!(order_of(2, way_of_one), None);
        let overtaken = |worker: u32, seq: u32| if worker == 0 && seq % 10 == 3 { 900 } else { 0 };
        assert_eq!([1, 2].map(|senders| order_of(senders, overtaken)), [Some(("reordered", Certainty::Likely)); 2]);
    }

    #[test]
    fn pauses_are_bursts() {
        for pause in [8, 20, 50] {
            let (even, bucket, row) = pattern(&sent(4000, |i, _| i % (10 * pause) >= pause));
            // Short bursts at equal distances look even over windows longer than their distance.
            assert!(row && even > -NEAR && bucket < AGREES, "{pause}: {even} {bucket}");
        }
    }
}
