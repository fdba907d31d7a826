//! The kernel's counters of network interfaces, and of datagrams with a wrong checksum: read before a run and after it, never per frame.

use std::fs;
use std::path::Path;

use pktgen_core::record::InterfaceCounts;

/// Counters of all interfaces, in the network namespace of the reading thread.
const COUNTERS: &str = "/proc/thread-self/net/dev";
/// Descriptions of all interfaces.
const FOLDER: &str = "/sys/class/net";

/// Counters of IPv4 and of IPv6 of that namespace.
const OF_IPV4: &str = "/proc/thread-self/net/snmp";
const OF_IPV6: &str = "/proc/thread-self/net/snmp6";

/// Returns how many datagrams with a wrong checksum all UDP sockets have discarded; `None` if the kernel does not tell. Each socket counts
/// its own among its drops.
pub(crate) fn checksum_errors() -> Option<u64> {
    let of_ipv6 = fs::read_to_string(OF_IPV6).ok().and_then(|text| wrong_of_ipv6(&text));
    Some(wrong_of_ipv4(&fs::read_to_string(OF_IPV4).ok()?)? + of_ipv6.unwrap_or(0))
}

/// Reads the count from a text in the form of `/proc/net/snmp`: a line of names, then one of numbers.
fn wrong_of_ipv4(text: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_ascii_whitespace).filter_map(|mut words| {
        let protocol = words.next()?;
        (protocol == "Udp:").then_some(words)
    });
    let (names, numbers) = (lines.next()?, lines.next()?);
    names.zip(numbers).find(|(name, _)| *name == "InCsumErrors")?.1.parse().ok()
}

/// The same of a text in the form of `/proc/net/snmp6`: a name and a number on each line.
fn wrong_of_ipv6(text: &str) -> Option<u64> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    pairs.find(|(name, _)| *name == "Udp6InCsumErrors")?.1.trim().parse().ok()
}

/// An interface's counters at one moment: totals since its creation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct InterfaceReading(InterfaceCounts);

impl InterfaceReading {
    /// Reads them; `None` if there is no such interface.
    pub(crate) fn of(interface: &str) -> Option<Self> {
        Self::within(&fs::read_to_string(COUNTERS).ok()?, Path::new(FOLDER), interface)
    }

    /// Reads them from a text in the form of `/proc/net/dev` and a folder in the form of `/sys/class/net`.
    fn within(counters: &str, folder: &Path, interface: &str) -> Option<Self> {
        let line = counters.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
        let numbers: Vec<u64> = line.split_ascii_whitespace().map_while(|number| number.parse().ok()).collect();
        // Receive: bytes, packets, errors, drops and four more; then the same for send.
        let [_, rx_packets, rx_errors, rx_dropped, _, _, _, _, _, tx_packets, tx_errors, tx_dropped, ..] = numbers[..]
        else {
            return None;
        };
        let text = |name: &str| {
            let text = fs::read_to_string(folder.join(interface).join(name)).unwrap_or_default();
            text.trim().to_owned()
        };
        Some(InterfaceReading(InterfaceCounts {
            part: None,
            end: String::new(),
            interface: interface.to_owned(),
            sent: None,
            received: 0,
            tx_packets,
            tx_dropped,
            tx_errors,
            rx_packets,
            rx_dropped,
            rx_errors,
            carrier_changes: text("carrier_changes").parse().unwrap_or_default(),
            state: text("operstate"),
            mtu: text("mtu").parse().unwrap_or_default(),
        }))
    }

    /// Returns the counts since this reading; counters that cannot be read any more count as unchanged. `end` is the
    /// interface's role in the run.
    pub(crate) fn since(&self, end: &str) -> InterfaceCounts {
        let now = Self::of(&self.0.interface).unwrap_or_else(|| {
            InterfaceReading(InterfaceCounts { state: "absent".to_owned(), mtu: 0, ..self.0.clone() })
        });
        self.until(&now, end)
    }

    fn until(&self, now: &Self, end: &str) -> InterfaceCounts {
        let (InterfaceReading(before), InterfaceReading(now)) = (self, now);
        InterfaceCounts {
            part: None,
            end: end.to_owned(),
            interface: before.interface.clone(),
            sent: None,
            received: 0,
            tx_packets: now.tx_packets.saturating_sub(before.tx_packets),
            tx_dropped: now.tx_dropped.saturating_sub(before.tx_dropped),
            tx_errors: now.tx_errors.saturating_sub(before.tx_errors),
            rx_packets: now.rx_packets.saturating_sub(before.rx_packets),
            rx_dropped: now.rx_dropped.saturating_sub(before.rx_dropped),
            rx_errors: now.rx_errors.saturating_sub(before.rx_errors),
            carrier_changes: now.carrier_changes.saturating_sub(before.carrier_changes),
            state: now.state.clone(),
            mtu: now.mtu,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_with_a_wrong_checksum_are_counted_for_both_protocols() {
        let of_ipv4 = "Tcp: RtoMin InCsumErrors\nTcp: 200 9\nUdp: InDatagrams NoPorts InCsumErrors MemErrors\nUdp: 12 3 142 5\n\
                       UdpLite: InDatagrams InCsumErrors\nUdpLite: 1 7\n";
        assert_eq!(wrong_of_ipv4(of_ipv4), Some(142));
        assert_eq!((wrong_of_ipv4("Udp: InDatagrams\nUdp: 12\n"), wrong_of_ipv4("")), (None, None));
        let of_ipv6 =
            "Udp6InErrors                    \t8\nUdp6InCsumErrors                \t3\nUdpLite6InCsumErrors\t4\n";
        assert_eq!((wrong_of_ipv6(of_ipv6), wrong_of_ipv6("")), (Some(3), None));
    }

    #[test]
    fn counts_are_those_between_two_readings() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("h0");
        fs::create_dir_all(&own).unwrap();
        for (name, text) in [("operstate", "up\n"), ("mtu", "1500\n"), ("carrier_changes", "2\n")] {
            fs::write(own.join(name), text).unwrap();
        }
        let read = |numbers: &str| {
            let text =
                format!("Inter-| Receive\n face |bytes\n    lo: 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n  h0: {numbers}\n");
            InterfaceReading::within(&text, folder.path(), "h0")
        };
        let before = read("1 10 1 2 0 0 0 0 1 20 3 4 0 0 0 0").unwrap();
        fs::write(own.join("operstate"), "lowerlayerdown\n").unwrap();
        fs::write(own.join("carrier_changes"), "3\n").unwrap();
        let after = read("1 15 1 2 0 0 0 0 1 27 3 9 0 0 0 0").unwrap();
        let counts = before.until(&after, "workers");
        assert_eq!((counts.rx_packets, counts.rx_errors, counts.rx_dropped), (5, 0, 0));
        assert_eq!((counts.tx_packets, counts.tx_errors, counts.tx_dropped), (7, 0, 5));
        assert_eq!(
            counts.to_string(),
            "h0 counted 7 packets sent, 5 dropped, 0 errors; state lowerlayerdown, 1 carrier changes, MTU 1500"
        );
        assert_eq!((read("1 2 3"), InterfaceReading::of("pktgen-none")), (None, None));
    }
}
