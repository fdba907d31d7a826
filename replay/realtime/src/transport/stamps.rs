//! Arrival stamps: their source, how a socket is asked for them, and its answers.
//!
//! Used by `af_packet`, `udp` and `listen`. A socket returns stamps in control messages of its packets (SO_TIMESTAMPING); a receive ring
//! has them in its headers. Only one clock is requested at a time: times of two clocks in one column would be useless.

use std::io;
use std::mem;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use pktgen_core::{Error, Result};

use super::link::{Interface, Stamping, interface_of, stamping};
use super::{End, TransportPlan, card_clock, socket};

/// The source of stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamps {
    /// None are requested.
    None,
    /// The kernel, when the driver passed the packet on.
    Kernel,
    /// The card, by its own clock.
    Card,
}

/// The filter of a card that stamps every arriving frame (HWTSTAMP_FILTER_ALL).
const STAMP_ALL: u32 = 1;
/// The setting of stamps of a card, in messages.
const CARD: &str = "transport.stamps = \"card\"";
/// Bytes before the content of a control message.
const NOTE_HEAD: usize = mem::size_of::<libc::cmsghdr>();

impl Stamps {
    /// Returns the clock of the stamps.
    pub fn domain(self, interface: &str) -> Option<String> {
        match self {
            Stamps::None => None,
            Stamps::Kernel => Some("kernel, ns since 1970 (CLOCK_REALTIME)".to_owned()),
            Stamps::Card => Some(match card_clock(interface) {
                Some(number) => format!("network card of {interface}, ns of its clock phc{number}"),
                None => format!("network card of {interface}, ns of its clock"),
            }),
        }
    }

    /// Makes `socket` report the arrival of received packets.
    pub(super) fn ask(self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let flags = match self {
            Stamps::None => return Ok(()),
            Stamps::Kernel => libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE,
            Stamps::Card => libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE,
        };
        socket::set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags)
    }

    /// Reads the stamp in the content of an SCM_TIMESTAMPING: three times, the kernel's, an obsolete one, and the
    /// card's. Missing ones are 0.
    pub(super) fn read(self, content: &[u8]) -> Option<u64> {
        let at = match self {
            Stamps::None => return None,
            Stamps::Kernel => 0,
            Stamps::Card => 2,
        };
        let word = |number: usize| Some(i64::from_ne_bytes(*content.get(8 * number..)?.first_chunk()?));
        let (seconds, ns) = (word(2 * at)?, word(2 * at + 1)?);
        let stamp = seconds.checked_mul(1_000_000_000)?.checked_add(ns)?;
        u64::try_from(stamp).ok().filter(|stamp| *stamp > 0)
    }
}

/// Control messages of a packet: level, kind and content of each. Truncated ones are skipped.
pub(super) struct Notes<'a>(pub &'a [u8]);

impl<'a> Iterator for Notes<'a> {
    type Item = (i32, i32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.0;
        let number = |at: usize| Some(i32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let len = usize::from_ne_bytes(*bytes.first_chunk()?);
        let (level, kind) =
            (number(mem::offset_of!(libc::cmsghdr, cmsg_level))?, number(mem::offset_of!(libc::cmsghdr, cmsg_type))?);
        let content = bytes.get(NOTE_HEAD..len)?;
        self.0 = bytes.get(len.next_multiple_of(mem::size_of::<usize>())..).unwrap_or(&[]);
        Some((level, kind, content))
    }
}

/// Refuses stamps of a card that does not stamp every frame now: the column would be empty. Enabling it changes the
/// host for everybody, so that is left to the user. `now` is the card's stamping, `asked` the setting as written, and `other` one that
/// always works.
pub(super) fn check_card(name: &str, now: Option<Stamping>, asked: &str, other: &str) -> Result<()> {
    match now {
        Some(Stamping { filter: STAMP_ALL, .. }) => Ok(()),
        Some(Stamping { filter, .. }) => Err(Error::Host(format!(
            "{asked}: the card of {name} can stamp frames, and now does not stamp all of them (filter {filter}); switch it on: \
             hwstamp_ctl -i {name} -r 1, or use {other}"
        ))),
        None => Err(Error::Host(format!(
            "{asked}: the driver of {name} has no stamps of a card; use {other}, or a card that stamps (`pktgen doctor --iface \
             {name}`)"
        ))),
    }
}

impl TransportPlan {
    /// Returns whether arriving frames are stamped, and whether departing ones are.
    pub(crate) fn wants_stamps(&self) -> (bool, bool) {
        (self.stamps != Stamps::None, self.departure_stamps() != Stamps::None)
    }

    /// Returns the source of arrival stamps at this end: packets of updates at the server.
    pub(crate) fn stamps_at(&self, end: End) -> Stamps {
        if end == End::Server { self.stamps } else { Stamps::None }
    }

    /// Returns the interface of an end, also if only its address is known; `None` if this host has none.
    pub(crate) fn interface_at(&self, end: End) -> Option<String> {
        let name = self.bound(end);
        // Without addresses both cables use the loopback interface.
        let address = || self.addresses.get(end as usize).map_or(IpAddr::from([127, 0, 0, 1]), |address| address.ip());
        name.cloned().or_else(|| interface_of(address()))
    }

    /// Returns whether a card is to stamp what leaves this end.
    fn sends_by_card(&self, end: End) -> bool {
        end == End::Workers && self.departure_stamps() == Stamps::Card
    }

    /// Returns whether a card is to stamp frames at this end.
    pub(super) fn wants_card(&self, end: End) -> bool {
        self.sends_by_card(end) || self.stamps_at(end) == Stamps::Card
    }

    /// Refuses stamps of a card that does not provide them at `end`.
    pub(super) fn check_stamps(&self, end: End) -> Result<()> {
        if !self.wants_card(end) {
            return Ok(());
        }
        let Some(name) = self.interface_at(end) else {
            return Err(Error::Host(format!(
                "{CARD}: no interface of this host has the address of {}; give one that does in transport.addresses",
                end.name()
            )));
        };
        Interface::open(&name)?;
        self.check_stamping(end, &name, stamping(&name))
    }

    /// Refuses stamps of a card at `end`, whose interface is `name`, that the card's stamping `now` does not provide.
    pub fn check_stamping(&self, end: End, name: &str, now: Option<Stamping>) -> Result<()> {
        match (self.wants_card(end), self.sends_by_card(end)) {
            (false, _) => Ok(()),
            (true, false) => check_card(name, now, CARD, "\"kernel\""),
            (true, true) if now.is_some_and(|now| now.sent) => Ok(()),
            (true, true) => Err(Error::Host(format!(
                "{CARD} with transport.sent_stamps_every: the card of {name} does not stamp what leaves, or not now; switch it on: \
                 hwstamp_ctl -i {name} -t 1, or use \"kernel\""
            ))),
        }
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::NOTE_HEAD;

    /// A control message in the kernel's format.
    pub fn note(level: i32, kind: i32, content: &[u8]) -> Vec<u8> {
        let mut bytes = (NOTE_HEAD + content.len()).to_ne_bytes().to_vec();
        bytes.extend([level.to_ne_bytes(), kind.to_ne_bytes()].concat());
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(8), 0xee);
        bytes
    }

    /// The content of an SCM_TIMESTAMPING.
    pub fn times(words: [i64; 6]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::TRANSPORTS;
    use super::testing::{note, times};
    use super::*;

    #[test]
    fn interfaces_are_those_of_transports_that_have_some() {
        let kind = TRANSPORTS.iter().find(|kind| kind.name() == "udp").unwrap();
        let plan = TransportPlan { interfaces: vec!["eth7".into(); 4], ..TransportPlan::of(*kind) };
        assert_eq!(plan.interface_at(End::Server).as_deref(), Some("lo"));
        assert!(plan.check_link(1e15).is_ok());
    }

    #[test]
    fn a_stamp_is_of_the_clock_that_was_asked_for() {
        let both = times([7, 5, 0, 0, 9, 3]);
        assert_eq!(Stamps::Kernel.read(&both), Some(7_000_000_005));
        assert_eq!(Stamps::Card.read(&both), Some(9_000_000_003));
        assert_eq!(Stamps::None.read(&both), None);
        assert_eq!(Stamps::Card.read(&times([7, 5, 0, 0, 0, 0])), None, "the card made none");
        assert_eq!(Stamps::Kernel.read(&times([i64::MAX, 5, 0, 0, 0, 0])), None);
        assert_eq!(Stamps::Card.read(&both[..47]), None, "cut");
    }

    #[test]
    fn messages_follow_each_other_and_end_where_one_is_cut() {
        let stamp = note(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &times([1, 2, 0, 0, 0, 0]));
        let drops = note(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &77u32.to_ne_bytes());
        let bytes = [drops.clone(), stamp.clone()].concat();
        let found: Vec<_> = Notes(&bytes).collect();
        assert_eq!(found[0], (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &77u32.to_ne_bytes()[..]));
        assert_eq!((found.len(), Stamps::Kernel.read(found[1].2)), (2, Some(1_000_000_002)));
        assert_eq!(Notes(&bytes[..bytes.len() - 1]).count(), 1);
        assert_eq!(Notes(&[]).count(), 0);
        assert_eq!(Notes(&[0; 64]).count(), 0, "a message shorter than its own head");
    }

    proptest! {
        /// Any bytes are parsed to an end, within their bounds.
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..200), len in 0usize..300) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_chunk_mut() {
                *first = len.to_ne_bytes();
            }
            prop_assert!(Notes(&bytes).map(|(_, _, content)| content.len() + NOTE_HEAD).sum::<usize>() <= bytes.len());
        }
    }

    #[test]
    fn addresses_have_interfaces() {
        assert_eq!(interface_of([127, 0, 0, 1].into()).as_deref(), Some("lo"));
        assert_eq!(interface_of([203, 0, 113, 77].into()), None, "nobody's");
    }
}
