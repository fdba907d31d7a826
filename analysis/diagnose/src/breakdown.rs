//! Where the time of an update is spent, from its generation until it, or the sum that contains it, has arrived: shares that add up.

use pktgen_core::record::Family;
use serde::Serialize;

use crate::cause::CausePlace;
use crate::evidence::Evidence;

/// Bytes of preamble, gap and checksum around a frame.
const AROUND: i64 = 24;

/// Time spent in one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TimePart {
    /// Where.
    pub place: CausePlace,
    /// What is counted there.
    pub about: &'static str,
    /// Mean time in ps; `None` if it cannot be separated from the device's, which then includes it.
    pub mean_ps: Option<i64>,
    /// Share of the total, in 10⁻⁶; all shares add up to 10⁶.
    pub share_ppm: Option<u32>,
}

/// Breakdown of the time of updates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Breakdown {
    /// Number of updates in the mean.
    pub updates: u64,
    /// Mean time of all of them, in ps: the sum of the parts.
    pub mean_ps: i64,
    /// The parts, in chronological order.
    pub parts: Vec<TimePart>,
    /// What came is results: an update came when the sum did that it is for.
    #[serde(skip)]
    pub results: bool,
    /// Transmissions that came.
    pub came: u64,
    /// Transmissions whose block has a partial result, which does not say whether it holds them.
    #[serde(skip_serializing_if = "is_none")]
    pub partial: u64,
    /// Transmissions that ended elsewhere, by place.
    pub ended: Vec<(CausePlace, u64)>,
}

fn is_none(n: &u64) -> bool {
    *n == 0
}

/// Adds up what every update took that has come.
pub(crate) fn of(evidence: &Evidence) -> Option<Breakdown> {
    // Most parts of sums by key arrive under the id of one of their members.
    if evidence.manifest.family() == Family::Pairs || !evidence.has_all_rows() {
        return None;
    }
    let sent = &evidence.sent;
    let came_ps = if evidence.is_results() { &evidence.results.recv_ps } else { &evidence.arrived.recv_ps };
    // Waiting of workers before sending, time in hosts and cables, and everything after them.
    let (mut n, mut sums) = (0i128, [0i128; 4]);
    let rate = rate_bps(evidence);
    for row in 0..sent.packet.len() {
        let (Some(left), Some(at)) = (sent.sent_ps[row], evidence.join.came(row)) else { continue };
        let end = came_ps[at];
        if sent.packet[row].attempt() > 0 || end < left {
            continue;
        }
        let wire = rate.map_or(0, |rate| {
            (i128::from(sent.bytes[row]) + i128::from(AROUND)) * 8_000_000_000_000 / i128::from(rate)
        });
        let wire = (wire as i64).min(end - left);
        let parts = [sent.due_ps[row] - sent.gen_ps[row], left - sent.due_ps[row], wire, end - left - wire];
        n += 1;
        parts.iter().zip(&mut sums).for_each(|(part, sum)| *sum += i128::from(*part));
    }
    let total: i128 = sums.iter().sum();
    if n == 0 || total <= 0 {
        return None;
    }
    let mut parts = parts(sums, n, rate.is_some());
    // The remainder of rounding goes to the largest part.
    let lost = 1_000_000 - parts.iter().filter_map(|part| part.share_ppm).sum::<u32>() as i64;
    if let Some(share) = parts.iter_mut().filter_map(|part| part.share_ppm.as_mut()).max() {
        *share = (i64::from(*share) + lost).max(0) as u32;
    }
    let mean_ps = parts.iter().filter_map(|part| part.mean_ps).sum();
    let balance = &evidence.manifest.balance;
    let came = balance.delivered_alone + balance.delivered_merged;
    let in_partial = |row: &usize| evidence.join.came(*row).is_some_and(|at| evidence.results.degraded[at]);
    let results = evidence.is_results();
    let partial = (0..sent.packet.len()).filter(|row| results && in_partial(row)).count() as u64;
    let partial = partial.min(balance.unaccounted);
    Some(Breakdown { updates: n as u64, mean_ps, parts, results, came, partial, ended: ends(evidence, partial) })
}

/// Returns the parts of `n` updates with these sums.
fn parts(sums: [i128; 4], n: i128, wire: bool) -> Vec<TimePart> {
    let total: i128 = sums.iter().sum();
    let places = [
        (CausePlace::Window, "from generation until the window, or the schedule, let it go"),
        (CausePlace::Host, "from then until it left the host"),
        (CausePlace::Wire, "on a cable of the interface's rate"),
        (
            CausePlace::Device,
            "until it had come, or the sum that it is in: the device, other workers, and what has no value here",
        ),
    ];
    let mut parts: Vec<TimePart> = places
        .iter()
        .zip(sums)
        .map(|((place, about), sum)| {
            let told = *place != CausePlace::Wire || wire;
            let value = |v: i128| told.then_some(v);
            TimePart {
                place: *place,
                about,
                mean_ps: value(sum / n).map(|v| v as i64),
                share_ppm: value(sum * 1_000_000 / total).map(|v| v.max(0) as u32),
            }
        })
        .collect();
    parts.push(TimePart {
        place: CausePlace::Server,
        about: "from the socket to the server",
        mean_ps: None,
        share_ppm: None,
    });
    parts
}

/// Returns the rate of the workers' interface if the run recorded it.
fn rate_bps(evidence: &Evidence) -> Option<u64> {
    evidence.manifest.host.get("link.workers")?.strip_suffix(" bit/s")?.parse().ok().filter(|rate| *rate > 0)
}

/// Where transmissions ended that brought nothing to the receiver, by place: with those that came, and those of `partial` results, they add up
/// to all.
pub(crate) fn ends(evidence: &Evidence, partial: u64) -> Vec<(CausePlace, u64)> {
    let balance = &evidence.manifest.balance;
    let before_read =
        evidence.manifest.interfaces.iter().map(|counts| counts.rx_dropped + counts.rx_errors).sum::<u64>();
    let refused = evidence.interfaces("workers").map(|counts| counts.tx_dropped + counts.tx_errors).sum::<u64>();
    let behind = balance.unaccounted - partial
        + balance.in_flight
        + balance.subsumed
        + balance.outranked
        + balance.dropped_total();
    let (server, wire) = (before_read.min(behind), refused.min(behind - before_read.min(behind)));
    vec![
        (CausePlace::Window, balance.withheld),
        (CausePlace::Wire, wire),
        (CausePlace::Device, behind - server - wire),
        (CausePlace::Server, server),
    ]
}
