//! Updates that were in the queue of a device at once, by the times of their packets.
//!
//! An update that comes while one of its cluster waits is merged with it, or one replaces the other (OLAF §3): two that left in packets of their
//! own although they were in the queue at once show a fault. Updates that never meet show none: with equal constant gaps, two workers may miss
//! each other for ever.

use std::collections::{HashMap, HashSet};

use pktgen_core::record::NO_CLUSTER;

use crate::evidence::Evidence;

/// One in so many packets of a worker does not wait. Hosts are late at times: the fastest packet alone would show waits where there are none.
const FASTEST: usize = 10;

/// A packet by its newest update.
struct Packet {
    worker: u32,
    /// Whether it holds no other update.
    alone: bool,
    sent_ps: i64,
    came_ps: i64,
}

/// Returns for each worker the number of its packets of one update that met a packet of another worker of its cluster: one was sent before
/// the other left the queue. There are none of workers that `moved`, between clocks that are apart, and on links that reorder frames.
pub(crate) fn meetings(evidence: &Evidence, moved: &HashSet<u32>) -> HashMap<u32, u64> {
    let mut of_worker: HashMap<u32, u64> = HashMap::new();
    if !evidence.manifest.has_one_clock() || evidence.is_asked("fault_reorder") {
        return of_worker;
    }
    let mut packets = packets(evidence);
    packets.retain(|packet| !moved.contains(&packet.worker) && evidence.cluster(packet.worker) != NO_CLUSTER);
    packets.sort_by_key(|packet| packet.sent_ps);
    let ways = ways(&packets);
    let mut met = vec![false; packets.len()];
    let mut last: HashMap<u16, usize> = HashMap::new();
    for (at, packet) in packets.iter().enumerate() {
        let Some(before) = last.insert(evidence.cluster(packet.worker), at) else { continue };
        let mate = &packets[before];
        let way = ways[&packet.worker].max(ways[&mate.worker]);
        if mate.worker != packet.worker && mate.came_ps.saturating_sub(packet.sent_ps) > way {
            (met[before], met[at]) = (true, true);
        }
    }
    for (packet, _) in packets.iter().zip(met).filter(|(packet, met)| packet.alone && *met) {
        *of_worker.entry(packet.worker).or_default() += 1;
    }
    of_worker
}

/// Returns the first arrivals of packets whose newest update is known.
fn packets(evidence: &Evidence) -> Vec<Packet> {
    let (sent, arrived) = (&evidence.sent, &evidence.arrived);
    // Where contents identify packets, those of several updates are unknown.
    let by_content = evidence.text("transport", "on_wire") == "strict";
    let of = |at: usize| {
        let row = evidence.join.first(at)?;
        let (sent_ps, came_ps) = ((*sent.sent_ps.get(row)?)?, *arrived.recv_ps.get(at)?);
        let alone = by_content || *arrived.count.get(at)? <= 1;
        Some(Packet { worker: sent.packet[row].worker(), alone, sent_ps, came_ps })
    };
    (0..arrived.packet.len()).filter_map(of).collect()
}

/// Returns by worker the time from worker to server of a packet that does not wait.
fn ways(packets: &[Packet]) -> HashMap<u32, i64> {
    let mut all: HashMap<u32, Vec<i64>> = HashMap::new();
    for packet in packets {
        all.entry(packet.worker).or_default().push(packet.came_ps.saturating_sub(packet.sent_ps));
    }
    let fastest = |mut ways: Vec<i64>| {
        let at = (ways.len() - 1) / FASTEST;
        *ways.select_nth_unstable(at).1
    };
    all.into_iter().map(|(worker, ways)| (worker, fastest(ways))).collect()
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::PacketId;

    use super::*;
    use crate::evidence::manifest;
    use crate::join::Join;

    /// Returns the meetings of workers 0 and 1, whose clusters are these: 1 sends `behind` after 0, every 1000 ps. One in eight packets takes
    /// 5 ps, and the others 50.
    fn met(clusters: &[u16], behind: i64, change: impl Fn(&mut Evidence)) -> Vec<(u32, u64)> {
        let mut evidence = Evidence::of(std::path::Path::new(""), manifest(clusters));
        for (seq, worker) in (0..40).flat_map(|seq| [(seq, 0), (seq, 1)]) {
            let packet = PacketId::new(worker, seq, 0);
            let sent = i64::from(seq) * 1000 + i64::from(worker) * behind;
            evidence.sent.packet.push(packet);
            evidence.sent.sent_ps.push(Some(sent));
            evidence.arrived.packet.push(Some(packet));
            evidence.arrived.recv_ps.push(sent + if seq % 8 == 0 { 5 } else { 50 });
            evidence.arrived.count.push(1);
        }
        evidence.join = Join::new(&evidence.sent.packet, evidence.arrived.packet.iter().copied());
        change(&mut evidence);
        let mut met: Vec<_> = meetings(&evidence, &HashSet::new()).into_iter().collect();
        met.sort_unstable();
        met
    }

    #[test]
    fn packets_meet_if_one_is_sent_before_the_other_leaves_the_queue() {
        let none = |_: &mut Evidence| {};
        assert_eq!(met(&[0, 0], 44, none), [(0, 35), (1, 35)]);
        assert_eq!(met(&[0, 0], 45, none), [], "the first has left");
        assert_eq!(met(&[0, 1], 44, none), [], "another cluster");
        assert_eq!(met(&[NO_CLUSTER; 2], 44, none), [], "background traffic");
        // Packets of several updates are merged, and still meet.
        let sums = |evidence: &mut Evidence| (0..40).for_each(|seq| evidence.arrived.count[2 * seq] = 2);
        assert_eq!(met(&[0, 0], 44, sums), [(1, 35)]);
    }

    #[test]
    fn times_that_show_no_queue_show_no_meetings() {
        let config = |text: &'static str| move |evidence: &mut Evidence| evidence.config = text.parse().unwrap();
        assert_eq!(met(&[0, 0], 44, config("[transport]\nfault_reorder = 0.1\n")), []);
        assert_eq!(met(&[0, 0], 44, config("[transport]\nfault_loss = 0.1\n")), [(0, 35), (1, 35)]);
        let apart = |evidence: &mut Evidence| {
            let clocks = [("sent.t_sent_ps", "monotonic"), ("received.t_recv_ps", "another host, not synchronised")];
            evidence.manifest.clocks.extend(clocks.map(|(column, clock)| (column.to_owned(), clock.to_owned())));
        };
        assert_eq!(met(&[0, 0], 44, apart), []);
        // Nothing waits that takes as long as all others.
        let steady = |evidence: &mut Evidence| {
            let sent = &evidence.sent.sent_ps;
            evidence.arrived.recv_ps = sent.iter().flatten().map(|sent| sent + 50).collect();
        };
        assert_eq!(met(&[0, 0], 44, steady), []);
    }
}
