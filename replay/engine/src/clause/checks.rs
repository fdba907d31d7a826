//! Comparisons and test values shared by the clauses of several systems.

use std::fmt::Display;

use pktgen_wire::wire::frame::{
    Checksums, Ip, checksums, has_udp_checksum, set_ip_checksum, set_udp_checksum, worker_ip,
};

use super::{ClauseBreach, ClauseProbe, ProbeGround, ProbeResult, ProbeStop};

/// Summands that give other sums where registers saturate or are wider than 32 bits.
pub const EDGES: [[i32; 2]; 8] = [
    [i32::MAX, 1],
    [1, i32::MAX],
    [i32::MIN, -1],
    [-1, i32::MIN],
    [i32::MAX, i32::MAX],
    [i32::MIN, i32::MIN],
    [i32::MAX, i32::MIN],
    [0, i32::MIN],
];

/// Bytes, with their offsets, that turn a frame of UDP over IPv4 into another kind: Ethernet type; version and header length; protocol.
const NOT_UDP: &[(usize, &[u8])] = &[
    (12, &[0x07, 0x00]),
    (12, &[0x86, 0xdd]),
    (14, &[0x44]),
    (14, &[0x46]),
    (14, &[0x65]),
    (23, &[1]),
    (23, &[6]),
    (23, &[136]),
];

/// Largest number of workers of which all orders are tried, and maximum number of orders.
const ALL_OF: usize = 4;
const ORDERS: usize = 24;

/// Returns all orders of `workers` workers, or random ones if there are too many.
pub fn orders(probe: &mut ClauseProbe, workers: usize) -> Vec<Vec<usize>> {
    if workers > ALL_OF {
        let all: Vec<_> = (0..workers).collect();
        return (0..ORDERS).map(|_| probe.shuffled(&all)).collect();
    }
    let mut all = vec![Vec::new()];
    for next in 0..workers {
        let longer = all.iter().flat_map(|order: &Vec<usize>| {
            (0..=order.len()).map(move |at| [&order[..at], &[next], &order[at..]].concat())
        });
        all = longer.collect();
    }
    all
}

/// Returns the sum of contributions of one length, with wrap-around.
pub fn wrapping_sum<'a>(parts: impl IntoIterator<Item = &'a Vec<i32>>) -> Vec<i32> {
    let mut sums = Vec::new();
    for part in parts {
        sums.resize(part.len(), 0i32);
        sums.iter_mut().zip(part).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
    }
    sums
}

/// Checks that a field of the object named `at` is as expected.
pub fn same<T: PartialEq + Display>(at: &dyn Display, what: &str, expected: T, observed: T) -> ProbeResult<()> {
    if expected == observed {
        return Ok(());
    }
    Err(ClauseBreach::stop(format!("{at}: {what}"), expected, observed))
}

/// Checks the numbers of a result, each named `number`.
pub fn same_sums(at: &dyn Display, number: &str, expected: &[i32], observed: &[i32]) -> ProbeResult<()> {
    same(at, &format!("number of {number}s"), expected.len(), observed.len())?;
    match (0..expected.len()).find(|i| expected[*i] != observed[*i]) {
        Some(i) => same(at, &format!("{number} {i} of the result"), expected[i], observed[i]),
        None => Ok(()),
    }
}

/// Returns whether a copy, a destination address and an output port, reaches this worker: it is to its address or to that of `group`.
/// Workers may share a port.
pub fn reaches(ground: &ProbeGround, worker: u32, group: Option<Ip>, (to, port): (Ip, u16)) -> bool {
    (to == worker_ip(worker) || group == Some(to)) && port == ground.port_towards(worker)
}

/// Checks that exactly one copy leaves at each worker's port, to its address or to that of `group`, and that nobody
/// else receives one. Copies are pairs of destination address and output port.
pub fn one_copy_each(
    at: &dyn Display,
    ground: &ProbeGround,
    workers: &[u32],
    group: Option<Ip>,
    copies: &[(Ip, u16)],
) -> ProbeResult<()> {
    for &worker in workers {
        let count = copies.iter().filter(|copy| reaches(ground, worker, group, **copy)).count();
        same(at, &format!("copies for worker {worker}"), 1, count)?;
    }
    match copies.iter().find(|copy| !workers.iter().any(|worker| reaches(ground, *worker, group, **copy))) {
        None => Ok(()),
        Some((to, port)) => same(at, &format!("a copy to {} at port {port}", dotted(*to)), "none", "one"),
    }
}

/// Returns frames, each with one of the values that make it a frame other than UDP over IPv4.
pub fn not_udp(mut make: impl FnMut() -> Vec<u8>) -> impl Iterator<Item = Vec<u8>> {
    NOT_UDP.iter().map(move |(at, bytes)| {
        let mut frame = make();
        frame[*at..at + bytes.len()].copy_from_slice(bytes);
        set_ip_checksum(&mut frame);
        frame
    })
}

/// Formats an IPv4 address.
pub fn dotted(ip: Ip) -> String {
    ip.to_be_bytes().map(|byte| byte.to_string()).join(".")
}

/// Formats six bytes of a frame as an Ethernet address.
pub fn station(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// Returns two bytes of a frame as a number.
pub fn number16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]))
}

/// Checks lengths and checksums of a result's frame with `payload` bytes of payload.
pub fn headers_fit(at: &dyn Display, bytes: &[u8], payload: usize) -> ProbeResult<()> {
    /// Offsets of the IPv4 header and the UDP header.
    const IP: usize = 14;
    const UDP: usize = 34;
    let (ip_len, udp_len) = (number16(bytes, IP + 2), number16(bytes, UDP + 4));
    if bytes.get(IP) != Some(&0x45) {
        return Err(ProbeStop::Undecidable(
            "results have a tag or IPv4 options, which this clause does not read".into(),
        ));
    }
    same(at, "length in the IPv4 header", 28 + payload, usize::from(ip_len))?;
    same(at, "length in the UDP header", 8 + payload, usize::from(udp_len))?;
    // A router must not forward a packet without remaining hops (RFC 1122, §3.2.1.7).
    if bytes.get(IP + 8) == Some(&0) {
        return Err(ClauseBreach::stop(format!("{at}: time to live"), "1 or more", 0));
    }
    let mut right = bytes[..(IP + usize::from(ip_len)).min(bytes.len())].to_vec();
    set_ip_checksum(&mut right);
    same(at, "checksum of the IPv4 header", number16(&right, IP + 10), number16(bytes, IP + 10))?;
    checksum_is_finished(bytes)?;
    if has_udp_checksum(bytes) {
        set_udp_checksum(&mut right);
        same(at, "checksum of the UDP header", number16(&right, UDP + 6), number16(bytes, UDP + 6))?;
    }
    Ok(())
}

/// Stops if the host of the device left the UDP checksum to an interface: its value on a cable is unknown.
pub fn checksum_is_finished(bytes: &[u8]) -> ProbeResult<()> {
    match checksums(bytes) {
        Checksums::Unfinished => Err(ProbeStop::Undecidable(
            "the device's host leaves UDP checksums to the interface, which does not write them; switch that off on the device's \
             port: ethtool -K PORT tx off"
                .into(),
        )),
        Checksums::Fit | Checksums::Wrong => Ok(()),
    }
}
