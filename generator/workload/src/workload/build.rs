//! Turning updates into frames: headers from a template per worker, then what differs.

use super::{Source, Update};
use crate::record::NO_CLUSTER;
use crate::topology::Population;
use crate::wire::frame::{HEAD, SERVER_IP, Template, background_ip, set_udp_checksum, worker_ip};
use crate::wire::update::{Header, PORT, UPDATE_HEAD, WORKER_PORT, elements_in};

/// UDP port of background traffic: discard.
const DISCARD: u16 = 9;

/// Bytes ahead of the gradients.
const LINE: usize = HEAD + UPDATE_HEAD;

/// The head of a worker's frames: what is the same in many is written once.
///
/// What each frame needs is in two cache lines: a network has more workers than a cache has lines.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct FrameHead {
    /// For updates of this cluster in frames of this length.
    bytes: usize,
    cluster: u16,
    elements: u16,
    head: [u8; LINE],
    template: Template,
}

impl FrameHead {
    fn new(worker: u32, cluster: u16) -> Self {
        let template = match cluster {
            NO_CLUSTER => Template::new((background_ip(worker), DISCARD), (SERVER_IP, DISCARD), HEAD),
            _ => Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), HEAD),
        };
        FrameHead { template, head: [0; LINE], cluster, bytes: 0, elements: 0 }
    }

    #[cold]
    fn remake(&mut self, update: &Update, flags: u8, bytes: usize) {
        let elements = elements_in(bytes) as u16;
        (self.cluster, self.bytes, self.elements) = (update.cluster, bytes, elements);
        self.template.set_length(bytes);
        self.template.emit(&mut self.head);
        let header = Header {
            flags,
            cluster: update.cluster,
            count: 1,
            worker: update.worker,
            seq: update.seq,
            generation: update.t_gen,
            attempt: 0,
            elements,
            reward: 0.0,
        };
        header.emit_update(&mut self.head[HEAD..]);
    }
}

// More would cost a further miss of the caches for each frame of a large network.
const _: () = assert!(size_of::<FrameHead>() == 128);

/// Builds the frames of all workers of a run.
#[derive(Debug, Clone)]
pub struct Builder {
    lines: Vec<FrameHead>,
    udp_checksum: bool,
    flags: u8,
}

impl Builder {
    /// For these workers; the UDP checksum is left out (0) unless asked for.
    pub fn new(workers: &Population, udp_checksum: bool) -> Self {
        let clusters = (0..).zip(&workers.cluster_of);
        let lines = clusters.map(|(worker, cluster)| FrameHead::new(worker, *cluster)).collect();
        Builder { lines, udp_checksum, flags: 0 }
    }

    /// The same with these flags in every update.
    pub fn flagged(self, flags: u8) -> Self {
        Builder { flags, ..self }
    }

    /// What the frames of a worker are made from: in large networks it is in no cache.
    pub fn line(&self, worker: u32) -> Option<&FrameHead> {
        self.lines.get(worker as usize)
    }

    /// Takes the next update of `source`, which is `update`, and writes its frame. Returns how many
    /// gradients it carries; what the frame has beyond them is zero.
    #[inline]
    pub fn next(&mut self, source: &mut dyn Source, update: &Update, attempt: u8, frame: &mut [u8]) -> u16 {
        let elements = self.emit(update, attempt, frame);
        let start = if update.cluster == NO_CLUSTER { HEAD } else { HEAD + UPDATE_HEAD };
        source.take(&mut frame[start..start + usize::from(elements) * 4]);
        if self.udp_checksum {
            set_udp_checksum(frame);
        }
        elements
    }

    /// Writes everything but the gradients; `frame` has the update's length.
    #[inline]
    pub fn emit(&mut self, update: &Update, attempt: u8, frame: &mut [u8]) -> u16 {
        let line = &mut self.lines[update.worker as usize];
        if update.cluster == NO_CLUSTER {
            line.template.emit_to_fit(frame);
            frame[HEAD..].fill(0);
            return 0;
        }
        if line.bytes != frame.len() || line.cluster != update.cluster {
            line.remake(update, self.flags, frame.len());
        }
        let Some((head, rest)) = frame.split_first_chunk_mut::<LINE>() else {
            panic!("the frame is shorter than an update's head")
        };
        *head = line.head;
        if let Some(head) = head[HEAD..].first_chunk_mut() {
            Header::renew(head, update.seq, update.t_gen, attempt, update.reward.unwrap_or(0.0));
        }
        let gradients = usize::from(line.elements) * 4;
        if gradients < rest.len() {
            rest[gradients..].fill(0);
        }
        line.elements
    }
}
