//! Fields of headers that the device must keep, by the run's profile: their values in what left, and what came with others.

use std::collections::HashSet;

use crate::frame::{Datagram, Quick};

/// Fields that captures show, by their names in profiles; addresses, ports and tags are compared by themselves.
const ETH_SRC: &str = "eth_src";
const ETH_DST: &str = "eth_dst";
const IP_TOS: &str = "ip_tos";
const IP_ID: &str = "ip_id";
const IP_TTL: &str = "ip_ttl";

/// Values of kept fields in frames that left.
#[derive(Default)]
pub(crate) struct Kept {
    fields: Vec<&'static str>,
    /// Source addresses of IPv4 with those of Ethernet.
    from: HashSet<u64, Quick>,
    to: HashSet<u64, Quick>,
    /// Values of the header of IPv4, by the place of their field.
    ip: [HashSet<u16, Quick>; 3],
    hosts: HashSet<u32, Quick>,
    /// What the last frame had: most have the same.
    last: Option<Values>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Values {
    host: u32,
    from: [u8; 6],
    to: [u8; 6],
    /// Type of service, identification, time to live.
    ip: [u16; 3],
}

const OF_IP: [&str; 3] = [IP_TOS, IP_ID, IP_TTL];

fn number(address: [u8; 6]) -> u64 {
    address.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn text(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

/// A pair of an address and the station that it is at.
fn at(host: u32, station: [u8; 6]) -> u64 {
    number(station) ^ u64::from(host).rotate_left(40)
}

impl Values {
    fn of(datagram: &Datagram) -> Values {
        let ip = datagram.packet;
        let ip = [u16::from(ip[1]), u16::from_be_bytes([ip[4], ip[5]]), u16::from(ip[8])];
        Values { host: datagram.src.0, from: datagram.from_station, to: datagram.station, ip }
    }
}

impl Kept {
    /// Those of the fields that a profile `keeps` which captures show.
    pub(crate) fn new(keeps: &[String]) -> Kept {
        let all = [ETH_SRC, ETH_DST, IP_TOS, IP_ID, IP_TTL];
        let fields = all.into_iter().filter(|field| keeps.iter().any(|kept| kept == field)).collect();
        Kept { fields, ..Kept::default() }
    }

    /// Takes note of a frame that left.
    pub(crate) fn left(&mut self, datagram: &Datagram) {
        let values = Values::of(datagram);
        if self.fields.is_empty() || self.last.replace(values) == Some(values) {
            return;
        }
        self.hosts.insert(values.host);
        self.from.insert(at(values.host, values.from));
        self.to.insert(number(values.to));
        self.ip.iter_mut().zip(values.ip).for_each(|(all, own)| _ = all.insert(own));
    }

    /// The first kept field with a value that no frame had which left, and what is wrong with it.
    pub(crate) fn changed(&self, datagram: &Datagram) -> Option<String> {
        let values = Values::of(datagram);
        let of = |field: &'static str| {
            let odd = match field {
                ETH_SRC => self.hosts.contains(&values.host) && !self.from.contains(&at(values.host, values.from)),
                ETH_DST => !self.to.contains(&number(values.to)),
                field => {
                    let place = OF_IP.iter().position(|own| *own == field)?;
                    !self.ip[place].contains(&values.ip[place])
                }
            };
            odd.then(|| match field {
                ETH_SRC => format!("{field} is {}, with which that host sent nothing", text(values.from)),
                ETH_DST => format!("{field} is {}, to which nothing was sent", text(values.to)),
                field => {
                    let place = OF_IP.iter().position(|own| *own == field).unwrap_or(0);
                    format!("{field} is {}, with which nothing was sent", values.ip[place])
                }
            })
        };
        self.fields.iter().find_map(|field| of(field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::{datagram, seal};

    /// What changed in a frame of worker 1 with one byte set, if frames of workers 1 and 2 left.
    fn changed(keeps: &[&str], at: usize, byte: u8) -> Option<String> {
        let mut kept = Kept::new(&keeps.iter().map(|field| (*field).to_owned()).collect::<Vec<_>>());
        for worker in [1, 2] {
            kept.left(&Datagram::read(&datagram(None, (worker, 5), (9, 7), b"update")).expect("a datagram"));
        }
        let mut came = datagram(None, (1, 5), (9, 7), b"sum of updates");
        came[at] = byte;
        seal(&mut came, 14);
        kept.changed(&Datagram::read(&came).expect("a datagram"))
    }

    #[test]
    fn kept_fields_with_other_values_are_found_and_rewritten_ones_are_not() {
        let all = [("eth_src", 11, 2), ("eth_dst", 5, 2), ("ip_tos", 15, 8), ("ip_id", 19, 1), ("ip_ttl", 22, 63)];
        for (field, at, byte) in all {
            let says = changed(&[field], at, byte).expect(field);
            assert!(says.starts_with(field), "{says}");
            let others: Vec<_> = all.iter().map(|(other, ..)| *other).filter(|other| *other != field).collect();
            assert_eq!(changed(&others, at, byte), None, "{field}");
            assert_eq!(changed(&[], at, byte), None, "{field}");
        }
        // A sum may have the header of either.
        assert_eq!(changed(&all.map(|(field, ..)| field), 15, 0), None);
    }
}
