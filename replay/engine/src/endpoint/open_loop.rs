//! Workers that send every update when it is generated, regardless of what comes back.

use pktgen_core::Result;
use pktgen_core::config::{KeyTables, Section, settings};
use pktgen_core::record::Answers;
use pktgen_core::registry::Named;
use pktgen_core::time::Time;
use pktgen_core::topology::NodeId;
use pktgen_wire::wire::frame::{target_ip, worker_of};
use pktgen_wire::wire::update::{FLAG_PARTIAL, FLAG_RESULT, Header, digest, is_ack, values};
use pktgen_workload::workload::Source;

use super::all_reduce::AllReduce;
use super::sender::{Sender, UPDATES};
use super::{Behaviour, Crew, Facts, Host, Protocol, Receiver, WorkerKind, Workers, WorkersEnd};
use crate::frame::{BURST, Frame, Kind, Pool};

/// `workers = "open_loop"`.
pub struct OpenLoopKind;

impl Named for OpenLoopKind {
    fn name(&self) -> &'static str {
        "open_loop"
    }
    fn about(&self) -> &'static str {
        "workers send every update when it is generated"
    }
}

settings! {
    /// Keys for the server.
    keys AtServer {
        /// Whether the server sends complete sums back to all workers.
        allreduce: Option<bool> said "false";
    }
}

impl WorkerKind for OpenLoopKind {
    fn keys(&self) -> KeyTables {
        &[]
    }

    fn protocol(&self) -> &'static Protocol {
        &UPDATES
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour::ASYNCHRONOUS
    }

    fn server_keys(&self) -> KeyTables {
        &[AtServer::KEYS]
    }

    fn server(&self, section: &mut Section, facts: &Facts) -> Result<Option<Receiver>> {
        let answers = AtServer::allreduce(section)?;
        if answers == Some(true) { AllReduce::open(facts).map(|server| Some(server.receiver())) } else { Ok(None) }
    }

    fn open(&self, _section: &mut Section, facts: &Facts, source: Box<dyn Source>) -> Result<Crew> {
        let workers = OpenLoop {
            sender: Sender::new(facts, source),
            overhead_bits: facts.flows.as_ref().map_or(0, |flows| flows.overhead_bits),
            answers: Vec::new(),
            had: Vec::new(),
            sums: Vec::new(),
            unlike: 0,
        };
        Ok(Crew::of_updates(workers, false))
    }
}

struct OpenLoop {
    sender: Sender,
    /// Bits of a frame on a link besides its own.
    overhead_bits: u64,
    /// Whole sums returned to each worker.
    answers: Vec<Answers>,
    /// By worker: a bit for each message whose whole sum it has. Copies made by the network are not further answers.
    had: Vec<Vec<u64>>,
    /// By cluster and message: the digest of the sum at the first worker, and the number of its updates.
    sums: Vec<Vec<Option<(u64, u16)>>>,
    /// Sums that differ from the first worker's.
    unlike: u64,
}

impl OpenLoop {
    /// Processes a sum at a worker; returns false for other frames. Those that lack a part are compared only.
    fn answered(&mut self, frame: &Frame, pool: &Pool) -> bool {
        let payload = pool.payload(frame);
        let Some(header) = Header::parse_update(payload).filter(|header| header.flags & FLAG_RESULT != 0) else {
            return false;
        };
        let workers = self.sender.host_of.len();
        let Some(worker) = worker_of(target_ip(pool.frame(frame)), workers) else { return false };
        self.answers.resize(workers, Answers::default());
        self.had.resize(workers, Vec::new());
        let (cluster, seq) = (usize::from(header.cluster), header.seq as usize);
        let had = &mut self.had[worker as usize];
        had.resize(had.len().max(seq / 64 + 1), 0);
        let bit = 1u64 << (seq % 64);
        if header.flags & FLAG_PARTIAL == 0 && had[seq / 64] & bit == 0 {
            had[seq / 64] |= bit;
            self.answers[worker as usize].add(frame.t, u64::from(frame.len) * 8 + self.overhead_bits);
        }
        self.sums.resize(self.sums.len().max(cluster + 1), Vec::new());
        let of_cluster = &mut self.sums[cluster];
        of_cluster.resize(of_cluster.len().max(seq + 1), None);
        let own = (digest(values(payload, &header)), header.count);
        let first = of_cluster[seq].get_or_insert(own);
        self.unlike += u64::from(*first != own);
        true
    }
}

impl Workers for OpenLoop {
    fn next_wake(&self) -> Time {
        self.sender.next_wake()
    }

    fn pull(&mut self, until: Time, pool: &mut Pool, host: &mut Host) {
        for _ in 0..BURST {
            let Some(update) = self.sender.due(until) else { break };
            self.sender.send(&update, pool, host);
        }
    }

    fn on_burst(&mut self, _node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host) {
        for frame in burst {
            if is_ack(pool.payload(frame)) {
                host.acks_received += 1;
            } else if frame.kind != Kind::Result || !self.answered(frame, pool) {
                host.foreign += 1;
            }
            pool.release(frame.buffer);
        }
    }

    fn end(&self) -> WorkersEnd {
        let unlike = format!("{} sums differ from what other workers got", self.unlike);
        let unfinished = (self.unlike > 0).then_some(unlike);
        WorkersEnd { unfinished, answers: self.answers.clone(), ..self.sender.end() }
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::config::Document;
    use pktgen_core::record::PacketId;
    use pktgen_core::seed::Seed;
    use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};
    use pktgen_wire::wire::update::{PORT, UPDATE_HEAD, WORKER_PORT};
    use pktgen_workload::workload;

    use super::*;

    /// Two workers with links on which a frame has 24 bytes more.
    fn workers() -> OpenLoop {
        let text = "[workload]\nclusters = 1\nworkers_per_cluster = 2\n[schedule]\noffered = \"1Gbps\"\n";
        let source = workload::open(&mut Document::parse(text, "test").unwrap(), Seed(1)).unwrap().source;
        let facts = Facts::of_test(&OpenLoopKind, source.population().clone());
        OpenLoop {
            sender: Sender::new(&facts, source),
            overhead_bits: 24 * 8,
            answers: Vec::new(),
            had: Vec::new(),
            sums: Vec::new(),
            unlike: 0,
        }
    }

    /// An answer to worker 0, which has these `flags`, too.
    fn answer(pool: &mut Pool, t: Time, flags: u8, seq: u32, elements: u16) -> Frame {
        let len = HEAD + UPDATE_HEAD + usize::from(elements) * 4;
        let buffer = pool.take();
        let bytes = &mut pool.bytes_mut(buffer)[..len];
        Template::new((SERVER_IP, PORT), (worker_ip(0), WORKER_PORT), len).emit(bytes);
        let (flags, count, reward) = (flags | FLAG_RESULT, 2, 0.0);
        let header = Header { flags, cluster: 0, count, worker: 0, seq, generation: 0, attempt: 0, elements, reward };
        header.emit_update(&mut bytes[HEAD..]);
        let (packet, kind) = (PacketId::new(0, seq, 0), Kind::Result);
        Frame { t, packet, buffer, worker: 0, len: len as u16, cluster: 0, flow: 0, head: HEAD as u8, kind }
    }

    #[test]
    fn answers_have_the_bits_of_each_after_the_first() {
        let (mut workers, mut pool) = (workers(), Pool::new(128, 8));
        // The network made a copy of the second.
        for (t, seq, elements) in [(10, 0, 1), (20, 2, 4), (30, 2, 4), (40, 3, 8)] {
            let frame = answer(&mut pool, t, 0, seq, elements);
            assert!(workers.answered(&frame, &pool));
        }
        let bits = |elements: usize| (HEAD + UPDATE_HEAD + elements * 4 + 24) as u64 * 8;
        let expected = Answers { messages: 3, first_ps: 10, last_ps: 40, later_bits: Some(bits(4) + bits(8)) };
        assert_eq!((&workers.answers[..], workers.unlike), (&[expected, Answers::default()][..], 0));
    }

    #[test]
    fn sums_that_lack_a_part_are_compared_and_no_answers() {
        let (mut workers, mut pool) = (workers(), Pool::new(128, 8));
        for (t, flags, seq) in [(10, FLAG_PARTIAL, 0), (20, 0, 1), (30, 0, 2), (40, FLAG_PARTIAL, 3)] {
            let frame = answer(&mut pool, t, flags, seq, 1);
            assert!(workers.answered(&frame, &pool));
        }
        let own = workers.answers[0];
        assert_eq!((own.messages, own.first_ps, own.last_ps, workers.unlike), (2, 20, 30, 0));
        let other = answer(&mut pool, 50, FLAG_PARTIAL, 3, 2);
        assert!(workers.answered(&other, &pool) && workers.unlike == 1);
    }
}
