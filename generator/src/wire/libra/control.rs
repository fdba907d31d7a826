//! What a controller and switches say to each other (LIBRA §3.6, "Failover mechanism"). The paper has no format: this is
//! our choice.
//!
//! ```text
//! | what 8 | from 16 | to 16 | session 32 | then, by what |
//! | heartbeat, freeze, begin, activate, retire: nothing        | prepare: fresh 8       | fetch: piece 32          |
//! | restore, piece: piece 32, then its bytes                   | frozen: pieces 32      | restored: piece 32       |
//! | status: packets 64, dropped 64, memory in millionths 32    | prepared, begun, activated, retired: nothing      |
//! ```
//!
//! All in network order, after the header of a control packet. `from` and `to` are nodes. An answer is its request with the
//! highest bit of `what` set. The session numbers the attempts of the controller to move the work from one switch to
//! another, from 1 on; a heartbeat's is the number of the heartbeat. Every request may come twice: the second changes
//! nothing, and is answered like the first.

use std::fmt;

/// Bytes before what differs between messages.
pub const CONTROL_HEAD: usize = 9;
/// Most bytes of a piece of a switch's state.
pub const PIECE_MAX: usize = 1024;
/// Bytes of the longest message, after the packet's header.
pub const CONTROL_MAX: usize = CONTROL_HEAD + 4 + PIECE_MAX;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control<'a> {
    /// The node that it comes from.
    pub from: u16,
    /// The node that it is for.
    pub to: u16,
    /// Which change of switches it is about.
    pub session: u32,
    /// What it says.
    pub what: What<'a>,
}

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What<'a> {
    /// How are you?
    Heartbeat,
    /// Take nothing any more, and keep what you have for me.
    Freeze,
    /// Give me a piece of your state.
    Fetch(u32),
    /// Forget all. If `fresh`, nothing of another switch's state will come: numbers begin where workers are.
    Prepare {
        /// Did the state die with its switch?
        fresh: bool,
    },
    /// Take over this piece of another switch's state.
    Restore(u32, &'a [u8]),
    /// You sum from now on.
    Begin,
    /// Send what is for a switch that sums to this one: told to the switch in the middle.
    Activate(u16),
    /// Another sums. In the session in which you were frozen: all that you had is there. In a later one: you were taken for
    /// dead, and what you have is lost.
    Retire,
    /// Statistics since the switch began: packets that came, those of them that it lost, and the share of its memory in use.
    Status {
        /// Packets that arrived.
        packets: u64,
        /// Packets that the switch lost.
        dropped: u64,
        /// Memory in use, in millionths.
        memory_ppm: u32,
    },
    /// I take nothing more; my state is so many pieces.
    Frozen(u32),
    /// A piece of the state.
    Piece(u32, &'a [u8]),
    /// I am ready for pieces.
    Prepared,
    /// I have that piece.
    Restored(u32),
    /// I sum.
    Begun,
    /// What is for switches goes there.
    Activated,
    /// I know that another sums.
    Retired,
}

impl What<'_> {
    const fn code(&self) -> u8 {
        match self {
            What::Heartbeat => 0,
            What::Freeze => 1,
            What::Fetch(_) => 2,
            What::Prepare { .. } => 3,
            What::Restore(..) => 4,
            What::Begin => 5,
            What::Activate(_) => 6,
            What::Retire => 7,
            What::Status { .. } => 0x80,
            What::Frozen(_) => 0x81,
            What::Piece(..) => 0x82,
            What::Prepared => 0x83,
            What::Restored(_) => 0x84,
            What::Begun => 0x85,
            What::Activated => 0x86,
            What::Retired => 0x87,
        }
    }
}

/// The number at the beginning of `bytes`, and the rest.
fn split(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*number), rest))
}

/// A number that is all that is left.
fn only(bytes: &[u8]) -> Option<u32> {
    split(bytes).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

fn piece(bytes: &[u8]) -> Option<(u32, &[u8])> {
    split(bytes).filter(|(_, rest)| rest.len() <= PIECE_MAX)
}

impl<'a> Control<'a> {
    /// Reads what follows the header of a control packet; none if it is no message of ours.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&[code, a, b, c, d, e, f, g, h], rest) = bytes.split_first_chunk::<CONTROL_HEAD>()?;
        let what = match (code, rest) {
            (0, []) => What::Heartbeat,
            (1, []) => What::Freeze,
            (2, rest) => What::Fetch(only(rest)?),
            (3, [fresh @ (0 | 1)]) => What::Prepare { fresh: *fresh == 1 },
            (4, rest) => piece(rest).map(|(number, bytes)| What::Restore(number, bytes))?,
            (5, []) => What::Begin,
            (6, [high, low]) => What::Activate(u16::from_be_bytes([*high, *low])),
            (7, []) => What::Retire,
            (0x80, rest) => {
                let (packets, rest) = rest.split_first_chunk()?;
                let (dropped, rest) = rest.split_first_chunk()?;
                let (packets, dropped) = (u64::from_be_bytes(*packets), u64::from_be_bytes(*dropped));
                What::Status { packets, dropped, memory_ppm: only(rest)? }
            }
            (0x81, rest) => What::Frozen(only(rest)?),
            (0x82, rest) => piece(rest).map(|(number, bytes)| What::Piece(number, bytes))?,
            (0x83, []) => What::Prepared,
            (0x84, rest) => What::Restored(only(rest)?),
            (0x85, []) => What::Begun,
            (0x86, []) => What::Activated,
            (0x87, []) => What::Retired,
            _ => return None,
        };
        let (from, to) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        Some(Control { from, to, session: u32::from_be_bytes([e, f, g, h]), what })
    }

    /// Bytes that it takes.
    pub fn len(&self) -> usize {
        CONTROL_HEAD
            + match self.what {
                What::Fetch(_) | What::Frozen(_) | What::Restored(_) => 4,
                What::Prepare { .. } => 1,
                What::Activate(_) => 2,
                What::Restore(_, bytes) | What::Piece(_, bytes) => 4 + bytes.len(),
                What::Status { .. } => 20,
                _ => 0,
            }
    }

    /// Never: there are no messages without bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes it into its [`len`](Self::len) bytes.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[0] = self.what.code();
        bytes[1..3].copy_from_slice(&self.from.to_be_bytes());
        bytes[3..5].copy_from_slice(&self.to.to_be_bytes());
        bytes[5..CONTROL_HEAD].copy_from_slice(&self.session.to_be_bytes());
        let rest = &mut bytes[CONTROL_HEAD..];
        match self.what {
            What::Fetch(number) | What::Frozen(number) | What::Restored(number) => {
                rest[..4].copy_from_slice(&number.to_be_bytes());
            }
            What::Prepare { fresh } => rest[0] = fresh.into(),
            What::Activate(node) => rest[..2].copy_from_slice(&node.to_be_bytes()),
            What::Restore(number, piece) | What::Piece(number, piece) => {
                rest[..4].copy_from_slice(&number.to_be_bytes());
                rest[4..4 + piece.len()].copy_from_slice(piece);
            }
            What::Status { packets, dropped, memory_ppm } => {
                rest[..8].copy_from_slice(&packets.to_be_bytes());
                rest[8..16].copy_from_slice(&dropped.to_be_bytes());
                rest[16..20].copy_from_slice(&memory_ppm.to_be_bytes());
            }
            _ => {}
        }
    }
}

impl fmt::Display for Control<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Control { from, to, session, what } = self;
        match what {
            What::Heartbeat => write!(f, "heartbeat"),
            What::Freeze => write!(f, "freeze"),
            What::Fetch(piece) => write!(f, "fetch piece {piece}"),
            What::Prepare { fresh } => write!(f, "prepare{}", if *fresh { " fresh" } else { "" }),
            What::Restore(piece, bytes) => write!(f, "restore piece {piece} of {} bytes", bytes.len()),
            What::Begin => write!(f, "begin"),
            What::Activate(node) => write!(f, "activate {node}"),
            What::Retire => write!(f, "retire"),
            What::Status { packets, dropped, memory_ppm } => {
                write!(f, "status packets {packets} dropped {dropped} memory {memory_ppm} ppm")
            }
            What::Frozen(pieces) => write!(f, "frozen pieces {pieces}"),
            What::Piece(piece, bytes) => write!(f, "piece {piece} of {} bytes", bytes.len()),
            What::Prepared => write!(f, "prepared"),
            What::Restored(piece) => write!(f, "restored piece {piece}"),
            What::Begun => write!(f, "begun"),
            What::Activated => write!(f, "activated"),
            What::Retired => write!(f, "retired"),
        }?;
        write!(f, " from {from} to {to} session {session}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Format;
    use crate::wire::libra::{HEADER, Header, Kind, Libra};
    use proptest::prelude::*;

    fn any_what(which: u8, a: u32, b: u64, bytes: &[u8]) -> What<'_> {
        match which {
            0 => What::Heartbeat,
            1 => What::Freeze,
            2 => What::Fetch(a),
            3 => What::Prepare { fresh: a % 2 == 1 },
            4 => What::Restore(a, bytes),
            5 => What::Begin,
            6 => What::Activate(a as u16),
            7 => What::Retire,
            8 => What::Status { packets: b, dropped: b / 3, memory_ppm: a },
            9 => What::Frozen(a),
            10 => What::Piece(a, bytes),
            11 => What::Prepared,
            12 => What::Restored(a),
            13 => What::Begun,
            14 => What::Activated,
            _ => What::Retired,
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            which in 0u8..16, from: u16, to: u16, session: u32, a: u32, b: u64,
            bytes in prop::collection::vec(any::<u8>(), 0..PIECE_MAX),
        ) {
            let control = Control { from, to, session, what: any_what(which, a, b, &bytes) };
            let mut out = vec![0xaa; HEADER + control.len()];
            Header { kind: Kind::Control, attempt: 0, job: 0, seq: 0 }.emit(&mut out);
            control.emit(&mut out[HEADER..]);
            prop_assert_eq!(Control::parse(&out[HEADER..]), Some(control));
            prop_assert!(out.len() - HEADER <= CONTROL_MAX);
            let name = format!("{control}");
            prop_assert_eq!(Libra.print(&out), format!("libra control {name}"));
            // A byte less is another message or none, never the same one.
            prop_assert_ne!(Control::parse(&out[HEADER..out.len() - 1]), Some(control));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(control) = Control::parse(&bytes) {
                let mut out = vec![0; control.len()];
                control.emit(&mut out);
                prop_assert_eq!(out, bytes);
            }
        }
    }

    #[test]
    fn a_message_byte_by_byte() {
        let control = Control { from: 0x0102, to: 3, session: 4, what: What::Fetch(0x0506) };
        let mut out = vec![0; control.len()];
        control.emit(&mut out);
        assert_eq!(out, [2, 1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 5, 6]);
        assert_eq!(control.to_string(), "fetch piece 1286 from 258 to 3 session 4");
    }
}
