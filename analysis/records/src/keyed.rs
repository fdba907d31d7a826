//! Sums by key: a packet opens one by being merged into itself, and it departs in many packets that are known by the opener.
//!
//! A sum is delivered when a worker has all of its parts. It may be lost with its device, or move to another one; what becomes of its
//! members is known in the end.

use std::collections::BTreeMap;

use pktgen_core::index::NOWHERE;

#[derive(Debug, Clone, Copy)]
struct Sum {
    /// The device that has it.
    node: u16,
    /// Its results left: what the same packet opens now is another sum.
    departed: bool,
    /// Its device is gone. What is under way to workers may still be enough.
    lost: bool,
    /// A worker has all of it.
    over: bool,
}

/// All sums of a run. Packets are rows of `sent`.
#[derive(Debug, Default)]
pub(crate) struct Keyed {
    sums: Vec<Sum>,
    /// Sums that a packet opened, in order.
    opened: BTreeMap<usize, Vec<u32>>,
    /// The sum that each packet is in; empty as long as there is none.
    of: Vec<u32>,
    /// Where the members of each sum begin; known when all books are read.
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

    /// `packet` is added to the sum that `opener` opened, at `node`; it stays what it is a member of if it is `again`. False if
    /// there is no such sum. The run has `packets` packets.
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

    /// Whether a packet that is added at `node` is no longer in its sum, because a device without that sum adds it.
    pub(crate) fn is_elsewhere(&self, packet: usize, node: u16) -> bool {
        let sum = self.of.get(packet).and_then(|number| self.sums.get(*number as usize));
        sum.is_some_and(|sum| sum.lost || sum.node != node)
    }

    pub(crate) fn departed(&mut self, opener: usize, node: u16) {
        if let Some(sum) = self.last(opener).filter(|sum| sum.node == node) {
            sum.departed = true;
        }
    }

    /// `node` goes on with the last sum that `opener` opened; false if there is none.
    pub(crate) fn taken_over(&mut self, opener: usize, node: u16) -> bool {
        let Some(sum) = self.last(opener) else { return false };
        (sum.node, sum.lost) = (node, false);
        true
    }

    /// `node` has the sums no more that `opener` opened; false if there are none.
    pub(crate) fn lost(&mut self, opener: usize, node: u16) -> bool {
        let Some(numbers) = self.opened.get(&opener) else { return false };
        for number in numbers {
            let sum = &mut self.sums[*number as usize];
            sum.lost |= sum.node == node;
        }
        true
    }

    /// All books are read: members are what they are.
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

    /// A worker has all of a sum that `opener` opened: its members; none if workers have all of these sums.
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

    /// Members of sums that are lost, and that no worker has.
    pub(crate) fn lost_members(&self) -> impl Iterator<Item = u32> + '_ {
        let lost = (0u32..).zip(&self.sums).filter(|(_, sum)| sum.lost && !sum.over);
        lost.flat_map(|(number, _)| self.members_of(number)).copied()
    }
}
