//! The parameter server: receives updates, answers each at once (OLAF §2.1), counts.
//!
//! The ACK is addressed to the worker of the newest member; an Olaf device on the way multicasts it to
//! the cluster. By `ack_model` it carries the acknowledged gradients (§7, "Packet Format"), the average gradient or the
//! weights (§2.1). In periodic and synchronous mode the server answers all workers of a cluster at once.

use std::sync::Arc;

use pktgen_core::config::{KeyTables, Section, settings};
use pktgen_core::record::{NO_CLUSTER, Received};
use pktgen_core::time::Time;
use pktgen_core::topology::{NodeId, Population};
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{FRAME_MAX, HEAD, SERVER_IP, Template, set_udp_checksum, worker_ip};
use pktgen_wire::wire::update::{self, ACK_HEAD, Ack, Header, PORT, Status, UPDATE_HEAD, WORKER_PORT, elements_in};

use super::gate::{Answer, Carries, Models, Moves};
use super::roster::received;
use super::{Delivery, Facts, Host, Outgoing, Server, ServerEnd};
use crate::frame::{Frame, Kind, Pool};

/// The keys of `[endpoint]` for the server.
pub const KEYS: KeyTables = &[Acknowledged::KEYS, Moves::KEYS];

/// The server.
pub struct UpdateServer {
    node: NodeId,
    host_of: Arc<Vec<NodeId>>,
    workers: Arc<Population>,
    acknowledge: bool,
    ack_model: Carries,
    models: Models,
    udp_checksum: bool,
    /// Headers of the ACKs to each worker, made on first use.
    heads: Vec<Option<Template>>,
}

settings! {
    /// What it reads from `[endpoint]` beside the keys of its models.
    pub(super) keys Acknowledged {
        /// Content of the acknowledgement of an update.
        ack_model: Carries said "\"gradients\", for workers that learn \"weights\"";
        /// Whether the server acknowledges updates.
        acknowledge: bool = true;
    }
}

/// Maximum number of gradients or weights in an acknowledgement. Its header is longer than that of an update, so the last ones do not
/// fit if updates have the maximum size.
const ROOM: usize = (FRAME_MAX - ACK_MIN) / 4;

/// Bytes of an acknowledgement without content.
pub const ACK_MIN: usize = HEAD + ACK_HEAD;

/// Returns the bytes of the acknowledgement of an update of `update` bytes: with its gradients, or as many weights,
/// unless `endpoint.ack_model` says otherwise; 0 if the server sends none.
pub fn ack_bytes(endpoint: &Section, update: u32) -> u32 {
    let mut endpoint = endpoint.clone();
    if let Ok(Some(false)) = endpoint.get_opt("acknowledge") {
        return 0;
    }
    let elements = match endpoint.get_opt("ack_model") {
        Ok(Some(Carries::Nothing)) => 0,
        _ => elements_in(update as usize).min(ROOM),
    };
    (ACK_MIN + elements * 4) as u32
}

impl UpdateServer {
    /// Reads `acknowledge`, `ack_model` and the reward gate's keys from `[endpoint]`.
    pub fn open(section: &mut Section, facts: &Facts) -> Result<Self> {
        let learns = facts.learning.is_some();
        let ack_model = Acknowledged::ack_model(section, if learns { "weights" } else { "gradients" })?;
        if learns && facts.kind.behaviour().learns && ack_model != Carries::Weights {
            return Err(Error::config(format!(
                "{}: workers that learn go on with the weights that acknowledgements bring; use \"weights\", or leave it out",
                section.place("ack_model")
            )));
        }
        let acknowledge = Acknowledged::acknowledge(section)?;
        if learns && facts.kind.behaviour().learns && !acknowledge {
            return Err(Error::config(format!(
                "{}: workers that learn go on with the weights that acknowledgements bring, and would learn nothing; leave it out",
                section.place("acknowledge")
            )));
        }
        Ok(UpdateServer {
            models: Models::read(section, facts, ack_model)?,
            workers: facts.workers.clone(),
            node: facts.server,
            host_of: facts.host_of.clone(),
            acknowledge,
            ack_model,
            udp_checksum: facts.udp_checksum,
            heads: vec![None; facts.workers.len()],
        })
    }

    fn receive(&mut self, frame: &Frame, pool: &mut Pool, host: &mut Host) {
        let (mut row, header) = match Header::parse_update(pool.payload(frame)) {
            Some(header) if frame.kind == Kind::Update => (update_row(frame, &header, self.node), Some(header)),
            _ if frame.kind == Kind::Plain => (plain_row(frame, self.node), None),
            _ => {
                host.foreign += 1;
                return pool.release(frame.buffer);
            }
        };
        if let Some(header) = header {
            let sum = update::values(pool.payload(frame), &header);
            let (accepted, answer) = self.models.update(header.cluster, header.reward, header.count, sum);
            row.accepted = accepted;
            match answer {
                _ if !self.acknowledge => {}
                // Every update is answered at once, accepted or not (§2.1).
                Answer::Sender => self.answer(header.worker, frame, header, pool, host),
                Answer::Everyone => self.answer_all(frame, header, pool, host),
                Answer::Nobody => {}
            }
        }
        host.deliveries.push(Delivery { row, frame: *frame });
    }

    /// Answers all workers of the cluster, each by a separate ACK: a round or batch ends with `update`.
    fn answer_all(&mut self, update: &Frame, header: Header, pool: &mut Pool, host: &mut Host) {
        for worker in 0..self.workers.len() as u32 {
            if self.workers.cluster_of[worker as usize] == header.cluster {
                self.answer(worker, update, header, pool, host);
            }
        }
    }

    /// Sends `worker` an ACK of `update`.
    fn answer(&mut self, worker: u32, update: &Frame, header: Header, pool: &mut Pool, host: &mut Host) {
        let Some(&home) = self.host_of.get(worker as usize) else { return };
        let elements = match self.ack_model {
            Carries::Nothing => 0,
            Carries::Gradients => usize::from(header.elements),
            Carries::Average | Carries::Weights => self.models.vector(header.cluster, self.ack_model).len(),
        };
        let elements = elements.min(ROOM) as u16;
        let len = ACK_MIN + usize::from(elements) * 4;
        let frame = Frame {
            t: update.t,
            packet: header.packet(),
            buffer: pool.take(),
            worker: header.worker,
            len: len as u16,
            cluster: header.cluster,
            flow: home,
            head: HEAD as u8,
            kind: Kind::Control,
        };
        let bytes = &mut pool.bytes_mut(frame.buffer)[..len];
        let head = self.heads[worker as usize]
            .get_or_insert_with(|| Template::new((SERVER_IP, PORT), (worker_ip(worker), WORKER_PORT), len));
        head.emit_to_fit(bytes);
        let ack = Ack { header: Header { flags: 0, elements, ..header }, status: Status::default() };
        ack.emit(&mut bytes[HEAD..]);
        if self.ack_model == Carries::Gradients {
            let (answer, gradients) = pool.payload_pair(&frame, update);
            answer[ACK_HEAD..].copy_from_slice(&gradients[UPDATE_HEAD..UPDATE_HEAD + usize::from(elements) * 4]);
        } else {
            let model = self.models.vector(header.cluster, self.ack_model);
            let room = pool.payload_mut(&frame)[ACK_HEAD..].as_chunks_mut::<4>().0;
            room.iter_mut().zip(model).for_each(|(bytes, value)| *bytes = value.to_le_bytes());
        }
        if self.udp_checksum {
            set_udp_checksum(&mut pool.bytes_mut(frame.buffer)[..len]);
        }
        host.acks_sent += 1;
        host.outgoing.push(Outgoing { node: self.node, frame, record: None });
    }
}

/// Returns the row of a frame that workers can send; `None` for others.
pub(crate) fn row_of(frame: &Frame, pool: &Pool, node: NodeId) -> Option<Received> {
    match Header::parse_update(pool.payload(frame)) {
        Some(header) if frame.kind == Kind::Update => Some(update_row(frame, &header, node)),
        _ => (frame.kind == Kind::Plain).then(|| plain_row(frame, node)),
    }
}

/// Returns the row of an update that arrived at `node`.
pub(crate) fn update_row(frame: &Frame, header: &Header, node: NodeId) -> Received {
    Received {
        packet: header.packet(),
        cluster: Some(header.cluster),
        newest_worker: header.worker,
        newest_seq: header.seq,
        newest_gen: header.generation,
        count: header.count,
        reward: Some(header.reward),
        ..received(frame, node)
    }
}

/// Returns the row of plain traffic, which does not contain its identity; in virtual time its metadata does.
fn plain_row(frame: &Frame, node: NodeId) -> Received {
    Received { cluster: Some(NO_CLUSTER), ..received(frame, node) }
}

impl Server for UpdateServer {
    fn on_burst(&mut self, _node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host) {
        for frame in burst {
            self.receive(frame, pool, host);
        }
    }

    fn end(&self, _worked: Option<Time>) -> ServerEnd {
        ServerEnd::default()
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::config::Value;

    use super::*;

    #[test]
    fn acknowledgements_are_as_long_as_planned() {
        let bytes = |keys: &[(&str, Value)], update: usize| ack_bytes(&Section::of("endpoint", keys), update as u32);
        // 360 gradients: a remainder below four bytes is padding.
        assert_eq!((bytes(&[], 1514), bytes(&[], 256)), (1520, 264));
        assert!((FRAME_MAX - 3..=FRAME_MAX).contains(&(bytes(&[], FRAME_MAX) as usize)));
        assert_eq!(bytes(&[("ack_model", "none".into())], 1514), 80);
        assert_eq!(bytes(&[("acknowledge", true.into())], 256), 264);
        assert_eq!(bytes(&[("acknowledge", false.into())], 1514), 0);
    }
}
