//! Packets under way and the members of each: what travels as one ends as one.

use pktgen_core::prefetch;
use pktgen_core::record::{Action, Book, PacketId, Reason};

use super::fates::Fate;
use super::table::Table;

/// No member.
const END: u32 = u32::MAX;

/// A packet under way: the chain of its members.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    first: u32,
    last: u32,
    /// Where its sum is kept.
    pub place: u32,
    pub count: u32,
    pub elements: u16,
    /// Sums cannot be followed: members have different lengths.
    pub broken: bool,
}

/// All packets under way.
pub(super) struct Chains {
    groups: Table<Group>,
    /// Members: packet and next of the chain. Numbers are used again.
    members: Vec<PacketId>,
    next: Vec<u32>,
    free: Vec<u32>,
    /// Places of sums: how many there are, and those that no packet under way has.
    places: u32,
    free_places: Vec<u32>,
}

/// What a row of the books does to a packet under way.
pub(super) enum Step {
    /// Nothing that an account keeps.
    Stays,
    /// It leaves its device.
    Leaves,
    /// It becomes part of another one, which a sound row names.
    Joins(Option<PacketId>),
    Ends(Fate),
}

impl Step {
    #[inline]
    pub(super) fn of(row: &Book) -> Self {
        match row.action {
            Action::Departed => Step::Leaves,
            Action::Queued | Action::Bypassed | Action::Arrived => Step::Stays,
            Action::Merged => Step::Joins(row.packet_out),
            Action::Subsumed => Step::Ends(Fate::Subsumed),
            Action::Outranked => Step::Ends(Fate::Outranked),
            Action::Dropped => Step::Ends(Fate::Dropped(row.reason.unwrap_or(Reason::Malformed))),
        }
    }
}

impl Chains {
    pub(super) fn new(workers: usize) -> Self {
        Chains {
            groups: Table::new(workers),
            members: Vec::new(),
            next: Vec::new(),
            free: Vec::new(),
            places: 0,
            free_places: Vec::new(),
        }
    }

    /// A packet is under way; returns where its sum is kept, and whether it was not under way before.
    #[inline]
    pub(super) fn open(&mut self, packet: PacketId, elements: u16) -> (u32, bool) {
        let member = match self.free.pop() {
            Some(member) => member,
            None => {
                self.members.push(packet);
                self.next.push(END);
                (self.members.len() - 1) as u32
            }
        };
        self.members[member as usize] = packet;
        self.next[member as usize] = END;
        let place = self.free_places.pop().unwrap_or_else(|| {
            self.places += 1;
            self.places - 1
        });
        let group = Group { first: member, last: member, place, count: 1, elements, broken: false };
        (place, self.groups.insert(packet, group))
    }

    /// Fetches the place where a worker's packets are known by name; the packets if it is `near`.
    #[inline]
    pub(super) fn fetch(&self, worker: u32, near: bool) {
        if let Some(ring) = self.groups.ring(worker) {
            if near { prefetch(ring.as_slice()) } else { prefetch(ring) }
        }
    }

    /// Most packets that were under way at once.
    #[inline]
    pub(super) fn places(&self) -> usize {
        self.places as usize
    }

    /// The group of a packet that is under way.
    #[inline]
    pub(super) fn group(&mut self, packet: PacketId) -> Option<Group> {
        self.groups.get_mut(packet).map(|group| *group)
    }

    /// `packet`'s members join those of `out`; returns both groups as they were, or none if one is not under way. The place of the
    /// first one's sum is as it was until the next packet is under way.
    #[inline]
    pub(super) fn join(&mut self, packet: PacketId, out: Option<PacketId>) -> Option<(Group, Group)> {
        let part = self.groups.remove(packet)?;
        self.free_places.push(part.place);
        let out = out?;
        let sum = self.groups.get_mut(out)?;
        let before = *sum;
        self.next[sum.last as usize] = part.first;
        sum.last = part.last;
        sum.count += part.count;
        sum.broken |= part.broken || part.elements != sum.elements;
        Some((before, part))
    }

    /// `packet` is no longer under way: its members, each with whether it travelled alone. False if it was not.
    #[inline]
    pub(super) fn end(&mut self, packet: PacketId, mut each: impl FnMut(PacketId, bool)) -> bool {
        let Some(group) = self.groups.remove(packet) else { return false };
        self.free_places.push(group.place);
        let alone = group.count == 1;
        let mut member = group.first;
        while member != END {
            each(self.members[member as usize], alone);
            self.free.push(member);
            member = std::mem::replace(&mut self.next[member as usize], END);
        }
        true
    }

    /// The members of a group.
    pub(super) fn members(&self, group: Group) -> impl Iterator<Item = PacketId> {
        let next = |member: &u32| Some(self.next[*member as usize]).filter(|next| *next != END);
        std::iter::successors(Some(group.first), next).map(|member| self.members[member as usize])
    }

    /// All packets under way, in order.
    pub(super) fn ids(&self) -> Vec<PacketId> {
        self.groups.ids()
    }
}
