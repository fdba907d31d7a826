//! Translation of frames between our addresses and those of a profile.
//!
//! Within a process addresses are fixed ([`crate::wire::frame`]): programs and endpoints identify workers and clusters by them. At the
//! edge, Ethernet and IPv4 addresses, UDP ports and the VLAN tag are replaced by table look-up. Checksums are updated incrementally (RFC
//! 1624, equation 3), not recomputed, except RoCEv2's at the end of a frame. Frames that do not belong to the run pass unchanged.

use crate::wire::FormatFacts;
use crate::wire::frame::{
    Checksums, HEAD, Ip, SERVER_IP, group_ip, group_of, mac_of, udp_checksum, worker_ip, worker_of,
};

use super::addressing::{Addresses, CableEnd, Hop, Station, TAG, tag_bytes};
use super::{Address, Mac};

/// Maximum growth of a frame, in bytes.
pub const GROWTH_MAX: usize = TAG;
const TAG_TYPE: [u8; 2] = [0x81, 0x00];

/// A port and its replacement, if it changes.
type Change = Option<(u16, u16)>;

/// Bytes that mark a frame as UDP over IPv4 without options and fragments.
const PLAIN: &[(usize, &[u8])] = &[(12, &[0x08, 0x00, 0x45]), (20, &[0x40, 0x00]), (23, &[17])];

/// Translates addresses at one end of a cable.
#[derive(Debug, Clone)]
pub struct Translator {
    workers: Vec<Station>,
    groups: Vec<Station>,
    peer: Option<Station>,
    /// The profile's addresses with ours, sorted.
    back: Vec<(Ip, Ip)>,
    /// Ethernet address of the next hop in departing frames, and of the hop in arriving frames, if the device routes.
    to_hop: Option<[u8; 6]>,
    from_hop: Option<[u8; 6]>,
    vlan: u16,
    /// Pairs of ports, ours and the profile's: that of the workers, and that to which they send.
    worker_port: Change,
    port: Change,
    /// Writes the checksum at the end of a frame that covers its addresses, if there is one.
    seal: Option<fn(&mut [u8])>,
    /// A frame that arrives without a tag had none on the cable.
    sees_tags: bool,
}

impl Translator {
    /// A translator for frames of `format` at `place`.
    pub fn new(addresses: &Addresses, format: &FormatFacts, place: CableEnd) -> Self {
        let peer = addresses.peer(place);
        let mut back: Vec<_> = Vec::new();
        back.extend(addresses.workers.iter().zip(0u32..).map(|(own, worker)| (own.ip.0, worker_ip(worker))));
        back.extend(addresses.groups.iter().zip(0u16..).map(|(own, cluster)| (own.ip.0, group_ip(cluster))));
        back.extend(peer.map(|peer| (peer.ip.0, SERVER_IP)));
        back.sort_unstable();
        let hop = addresses.device.filter(|_| addresses.hop == Hop::Device).map(|device| device.mac.0);
        let of_device = matches!(place, CableEnd::DeviceDown | CableEnd::DeviceUp);
        let own = format.ports;
        Translator {
            workers: addresses.workers.clone(),
            groups: addresses.groups.clone(),
            peer,
            back,
            to_hop: hop.filter(|_| !of_device),
            from_hop: hop.filter(|_| of_device),
            vlan: addresses.vlan,
            worker_port: own.map(|own| own.0).zip(addresses.worker_port),
            port: own.map(|own| own.1).zip(addresses.port),
            seal: format.seal,
            sees_tags: false,
        }
    }

    /// For a transport that shows the tags of frames, also where a card or the kernel took them out (`sees_tags`).
    pub fn seeing_tags(self, sees_tags: bool) -> Self {
        Translator { sees_tags, ..self }
    }

    /// By how many bytes a frame grows on its way out.
    pub(crate) fn growth(&self) -> usize {
        tag_bytes(self.vlan)
    }

    fn outside(&self, ip: Ip) -> Option<Station> {
        if ip == SERVER_IP {
            return self.peer;
        }
        match group_of(ip) {
            Some(cluster) => self.groups.get(usize::from(cluster)).copied(),
            None => worker_of(ip, self.workers.len()).and_then(|worker| self.workers.get(worker as usize).copied()),
        }
    }

    /// Returns our address of the host with this Ethernet address.
    fn host_of(&self, mac: &[u8]) -> Option<Ip> {
        let mut all = self.back.iter().map(|(_, ours)| *ours);
        all.find(|ours| self.outside(*ours).is_some_and(|station| mac == station.mac.0))
    }

    fn inside(&self, ip: Ip) -> Option<Ip> {
        let at = self.back.binary_search_by_key(&ip, |(outer, _)| *outer).ok()?;
        Some(self.back[at].1)
    }

    /// Writes `frame` with the profile's addresses into `out`, which has room for [`GROWTH_MAX`] more bytes,
    /// and returns the length. `None` if the frame does not belong to the run.
    #[inline]
    pub fn outward(&self, frame: &[u8], out: &mut [u8]) -> Option<usize> {
        let (src, dst) = addresses(frame, 0)?;
        let (from, to) = (self.outside(src)?, self.outside(dst)?);
        let up = src != SERVER_IP;
        let grown = self.growth();
        let len = frame.len() + grown;
        let out = out.get_mut(..len)?;
        out[12 + grown..].copy_from_slice(&frame[12..]);
        if grown > 0 {
            out[12..14].copy_from_slice(&TAG_TYPE);
            out[14..16].copy_from_slice(&self.vlan.to_be_bytes());
        }
        out[..6].copy_from_slice(&self.to_hop.unwrap_or(to.mac.0));
        out[6..12].copy_from_slice(&self.from_hop.unwrap_or(from.mac.0));
        let ports = if up { [self.worker_port, self.port] } else { [self.port, self.worker_port] };
        exchange(&mut out[grown..], (from.ip.0, to.ip.0), ports);
        if let Some(seal) = self.seal {
            // The checksum starts after the Ethernet header, so a preceding tag does not matter.
            seal(&mut out[grown..]);
        }
        Some(len)
    }

    /// Translates a frame that has our addresses where UDP over IPv4 has them, even if it is not such a frame.
    pub fn outward_odd(&self, frame: &[u8], out: &mut [u8]) -> Option<usize> {
        let mut plain = frame.to_vec();
        for (at, bytes) in PLAIN {
            plain.get_mut(*at..at + bytes.len())?.copy_from_slice(bytes);
        }
        let len = self.outward(&plain, out)?;
        for (at, bytes) in PLAIN {
            out[at + len - frame.len()..][..bytes.len()].copy_from_slice(&frame[*at..at + bytes.len()]);
        }
        Some(len)
    }

    /// Writes a received frame with our addresses into `out`, and returns its length. `None` if it does not belong to
    /// the run. An Ethernet address that does not match its host is kept.
    #[inline]
    pub fn inward(&self, frame: &[u8], out: &mut [u8]) -> Option<usize> {
        let (skip, (src, dst)) = self.untagged(frame)?;
        self.write_inward(frame, skip, (self.inside(src)?, self.inside(dst)?), out)
    }

    /// The same of a frame with an address that is not of this run: that address stays, all others become ours, so that who looks at the
    /// frame finds what is wrong in it and nothing else. None if the address could be taken for one of ours.
    pub fn inward_odd(&self, frame: &[u8], out: &mut [u8]) -> Option<usize> {
        let (skip, (src, dst)) = self.untagged(frame)?;
        let or_itself = |ip| self.inside(ip).or_else(|| Some(ip).filter(|ip| self.outside(*ip).is_none()));
        self.write_inward(frame, skip, (or_itself(src)?, or_itself(dst)?), out)
    }

    /// How many bytes of tag a frame of the run's VLAN has, and its addresses.
    #[inline]
    fn untagged(&self, frame: &[u8]) -> Option<(usize, (Ip, Ip))> {
        let (skip, id) = self.tag(frame)?;
        (id == self.vlan).then_some((skip, addresses(frame, skip)?))
    }

    /// Returns the bytes of a frame's tag, and the VLAN that it belongs to.
    #[inline]
    fn tag(&self, frame: &[u8]) -> Option<(usize, u16)> {
        // A card may have taken the tag off; one with another number is another network's.
        let tagged = frame.get(12..14)? == TAG_TYPE;
        Some(match tagged {
            true => (TAG, u16::from_be_bytes([*frame.get(14)?, *frame.get(15)?]) & 0xfff),
            false if self.sees_tags => (0, 0),
            false => (0, self.vlan),
        })
    }

    /// Returns whether a frame is of another VLAN than the profile's.
    pub fn is_of_other_vlan(&self, frame: &[u8]) -> bool {
        self.tag(frame).is_some_and(|(_, id)| id != self.vlan)
    }

    #[inline]
    fn write_inward(&self, frame: &[u8], skip: usize, (from, to): (Ip, Ip), out: &mut [u8]) -> Option<usize> {
        let len = frame.len() - skip;
        let out = out.get_mut(..len)?;
        out[12..].copy_from_slice(&frame[12 + skip..]);
        let hops = [self.from_hop, self.to_hop];
        for (i, ip) in [to, from].into_iter().enumerate() {
            let on_cable = &frame[6 * i..6 * i + 6];
            let theirs = self.outside(ip).map(|station| hops[i].unwrap_or(station.mac.0));
            let other = match theirs {
                Some(theirs) => other_of((theirs, mac_of(ip)), on_cable.try_into().ok()?),
                // A device sends as the server.
                None if i == 1 && hops[1].is_some_and(|hop| hop == on_cable) => Some(mac_of(SERVER_IP)),
                None => self.host_of(on_cable).map(mac_of),
            };
            out[6 * i..6 * i + 6].copy_from_slice(other.as_ref().map_or(on_cable, |mac| &mac[..]));
        }
        let turned = |pair: Change| pair.map(|(ours, theirs)| (theirs, ours));
        let (worker, peer) = (turned(self.worker_port), turned(self.port));
        let goes_down = from == SERVER_IP || to != SERVER_IP && self.outside(from).is_none();
        exchange(out, (from, to), if goes_down { [peer, worker] } else { [worker, peer] });
        Some(len)
    }

    /// Returns what was expected and observed at a place, in texts of ours, as it was on a cable.
    pub fn outer_texts(&self, [expected, observed]: [&str; 2], place: PlaceText) -> [String; 2] {
        let outside = |text: &str| self.outer_text(text, place).unwrap_or_else(|| text.to_owned());
        let on_cable = outside(expected);
        // There, and only there, the profile's number became ours, and ours the profile's; any other was the same. Of IPv4 addresses all
        // became ours.
        let by_place = place.is_port || place.is_ethernet && on_cable != expected;
        let observed = match observed {
            own if !by_place => outside(own),
            own if own == on_cable => expected.to_owned(),
            own => own.to_owned(),
        };
        [on_cable, observed]
    }

    /// An address or port of ours as text, as the profile has it where it is right; None if it is none of this run. The far end of a
    /// cable is the next hop, where there is one: what comes from there has its Ethernet address.
    fn outer_text(&self, text: &str, place: PlaceText) -> Option<String> {
        if place.is_port {
            let own: u16 = text.parse().ok()?;
            let pair = [self.port, self.worker_port].into_iter().flatten().find(|(ours, _)| *ours == own)?;
            return Some(pair.1.to_string());
        }
        if let Ok(ip) = text.parse::<Address>() {
            return Some(self.outside(ip.0)?.ip.to_string());
        }
        let digits: String = text.chars().filter(|c| *c != ':').collect();
        let mac = u64::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 12)?.to_be_bytes();
        let ours = self.back.iter().map(|(_, ours)| *ours).find(|ip| mac_of(*ip) == mac[2..])?;
        let hop = if place.comes { self.to_hop } else { self.from_hop };
        Some(Mac(hop.unwrap_or(self.outside(ours)?.mac.0)).to_string())
    }
}

/// What a text is of: an address or port at one place in frames.
#[derive(Debug, Clone, Copy)]
pub struct PlaceText {
    /// Of a UDP port.
    pub is_port: bool,
    /// Of an Ethernet address.
    pub is_ethernet: bool,
    /// Of a source.
    pub comes: bool,
}

/// Returns the other of a pair that `one` belongs to.
#[inline]
fn other_of<T: PartialEq>((a, b): (T, T), one: T) -> Option<T> {
    match one {
        one if one == a => Some(b),
        one if one == b => Some(a),
        _ => None,
    }
}

/// Returns source and destination of an IPv4 packet without options that has a complete UDP header, `skip` bytes later
/// than without a tag; `None` for others.
#[inline]
fn addresses(frame: &[u8], skip: usize) -> Option<(Ip, Ip)> {
    let head: &[u8; HEAD] = frame.get(skip..)?.first_chunk()?;
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    // A later fragment has no ports.
    let plain = head[14] == 0x45 && head[23] == 17 && word(20) >> 16 & 0x3fff == 0;
    ([head[12], head[13]] == [0x08, 0x00] && plain).then(|| (word(26), word(30)))
}

/// Replaces addresses and ports in an untagged frame, ignoring its Ethernet addresses, and updates its checksums. The two
/// numbers of a port change places, so a frame with the number of the other side does not become right.
fn exchange(frame: &mut [u8], (src, dst): (Ip, Ip), ports: [Change; 2]) {
    // A finished one may have that value, too.
    let unfinished = frame[40..42] == pseudo_sum(frame) && udp_checksum(&frame[14..], 20) == Checksums::Unfinished;
    // What changes: the sum of ~old + new over 16-bit words.
    let mut ip = 0u32;
    for (at, new) in [(26, src), (30, dst)] {
        for (at, new) in [(at, (new >> 16) as u16), (at + 2, new as u16)] {
            ip += change(frame, at, new);
        }
    }
    let mut udp = ip;
    for (at, pair) in [(34, ports[0]), (36, ports[1])] {
        let Some((old, new)) = pair else { continue };
        let number = u16::from_be_bytes([frame[at], frame[at + 1]]);
        if let Some(other) = other_of((old, new), number) {
            udp += change(frame, at, other);
        }
    }
    correct(frame, 24, ip);
    if unfinished {
        // Left to an interface that did not finish it: it stays what it is, the sum of the addresses and the length.
        let sum = pseudo_sum(frame);
        frame[40..42].copy_from_slice(&sum);
    } else if frame[40..42] != [0, 0] {
        correct(frame, 40, udp);
        // 0 would mean "no checksum".
        if frame[40..42] == [0, 0] {
            frame[40..42].copy_from_slice(&[0xff, 0xff]);
        }
    }
}

/// The sum of UDP's pseudo header, which a kernel writes where it leaves the checksum to an interface.
fn pseudo_sum(frame: &[u8]) -> [u8; 2] {
    let words = [26, 28, 30, 32, 38].map(|at| u32::from(u16::from_be_bytes([frame[at], frame[at + 1]])));
    let mut sum = words.iter().sum::<u32>() + 17;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (sum as u16).to_be_bytes()
}

/// Replaces a word; what that adds to ~checksum.
fn change(frame: &mut [u8], at: usize, new: u16) -> u32 {
    let old = u16::from_be_bytes([frame[at], frame[at + 1]]);
    frame[at..at + 2].copy_from_slice(&new.to_be_bytes());
    u32::from(!old) + u32::from(new)
}

/// Updates a checksum by RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
fn correct(frame: &mut [u8], at: usize, change: u32) {
    let mut sum = u32::from(!u16::from_be_bytes([frame[at], frame[at + 1]])) + change;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    frame[at..at + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[cfg(test)]
#[path = "translate_tests.rs"]
mod tests;
