//! UDP sockets: the kernel writes the headers, so this needs no privileges and works over any UDP path.
//!
//! Only a frame's payload (from byte 42 on, without Ethernet's padding) is transmitted, between two addresses of the hosts; the frame's own
//! addresses are not. The receiver rebuilds the head from the payload, if the workers' format permits.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;

use super::departures::Sampler;
use super::receive_batch::ReceiveBatch;
use super::socket::{self, BATCH, PAYLOAD_MAX, SendBatch, SocketBuffer};
use super::stall::Stall;
use super::{
    Arrival, Capabilities, End, Found, Ports, Stamps, Submitted, Transport, TransportPlan, Wire, WireCounters,
    checksum_errors,
};
use crate::frame::Heads;
use pktgen_core::record::UDP_CHECKSUM_ERRORS;
use pktgen_core::registry::Named;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{ETHERNET_MIN, HEAD};

/// Capabilities of UDP sockets.
pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    frame_max: PAYLOAD_MAX + HEAD,
    stamps_received: true,
    stamps_sent: true,
    segments: true,
    heads: false,
    ..Capabilities::CABLES
};

/// `kind = "udp"`: between the addresses of `transport.addresses`, or both cables over the loopback interface.
pub(crate) struct UdpSockets;

impl Named for UdpSockets {
    fn name(&self) -> &'static str {
        "udp"
    }
    fn about(&self) -> &'static str {
        "UDP sockets, on the loopback interface or between hosts, in real time; no privileges"
    }
}

impl Transport for UdpSockets {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn check(&self, plan: &TransportPlan, ends: &[End]) -> Result<()> {
        let chosen = are_chosen(plan, ends);
        let four = if chosen { [LOOPBACK; 4] } else { written(plan)? };
        for (i, end) in ends.iter().enumerate() {
            let own = four[*end as usize];
            if own.ip().is_loopback() && plan.wants_card(*end) {
                return Err(Error::config(format!(
                    "transport.stamps = \"card\": the loopback interface has no card, and {} is at {}; use \"kernel\", or addresses of \
                     cards (transport.addresses)",
                    end.name(),
                    own.ip()
                )));
            }
            if chosen {
                continue;
            }
            check_pair(own, four[*end as usize ^ 1])?;
            check_port(plan, *end, own)?;
            if let Some(other) = ends[..i].iter().find(|other| four[**other as usize] == own) {
                return Err(Error::config(format!(
                    "transport.addresses: {own} is given for {} and for {}; give each end an address of its own",
                    other.name(),
                    end.name()
                )));
            }
        }
        Ok(())
    }

    fn open(&self, plan: &TransportPlan, ends: &[End], frame_max: usize) -> Result<Vec<Ports>> {
        let chosen = are_chosen(plan, ends);
        let mut tries = if chosen { TRIES } else { 0 };
        loop {
            let four = if chosen { free_on_loopback()? } else { written(plan)? };
            match ends.iter().map(|end| Ok(Ports::one(*end, open_end(plan, four, *end, frame_max)?))).collect() {
                // An address that was free has been taken by another program meanwhile.
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AddrInUse && tries > 0 => tries -= 1,
                opened => return opened,
            }
        }
    }
}

/// Maximum number of attempts to find other addresses.
const TRIES: u32 = 8;

/// Any port of the loopback interface.
const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Returns whether the addresses of `ends` are chosen when they are opened: both ends of each cable are in this process.
fn are_chosen(plan: &TransportPlan, ends: &[End]) -> bool {
    plan.addresses.is_empty() && (ends == End::ALL || ends == End::LOWER)
}

/// Refuses two ends of a cable between which there are no datagrams.
fn check_pair(own: SocketAddr, peer: SocketAddr) -> Result<()> {
    if own.is_ipv4() != peer.is_ipv4() {
        return Err(Error::config(format!("UDP from {own} to {peer}: both must be IPv4, or both IPv6")));
    }
    if peer.port() == 0 {
        return Err(Error::config(format!(
            "UDP from {own} to {peer}: nothing is at port 0; give the other end one from 1 to 65535"
        )));
    }
    Ok(())
}

/// Refuses port 0, which stands for any free one, where others send to a port that they must know: an external device answers to the
/// source of the workers' datagrams.
fn check_port(plan: &TransportPlan, end: End, own: SocketAddr) -> Result<()> {
    if own.port() != 0 || (plan.external && end == End::Workers) {
        return Ok(());
    }
    Err(Error::config(format!(
        "transport.addresses: {own} is given for {}: no other part can send to a port that it does not know; give one from 1 to 65535 (0, for \
         any free port, is for workers of an external device)",
        end.name()
    )))
}

/// Returns the addresses of the four ends, as configured.
fn written(plan: &TransportPlan) -> Result<[SocketAddr; 4]> {
    match plan.addresses[..] {
        [workers, down, up, server] => Ok([workers, down, up, server]),
        // Without a server the upper two are unused.
        [workers, down] if !plan.has_server => Ok([workers, down, workers, down]),
        _ => {
            let all = match plan.has_server {
                true => {
                    "four, as \"127.0.0.1:7001\": the workers', the device's towards them, the device's towards the \
                     server, the server's"
                }
                false => "two, as \"127.0.0.1:7001\": the workers' and the device's",
            };
            Err(Error::config(format!(
                "transport.addresses has {} entries; roles in processes of their own need {all}",
                plan.addresses.len()
            )))
        }
    }
}

/// Opens one end: 0 and 1 belong to one cable, 2 and 3 to the other.
fn open_end(plan: &TransportPlan, four: [SocketAddr; 4], end: End, frame_max: usize) -> Result<Box<dyn Wire>> {
    let at = end as usize;
    let heads = plan.payload_heads()?;
    plan.check_stamps(end)?;
    let (stamps, sampler) = (plan.stamps_at(end), Sampler::of(plan, end));
    let down = end == End::Workers;
    let options =
        UdpOptions { stamps, down, segmented: plan.segmented, ..UdpOptions::new(four[at], four[at ^ 1], heads) };
    let mut wire = Udp::open(UdpOptions { payload_max: frame_max.max(HEAD + 1) - HEAD, ..options })?;
    // Towards the workers, the receiver may already be gone at the end.
    wire.answers = matches!(end, End::Workers | End::DeviceUp).then(Stall::of_answers);
    if let Some(sampler) = sampler {
        sampler.ask(wire.socket.as_fd()).map_err(io_error("ask for stamps of", four[at]))?;
        wire.sampler = Some(sampler);
    }
    Ok(Box::new(wire))
}

/// Finds four free addresses of the loopback interface.
fn free_on_loopback() -> Result<[SocketAddr; 4]> {
    let mut sockets = Vec::new();
    let mut four = [LOOPBACK; 4];
    for address in &mut four {
        let socket = UdpSocket::bind(LOOPBACK).map_err(io_error("bind a UDP socket to", LOOPBACK))?;
        *address = socket.local_addr().map_err(io_error("read the address of the socket to", LOOPBACK))?;
        // All are held until the last is known, so that they differ.
        sockets.push(socket);
    }
    Ok(four)
}

/// Options of an end.
pub(crate) struct UdpOptions {
    /// Our address; port 0 for any.
    pub bind: SocketAddr,
    /// Destination of frames, and the only accepted source.
    pub peer: SocketAddr,
    /// Largest payload received whole; larger ones are cut, which their length shows.
    pub payload_max: usize,
    /// The source of arrival stamps.
    pub stamps: Stamps,
    /// Requested size; the actual one is in the mode.
    pub receive_buffer_bytes: usize,
    /// Requested size; the actual one is in the mode.
    pub send_buffer_bytes: usize,
    /// Rebuilds heads.
    pub heads: Heads,
    /// Whether arriving frames go to workers.
    pub down: bool,
    /// Whether the kernel divides one message into datagrams of one length.
    pub segmented: bool,
}

impl UdpOptions {
    /// Options between two addresses, with buffers for jumbo frames.
    pub fn new(bind: SocketAddr, peer: SocketAddr, heads: Heads) -> Self {
        let (receive_buffer_bytes, send_buffer_bytes) = (8 << 20, 1 << 20);
        let stamps = Stamps::None;
        let (payload_max, down, segmented) = (8994, false, false);
        UdpOptions { bind, peer, payload_max, receive_buffer_bytes, send_buffer_bytes, stamps, heads, down, segmented }
    }
}

/// An end of a cable: a connected UDP socket.
pub struct Udp {
    socket: UdpSocket,
    peer: SocketAddr,
    outgoing: SendBatch,
    incoming: ReceiveBatch,
    heads: Heads,
    down: bool,
    /// Marks some of the sent frames, if requested.
    sampler: Option<Sampler>,
    counters: WireCounters,
    /// Refusals of this host.
    stall: Stall,
    /// ICMP answers of the peer's host, where a receiver must exist.
    answers: Option<Stall>,
    drops: Drops,
    mode: String,
}

/// The kernel's counts of drops.
struct Drops {
    /// Those of the socket at the last reading; the count wraps.
    seen: u32,
    /// Datagrams with a wrong checksum of all sockets, when this one was opened.
    damaged_before: Option<u64>,
}

impl Udp {
    /// Opens an end.
    pub fn open(options: UdpOptions) -> Result<Self> {
        let UdpOptions {
            bind,
            peer,
            payload_max,
            receive_buffer_bytes,
            send_buffer_bytes,
            stamps,
            heads,
            down,
            segmented,
        } = options;
        if !(1..=PAYLOAD_MAX).contains(&payload_max) {
            return Err(Error::config(format!("UDP payloads up to {payload_max} bytes: 1 to {PAYLOAD_MAX} exist")));
        }
        check_pair(bind, peer)?;
        let socket = UdpSocket::bind(bind).map_err(io_error("bind a UDP socket to", bind))?;
        socket.connect(peer).map_err(io_error("connect a UDP socket to", peer))?;
        socket.set_nonblocking(true).map_err(io_error("set up the UDP socket of", bind))?;
        let asked = receive_buffer_bytes;
        let set_up = || -> io::Result<(usize, usize)> {
            let fd = socket.as_fd();
            let receive = socket::set_buffer(fd, SocketBuffer::Receive, asked)?;
            let send = socket::set_buffer(fd, SocketBuffer::Send, send_buffer_bytes)?;
            stamps.ask(fd)?;
            socket::set_option(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1i32)?;
            // Frames that exceed the path MTU are refused, not fragmented, which would change the load.
            match peer {
                SocketAddr::V4(_) => {
                    socket::set_option(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
                }
                SocketAddr::V6(_) => {
                    socket::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)?;
                }
            }
            Ok((receive, send))
        };
        let (receive, send) = set_up().map_err(io_error("set up the UDP socket of", bind))?;
        if segmented {
            let asked = socket::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, 0i32);
            asked.map_err(|e| {
                Error::Host(format!(
                    "this host does not divide messages into datagrams (Linux 4.18 and later do): {e}; leave \
                     transport.segmented out"
                ))
            })?;
        }
        let how = if segmented { ", divided by the kernel" } else { "" };
        let mode = format!(
            "copy, sendmmsg{how} and recvmmsg, receive buffer {receive} B ({asked} asked for), send buffer {send} B"
        );
        let outgoing = if segmented { SendBatch::segmented() } else { SendBatch::new() };
        let incoming = ReceiveBatch::new(payload_max, stamps);
        let counters = WireCounters::default();
        let (stall, answers, sampler) = (Stall::new(), None, None);
        let drops = Drops { seen: 0, damaged_before: checksum_errors() };
        Ok(Udp { socket, peer, outgoing, incoming, heads, down, sampler, counters, stall, answers, drops, mode })
    }

    /// Adds the kernel's count of drops to ours. Messages that waited may carry older counts than already seen.
    fn saw_drops(&mut self, count: u32) {
        let more = count.wrapping_sub(self.drops.seen);
        if more < u32::MAX / 2 {
            self.drops.seen = count;
            self.counters.receive_dropped += u64::from(more);
        }
    }

    /// Returns whether the socket's buffer is empty.
    #[cold]
    fn is_drained(&self) -> bool {
        socket::unsent(self.socket.as_fd()).is_ok_and(|bytes| bytes == 0)
    }

    /// Handles the answer of the peer's host to an earlier datagram: no process receives there. Reading the error cleared it.
    #[cold]
    fn answered(&mut self) -> Result<()> {
        self.counters.send_dropped += 1;
        self.suspect()
    }

    /// Handles a sign that no process receives there: returns an error once it has lasted too long.
    #[cold]
    fn suspect(&mut self) -> Result<()> {
        if let Some(answers) = &mut self.answers
            && answers.refused()
        {
            return Err(answers.of_peer(self.peer));
        }
        Ok(())
    }

    /// Returns the error for a socket that failed during a run.
    #[cold]
    fn cannot(&self, action: &str, error: &io::Error) -> Error {
        Error::Host(format!(
            "this host cannot {action} {}: {error}; check the interface and its routes (ip addr, ip route)",
            self.peer
        ))
    }

    /// Returns the error for a frame that does not fit; `None` for one that left and that a router did not pass on.
    #[cold]
    fn too_long(&self, frame: Option<&[u8]>) -> Error {
        let peer = self.peer;
        let (level, name) = match peer {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
        };
        let mtu = socket::option::<1>(self.socket.as_fd(), level, name).map_or(0, |[mtu]| mtu);
        let what = match frame.map(<[u8]>::len) {
            Some(len) => format!(
                "cannot send a frame of {len} bytes to {peer}: its payload of {} goes neither into one datagram (at \
                 most {PAYLOAD_MAX}) nor through the path's MTU of {mtu} unless smaller",
                len - HEAD
            ),
            None => format!("cannot send such frames to {peer}: one did not go through the path's MTU of {mtu}"),
        };
        Error::config(format!("{what}; send smaller frames, or raise the MTU"))
    }

    /// Handles an error that a call to receive returned: also those that answers to earlier datagrams caused.
    #[cold]
    fn not_received(&mut self, error: &io::Error) -> Result<()> {
        match error.raw_os_error() {
            Some(libc::ECONNREFUSED) => self.answered(),
            // The answer of a router whose next link has a smaller MTU.
            Some(libc::EMSGSIZE) => Err(self.too_long(None)),
            _ => Err(self.cannot("receive from", error)),
        }
    }
}

impl Udp {
    /// Returns the result for `taken` frames, including whether the kernel or the other side refuses more.
    fn submitted(&self, taken: usize) -> Submitted {
        let refused = self.stall.refuses() || self.answers.as_ref().is_some_and(Stall::refuses);
        Submitted { taken, lost: 0, refused }
    }
}

impl Wire for Udp {
    fn send(&mut self, frames: &[&[u8]]) -> Result<Submitted> {
        // A frame without a payload causes an error only when it is next, like all other errors.
        let whole = frames.iter().position(|frame| frame.len() < HEAD).unwrap_or(frames.len());
        if whole == 0 && !frames.is_empty() {
            let len = frames[0].len();
            return Err(Error::config(format!("cannot send a frame of {len} bytes over UDP: headers take {HEAD}")));
        }
        let mark = self.sampler.as_mut().and_then(|sampler| sampler.mark(self.socket.as_fd(), whole));
        loop {
            match self.outgoing.send(self.socket.as_fd(), &frames[..whole], HEAD, mark) {
                Ok(0) => return Ok(self.submitted(0)),
                Ok(count) => {
                    self.stall.taken();
                    self.counters.sent += count as u64;
                    if let Some(sampler) = &mut self.sampler {
                        sampler.sent(count, mark);
                    }
                    // An answer to the first message ends the call at the second, which consumes it.
                    if (count == 1 || self.outgoing.is_segmented()) && whole > count && self.is_drained() {
                        self.suspect()?;
                    }
                    return Ok(self.submitted(count));
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => self.answered()?,
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                    return Err(self.too_long(Some(frames[0])));
                }
                Err(error) if self.stall.refused() => return Err(self.stall.of_path(self.peer, &error)),
                Err(_) => return Ok(self.submitted(0)),
            }
        }
    }

    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
        let count = loop {
            match self.incoming.receive(&self.socket, most.min(BATCH)) {
                Ok(taken) => break taken,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => break 0,
                    _ => self.not_received(&error)?,
                },
            }
        };
        for slot in 0..count {
            let notice = self.incoming.notice(slot);
            if let Some(drops) = notice.drops {
                self.saw_drops(drops);
            }
            let (head, payload, len) = self.incoming.datagram(slot);
            // A datagram that is no packet of the run arrived like others: a head of zeros matches no worker, so roles count it as unmatched.
            if !(self.heads)(payload, len, self.down, head) {
                head.fill(0);
            }
            let bytes = self.incoming.frame(slot);
            let len = (HEAD + len).max(ETHERNET_MIN);
            each(Arrival { bytes, len, stamp_ns: notice.stamp_ns, lost: false });
        }
        if let (Some(answers), 1..) = (&mut self.answers, count) {
            answers.taken();
        }
        self.counters.received += count as u64;
        Ok(Found::some(count))
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        // An unread stamp would end every wait.
        if let Some(sampler) = &mut self.sampler {
            sampler.collect(self.socket.as_fd());
        }
        socket::wait_readable(self.socket.as_fd(), timeout_ns).map_err(io_error("wait for", self.peer))
    }

    fn flush(&mut self, timeout_ns: u64) -> Result<()> {
        socket::drain(self.socket.as_fd(), timeout_ns).map_err(io_error("flush the UDP socket to", self.peer))
    }

    fn counters(&mut self) -> WireCounters {
        if let Some(sampler) = &mut self.sampler {
            sampler.hand_over(self.socket.as_fd());
        }
        // SO_RXQ_OVFL comes with the next datagram, so drops after the last one are queried.
        const WORDS: usize = libc::SK_MEMINFO_DROPS as usize + 1;
        if let Ok(words) = socket::option::<WORDS>(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO) {
            self.saw_drops(words[WORDS - 1]);
        }
        self.counters
    }

    fn mode(&self) -> String {
        self.mode.clone()
    }

    fn notes(&mut self) -> Vec<(String, String)> {
        let (before, now) = (self.drops.damaged_before, checksum_errors());
        let damaged = before.zip(now).map(|(before, now)| now.saturating_sub(before));
        damaged.map(|frames| (UDP_CHECKSUM_ERRORS.to_owned(), frames.to_string())).into_iter().collect()
    }
}

fn io_error(action: &'static str, address: SocketAddr) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { action, path: PathBuf::from(address.to_string()), source }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use proptest::prelude::*;

    fn end() -> Udp {
        loop {
            let [bind, peer, ..] = free_on_loopback().unwrap();
            let heads = Arc::new(|_: &[u8], _: usize, _: bool, _: &mut [u8; HEAD]| false);
            match Udp::open(UdpOptions::new(bind, peer, heads)) {
                // Another process has taken it meanwhile.
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AddrInUse => {}
                opened => return opened.unwrap(),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The kernel's count has 32 bits and wraps, ours has 64; messages may carry older counts than already seen.
        #[test]
        fn drops_are_counted_beyond_32_bits(steps in prop::collection::vec((0u32..1 << 30, any::<bool>()), 1..40)) {
            let mut end = end();
            let mut total = 0u64;
            for (more, older_follows) in steps {
                let before = total;
                total += u64::from(more);
                end.saw_drops(total as u32);
                if older_follows {
                    end.saw_drops(before as u32);
                }
                prop_assert_eq!(end.counters.receive_dropped, total);
            }
        }
    }

    #[test]
    fn the_count_of_drops_wraps_at_its_last_number() {
        let mut end = end();
        for count in [1 << 30, 2 << 30, 3 << 30, u32::MAX - 2, u32::MAX, 0, u32::MAX, 3] {
            end.saw_drops(count);
        }
        assert_eq!(end.counters.receive_dropped, (1 << 32) + 3);
    }

    /// The kernel keeps the answer of a router for the next call, which may be one to receive.
    #[test]
    fn a_router_that_a_frame_is_too_long_for_is_no_fault_of_receiving() {
        let mut end = end();
        let mut error = |code: i32| end.not_received(&io::Error::from_raw_os_error(code));
        let too_long = error(libc::EMSGSIZE).unwrap_err();
        assert!(matches!(too_long, Error::Config(_)), "{too_long}");
        let says = too_long.to_string();
        assert!(says.contains("did not go through the path's MTU of ") && says.contains("smaller frames"), "{says}");
        assert!(error(libc::ECONNREFUSED).is_ok(), "nobody receives there yet");
        assert!(error(libc::ENETDOWN).unwrap_err().to_string().contains("cannot receive from"));
    }

    #[test]
    fn datagrams_that_are_no_packets_of_the_run_arrive_and_match_nothing() {
        let mut end = end();
        let (own, peer) = (end.socket.local_addr().unwrap(), end.peer);
        let other = UdpSocket::bind(peer).unwrap();
        for payload in [&[7u8; 9][..], &[1], &[]] {
            other.send_to(payload, own).unwrap();
        }
        let mut frames = Vec::new();
        for _ in 0..1000 {
            end.wait(1_000_000).unwrap();
            end.receive(8, &mut |arrival| frames.push((arrival.bytes.to_vec(), arrival.len))).unwrap();
            if frames.len() == 3 {
                break;
            }
        }
        // With Ethernet's padding.
        let expected = [&[7u8; 9][..], &[1], &[]].map(|payload| {
            let mut frame = [&[0; HEAD][..], payload].concat();
            frame.resize(ETHERNET_MIN, 0);
            (frame, ETHERNET_MIN)
        });
        assert_eq!(frames, expected);
        let WireCounters { received, receive_dropped, .. } = end.counters();
        assert_eq!((received, receive_dropped), (3, 0));
    }
}
