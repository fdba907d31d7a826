//! Sums by key: a packet opens one by being merged into itself, and it departs in many packets that are known by the opener's id.
//!
//! A sum is delivered when a worker has all of its parts. It may be lost with its device or move to another one; the
//! fate of its members is known only at the end.

use std::collections::BTreeMap;

use pktgen_core::index::NOWHERE;

#[derive(Debug, Clone, Copy)]
struct Sum {
    /// The device that holds it.
    node: u16,
    /// Whether its results left: the next sum opened by the same packet is another one.
    departed: bool,
    /// Whether its device is gone. Results in flight to workers may still suffice.
    lost: bool,
    /// Whether a worker has all of it.
    over: bool,
}

/// All sums of a run. Packets are numbered like rows of `sent`.
#[derive(Debug, Default)]
pub(crate) struct Keyed {
    sums: Vec<Sum>,
    /// Sums opened by each packet, in order.
    opened: BTreeMap<usize, Vec<u32>>,
    /// The sum that contains each packet; empty as long as there is no sum.
    of: Vec<u32>,
    /// Where the members of each sum begin; known after all events in devices have been read.
    start: Vec<usize>,
    members: Vec<u32>,
}

impl Keyed {
    /// Whether a sum is known by this packet.
    pub(crate) fn is_opener(&self, packet: usize) -> bool {
        !self.of.is_empty() && self.opened.contains_key(&packet)
    }

    fn last(&mut self, opener: usize) -> Option<&mut Sum> {
        let number = *self.opened.get(&opener)?.last()?;
        self.sums.get_mut(number as usize)
    }

    /// Adds `packet` to the sum opened by `opener` at `node`; if `again`, the packet stays in its present sum. Returns
    /// false if there is no such sum. The run has `packets` packets.
    pub(crate) fn add(&mut self, packet: usize, opener: usize, node: u16, again: bool, packets: usize) -> bool {
        if self.of.is_empty() {
            self.of = vec![NOWHERE; packets];
        }
        let goes_on = |sum: &Sum| sum.node == node && !(sum.departed || sum.lost);
        let known = self.opened.get(&opener).and_then(|numbers| numbers.last().copied());
        let number = match known {
            Some(number) if packet != opener || goes_on(&self.sums[number as usize]) => number,
            _ if packet == opener => {
                let number = self.sums.len() as u32;
                self.sums.push(Sum { node, departed: false, lost: false, over: false });
                self.opened.entry(opener).or_default().push(number);
                number
            }
            _ => return false,
        };
        if !again {
            self.of[packet] = number;
        }
        true
    }

    /// Whether a packet that is added at `node` is no longer in its sum, because `node` does not hold that sum.
    pub(crate) fn is_elsewhere(&self, packet: usize, node: u16) -> bool {
        let sum = self.of.get(packet).and_then(|number| self.sums.get(*number as usize));
        sum.is_some_and(|sum| sum.lost || sum.node != node)
    }

    pub(crate) fn departed(&mut self, opener: usize, node: u16) {
        if let Some(sum) = self.last(opener).filter(|sum| sum.node == node) {
            sum.departed = true;
        }
    }

    /// Records that `node` takes over the last sum opened by `opener`; returns false if there is none.
    pub(crate) fn taken_over(&mut self, opener: usize, node: u16) -> bool {
        let Some(sum) = self.last(opener) else { return false };
        (sum.node, sum.lost) = (node, false);
        true
    }

    /// Records that `node` no longer holds the sums opened by `opener`; returns false if there are none.
    pub(crate) fn lost(&mut self, opener: usize, node: u16) -> bool {
        let Some(numbers) = self.opened.get(&opener) else { return false };
        for number in numbers {
            let sum = &mut self.sums[*number as usize];
            sum.lost |= sum.node == node;
        }
        true
    }

    /// Ends the events in devices: members no longer change.
    pub(crate) fn close(&mut self) {
        self.start = vec![0; self.sums.len() + 1];
        for number in self.of.iter().filter(|number| **number != NOWHERE) {
            self.start[*number as usize + 1] += 1;
        }
        for number in 0..self.sums.len() {
            self.start[number + 1] += self.start[number];
        }
        let mut next = self.start.clone();
        self.members = vec![0; self.start[self.sums.len()]];
        for (packet, number) in (0u32..).zip(&self.of).filter(|(_, number)| **number != NOWHERE) {
            self.members[next[*number as usize]] = packet;
            next[*number as usize] += 1;
        }
    }

    fn members_of(&self, number: u32) -> &[u32] {
        &self.members[self.start[number as usize]..self.start[number as usize + 1]]
    }

    /// Records that a worker has all of a sum opened by `opener`; returns its members, or `None` if workers have all of
    /// these sums already.
    pub(crate) fn deliver(&mut self, opener: usize) -> Option<&[u32]> {
        let numbers = self.opened.get(&opener)?;
        let rank = |number: &&u32| {
            let sum = &self.sums[**number as usize];
            (!sum.departed || sum.lost, !sum.lost)
        };
        let number = *numbers.iter().filter(|number| !self.sums[**number as usize].over).min_by_key(rank)?;
        self.sums[number as usize].over = true;
        Some(self.members_of(number))
    }

    /// Returns the members of lost sums that no worker has.
    pub(crate) fn lost_members(&self) -> impl Iterator<Item = u32> + '_ {
        let lost = (0u32..).zip(&self.sums).filter(|(_, sum)| sum.lost && !sum.over);
        lost.flat_map(|(number, _)| self.members_of(number)).copied()
    }
}
