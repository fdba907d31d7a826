//! Ethernet addresses that frames go to, host by host.

use std::collections::{HashMap, HashSet};

use pktgen_wire::device::{Address, Mac};

use crate::crossing::Odd;
use crate::frame::{Datagram, Quick};

/// Fewest frames to a group of which something is said.
const FEW: u64 = 20;

/// Frames of one host by the Ethernet address that they go to, in the order of the capture.
#[derive(Default)]
pub(crate) struct Stations {
    of: Vec<Station>,
    /// From which the host itself sends.
    pub(crate) own: Option<[u8; 6]>,
    /// Which the last frame had: most have the same.
    last: usize,
}

struct Station {
    host: u32,
    address: [u8; 6],
    frames: u64,
    first: u64,
}

/// Ethernet addresses that are told apart.
const STATIONS_MAX: usize = 64;

impl Stations {
    pub(crate) fn add(&mut self, datagram: &Datagram, number: u64) {
        let (host, address) = (datagram.dst.0, datagram.station);
        let is_it = |own: &Station| own.host == host && own.address == address;
        if !self.of.get(self.last).is_some_and(is_it) {
            match self.of.iter().position(is_it) {
                Some(at) => self.last = at,
                None if self.of.len() < STATIONS_MAX => {
                    self.last = self.of.len();
                    self.of.push(Station { host, address, frames: 0, first: number });
                }
                None => return,
            }
        }
        self.of[self.last].frames += 1;
    }

    /// Frames of hosts with another address than most of theirs have, or, if all have the same, than `sent_to` and the host's own; where the
    /// profile says what the `server` has, with another than that.
    pub(crate) fn odd(&self, sent_to: &HashSet<[u8; 6], Quick>, server: Option<[u8; 6]>) -> Odd {
        if let Some(server) = server {
            let says = |odd: &Station| {
                format!("goes to the Ethernet address {}, and the server's is {}", text(&odd.address), text(&server))
            };
            return self.all_of(|own| own.address != server, says);
        }
        let most =
            |own: &Station| self.of.iter().filter(|other| other.host == own.host).max_by_key(|other| other.frames);
        let others = || {
            self.of.iter().filter_map(|own| Some((own, most(own)?))).filter(|(own, most)| own.address != most.address)
        };
        if let Some((first, most)) = others().min_by_key(|(own, _)| own.first) {
            return Odd {
                frames: others().map(|(own, _)| own.frames).sum(),
                first: first.first,
                says: format!(
                    "goes to the Ethernet address {}, and most frames to that host go to {}",
                    text(&first.address),
                    text(&most.address)
                ),
            };
        }
        let Some(host) = self.own else { return Odd::default() };
        // The lowest bit of the first byte: to a group, or to all.
        let foreign = |own: &Station| own.address != host && own.address[0] & 1 == 0 && !sent_to.contains(&own.address);
        self.all_of(foreign, |first| {
            format!(
                "goes to the Ethernet address {}, to which nothing was sent, and the server's own is {}",
                text(&first.address),
                text(&host)
            )
        })
    }

    fn all_of(&self, is_odd: impl Fn(&Station) -> bool, says: impl Fn(&Station) -> String) -> Odd {
        let odd = || self.of.iter().filter(|own| is_odd(own));
        let Some(first) = odd().min_by_key(|own| own.first) else { return Odd::default() };
        Odd { frames: odd().map(|own| own.frames).sum(), first: first.first, says: says(first) }
    }

    /// Frames to groups that all go to the Ethernet address of one member: the others do not take them. A device that has no multicast may
    /// send a copy to each.
    pub(crate) fn of_one(&self, members: &HashMap<u32, HashSet<[u8; 6]>>) -> Odd {
        let mut all = Odd::default();
        for (group, members) in members {
            let own: Vec<_> = self.of.iter().filter(|own| own.host == *group).collect();
            let [only] = own[..] else { continue };
            if members.len() < 2 || !members.contains(&only.address) || only.frames < FEW {
                continue;
            }
            if all.frames == 0 || only.first < all.first {
                let (to, others) = (text(&only.address), members.len() - 1);
                all.first = only.first;
                all.says = format!(
                    "goes to the group {} at the Ethernet address {to} of one worker, and none goes to those of {others} others",
                    Address(*group)
                );
            }
            all.frames += only.frames;
        }
        all
    }
}

fn text(address: &[u8; 6]) -> String {
    Mac(*address).to_string()
}
