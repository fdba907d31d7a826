//! Turning updates into frames: headers from a template per worker, then what differs.

use super::frame::{HEAD, SERVER_IP, Template, background_ip, set_udp_checksum, worker_ip};
use super::olaf::{Header, PORT, UPDATE_HEAD, WORKER_PORT, elements_in};
use crate::record::NO_CLUSTER;
use crate::topology::Population;
use crate::workload::{Source, Update};

/// UDP port of background traffic: discard.
const DISCARD: u16 = 9;

/// Builds the frames of all workers of a run.
#[derive(Debug, Clone)]
pub struct Builder {
    templates: Vec<Template>,
    udp_checksum: bool,
    flags: u8,
}

impl Builder {
    /// For these workers; the UDP checksum is left out (0) unless asked for.
    pub fn new(workers: &Population, udp_checksum: bool) -> Self {
        let template = |(worker, cluster): (usize, &u16)| {
            let worker = worker as u32;
            match *cluster {
                NO_CLUSTER => Template::new((background_ip(worker), DISCARD), (SERVER_IP, DISCARD), HEAD),
                _ => Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), HEAD),
            }
        };
        Builder { templates: workers.cluster_of.iter().enumerate().map(template).collect(), udp_checksum, flags: 0 }
    }

    /// The same with these flags in every update.
    pub fn flagged(self, flags: u8) -> Self {
        Builder { flags, ..self }
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
        self.templates[update.worker as usize].emit_to_fit(frame);
        if update.cluster == NO_CLUSTER {
            frame[HEAD..].fill(0);
            return 0;
        }
        let elements = elements_in(frame.len());
        let header = Header {
            flags: self.flags,
            cluster: update.cluster,
            count: 1,
            worker: update.worker,
            seq: update.seq,
            generation: update.t_gen,
            attempt,
            elements: elements as u16,
            reward: update.reward.unwrap_or(0.0),
        };
        header.emit_update(&mut frame[HEAD..]);
        let padding = HEAD + UPDATE_HEAD + elements * 4;
        frame[padding..].fill(0);
        elements as u16
    }
}
