//! Messages between a controller and switches (LIBRA §3.6, "Failover mechanism"). The paper specifies no format: this is our choice.
//!
//! ```text
//! | what 8 | from 16 | to 16 | session 32 | then, by what |
//! | heartbeat, freeze, begin, activate, retire: nothing        | prepare: fresh 8       | fetch: piece 32          |
//! | restore, piece: piece 32, then its bytes                   | frozen: pieces 32      | restored: piece 32       |
//! | status: packets 64, dropped 64, memory in millionths 32    | prepared, begun, activated, retired: nothing      |
//! ```
//!
//! All fields are in network order, after the header of a control packet. `from` and `to` are nodes. An answer is its
//! request with the highest bit of `what` set. The session numbers the controller's attempts to move the work from one
//! switch to another, from 1 on; that of a heartbeat is the number of the heartbeat. Every request may arrive twice:
//! the second one changes nothing and is answered like the first.

use std::fmt;

use pktgen_wire::wire::header::{Fields, Group, header, values};

/// Maximum length of a piece of a switch's state.
pub(crate) const PIECE_MAX: usize = 1024;
/// Length of the longest message after the packet's header.
pub(crate) const CONTROL_MAX: usize = Head::BYTES + Piece::BYTES + PIECE_MAX;

values! {
    /// Numbers of messages.
    pub(super) enum Code {
        Heartbeat = 0, "heartbeat";
        Freeze = 1, "freeze";
        Fetch = 2, "fetch";
        Prepare = 3, "prepare";
        Restore = 4, "restore";
        Begin = 5, "begin";
        Activate = 6, "activate";
        Retire = 7, "retire";
        Status = 0x80, "status";
        Frozen = 0x81, "frozen";
        Piece = 0x82, "piece";
        Prepared = 0x83, "prepared";
        Restored = 0x84, "restored";
        Begun = 0x85, "begun";
        Activated = 0x86, "activated";
        Retired = 0x87, "retired";
    }
}

header! {
    /// What every message begins with.
    pub(super) struct Head {
        what: Code, 8, "What a control message says";
        from: u16, 16, "Node that it comes from";
        to: u16, 16, "Node that it is for";
        session: u32, 32, "Which change of switches it is about; of a heartbeat its number";
    }
}

header! {
    /// Begins what is about a piece.
    pub(super) struct Piece {
        piece: u32, 32, "Which piece of a switch's state";
    }
}

header! {
    /// What is in [`What::Frozen`].
    pub(super) struct Pieces {
        pieces: u32, 32, "Pieces of the switch's state";
    }
}

header! {
    /// What is in [`What::Prepare`].
    pub(super) struct Fresh {
        /// Whether the state was lost with its switch.
        fresh: bool = [Field::uint("fresh", 8, "1: no state of another switch will come")]
            via (|bits| if bits < 2 { Some(bits == 1) } else { None }, u64::from);
    }
}

header! {
    /// What is in [`What::Activate`].
    pub(super) struct Node {
        node: u16, 16, "The switch that sums from now on";
    }
}

header! {
    /// What is in [`What::Status`].
    pub(super) struct Counts {
        packets: u64, 64, "Packets that arrived";
        dropped: u64, 64, "Packets that the switch lost";
        memory_ppm: u32, 32, "Memory in use, in millionths";
    }
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control<'a> {
    /// The sending node.
    pub from: u16,
    /// The receiving node.
    pub to: u16,
    /// The change of switches that it belongs to.
    pub session: u32,
    /// Its contents.
    pub what: What<'a>,
}

/// Contents of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What<'a> {
    /// Requests the state of health.
    Heartbeat,
    /// Requests to accept nothing more and to keep the state for the controller.
    Freeze,
    /// Requests a piece of the state.
    Fetch(u32),
    /// Requests to forget everything. If `fresh`, no state of another switch will follow: numbers begin where workers are.
    Prepare {
        /// Whether the state was lost with its switch.
        fresh: bool,
    },
    /// Requests to take over this piece of another switch's state.
    Restore(u32, &'a [u8]),
    /// Requests to begin adding up.
    Begin,
    /// Requests to send packets for an adding switch to this one: for the switch in the middle.
    Activate(u16),
    /// States that another switch adds up. In the session of the freeze: the whole state is there. In a later one: the
    /// switch was considered dead, and its state is lost.
    Retire,
    /// Statistics since the switch began: packets that arrived, how many of them it lost, and the share of its memory in use.
    Status {
        /// Number of packets that arrived.
        packets: u64,
        /// Number of packets that the switch lost.
        dropped: u64,
        /// Memory in use, in millionths.
        memory_ppm: u32,
    },
    /// The switch accepts nothing more; its state has this many pieces.
    Frozen(u32),
    /// A piece of the state.
    Piece(u32, &'a [u8]),
    /// The switch is ready for pieces.
    Prepared,
    /// The switch has that piece.
    Restored(u32),
    /// The switch adds up.
    Begun,
    /// Packets for switches go to the new one.
    Activated,
    /// The switch knows that another one adds up.
    Retired,
}

/// A group without fields.
struct Empty;

impl Group for Empty {
    fn bytes(&self) -> usize {
        0
    }
    fn put(&self, _: &mut [u8]) {}
    fn fields(&self) -> Fields {
        Fields::new()
    }
}

impl<'a> Control<'a> {
    /// Parses everything after the header of a control packet; `None` if it is not a valid message.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let Head { what: code, from, to, session } = Head::get(bytes)?;
        let rest = &bytes[Head::BYTES..];
        let piece = || Piece::get(rest).map(|head| head.piece);
        let what = match code {
            Code::Heartbeat => What::Heartbeat,
            Code::Freeze => What::Freeze,
            Code::Fetch => What::Fetch(piece()?),
            Code::Prepare => What::Prepare { fresh: Fresh::get(rest)?.fresh },
            Code::Restore => What::Restore(piece()?, &rest[Piece::BYTES..]),
            Code::Begin => What::Begin,
            Code::Activate => What::Activate(Node::get(rest)?.node),
            Code::Retire => What::Retire,
            Code::Status => {
                let Counts { packets, dropped, memory_ppm } = Counts::get(rest)?;
                What::Status { packets, dropped, memory_ppm }
            }
            Code::Frozen => What::Frozen(Pieces::get(rest)?.pieces),
            Code::Piece => What::Piece(piece()?, &rest[Piece::BYTES..]),
            Code::Prepared => What::Prepared,
            Code::Restored => What::Restored(piece()?),
            Code::Begun => What::Begun,
            Code::Activated => What::Activated,
            Code::Retired => What::Retired,
        };
        let control = Control { from, to, session, what };
        (control.len() == bytes.len() && bytes.len() <= CONTROL_MAX).then_some(control)
    }

    /// Calls `then` with the parts of the message: head, fields of its kind, and the remaining bytes.
    fn parts<T>(&self, then: impl FnOnce(Head, &dyn Group, &[u8]) -> T) -> T {
        let Control { from, to, session, what } = *self;
        let then = |what, own: &dyn Group, state: &[u8]| then(Head { what, from, to, session }, own, state);
        match what {
            What::Heartbeat => then(Code::Heartbeat, &Empty, &[]),
            What::Freeze => then(Code::Freeze, &Empty, &[]),
            What::Fetch(piece) => then(Code::Fetch, &Piece { piece }, &[]),
            What::Prepare { fresh } => then(Code::Prepare, &Fresh { fresh }, &[]),
            What::Restore(piece, state) => then(Code::Restore, &Piece { piece }, state),
            What::Begin => then(Code::Begin, &Empty, &[]),
            What::Activate(node) => then(Code::Activate, &Node { node }, &[]),
            What::Retire => then(Code::Retire, &Empty, &[]),
            What::Status { packets, dropped, memory_ppm } => {
                then(Code::Status, &Counts { packets, dropped, memory_ppm }, &[])
            }
            What::Frozen(pieces) => then(Code::Frozen, &Pieces { pieces }, &[]),
            What::Piece(piece, state) => then(Code::Piece, &Piece { piece }, state),
            What::Prepared => then(Code::Prepared, &Empty, &[]),
            What::Restored(piece) => then(Code::Restored, &Piece { piece }, &[]),
            What::Begun => then(Code::Begun, &Empty, &[]),
            What::Activated => then(Code::Activated, &Empty, &[]),
            What::Retired => then(Code::Retired, &Empty, &[]),
        }
    }

    /// Returns its length in bytes.
    pub fn len(&self) -> usize {
        self.parts(|head, own, state| head.bytes() + own.bytes() + state.len())
    }

    /// Always false: every message has bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes it into its [`len`](Self::len) bytes.
    pub fn emit(&self, bytes: &mut [u8]) {
        self.parts(|head, own, state| {
            head.put(bytes);
            own.put(&mut bytes[Head::BYTES..]);
            let at = Head::BYTES + own.bytes();
            bytes[at..at + state.len()].copy_from_slice(state);
        });
    }

    /// Returns its fields.
    pub(super) fn fields(&self) -> Fields {
        self.parts(|head, own, _| [head.fields(), own.fields()].concat())
    }
}

impl fmt::Display for Control<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Control { from, to, session, what } = self;
        write!(f, "{}", self.parts(|head, _, _| head.what.name()))?;
        match what {
            What::Fetch(piece) | What::Restored(piece) => write!(f, " piece {piece}"),
            What::Prepare { fresh } => write!(f, "{}", if *fresh { " fresh" } else { "" }),
            What::Restore(piece, bytes) => write!(f, " piece {piece} of {} bytes", bytes.len()),
            What::Activate(node) => write!(f, " {node}"),
            What::Status { packets, dropped, memory_ppm } => {
                write!(f, " packets {packets} dropped {dropped} memory {memory_ppm} ppm")
            }
            What::Frozen(pieces) => write!(f, " pieces {pieces}"),
            What::Piece(piece, bytes) => write!(f, " {piece} of {} bytes", bytes.len()),
            _ => Ok(()),
        }?;
        write!(f, " from {from} to {to} session {session}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{HEADER, Header, Kind, Libra};
    use pktgen_wire::wire::Format;
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
            prop_assert_eq!((&Libra as &dyn Format).print(&out), format!("libra control {name}"));
            // One byte less gives another message or none, never the same one.
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
