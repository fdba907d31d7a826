//! Clauses on frames that are not updates: they are in no sum and do not damage a waiting one.

use super::BASE;
use super::card::{Card, Sent};
use pktgen_engine::clause::{Clause, ClauseBreach, ClauseProbe, ProbeResult, STRANGERS, checks};

/// Common parts of these clauses.
const ASIDE: Clause = Clause {
    oracle: "each update as it was sent; nothing else but the other frames, as they were sent and once at most",
    ..BASE
};

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "olaf-unknown-source",
        title: "strangers' updates are in no sum",
        rule: "An update from an address that is no worker's is no update; the device drops all such frames, or passes all (§7: what is no update bypasses the queue).",
        stimulus: "two updates ahead; an update of each of two other clusters; two from the first address behind the workers', one each from two further ones",
        probe: unknown_source,
        ..ASIDE
    },
    Clause {
        id: "olaf-not-udp",
        title: "what is no UDP over IPv4 is in no sum",
        rule: "A frame of another Ethernet type, IP version, header length or protocol is no update, whatever bytes it has (RFC 791, RFC 768); the device drops it or passes it.",
        stimulus: "two updates ahead; an update of each of two other clusters; from another worker of each, updates with other values in these fields",
        probe: not_udp,
        ..ASIDE
    },
    Clause {
        id: "olaf-lengths",
        title: "updates whose lengths contradict each other are in no sum of whole ones",
        rule: "An update whose UDP length is not what the IPv4 length leaves for it is no update as long as others (RFC 768: the length of the datagram; ours: docs/olaf.md).",
        stimulus: "two updates ahead; an update of each of two other clusters; from another worker of each, updates with UDP lengths that are shorter, longer and 0",
        oracle: "each update as it was sent; nothing else but what begins with the numbers of the other frames, each once at most",
        probe: lengths,
        ..ASIDE
    },
    Clause {
        id: "olaf-truncated",
        title: "what is left of a cut update is in no sum",
        rule: "A frame that ends before the datagram that its lengths say is no update (RFC 791, RFC 768); the device drops it or passes it.",
        stimulus: "two updates ahead; from two workers of each of two other clusters, updates that are cut at one place, with the lengths of whole ones; then an update of each cluster",
        probe: truncated,
        ..ASIDE
    },
    Clause {
        id: "olaf-other-size",
        title: "updates with other numbers of gradients are not added",
        rule: "An update with more or fewer gradients than the one of its cluster that waits is not added to it (ours: docs/olaf.md).",
        stimulus: "two updates ahead; an update of each of two other clusters; from another worker of each an update with a gradient more, and one with one less",
        probe: other_size,
        ..ASIDE
    },
];

/// Lets updates of the outermost clusters wait, sends frames that are not updates from other workers of these, and
/// checks that the updates leave unchanged. Returns how many of the frames left.
fn unharmed(probe: &mut ClauseProbe, make: impl Fn(&mut Card, &[u32]) -> ProbeResult<()>) -> ProbeResult<usize> {
    let mut card = Card::new(probe);
    let (waiting, updates) = behind_two(&mut card)?;
    card.send_all(&updates)?;
    waiting.iter().try_for_each(|members| make(&mut card, members))?;
    card.leaves_whole(&updates)?;
    Ok(card.left_aside())
}

/// Sends two updates ahead; returns clusters that are to wait behind them, and an update of each.
fn behind_two(card: &mut Card) -> ProbeResult<(Vec<Vec<u32>>, Vec<Sent>)> {
    card.outermost_first();
    card.congest()?;
    let count = super::passing::free(card).saturating_sub(1).clamp(1, 2);
    let waiting: Vec<_> = card.clusters.iter().take(count).cloned().collect();
    let updates = waiting.iter().map(|members| card.update(members[0])).collect();
    Ok((waiting, updates))
}

fn unknown_source(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let beyond = probe.ground.workers.len() as u32;
    let sent = std::cell::Cell::new(0);
    let left = unharmed(probe, |card, members| {
        let further = 1 + card.probe.below(STRANGERS as usize - 1) as u32;
        for n in [0, 0, 1, further] {
            let update = card.update(members[1]);
            let frame = Card::frame(&Sent { worker: beyond + n, ..update });
            card.send_aside(members[1], &frame)?;
            sent.set(sent.get() + 1);
        }
        Ok(())
    })?;
    let all = sent.get();
    if left == 0 || left == all {
        return Ok(());
    }
    Err(ClauseBreach::stop("updates of no worker that left", format!("none or all {all}"), left))
}

fn not_udp(probe: &mut ClauseProbe) -> ProbeResult<()> {
    unharmed(probe, |card, members| {
        let frames: Vec<_> = checks::not_udp(|| Card::frame(&card.update(members[1]))).collect();
        frames.iter().try_for_each(|frame| card.send_aside(members[1], frame))
    })
    .map(drop)
}

fn lengths(probe: &mut ClauseProbe) -> ProbeResult<()> {
    /// The UDP length in a frame.
    const UDP_LENGTH: std::ops::Range<usize> = 38..40;
    unharmed(probe, |card, members| {
        let shorter = 4 * (1 + card.probe.below(card.lanes.saturating_sub(1).max(1)) as u16);
        let whole = |card: &mut Card| Card::frame(&card.update(members[1]));
        let said = (whole(card).len() - UDP_HEADER_AT) as u16;
        for length in [said - shorter, said + shorter, 0] {
            let mut frame = whole(card);
            frame[UDP_LENGTH].copy_from_slice(&length.to_be_bytes());
            card.send_aside(members[1], &frame)?;
        }
        Ok(())
    })
    .map(drop)
}

fn truncated(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut card = Card::new(probe);
    let (waiting, updates) = behind_two(&mut card)?;
    for members in &waiting {
        let lost = 4 * (1 + card.probe.below(card.lanes.saturating_sub(KNOWN_LANES).max(1)));
        for worker in [members[1], members[0]] {
            let mut frame = Card::frame(&card.update(worker));
            frame.truncate(frame.len() - lost);
            card.send_aside(worker, &frame)?;
        }
    }
    card.send_all(&updates)?;
    card.leaves_whole(&updates)
}

fn other_size(probe: &mut ClauseProbe) -> ProbeResult<()> {
    unharmed(probe, |card, members| {
        let lanes = card.lanes;
        for other in [lanes + 1, lanes - 1] {
            card.lanes = other;
            let update = card.update(members[1]);
            card.send_aside(members[1], &Card::frame(&update))?;
        }
        card.lanes = lanes;
        Ok(())
    })
    .map(drop)
}

/// Minimum number of gradients in a truncated update, by which it is recognised.
const KNOWN_LANES: usize = 4;
/// Position of the UDP header in a frame.
const UDP_HEADER_AT: usize = 34;
