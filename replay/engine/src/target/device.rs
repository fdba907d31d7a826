//! A device: a program and its output ports.

use pktgen_core::topology::NodeId;

use super::books::Books;
use super::context::{Context, Outbox};
use super::port::Port;
use super::program::Program;
use crate::frame::Pool;

/// A device: program and ports.
pub struct Device {
    /// Its program.
    pub program: Box<dyn Program>,
    /// Its ports, in order.
    pub ports: Vec<Port>,
    /// Its books.
    pub books: Books,
    /// The port that was used last, and probably is next.
    pub(crate) last_port: u16,
    /// Event slot of its first port, in virtual time.
    pub(crate) first_slot: u32,
    /// Event slot of its timer, in virtual time.
    pub(crate) timer_slot: u32,
}

impl Device {
    /// A device at `node`, which rows can name.
    pub fn new(node: NodeId, program: Box<dyn Program>, ports: Vec<Port>) -> Self {
        Device {
            program,
            ports,
            last_port: 0,
            books: Books { node: node as u16, ..Default::default() },
            first_slot: 0,
            timer_slot: 0,
        }
    }

    /// Calls the program, with a context on this device.
    pub fn call(
        &mut self,
        pool: &mut Pool,
        out: &mut Outbox,
        touched: &mut Vec<u16>,
        act: impl FnOnce(&mut dyn Program, &mut Context),
    ) {
        let mut context = Context::new(pool, &mut self.books, &mut self.ports, out, touched);
        act(self.program.as_mut(), &mut context);
    }
}
