//! Workers that send every update when it is generated, regardless of what comes back.

use pktgen_core::Result;
use pktgen_core::config::{KeyTables, Section, settings};
use pktgen_core::record::Answers;
use pktgen_core::registry::Named;
use pktgen_core::time::Time;
use pktgen_core::topology::NodeId;
use pktgen_wire::wire::frame::{target_ip, worker_of};
use pktgen_wire::wire::update::{FLAG_RESULT, Header, digest, is_ack, values};
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
        let sender = Sender::new(facts, source);
        let workers = OpenLoop { sender, answers: Vec::new(), had: Vec::new(), sums: Vec::new(), unlike: 0 };
        Ok(Crew::of_updates(workers, false))
    }
}

struct OpenLoop {
    sender: Sender,
    /// Whole sums returned to each worker.
    answers: Vec<Answers>,
    /// By worker: a bit for each message whose whole sum it has. Copies made by the network are not further answers.
    had: Vec<Vec<u64>>,
    /// By cluster and message: the digest of the whole sum at the first worker, and the number of its updates.
    sums: Vec<Vec<Option<(u64, u16)>>>,
    /// Whole sums that differ from the first worker's.
    unlike: u64,
}

impl OpenLoop {
    /// Processes a whole sum at a worker; returns false for other frames.
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
        if had[seq / 64] & bit == 0 {
            had[seq / 64] |= bit;
            self.answers[worker as usize].add(frame.t);
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
        let unlike = format!("{} whole sums differ from what other workers got", self.unlike);
        let unfinished = (self.unlike > 0).then_some(unlike);
        WorkersEnd { unfinished, answers: self.answers.clone(), ..self.sender.end() }
    }
}
