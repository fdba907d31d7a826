//! The operations of a program on frames: emit, share, read a port's queue status, write books.

use pktgen_core::record::Reason;
use pktgen_core::time::Time;
use pktgen_wire::wire::update::Status;

use super::books::Books;
use super::port::Port;
use crate::frame::{Frame, Pool};

/// Frames on their way out of a node, with the link that carries each; `frame.t` is the arrival at the
/// link's far end.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Link and frame, in the order of emission.
    pub frames: Vec<(u32, Frame)>,
}

impl Outbox {
    /// Puts a frame on a link.
    #[inline]
    pub fn push(&mut self, link: u32, frame: Frame) {
        self.frames.push((link, frame));
    }
}

/// The context of programs.
pub struct Context<'a> {
    /// Frame memory.
    pub pool: &'a mut Pool,
    /// The device's books.
    pub books: &'a mut Books,
    ports: &'a mut [Port],
    out: &'a mut Outbox,
    touched: &'a mut Vec<u16>,
}

impl<'a> Context<'a> {
    /// A context for one call of a program.
    pub fn new(
        pool: &'a mut Pool,
        books: &'a mut Books,
        ports: &'a mut [Port],
        out: &'a mut Outbox,
        touched: &'a mut Vec<u16>,
    ) -> Self {
        Context { pool, books, ports, out, touched }
    }

    /// Offers a frame to the queue of a port, at `frame.t`. Without such a port it is dropped.
    #[inline]
    pub fn emit(&mut self, port: u16, frame: Frame) {
        let Some(target) = self.ports.get_mut(usize::from(port)) else { return self.drop(frame, Reason::NoRoute) };
        target.offer(frame, self.pool, self.books, self.out);
        self.touched.push(port);
    }

    /// Sends a frame around the queue of a port on the same link, at `frame.t`.
    #[inline]
    pub fn emit_around(&mut self, port: u16, frame: Frame) {
        let Some(target) = self.ports.get_mut(usize::from(port)) else { return self.drop(frame, Reason::NoRoute) };
        target.offer_around(frame, self.pool, self.books, self.out);
        self.touched.push(port);
    }

    /// Returns one more handle on the same bytes: multicast without copying.
    #[inline]
    pub fn share(&mut self, frame: &Frame) -> Frame {
        self.pool.share(frame.buffer);
        *frame
    }

    /// Returns the frame with exclusive bytes, for writing: copied if they are shared.
    #[inline]
    pub fn unshare(&mut self, frame: &Frame) -> Frame {
        Frame { buffer: self.pool.unshare(frame.buffer), ..*frame }
    }

    /// Drops a frame here.
    #[inline]
    pub fn drop(&mut self, frame: Frame, reason: Reason) {
        self.books.dropped(frame.t, &frame, reason, None);
        self.pool.release(frame.buffer);
    }

    /// Returns the status of a port's queue at `t`.
    pub fn status(&mut self, port: u16, t: Time) -> Option<Status> {
        let target = self.ports.get_mut(usize::from(port))?;
        self.touched.push(port);
        Some(target.status(t, self.pool, self.books, self.out))
    }
}
