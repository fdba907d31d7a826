//! Received inputs of each message, and the content kept until all have arrived.
//!
//! A message is identified by its number. Cells are used in turn, as on a chip: message `n` has cell `n mod cells`, so a message finds
//! room exactly if no older one is still open there, and the last content of a cell distinguishes copies from new ones.

use pktgen_core::record::Reason;

/// A cell.
#[derive(Debug, Clone, Copy)]
struct Cell<T> {
    seq: u32,
    /// Number of missing inputs.
    left: u32,
    /// None if it is closed.
    kept: Option<T>,
    used: bool,
}

/// The messages of one cluster at one node.
#[derive(Debug, Clone)]
pub struct Gather<T> {
    cells: Vec<Cell<T>>,
    /// By cell and input: 1 + the attempt that arrived, 0 if none did.
    came: Vec<u16>,
    inputs: usize,
    expected: u32,
}

/// The role of an arrival in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatherStep {
    /// The first of the message.
    Opens,
    /// A further one.
    Joins,
    /// Useless, with the reason for the books.
    Useless(Reason),
    /// A copy made by the network: the same transmission came before.
    Copy,
}

impl<T: Copy> Gather<T> {
    /// A gather with room for `cells` messages at a time, each with `expected` of `inputs` inputs.
    pub fn new(cells: u32, inputs: usize, expected: u32) -> Self {
        let cell = Cell { seq: 0, left: 0, kept: None, used: false };
        Gather { cells: vec![cell; cells as usize], came: vec![0; cells as usize * inputs], inputs, expected }
    }

    /// Returns the cell of message `seq`.
    #[inline]
    fn cell(&self, seq: u32) -> usize {
        (seq % self.cells.len() as u32) as usize
    }

    /// Takes the part of message `seq` from `input`, in its attempt `attempt`. The content of a message that is opened
    /// must be [kept](Self::keep).
    #[inline]
    pub fn take(&mut self, seq: u32, input: u32, attempt: u8) -> GatherStep {
        let at = self.cell(seq);
        let own = at * self.inputs + input as usize;
        let cell = &mut self.cells[at];
        if !cell.used || cell.seq < seq {
            if cell.kept.is_some() {
                return GatherStep::Useless(Reason::TableFull);
            }
            self.came[at * self.inputs..][..self.inputs].fill(0);
            (cell.seq, cell.left, cell.used) = (seq, self.expected - 1, true);
            self.came[own] = u16::from(attempt) + 1;
            return GatherStep::Opens;
        }
        if cell.seq > seq {
            return GatherStep::Useless(Reason::Stale);
        }
        match std::mem::replace(&mut self.came[own], u16::from(attempt) + 1) {
            0 if cell.kept.is_none() => GatherStep::Useless(Reason::Late),
            0 => {
                cell.left -= 1;
                GatherStep::Joins
            }
            before if before == u16::from(attempt) + 1 => GatherStep::Copy,
            before => {
                self.came[own] = before;
                GatherStep::Useless(Reason::Duplicate)
            }
        }
    }

    /// Keeps the content of message `seq`, which was opened.
    #[inline]
    pub fn keep(&mut self, seq: u32, kept: T) {
        let at = self.cell(seq);
        self.cells[at].kept = Some(kept);
    }

    /// Returns the content of message `seq`, if it is open.
    #[inline]
    pub fn kept(&mut self, seq: u32) -> Option<&mut T> {
        let at = self.cell(seq);
        let cell = &mut self.cells[at];
        if cell.seq == seq { cell.kept.as_mut() } else { None }
    }

    /// Returns whether all inputs of message `seq` have arrived.
    #[inline]
    pub fn is_whole(&self, seq: u32) -> bool {
        let cell = &self.cells[self.cell(seq)];
        cell.seq == seq && cell.left == 0
    }

    /// Closes message `seq` and returns its content, if it was open.
    #[inline]
    pub fn close(&mut self, seq: u32) -> Option<T> {
        let at = self.cell(seq);
        let cell = &mut self.cells[at];
        if cell.seq == seq { cell.kept.take() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn inputs_are_counted_once_and_cells_are_used_in_turn() {
        use GatherStep::{Copy, Joins, Opens, Useless};
        let mut gather = Gather::new(2, 3, 2);
        assert_eq!(gather.take(0, 0, 0), Opens);
        gather.keep(0, 'a');
        assert_eq!((gather.take(0, 0, 0), gather.take(0, 0, 1)), (Copy, Useless(Reason::Duplicate)));
        assert_eq!(gather.take(2, 0, 0), Useless(Reason::TableFull), "its cell is taken");
        assert!(!gather.is_whole(0));
        assert_eq!(gather.take(0, 2, 0), Joins);
        assert!(gather.is_whole(0));
        assert_eq!((gather.close(0), gather.close(0)), (Some('a'), None));
        assert_eq!((gather.take(0, 2, 0), gather.take(0, 1, 0)), (Copy, Useless(Reason::Late)));
        assert_eq!(gather.take(2, 0, 0), Opens);
        assert_eq!(gather.take(0, 0, 0), Useless(Reason::Stale));
    }

    proptest! {
        /// Compares with sets of arrived inputs, for close sequence numbers in order.
        #[test]
        fn gathers_as_sets_do(steps in prop::collection::vec((0u32..6, 0u32..4), 1..120)) {
            let mut gather: Gather<()> = Gather::new(6, 4, 4);
            let mut came: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
            for (seq, input) in steps {
                let own = came.entry(seq).or_default();
                let (first, new) = (own.is_empty(), own.insert(input));
                let expected = match (first, new) {
                    (true, _) => GatherStep::Opens,
                    (_, true) => GatherStep::Joins,
                    _ => GatherStep::Copy,
                };
                prop_assert_eq!(gather.take(seq, input, 0), expected);
                if first {
                    gather.keep(seq, ());
                }
                prop_assert_eq!(gather.is_whole(seq), own.len() == 4);
            }
        }
    }
}
