//! Sums of updates in the memory of frames, for aggregators and the answering server.

use pktgen_core::record::{Action, Reason};
use pktgen_wire::wire::frame::HEAD;
use pktgen_wire::wire::update::{FLAG_MERGED, FLAG_PARTIAL, Header, UPDATE_HEAD, add_values};

use super::context::Context;
use crate::frame::{Frame, Pool};

/// An incomplete sum. Its header is written when it leaves.
#[derive(Debug, Clone, Copy)]
pub struct Sum {
    /// Its frame; the packet id is that of its newest member.
    pub frame: Frame,
    /// Its header.
    pub header: Header,
}

impl Sum {
    /// Returns the header of a frame that can be summed: an update with our fixed headers.
    #[inline]
    pub fn header_of(frame: &Frame, pool: &Pool) -> Option<Header> {
        (usize::from(frame.head) == HEAD).then(|| Header::parse_update(pool.payload(frame)))?
    }

    /// Adds `frame` with header `new`; returns whether it becomes the newest member. The mean of rewards is weighted by
    /// counts. A frame that does not fit is not added, and the sum is marked as partial.
    #[inline]
    pub fn add(&mut self, frame: &Frame, new: Header, pool: &mut Pool) -> Result<bool, Reason> {
        let old = self.header;
        let fits = if old.elements == new.elements { Ok(()) } else { Err(Reason::WrongCount) };
        let count = fits.and_then(|()| old.count.checked_add(new.count).ok_or(Reason::CountFull));
        let count = count.inspect_err(|_| self.header.flags |= FLAG_PARTIAL)?;
        self.frame.buffer = pool.unshare(self.frame.buffer);
        let bytes = usize::from(new.elements) * 4;
        let (sum, part) = pool.payload_pair(&self.frame, frame);
        add_values(&mut sum[UPDATE_HEAD..UPDATE_HEAD + bytes], &part[UPDATE_HEAD..UPDATE_HEAD + bytes]);
        let newer = new.generation >= old.generation;
        let newest = if newer { new } else { old };
        let reward = old.mean_reward(&new);
        self.header = Header { flags: old.flags | new.flags | FLAG_MERGED, count, reward, ..newest };
        if newer {
            self.frame.packet = frame.packet;
            self.frame.worker = frame.worker;
        }
        Ok(newer)
    }

    /// Adds `frame` at a device, books the merge, and releases its bytes. Returns whether it was added.
    #[inline]
    pub fn take(&mut self, frame: &Frame, new: Header, context: &mut Context) -> bool {
        let before = self.frame.packet;
        let added = self.add(frame, new, context.pool);
        match added {
            Ok(true) => context.books.yields(frame.t, before, Action::Merged, frame.packet),
            Ok(false) => context.books.yields(frame.t, frame.packet, Action::Merged, before),
            Err(reason) => context.books.dropped(frame.t, frame, reason, Some(before)),
        }
        context.pool.release(frame.buffer);
        added.is_ok()
    }
}
