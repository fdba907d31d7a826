//! Packets under way and their members: members of one packet have the same fate.

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
    /// Place of its sum.
    pub place: u32,
    pub count: u32,
    pub elements: u16,
    /// Whether its sum is unknown because members have different lengths.
    pub broken: bool,
}

/// All packets under way.
pub(super) struct Chains {
    groups: Table<Group>,
    /// Members: packet and next of the chain. Numbers are reused.
    members: Vec<PacketId>,
    next: Vec<u32>,
    free: Vec<u32>,
    /// Places of sums: their number, and the free ones.
    places: u32,
    free_places: Vec<u32>,
}

/// The effect of a row of the books on a packet under way.
pub(super) enum Step {
    /// Not relevant to an account.
    Stays,
    /// It leaves its device.
    Leaves,
    /// It becomes part of another packet, which a sound row names.
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

    /// Registers a packet under way; returns the place of its sum, and whether it is new.
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

    /// Fetches what is known of a worker's packets.
    #[inline]
    pub(super) fn fetch(&self, worker: u32) {
        self.groups.ring(worker).into_iter().for_each(prefetch);
    }

    /// Most packets that were under way at once.
    #[inline]
    pub(super) fn places(&self) -> usize {
        self.places as usize
    }

    /// Returns the group of a packet under way.
    #[inline]
    pub(super) fn group(&mut self, packet: PacketId) -> Option<Group> {
        self.groups.get_mut(packet).map(|group| *group)
    }

    /// Moves the members of `packet` to those of `out`; returns both former groups, or `None` if one is not under way.
    /// The place of the first one's sum stays valid until the next packet is under way.
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

    /// Ends `packet`: calls `each` with its members and whether each travelled alone. Returns false if it was not under way.
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

    /// Returns the members of a group.
    pub(super) fn members(&self, group: Group) -> impl Iterator<Item = PacketId> {
        let next = |member: &u32| Some(self.next[*member as usize]).filter(|next| *next != END);
        std::iter::successors(Some(group.first), next).map(|member| self.members[member as usize])
    }

    /// Returns all packets under way, in order.
    pub(super) fn ids(&self) -> Vec<PacketId> {
        self.groups.ids()
    }
}
