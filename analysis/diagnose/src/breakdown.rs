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
    /// Share of the total, in 10⁻⁶; all shares add up to 10⁶. There are none if a part is negative.
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

/// Whether the rows of a run show the time of every update. Most parts of sums by key arrive under the id of one of their members.
pub(crate) fn has_rows(evidence: &Evidence) -> bool {
    evidence.manifest.family() != Family::Pairs && evidence.has_all_rows()
}

/// Times of all updates that have come.
pub(crate) struct Times {
    updates: i128,
    /// Waiting of workers before sending, time in hosts and cables, and everything after them: sums over the updates, in ps.
    sums: [i128; 4],
}

impl Times {
    fn total(&self) -> i128 {
        self.sums.iter().sum()
    }

    /// Returns the mean of all parts together, in µs.
    pub(crate) fn mean_us(&self) -> f64 {
        self.total() as f64 / self.updates as f64 / 1e6
    }

    /// Whether these times can be broken down: a server's clock that is behind may make the total negative.
    pub(crate) fn has_breakdown(&self) -> bool {
        self.total() > 0
    }
}

/// Adds up what every update took that has come. Results arrive at the workers, by the same clock; arrivals at a server may have another.
pub(crate) fn times(evidence: &Evidence) -> Option<Times> {
    let one_clock = evidence.is_results() || evidence.manifest.has_one_clock();
    if !has_rows(evidence) || !one_clock || evidence.manifest.is_at_top_speed() {
        return None;
    }
    let sent = &evidence.sent;
    let came_ps = if evidence.is_results() { &evidence.results.recv_ps } else { &evidence.arrived.recv_ps };
    let (mut updates, mut sums) = (0i128, [0i128; 4]);
    let rate = rate_bps(evidence);
    for row in 0..sent.packet.len() {
        let (Some(left), Some(at)) = (sent.sent_ps[row], evidence.join.came(row)) else { continue };
        let end = came_ps[at];
        if sent.packet[row].attempt() > 0 {
            continue;
        }
        let wire = rate.map_or(0, |rate| {
            (i128::from(sent.bytes[row]) + i128::from(AROUND)) * 8_000_000_000_000 / i128::from(rate)
        });
        // An arrival is before its transmission by no more than the bound of the clocks: without such rows the mean would be too long.
        let wire = (wire as i64).min((end - left).max(0));
        let parts = [sent.due_ps[row] - sent.gen_ps[row], left - sent.due_ps[row], wire, end - left - wire];
        updates += 1;
        parts.iter().zip(&mut sums).for_each(|(part, sum)| *sum += i128::from(*part));
    }
    (updates > 0).then_some(Times { updates, sums })
}

/// Returns the breakdown of these times of the updates that have come.
pub(crate) fn of(evidence: &Evidence, times: Option<&Times>) -> Option<Breakdown> {
    let times = times.filter(|times| times.has_breakdown())?;
    let mut parts = parts(times, rate_bps(evidence).is_some());
    // The remainder of rounding goes to the largest part.
    let lost = 1_000_000 - parts.iter().filter_map(|part| part.share_ppm).sum::<u32>();
    if let Some(share) = parts.iter_mut().filter_map(|part| part.share_ppm.as_mut()).max() {
        *share += lost;
    }
    let mean_ps = parts.iter().filter_map(|part| part.mean_ps).sum();
    let balance = &evidence.manifest.balance;
    let came = balance.delivered_alone + balance.delivered_merged;
    let in_partial = |row: &usize| evidence.join.came(*row).is_some_and(|at| evidence.results.degraded[at]);
    let results = evidence.is_results();
    let partial = (0..evidence.sent.packet.len()).filter(|row| results && in_partial(row)).count() as u64;
    let partial = partial.min(balance.unaccounted);
    let updates = times.updates as u64;
    Some(Breakdown { updates, mean_ps, parts, results, came, partial, ended: ends(evidence, partial) })
}

/// Returns the parts of times whose total is above 0.
fn parts(times: &Times, wire: bool) -> Vec<TimePart> {
    let total = times.total();
    // Beside a negative part, others are longer than the total.
    let has_shares = times.sums.iter().all(|sum| *sum >= 0);
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
        .zip(times.sums)
        .map(|((place, about), sum)| {
            let told = *place != CausePlace::Wire || wire;
            let value = |v: i128| told.then_some(v);
            TimePart {
                place: *place,
                about,
                mean_ps: value(sum / times.updates).map(|v| v as i64),
                share_ppm: value(sum * 1_000_000 / total).filter(|_| has_shares).map(|v| v as u32),
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pktgen_core::record::{Note, PacketId};

    use super::*;
    use crate::evidence::{Arrived, Sent, manifest};
    use crate::join::Join;
    use crate::{Diagnosis, caution};

    /// Two updates: one came after 100 ns, the other, by the server's clock, 20 ns before it was sent.
    fn evidence(server: &str, note: Option<Note>) -> Evidence {
        let mut manifest = manifest(&[0]);
        for (column, clock) in [("sent.t_sent_ps", "monotonic"), ("received.t_recv_ps", server)] {
            manifest.clocks.insert(column.to_owned(), clock.to_owned());
        }
        manifest.validity.notes.extend(note);
        let packet: Vec<PacketId> = (0..2).map(|seq| PacketId::new(0, seq, 0)).collect();
        let mut evidence = Evidence::of(Path::new(""), manifest);
        evidence.join = Join::new(&packet, packet.iter().copied().map(Some));
        let (zeros, sent_ps) = (vec![0; 2], vec![Some(0); 2]);
        evidence.sent = Sent { gen_ps: zeros.clone(), due_ps: zeros, sent_ps, packet, bytes: vec![64; 2] };
        evidence.arrived = Arrived { recv_ps: vec![100_000, -20_000], ..Arrived::default() };
        evidence
    }

    /// Returns number and mean of the updates in the breakdown, and the cautions.
    fn told(evidence: &Evidence) -> (Option<(u64, i64)>, String) {
        let times = times(evidence);
        let mean = of(evidence, times.as_ref()).map(|breakdown| (breakdown.updates, breakdown.mean_ps));
        (mean, caution::of(evidence, times.as_ref()).iter().map(|caution| caution.text.clone()).collect::<String>())
    }

    /// The same two updates with a known bound of the clocks, 50 ns in their host each, and arrivals at these times.
    fn within(recv_ps: [i64; 2]) -> Evidence {
        let mut run = evidence("monotonic", Some(Note::ClocksWithin { ns: 1_000 }));
        (run.sent.gen_ps, run.sent.due_ps) = (vec![-50_000; 2], vec![-50_000; 2]);
        run.arrived.recv_ps = recv_ps.to_vec();
        run
    }

    #[test]
    fn a_negative_part_has_a_mean_and_there_are_no_shares() {
        let parts = |recv_ps: [i64; 2]| {
            let run = within(recv_ps);
            let breakdown = of(&run, times(&run).as_ref()).expect("a total above 0");
            let [window, host, wire, device, server] = &breakdown.parts[..] else { panic!("{breakdown:?}") };
            assert_eq!((window.mean_ps, wire.mean_ps, server.mean_ps), (Some(0), None, None));
            let of_two = [host, device].map(|part| (part.mean_ps, part.share_ppm));
            (of_two, Diagnosis { breakdown: Some(breakdown), ..Diagnosis::default() })
        };
        let without_shares = |device: i64| [(Some(50_000), None), (Some(device), None::<u32>)];
        for recv_ps in [[100_000, 20_000], [180_000, -60_000]] {
            let (of_two, _) = parts(recv_ps);
            assert_eq!(of_two, [(Some(50_000), Some(454_545)), (Some(60_000), Some(545_455))], "{recv_ps:?}");
        }
        assert_eq!(parts([0, 0]).0, [(Some(50_000), Some(1_000_000)), (Some(0), Some(0))]);
        // Of a total of 2 ps the host's share would be beyond 32 bits.
        assert_eq!(parts([-99_998, 0]).0, without_shares(-49_999));
        let (of_two, diagnosis) = parts([20_000, -60_000]);
        assert_eq!(of_two, without_shares(-20_000));
        let text = crate::text(&diagnosis);
        let device = format!("-20.0 ns{:12}until it had come", "");
        assert!(text.contains("after 30.0 ns in the mean") && text.contains(&device) && !text.contains('%'), "{text}");
        let json = crate::json(&diagnosis);
        let device = &json["breakdown"]["parts"][3];
        assert!(device["mean_ps"] == -20_000 && device["share_ppm"].is_null(), "{json}");
    }

    #[test]
    fn a_caution_speaks_of_a_breakdown_only_if_there_is_one() {
        let (mean, text) = told(&within([20_000, -60_000]));
        assert!(mean == Some((2, 30_000)) && text.ends_with("as may the device's time in the breakdown"), "{text}");
        for (recv_ps, mean_us) in [([20_000, -160_000], "-0.020 us"), ([-50_000, -50_000], "0.000 us")] {
            let (mean, text) = told(&within(recv_ps));
            let why = format!("there is no breakdown of time, since its mean by these clocks is {mean_us}");
            assert!(mean.is_none() && text.contains("1.000 us apart") && text.ends_with(&why), "{text}");
        }
        // Nothing came.
        let nothing = Evidence { join: Join::default(), ..within([0, 0]) };
        assert_eq!(told(&nothing), (None, String::new()));
    }

    #[test]
    fn times_from_generation_mean_nothing_at_top_speed() {
        assert_eq!(told(&evidence("monotonic", Some(Note::TopSpeed {}))), (None, String::new()));
    }

    #[test]
    fn times_of_two_clocks_have_a_bound_or_no_breakdown() {
        assert_eq!(told(&evidence("monotonic", None)), (Some((2, 40_000)), String::new()));
        let (mean, text) = told(&evidence("monotonic", Some(Note::ClocksWithin { ns: 1_000 })));
        assert!(mean == Some((2, 40_000)) && text.contains("1.000 us") && text.contains("breakdown"), "{text}");
        let unknown = Some(Note::ClocksUnknown { why: "rank 1".to_owned() });
        let (mean, text) = told(&evidence("another host, not synchronised", unknown));
        assert!(mean.is_none() && text.contains("no breakdown") && text.contains("rank 1"), "{text}");
    }
}
