//! The destinations of a worker in sparse training: the switch of each rack with a parameter server, and each server
//! (LIBRA §2.1, §6; `docs/libra.md`).

use crate::format::{Numbers, heat_of};
use pktgen_workload::sparse::shards::Shards;

use super::packing::Heat;

/// A destination: a switch by its number if packets to it are hot, otherwise a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Destination {
    pub heat: Heat,
    pub number: u32,
}

/// All destinations of a run. Each has an index: the switches come first, then the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Destinations {
    racks: u32,
    servers: u32,
}

impl Destinations {
    pub fn of(shards: &Shards) -> Self {
        Destinations { racks: shards.racks(), servers: shards.servers() }
    }

    /// Returns all destinations in the order of their indices.
    pub fn all(self) -> impl Iterator<Item = Destination> {
        [Heat::Hot, Heat::Cold].into_iter().flat_map(move |heat| self.each(heat))
    }

    /// Returns those of one kind, in the order of their indices.
    pub fn each(self, heat: Heat) -> impl Iterator<Item = Destination> {
        (0..self.count(heat)).map(move |number| Destination { heat, number })
    }

    /// Returns the number of destinations of one kind.
    #[inline]
    pub fn count(self, heat: Heat) -> u32 {
        match heat {
            Heat::Hot => self.racks,
            Heat::Cold => self.servers,
        }
    }

    #[inline]
    pub fn place(self, to: Destination) -> usize {
        let before = if to.heat == Heat::Cold { self.racks } else { 0 };
        (before + to.number) as usize
    }

    /// Returns the sequence number of the `number`-th packet to a destination.
    #[inline]
    pub fn seq(self, to: Destination, number: u32) -> u32 {
        Numbers::new(self.servers).seq(to.number, number, to.heat)
    }

    /// Returns the destination of a sequence number, and the number there; `None` if there is no such destination.
    #[inline]
    pub fn find(self, seq: u32) -> Option<(Destination, u32)> {
        let (number, of_it) = Numbers::new(self.servers).split(seq);
        let to = Destination { heat: heat_of(seq), number };
        (number < self.count(to.heat)).then_some((to, of_it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_sequence_numbers_name_destinations() {
        let destinations = Destinations { racks: 2, servers: 3 };
        let all: Vec<_> = destinations.all().collect();
        assert_eq!(all.len(), 5);
        for (place, to) in all.into_iter().enumerate() {
            assert_eq!(destinations.place(to), place);
            assert_eq!(destinations.find(destinations.seq(to, 9)), Some((to, 9)));
        }
        assert_eq!(destinations.find(4), None, "there is no third switch");
    }
}
