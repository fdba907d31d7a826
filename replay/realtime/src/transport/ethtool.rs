//! Queries to a driver by the request SIOCETHTOOL. All but one only read; that one is for interfaces made by pktgen.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]

use std::io;

use super::link::query_with;

const GET_DRIVER: u32 = 0x03;
const GET_RING: u32 = 0x10;
const GET_PAUSE: u32 = 0x12;
const GET_RECEIVE_CHECKSUM: u32 = 0x14;
const GET_SEND_CHECKSUM: u32 = 0x16;
const SET_SEND_CHECKSUM: u32 = 0x17;
const GET_TSO: u32 = 0x1e;
const GET_GSO: u32 = 0x23;
const GET_FLAGS: u32 = 0x25;
const GET_GRO: u32 = 0x2b;
const GET_HASH: u32 = 0x29;
const GET_TABLE: u32 = 0x38;
const GET_STAMPS: u32 = 0x41;

/// UDP over IPv4.
const UDP_V4: u32 = 2;
/// Maximum length of a table.
const ENTRIES_MAX: u32 = 1 << 16;

/// Words of the largest answer, that of GET_DRIVER: 196 bytes.
const WORDS: usize = 49;

const FLAG_LRO: u32 = 1 << 15;
const STAMPS_SENT: u32 = 1 << 0;
const STAMPS_RECEIVED: u32 = 1 << 2;
/// Receive filter flag: every frame.
const FILTER_ALL: u32 = 1 << 1;

/// Offloads of an interface; none if its driver does not report them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Whether the kernel merges arriving packets.
    pub gro: Option<bool>,
    /// Whether the card merges arriving packets.
    pub lro: Option<bool>,
    /// Whether the kernel divides leaving packets.
    pub gso: Option<bool>,
    /// Whether the card divides leaving packets.
    pub tso: Option<bool>,
    /// Whether the card checks checksums.
    pub receive_checksum: Option<bool>,
    /// Whether the card writes checksums.
    pub send_checksum: Option<bool>,
    /// Whether the other side may pause our sending.
    pub pause: Option<bool>,
    /// Size of the receive ring, and its maximum.
    pub receive_ring: Option<(u32, u32)>,
}

/// Stamping capabilities of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StampSupport {
    /// Whether the card stamps leaving frames.
    pub sent: bool,
    /// Whether the card stamps arriving frames.
    pub received: bool,
    /// Whether it stamps every arriving frame, not only PTP.
    pub every: bool,
    /// The card's clock: N of `/dev/ptpN`.
    pub clock: Option<u32>,
}

/// The distribution of arriving frames over a card's receive queues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spread {
    /// Queue of each hash; empty if its driver has no such table.
    pub table: Vec<u32>,
    /// Bits of the fields by which it distributes UDP over IPv4; none if its driver does not report them.
    pub fields: Option<u64>,
}

/// Sends a query, and returns the words of the answer; the first is the query.
fn ask(interface: &str, question: u32) -> io::Result<[u32; WORDS]> {
    let mut words = [0; WORDS];
    words[0] = question;
    ask_in(interface, &mut words)?;
    Ok(words)
}

/// Sends a longer query, with room for a longer answer if the query states its maximum length.
fn ask_in(interface: &str, words: &mut [u32]) -> io::Result<()> {
    if words.len() < WORDS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let set = |request: &mut libc::ifreq| request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the kernel reads the question, and writes an answer to `words`: of a fixed length, which is at most WORDS for
    // the questions above and was checked, or as long as the question's second word says, which `spread` sets to less than
    // the slice has; the slice outlives the call.
    unsafe { query_with(interface, libc::SIOCETHTOOL as _, set) }.map(|_| ())
}

/// Makes the kernel write the checksums of frames that sockets send over an interface made by pktgen. A virtual
/// interface would leave them unfinished, and its other end would receive frames that no card has completed.
pub(crate) fn write_checksums(interface: &str) -> io::Result<()> {
    let mut words = [0; WORDS];
    words[0] = SET_SEND_CHECKSUM;
    ask_in(interface, &mut words)
}

/// Returns the name of the driver.
pub fn driver(interface: &str) -> Option<String> {
    let words = ask(interface, GET_DRIVER).ok()?;
    let bytes = words[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0);
    let name = String::from_utf8(bytes.collect()).ok()?;
    (!name.is_empty()).then_some(name)
}

/// Returns the command that gives an interface of this driver as many queues. A veth has no combined channels.
pub fn set_queues(driver: Option<&str>, interface: &str, queues: u32) -> String {
    match driver {
        Some("veth") => format!("ethtool -L {interface} rx {queues} tx {queues}"),
        _ => format!("ethtool -L {interface} combined {queues}, or rx {queues} tx {queues}"),
    }
}

/// Returns the offloads.
pub fn offloads(interface: &str) -> Offloads {
    let flag = |question| ask(interface, question).ok().map(|words| words[1]);
    Offloads {
        gro: flag(GET_GRO).map(|on| on != 0),
        lro: flag(GET_FLAGS).map(|flags| flags & FLAG_LRO != 0),
        gso: flag(GET_GSO).map(|on| on != 0),
        tso: flag(GET_TSO).map(|on| on != 0),
        receive_checksum: flag(GET_RECEIVE_CHECKSUM).map(|on| on != 0),
        send_checksum: flag(GET_SEND_CHECKSUM).map(|on| on != 0),
        // Words: question, negotiated, receive, send.
        pause: ask(interface, GET_PAUSE).ok().map(|words| words[2] != 0),
        // Words: question, four maxima, four values; receive is the first of each.
        receive_ring: ask(interface, GET_RING).ok().map(|words| (words[5], words[1])),
    }
}

/// Returns the distribution of arriving frames. Words of the table: query, entries, then these; of the fields: query, kind of flow, bits.
pub fn spread(interface: &str) -> Spread {
    // Queried with none, a driver reports the number of entries.
    let entries = ask(interface, GET_TABLE).map_or(0, |words| words[1]).min(ENTRIES_MAX);
    let mut table = vec![0; (entries as usize + 2).max(WORDS)];
    (table[0], table[1]) = (GET_TABLE, entries);
    let told = entries > 0 && ask_in(interface, &mut table).is_ok();
    let table = if told { table[2..][..entries as usize].to_vec() } else { Vec::new() };
    let mut words = [0; WORDS];
    (words[0], words[1]) = (GET_HASH, UDP_V4);
    // A number of two words, one of which is 0, in either order.
    let fields = ask_in(interface, &mut words).ok().map(|()| u64::from(words[2] | words[3]));
    Spread { table, fields }
}

/// Returns the stamping capabilities. Words: query, abilities, clock, kinds of sent frames, three unused, filters.
pub fn stamps(interface: &str) -> Option<StampSupport> {
    let words = ask(interface, GET_STAMPS).ok()?;
    // A negative number means that there is no clock.
    Some(StampSupport {
        sent: words[1] & STAMPS_SENT != 0,
        received: words[1] & STAMPS_RECEIVED != 0,
        every: words[7] & FILTER_ALL != 0,
        clock: u32::try_from(words[2].cast_signed()).ok(),
    })
}

/// Returns the number of the clock of this interface's card, if it has one: /dev/ptpN.
pub(crate) fn card_clock(interface: &str) -> Option<u32> {
    stamps(interface)?.clock
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_veth_has_no_combined_channels() {
        assert_eq!(set_queues(Some("veth"), "w0", 3), "ethtool -L w0 rx 3 tx 3");
        assert_eq!(set_queues(Some("ice"), "eth7", 3), "ethtool -L eth7 combined 3, or rx 3 tx 3");
    }

    #[test]
    fn an_absent_interface_answers_nothing() {
        assert_eq!(driver("pktgen-none"), None);
        assert_eq!((stamps("pktgen-none"), spread("pktgen-none")), (None, Spread::default()));
        assert_eq!(offloads("a-name-that-is-longer-than-any"), Offloads::default());
    }

    #[test]
    fn the_loopback_says_what_it_merges() {
        let offloads = offloads("lo");
        assert!(offloads.gro.is_some() && offloads.tso.is_some(), "{offloads:?}");
        assert_eq!(stamps("lo").map(|s| (s.sent, s.received, s.clock)), Some((false, false, None)));
    }
}
