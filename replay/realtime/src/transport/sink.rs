//! Counts the frames that an interface receives inside the kernel, and drops them: the cheapest possible receiver. It
//! is for measuring senders, and keeps their frames from the network stack.

use pktgen_core::Result;

use super::bpf::{Attach, BpfLink, BpfProgram, Map, Memory, host_error};
use super::insn::{CTX_RX_QUEUE, Code, R0, R1, R6, R7, R8, When, XDP_DROP, XDP_GET_BUFF_LEN};
use super::link::Interface;
use super::safety;
use super::stall::Card;

/// Number of queues counted separately; a power of two.
const QUEUES: usize = 64;
/// Bytes of a queue's counters: frames, bytes.
const EACH: usize = 16;

/// A program that counts and drops, attached while this lives.
pub struct Sink {
    _link: BpfLink,
    _program: BpfProgram,
    _map: Map,
    counts: Memory,
    interface: Interface,
    card: Card,
}

impl Sink {
    /// Attaches it to `interface`, in the driver.
    pub fn attach(interface: &str, allow_default_route: bool) -> Result<Self> {
        safety::check_usable(interface)?;
        safety::check_taking(interface, "--count-only", allow_default_route)?;
        let (interface, card) = (Interface::open(interface)?, Card::open(interface));
        let (map, counts) = Map::shared("pktgen_sink", QUEUES * EACH)?;
        let program = BpfProgram::load("pktgen_sink", program(&map).insns(), true)?;
        let link = program
            .attach(interface.index(), Attach::Driver)
            .map_err(|e| host_error(&format!("attach a counting XDP program to {}", interface.name()), &e))?;
        Ok(Sink { _link: link, _program: program, _map: map, counts, interface, card })
    }

    /// Fails if the interface is down or gone, so that nothing is counted any more.
    pub fn check(&self) -> Result<()> {
        self.interface.check_up().map_err(|why| self.card.failed("receive", &why))
    }

    /// Returns frames and bytes so far.
    pub fn counts(&self) -> (u64, u64) {
        let sum = |at: usize| (0..QUEUES).map(|queue| self.counts.number(queue * EACH + at)).sum();
        (sum(0), sum(8))
    }
}

/// Makes the program. One queue is served by one core at a time, so plain additions are sufficient.
fn program(map: &Map) -> Code {
    let mut code = Code::new();
    let known = code.label();
    code.copy(R6, R1);
    code.load_value(R7, map.fd());
    code.load_u32(R8, R6, CTX_RX_QUEUE);
    // Queues beyond the table share its last entry.
    code.jump(When::Lt, R8, QUEUES as i32, known);
    code.set(R8, QUEUES as i32 - 1);
    code.place(known);
    code.shift_left(R8, EACH.ilog2() as i32);
    code.add_reg(R7, R8);
    code.load_u64(R1, R7, 0);
    code.add(R1, 1);
    code.store_u64(R7, 0, R1);
    code.copy(R1, R6);
    code.call(XDP_GET_BUFF_LEN);
    code.load_u64(R1, R7, 8);
    code.add_reg(R1, R0);
    code.store_u64(R7, 8, R1);
    code.set(R0, XDP_DROP);
    code.exit();
    code
}
