//! Queue disciplines: the frames that wait for a link, and their order.
//!
//! A queue knows no link and keeps no clock: the port offers it frames and takes the next one out.
//! The frame that is being transmitted is *locked*: taken by [`Queue::dequeue`] and ended by
//! [`Queue::release`]; whether it keeps its slot until then is a parameter of every discipline (on OLAF's card it does,
//! §12.1; in ns-3, where the device is separate from the queue, it does not).

pub mod fifo;

use pktgen_core::Result;
use pktgen_core::config::{KeyTables, Section, settings};
use pktgen_core::record::PacketId;
use pktgen_core::registry::Named;
use pktgen_core::time::Time;
use pktgen_wire::wire::update::Status;

use super::books::Books;
use crate::frame::{Frame, Pool};

pub use fifo::Fifo;

/// A queue in front of one link.
pub trait Queue: Send {
    /// Offers frames in order; each is kept, merged or dropped, and the books say which. `frame.t` is the
    /// time of the offer. A frame that is not kept is released.
    fn enqueue(&mut self, burst: &[Frame], pool: &mut Pool, books: &mut Books);

    /// Notes the arrival of a frame at the engine before the queue, at `frame.t`: the engine drops it, or accepts it at once or later
    /// ([`admit`](Self::admit)).
    fn arrived(&mut self, _frame: &Frame, _pool: &Pool) {
        // Most queues do not count arrivals.
    }

    /// Enqueues a frame whose arrival is noted ([`arrived`](Self::arrived)), at `frame.t`.
    fn admit(&mut self, frame: &Frame, pool: &mut Pool, books: &mut Books) {
        self.enqueue(std::slice::from_ref(frame), pool, books);
    }

    /// Takes the frame that is transmitted next and locks it.
    fn dequeue(&mut self, t: Time, pool: &mut Pool) -> Option<Frame>;

    /// Ends the transmission of the locked frame.
    fn release(&mut self);

    /// Returns Qn, N and Qmax at `t`.
    fn status(&mut self, t: Time) -> Status;

    /// Returns the number of waiting frames, without the locked one.
    fn waiting(&self) -> usize;

    /// Fetches into the caches what the offer of a frame of this cluster will touch, in three steps of which each reads only what the one
    /// before has fetched. The last one returns the packet that waits for it, if one does.
    fn fetch(&self, _step: usize, _cluster: u16, _pool: &Pool) -> Option<PacketId> {
        None
    }
}

settings! {
    /// What all disciplines read from `[target]`.
    pub keys Slots {
        /// Queue length in frames, unless the topology has its own.
        slots: u32 said "8, or as many as the workers or the network need" in 1..=1 << 20;
        /// Whether the frame in transmission keeps its slot.
        slot_in_transmission: bool = true;
    }
}

settings! {
    /// What disciplines read from `[target]` that mark frames.
    pub keys Marks {
        /// Congestion mark: a departing frame is marked if at least this many frames wait behind it.
        mark_at: Option<u32> in 0..=1 << 20;
    }
}

/// Makes queues.
pub trait Discipline: Named + Sync {
    /// The keys of `[target]` that [`open`](Self::open) reads: they stay valid when a sweep also visits other
    /// disciplines.
    fn keys(&self) -> KeyTables;

    /// Returns whether frames must be updates whose cluster the device has looked up.
    fn needs_identified(&self) -> bool {
        false
    }

    /// Returns the default of `slots`, also for the plain queues beside it.
    fn slots(&self) -> u32 {
        8
    }

    /// Reads its keys from `[target]` and makes the queue of one port, with `slots` if the topology states them for that port.
    fn open(&self, section: &mut Section, clusters: usize, slots: Option<u32>) -> Result<Box<dyn Queue>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disciplines_name_the_keys_that_they_read() {
        for discipline in crate::plain::SYSTEM.queues {
            let mut section = Section::of("target", &[]);
            discipline.open(&mut section, 3, None).unwrap();
            let mut asked: Vec<_> = section.asked().iter().map(String::as_str).collect();
            let mut named: Vec<_> = pktgen_core::config::names_of(discipline.keys()).collect();
            asked.sort_unstable();
            named.sort_unstable();
            assert_eq!(asked, named, "{}", discipline.name());
        }
    }
}
