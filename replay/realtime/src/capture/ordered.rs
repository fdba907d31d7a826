//! Packets of several senders as one capture in the order of time.
//!
//! A host with many frames reports all their departures at once, before others report earlier departures.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pktgen_core::Result;
use pktgen_core::record::FileDigest;
use pktgen_core::time::Time;
use pktgen_wire::pcap::Writer;

/// A capture whose packets are held until none can be earlier.
pub(super) struct OrderedWriter {
    writer: Writer,
    /// By time, then in the order of arrival.
    waiting: BinaryHeap<Reverse<(Time, u64, Vec<u8>)>>,
    packets: u64,
}

impl OrderedWriter {
    pub(super) fn new(writer: Writer) -> Self {
        OrderedWriter { writer, waiting: BinaryHeap::new(), packets: 0 }
    }

    /// Takes a packet of time `t`; later packets are not earlier than `now`.
    pub(super) fn packet(&mut self, now: Time, t: Time, frame: &[u8]) -> Result<()> {
        self.waiting.push(Reverse((t, self.packets, frame.to_vec())));
        self.packets += 1;
        self.write(now)
    }

    /// Writes packets earlier than `now`.
    fn write(&mut self, now: Time) -> Result<()> {
        while self.waiting.peek().is_some_and(|Reverse((t, ..))| *t < now) {
            let Some(Reverse((t, _, frame))) = self.waiting.pop() else { break };
            self.writer.packet(0, t, &frame, frame.len() as u32)?;
        }
        Ok(())
    }

    /// Writes the rest.
    pub(super) fn finish(mut self) -> Result<Option<FileDigest>> {
        self.write(Time::MAX)?;
        self.writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pktgen_wire::pcap::{Form, Reader, WriterOptions};

    use super::*;

    #[test]
    fn packets_are_written_in_the_order_of_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pcapng");
        let mut ordered = OrderedWriter::new(Writer::create(&path, WriterOptions::new(Form::Pcapng)).unwrap());
        // The first host reports three at once, the second one between them.
        let packets = [(0, 1_000, 0u8), (0, 5_000, 1), (0, 9_000, 2), (2_000, 4_000, 3), (6_000, 9_000, 4)];
        for (now, t, name) in packets {
            ordered.packet(now, t, &[name]).unwrap();
        }
        ordered.finish().unwrap();
        assert_eq!(names(&path), [0, 3, 1, 2, 4]);
    }

    fn names(path: &Path) -> Vec<u8> {
        let mut reader = Reader::open(path).unwrap();
        let mut names = Vec::new();
        while let Some(packet) = reader.next().unwrap() {
            names.push(packet.bytes[0]);
        }
        names
    }
}
