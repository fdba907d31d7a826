//! Received inputs of each message, and the content kept until all have arrived.
//!
//! A message is identified by its number. Cells are used in turn, as on a chip: message `n` has cell `n mod cells`, so a message finds
//! room exactly if no older one is still open there. Every transmission that came is remembered, in its cell or by its input: a copy that the
//! network made is recognised however late it comes.

use pktgen_core::index::IdMap;
use pktgen_core::record::Reason;

/// Marks an input whose part arrived and was not added.
const NOT_ADDED: u16 = u16::MAX;

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
    /// By cell and input: 1 + the attempt that was added, 0 if none arrived, or [`NOT_ADDED`].
    came: Vec<u16>,
    /// By input: its transmissions that no cell has, those refused and those of messages whose cells were reused, as bits of 64 messages
    /// by [`place`]. Empty until there is one.
    known: Vec<IdMap<u64, u64>>,
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
        let came = vec![0; cells as usize * inputs];
        Gather { cells: vec![cell; cells as usize], came, known: Vec::new(), inputs, expected }
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
        let (block, bit) = place(seq, attempt);
        let bits = self.known.get(input as usize).and_then(|known| known.get(&block));
        if bits.is_some_and(|bits| bits & bit != 0) {
            return GatherStep::Copy;
        }
        let step = self.step(seq, input, attempt);
        if let GatherStep::Useless(_) = step {
            self.remember(seq, input, attempt);
        }
        step
    }

    /// Remembers a transmission that no cell has.
    fn remember(&mut self, seq: u32, input: u32, attempt: u8) {
        self.known.resize_with(self.inputs, IdMap::default);
        let (block, bit) = place(seq, attempt);
        *self.known[input as usize].entry(block).or_default() |= bit;
    }

    /// Takes a part that is no copy of one that no cell has.
    #[inline]
    fn step(&mut self, seq: u32, input: u32, attempt: u8) -> GatherStep {
        let at = self.cell(seq);
        let own = at * self.inputs + input as usize;
        let cell = &mut self.cells[at];
        if !cell.used || cell.seq < seq {
            if cell.kept.is_some() {
                return GatherStep::Useless(Reason::TableFull);
            }
            let before = cell.used.then_some(cell.seq);
            (cell.seq, cell.left, cell.used) = (seq, self.expected - 1, true);
            if let Some(before) = before {
                self.clear(at, before);
            }
            self.came[own] = u16::from(attempt) + 1;
            return GatherStep::Opens;
        }
        if cell.seq > seq {
            return GatherStep::Useless(Reason::Stale);
        }
        let (before, came) = (self.came[own], u16::from(attempt) + 1);
        match before {
            // The message never had this part, so further attempts are late, too.
            0 | NOT_ADDED if cell.kept.is_none() => return GatherStep::Useless(Reason::Late),
            0 => cell.left -= 1,
            NOT_ADDED => {}
            _ if before == came => return GatherStep::Copy,
            _ => return GatherStep::Useless(Reason::Duplicate),
        }
        self.came[own] = came;
        GatherStep::Joins
    }

    /// Clears a cell of message `before`, and remembers the transmissions that were added to it.
    fn clear(&mut self, at: usize, before: u32) {
        for input in 0..self.inputs {
            match std::mem::take(&mut self.came[at * self.inputs + input]) {
                0 | NOT_ADDED => {}
                came => self.remember(before, input as u32, (came - 1) as u8),
            }
        }
    }

    /// Notes that the part that just joined message `seq` was not added: the message does not wait for its input, but a
    /// further attempt is no duplicate.
    pub fn refuse(&mut self, seq: u32, input: u32, attempt: u8) {
        let own = self.cell(seq) * self.inputs + input as usize;
        self.came[own] = NOT_ADDED;
        self.remember(seq, input, attempt);
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

/// Returns the place of a transmission of an input: a block of 64 messages of one attempt, and a bit in it.
#[inline]
fn place(seq: u32, attempt: u8) -> (u64, u64) {
    ((u64::from(attempt) << 32) | u64::from(seq / 64), 1 << (seq % 64))
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
        assert_eq!((gather.take(0, 0, 1), gather.take(0, 0, 2)), (Copy, Useless(Reason::Duplicate)));
        assert_eq!(gather.take(2, 0, 0), Useless(Reason::TableFull), "its cell is taken");
        assert_eq!(gather.take(2, 0, 0), Copy);
        assert!(!gather.is_whole(0));
        assert_eq!(gather.take(0, 2, 0), Joins);
        assert!(gather.is_whole(0));
        assert_eq!((gather.close(0), gather.close(0)), (Some('a'), None));
        assert_eq!((gather.take(0, 2, 0), gather.take(0, 1, 0)), (Copy, Useless(Reason::Late)));
        assert_eq!(gather.take(2, 0, 0), Copy, "it was refused, and has room now");
        assert_eq!(gather.take(2, 0, 1), Opens);
        assert_eq!((gather.take(0, 0, 3), gather.take(0, 0, 3)), (Useless(Reason::Stale), Copy));
        assert_eq!(gather.take(0, 1, 0), Copy, "it was late before");
    }

    #[test]
    fn further_attempts_of_a_part_that_was_not_added_are_no_duplicates() {
        use GatherStep::{Copy, Joins, Opens, Useless};
        let mut gather = Gather::new(1, 3, 3);
        assert_eq!(gather.take(0, 0, 0), Opens);
        gather.keep(0, 'a');
        assert_eq!(gather.take(0, 1, 0), Joins);
        gather.refuse(0, 1, 0);
        assert_eq!((gather.take(0, 1, 0), gather.take(0, 1, 1)), (Copy, Joins));
        gather.refuse(0, 1, 1);
        assert!(!gather.is_whole(0), "the third input is missing");
        assert_eq!(gather.close(0), Some('a'));
        let late = Useless(Reason::Late);
        assert_eq!([0, 0, 1, 1].map(|attempt| gather.take(0, 2, attempt)), [late, Copy, late, Copy]);
        assert_eq!([1, 2, 2].map(|attempt| gather.take(0, 1, attempt)), [Copy, late, Copy]);
        assert_eq!([0, 1, 1].map(|attempt| gather.take(0, 0, attempt)), [Copy, Useless(Reason::Duplicate), Copy]);
    }

    #[test]
    fn copies_are_recognised_however_late_they_come() {
        const MESSAGES: u32 = 1000;
        let mut gather: Gather<()> = Gather::new(1, 2, 2);
        assert_eq!(gather.take(0, 0, 0), GatherStep::Opens);
        gather.keep(0, ());
        let full = GatherStep::Useless(Reason::TableFull);
        for input in [0, 1] {
            assert!((1..MESSAGES).all(|seq| gather.take(seq, input, 0) == full));
            assert!((1..MESSAGES).all(|seq| gather.take(seq, input, 0) == GatherStep::Copy));
        }
        assert!((1..MESSAGES).all(|seq| gather.take(seq, 0, 1) == full), "another attempt");
        // Of the message whose cell another one has now: a copy of the part that was added, a part that never came, another attempt.
        assert!(gather.close(0).is_some());
        assert_eq!(gather.take(MESSAGES, 0, 0), GatherStep::Opens);
        let stale = GatherStep::Useless(Reason::Stale);
        let taken = [(0, 0), (1, 0), (1, 0), (0, 1)].map(|(input, attempt)| gather.take(0, input, attempt));
        assert_eq!(taken, [GatherStep::Copy, stale, GatherStep::Copy, stale]);
    }

    /// A cell as a naive model has it.
    struct Model {
        seq: u32,
        open: bool,
        /// By input that arrived: the attempt that was added, if any.
        parts: BTreeMap<u32, Option<u8>>,
    }

    proptest! {
        /// Compares with a naive model of cells that are reused.
        #[test]
        fn gathers_as_the_model_does(
            steps in prop::collection::vec(
                (prop_oneof![0u32..4, 0u32..200], 0u32..3, 0u8..2, any::<bool>(), any::<bool>()),
                1..120,
            )
        ) {
            let mut gather: Gather<()> = Gather::new(2, 3, 3);
            let mut cells: [Option<Model>; 2] = [None, None];
            let mut known = BTreeSet::new();
            for (seq, input, attempt, fits, timeout) in steps {
                let cell = &mut cells[seq as usize % 2];
                let expected = match &*cell {
                    _ if known.contains(&(seq, input, attempt)) => GatherStep::Copy,
                    None => GatherStep::Opens,
                    Some(own) if own.seq < seq && own.open => GatherStep::Useless(Reason::TableFull),
                    Some(own) if own.seq < seq => GatherStep::Opens,
                    Some(own) if own.seq > seq => GatherStep::Useless(Reason::Stale),
                    Some(own) => match own.parts.get(&input).copied().flatten() {
                        Some(_) => GatherStep::Useless(Reason::Duplicate),
                        None if own.open => GatherStep::Joins,
                        None => GatherStep::Useless(Reason::Late),
                    },
                };
                prop_assert_eq!(gather.take(seq, input, attempt), expected);
                known.insert((seq, input, attempt));
                match expected {
                    GatherStep::Opens => {
                        gather.keep(seq, ());
                        *cell = Some(Model { seq, open: true, parts: BTreeMap::from([(input, Some(attempt))]) });
                    }
                    GatherStep::Joins => {
                        cell.as_mut().unwrap().parts.insert(input, fits.then_some(attempt));
                        if !fits {
                            gather.refuse(seq, input, attempt);
                        }
                    }
                    GatherStep::Useless(_) | GatherStep::Copy => {}
                }
                if let Some(own) = cell.as_mut().filter(|own| own.seq == seq) {
                    let whole = own.parts.len() == 3;
                    prop_assert_eq!(gather.is_whole(seq), whole);
                    if whole || timeout {
                        prop_assert_eq!(gather.close(seq).is_some(), own.open);
                        own.open = false;
                    }
                }
            }
        }

        /// Compares with sets of arrived inputs, for as many cells as messages.
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
