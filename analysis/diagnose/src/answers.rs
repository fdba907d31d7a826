//! Answers of the server in the captures of both ends: where they came to, and how they differ from those that left.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::crossing::{Odd, other_tag};
use crate::frame::{Datagram, Quick, digest, dotted};

/// Addresses that are told apart, and VLAN tags.
const KINDS_MAX: usize = 1 << 16;

/// Most answers that may come again.
const AGAIN_MIN: u64 = 8;

/// Answers that came to the workers, by a property of theirs, and the first of each.
struct OddKinds<K>(HashMap<K, Odd, Quick>);

impl<K> Default for OddKinds<K> {
    fn default() -> Self {
        OddKinds(HashMap::default())
    }
}

impl<K: Eq + Hash> OddKinds<K> {
    fn add(&mut self, kind: K, number: u64, says: impl FnOnce() -> String) {
        if self.0.len() < KINDS_MAX || self.0.contains_key(&kind) {
            self.0.entry(kind).or_default().add(number, says);
        }
    }

    /// All of the kinds that are odd.
    fn odd(&self, is_odd: impl Fn(&K) -> bool) -> Odd {
        let all = || self.0.iter().filter(|(kind, _)| is_odd(kind)).map(|(_, odd)| odd);
        let first = all().min_by_key(|odd| odd.first).cloned().unwrap_or_default();
        Odd { frames: all().map(|odd| odd.frames).sum(), ..first }
    }
}

/// Answers that came to the workers.
#[derive(Default)]
pub(crate) struct AnswersCame {
    to: OddKinds<u32>,
    tags: OddKinds<Option<u16>>,
    ports: OddKinds<u16>,
    checksum: Odd,
    /// Digests of where they went to and what they hold.
    known: HashSet<u64, Quick>,
    /// By the Ethernet address that they came to.
    again: OddKinds<[u8; 6]>,
    /// By where they went to and the Ethernet address that they came to.
    stations: OddKinds<(u32, [u8; 6])>,
}

/// Answers that left the server.
#[derive(Default)]
pub(crate) struct AnswersLeft {
    to: HashSet<u32, Quick>,
    ports: HashSet<u16, Quick>,
    known: HashSet<u64, Quick>,
    /// They hold what an earlier one held.
    again: u64,
    /// Some left with a checksum that does not fit.
    misfits: bool,
}

/// What is odd about answers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct OddAnswers {
    /// They came to addresses which no worker has and which nothing was answered to.
    pub(crate) address: Odd,
    /// They came with a VLAN tag that no frame of the workers has, or certainly without one.
    pub(crate) tag: Odd,
    /// Their checksum does not fit, and did when they left.
    pub(crate) checksum: Odd,
    /// They came with a source port that none left with, and the device keeps it.
    pub(crate) port: Odd,
    /// They came again, more often than they left.
    pub(crate) again: Odd,
    /// They came to an Ethernet address that no worker takes.
    pub(crate) station: Odd,
}

impl OddAnswers {
    /// Answers that came and that workers do not take: they are not lost.
    pub(crate) fn refused(&self) -> u64 {
        self.address.frames.max(self.tag.frames)
    }
}

impl AnswersLeft {
    pub(crate) fn add(&mut self, datagram: &Datagram) {
        self.to.insert(datagram.dst.0);
        self.ports.insert(datagram.src.1);
        self.again += u64::from(!self.known.insert(digest(datagram.payload)));
        self.misfits |= !datagram.ip_fits || !datagram.udp_fits();
    }
}

impl AnswersCame {
    pub(crate) fn add(&mut self, datagram: &Datagram, number: u64) {
        let to = || format!("is an answer of the server and goes to {}", dotted(datagram.dst));
        self.to.add(datagram.dst.0, number, to);
        let tag = datagram.tag;
        self.tags.add(tag, number, || format!("is an answer of the server and {}", other_tag(tag)));
        let from =
            || format!("is an answer of the server and comes from {}, from which none left", dotted(datagram.src));
        self.ports.add(datagram.src.1, number, from);
        let (host, station) = (datagram.dst.0, datagram.station);
        self.stations.add((host, station), number, || {
            format!("is an answer to {} at an Ethernet address that no worker takes", dotted(datagram.dst))
        });
        let [.., a, b, c, d] = datagram.station.map(u64::from);
        let to = u64::from(datagram.dst.0) << 32 | a << 24 | b << 16 | c << 8 | d;
        if !self.known.insert(digest(datagram.payload) ^ to.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            self.again.add(datagram.station, number, || {
                "is an answer of the server that came to the same address before".into()
            });
        }
        if !datagram.ip_fits {
            self.checksum.add(number, || "is an answer of the server, and the checksum of IPv4 does not fit".into());
        } else if !datagram.udp_fits() {
            self.checksum.add(number, || "is an answer of the server, and the checksum of UDP does not fit".into());
        }
    }

    /// What is odd beside those that left. `is_known` says whether an address is a worker's or a group's, `is_station` whether one of Ethernet is a
    /// worker's; the workers' frames have `tags`, and captures have those of the cable if they are known to show them.
    pub(crate) fn odd(
        &self,
        left: &AnswersLeft,
        tags: &HashSet<Option<u16>, Quick>,
        shows_tags: bool,
        keeps_port: bool,
        is_known: impl Fn(u32) -> bool,
        is_station: impl Fn(&[u8; 6]) -> bool,
    ) -> OddAnswers {
        // What no worker takes may be of others.
        let all = self.again.odd(|station| station[0] & 1 == 1 || is_station(station));
        // One with the content of an earlier one may have had a copy for each host.
        let hosts = if self.to.0.len() < KINDS_MAX { self.to.0.len() as u64 } else { u64::MAX };
        let again = all.frames.saturating_sub(left.again.saturating_mul(hosts));
        OddAnswers {
            address: self.to.odd(|to| !left.to.contains(to) && !is_known(*to)),
            tag: self.tags.odd(|tag| (tag.is_some() || shows_tags) && !tags.contains(tag)),
            checksum: if left.misfits { Odd::default() } else { self.checksum.clone() },
            port: if keeps_port { self.ports.odd(|port| !left.ports.contains(port)) } else { Odd::default() },
            again: if again > AGAIN_MIN { Odd { frames: again, ..all } } else { Odd::default() },
            station: self.stations.odd(|(to, station)| {
                is_known(*to) && !is_station(station) && *station != [0xff; 6] && *station != of_group(*to)
            }),
        }
    }
}

/// The Ethernet address of an IPv4 multicast group.
pub(crate) fn of_group(group: u32) -> [u8; 6] {
    let [_, b, c, d] = group.to_be_bytes();
    [1, 0, 0x5e, b & 0x7f, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::datagram;

    /// What is odd about an answer that left and one that came.
    fn odd(left: &[u8], came: &[u8], tags: &[Option<u16>]) -> OddAnswers {
        let (mut sent, mut all) = (AnswersLeft::default(), AnswersCame::default());
        sent.add(&Datagram::read(left).expect("a datagram"));
        all.add(&Datagram::read(came).expect("a datagram"), 1);
        all.odd(&sent, &tags.iter().copied().collect(), false, true, |to| to == 2, |_| true)
    }

    #[test]
    fn checksums_of_answers_that_the_device_changed_do_not_fit() {
        let right = datagram(None, (9, 7), (2, 5), b"ack");
        let mut wrong = right.clone();
        wrong[14 + 10] ^= 1;
        assert_eq!(odd(&right, &right, &[None]), OddAnswers::default());
        assert_eq!(odd(&right, &wrong, &[None]).checksum.frames, 1);
        // The server's own.
        assert_eq!(odd(&wrong, &wrong, &[None]), OddAnswers::default());
        let mut wrong = right.clone();
        *wrong.last_mut().expect("a byte") ^= 1;
        assert_eq!(odd(&right, &wrong, &[None]).checksum.frames, 1);
        // None at all says nothing.
        wrong[14 + 20 + 6..][..2].fill(0);
        assert_eq!(odd(&right, &wrong, &[None]), OddAnswers::default());
    }

    #[test]
    fn answers_with_another_tag_are_of_another_network() {
        let of = |tag| datagram(tag, (9, 7), (2, 5), b"ack");
        assert_eq!(odd(&of(Some(5)), &of(Some(6)), &[Some(5)]).tag.frames, 1);
        assert_eq!(odd(&of(Some(5)), &of(Some(5)), &[Some(5)]), OddAnswers::default());
        // A card took it off, of one or of all.
        assert_eq!(odd(&of(None), &of(None), &[Some(5)]), OddAnswers::default());
        // Where captures have the tags of the cable, no card did.
        let mut all = AnswersCame::default();
        all.add(&Datagram::read(&of(None)).expect("a datagram"), 1);
        let lacks = |tag: Option<u16>| {
            let tags = [tag].into_iter().collect();
            all.odd(&AnswersLeft::default(), &tags, true, false, |_| true, |_| true).tag
        };
        assert_eq!((lacks(Some(5)).frames, lacks(None).frames), (1, 0));
        assert!(lacks(Some(5)).says.ends_with("has no VLAN tag, and all that was sent has one"));
    }

    #[test]
    fn answers_to_nobody_have_the_wrong_address() {
        let of = |to| datagram(None, (9, 7), (to, 5), b"ack");
        assert_eq!(odd(&of(2), &of(3), &[None]).address.frames, 1);
        assert_eq!(odd(&of(3), &of(3), &[None]), OddAnswers::default());
        assert_eq!(odd(&of(3), &of(2), &[None]), OddAnswers::default());
    }

    #[test]
    fn source_ports_that_the_device_keeps_are_those_that_left() {
        let of = |port| datagram(None, (9, port), (2, 5), b"ack");
        assert_eq!(odd(&of(7), &of(8), &[None]).port.frames, 1);
        let (mut sent, mut all) = (AnswersLeft::default(), AnswersCame::default());
        sent.add(&Datagram::read(&of(7)).expect("a datagram"));
        all.add(&Datagram::read(&of(8)).expect("a datagram"), 1);
        assert_eq!(
            all.odd(&sent, &[None].into_iter().collect(), false, false, |_| true, |_| true),
            OddAnswers::default()
        );
    }

    /// Answers that came again, if of thirty answers to host 2 each came as often to these hosts, and all hold the same if they are `equal`.
    fn again(times: usize, hosts: &[u32], equal: bool) -> u64 {
        let (mut sent, mut all) = (AnswersLeft::default(), AnswersCame::default());
        for n in 0..30u8 {
            let of = |to| datagram(None, (9, 7), (to, 5), &[if equal { 0 } else { n }; 8]);
            sent.add(&Datagram::read(&of(2)).expect("a datagram"));
            for host in hosts.iter().flat_map(|host| std::iter::repeat_n(*host, times)) {
                all.add(&Datagram::read(&of(host)).expect("a datagram"), n.into());
            }
        }
        all.odd(&sent, &[None].into_iter().collect(), false, true, |_| true, |station| station[5] < 9).again.frames
    }

    #[test]
    fn answers_that_come_twice_came_again_and_copies_for_each_worker_did_not() {
        assert_eq!(again(2, &[2], false), 30);
        assert_eq!(again(1, &[2, 3, 4], false), 0);
        // To a station that no worker is.
        assert_eq!(again(2, &[9], false), 0);
        assert_eq!((again(1, &[2], true), again(1, &[2, 3, 4], true)), (0, 0));
    }

    #[test]
    fn answers_at_an_ethernet_address_that_no_worker_has_reach_none() {
        let at = |station: [u8; 6]| {
            let mut frame = datagram(None, (9, 7), (2, 5), b"ack");
            frame[..6].copy_from_slice(&station);
            let mut all = AnswersCame::default();
            all.add(&Datagram::read(&frame).expect("a datagram"), 1);
            let is_worker = |station: &[u8; 6]| *station == [2, 0, 0, 0, 0, 2];
            let tags = [None].into_iter().collect();
            all.odd(&AnswersLeft::default(), &tags, false, true, |to| to == 2, is_worker).station.frames
        };
        assert_eq!([[2, 0, 0, 0, 0, 2], [0xff; 6], of_group(2)].map(at), [0; 3]);
        assert_eq!([[2, 0, 0, 0, 0, 3], [1, 0, 0x5e, 0, 0, 0x42]].map(at), [1; 2]);
    }
}
