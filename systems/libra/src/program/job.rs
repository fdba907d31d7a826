//! A switch's state of a job and of a worker.

use crate::format::{HEADER, HOT_FRAME_MAX, Header, PORT, WORKER_PORT};
use pktgen_core::record::PacketId;
use pktgen_core::topology::{NO_PORT, NodeId};
use pktgen_wire::wire::frame::{HEAD, Ip, Template, group_ip, server_ip, worker_ip};

use super::ranks::Ranks;
use super::records::{Bloom, Record, Seen};
use super::registers::Registers;
use super::results::Results;
use super::settings::{Settings, Writes};
use pktgen_engine::target::program::Place;
use pktgen_engine::target::sparse::SparsePlace;

/// A worker.
pub(super) struct Member {
    pub(super) job: u16,
    /// Index in the job.
    pub(super) rank: u32,
    /// Port towards it.
    pub(super) port: u16,
    /// Its host, if there are other devices on the path.
    pub(super) host: Option<NodeId>,
    /// Headers of ACKs to it.
    pub(super) alone: Template,
    pub(super) record: Record,
    /// The last iteration that it ended.
    pub(super) ended: Option<u32>,
    /// The last iteration whose results it reportedly missed.
    pub(super) missed: Option<u32>,
}

impl Member {
    pub(super) fn new(worker: u32, place: &Place, known: &SparsePlace, settings: &Settings) -> Self {
        let job = known.sparse.job_of(worker);
        let host = place.racks.as_ref().and_then(|racks| racks.hosts.get(worker as usize)).copied();
        let beyond = host.map(|host| place.routes.port(host));
        let below = place.jobs.get(usize::from(job)).and_then(|at| {
            let source = at.sources.iter().position(|source| source.worker == Some(worker))?;
            at.port_of.get(source).copied()
        });
        Member {
            job,
            rank: known.sparse.rank_of(worker),
            port: beyond.or(below).unwrap_or_else(|| way_back(place)),
            host,
            alone: Template::new((server(place, known), PORT), (worker_ip(worker), WORKER_PORT), HEAD + HEADER),
            // A device that only forwards remembers nothing.
            record: Record::new(if place.aggregators.contains(&place.node) { settings.records } else { 1 }),
            ended: None,
            missed: None,
        }
    }
}

/// Returns the source address of a switch's packets: that of the first server of its rack.
fn server(place: &Place, known: &SparsePlace) -> Ip {
    server_ip(known.shards.first_server(place.rack()))
}

/// Returns the port towards all workers for a device that is not on their path to the server: it has only one neighbour.
fn way_back(place: &Place) -> u16 {
    let beside = place.aggregators.len() > 1;
    if beside { place.routes.port(place.server) } else { NO_PORT }
}

/// Outcome of a packet that may have been added before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is added; for the second time if `again`.
    Take {
        /// Whether the exact record, which is not consulted, contains it.
        again: bool,
    },
    /// It is a copy, made by the network, of a packet that was added.
    Copy,
    /// It is a further attempt of a packet that was added, or is mistaken for one.
    Duplicate {
        /// Whether it was in fact never added.
        mistaken: bool,
    },
    /// It is beyond its worker's window.
    Beyond,
}

/// A job.
pub(super) struct Job {
    pub(super) registers: Registers,
    /// The packet that was added to the registers first.
    pub(super) opener: Option<PacketId>,
    /// The workers that ended the iteration.
    pub(super) ended: Ranks,
    /// The last iteration whose sums were sent.
    pub(super) finished: Option<u32>,
    pub(super) results: Results,
    /// Packets of the iteration, if a filter is used.
    pub(super) bloom: Option<Bloom>,
    pub(super) workers: u32,
    /// Ports towards its workers.
    pub(super) ports: Vec<u16>,
    /// Headers of packets to all workers.
    pub(super) all: Template,
}

impl Job {
    /// Creates the first `count` jobs.
    pub(super) fn all(count: u16, place: &Place, known: &SparsePlace, settings: &Settings) -> Vec<Self> {
        let bloom =
            || (settings.writes == Writes::Bloom).then(|| Bloom::new(settings.bloom_bits, settings.bloom_hashes));
        let one = |job: u16| {
            let ports = match &place.racks {
                Some(racks) => racks.down[place.rack() as usize].get(job).map(<[u16]>::to_vec),
                None => place.jobs.get(usize::from(job)).map(|at| at.ports.clone()),
            };
            let ports = ports.unwrap_or_default();
            Job {
                registers: Registers::new(known.sparse.hot().len()),
                opener: None,
                ended: Ranks::default(),
                finished: None,
                results: Results::default(),
                bloom: bloom(),
                workers: known.sparse.workers_per_job(),
                ports: if ports.is_empty() { vec![way_back(place)] } else { ports },
                all: Template::new((server(place, known), PORT), (group_ip(job), WORKER_PORT), HOT_FRAME_MAX),
            }
        };
        (0..count).map(one).collect()
    }

    /// Returns the outcome of a worker's packet with this number (LIBRA §3.6). The exact record is always correct: if
    /// the switch does not consult it, it shows how often the switch is wrong.
    #[inline]
    pub(super) fn judge(&self, writes: Writes, worker: u32, header: &Header, record: &Record) -> Verdict {
        let truth = record.look(header.seq >> 1);
        let known = match (writes, truth) {
            (_, Seen::Beyond) => return Verdict::Beyond,
            (Writes::Strict, _) => truth != Seen::New,
            (Writes::Paper, _) => header.attempt > 0 && truth != Seen::New,
            (Writes::Bloom, _) => {
                header.attempt > 0 && self.bloom.as_ref().is_some_and(|bloom| bloom.contains(worker, header.seq))
            }
        };
        match truth {
            _ if !known => Verdict::Take { again: truth != Seen::New },
            Seen::Taken(Some(attempt)) if attempt == header.attempt => Verdict::Copy,
            _ => Verdict::Duplicate { mistaken: truth == Seen::New },
        }
    }
}
