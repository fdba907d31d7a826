//! Workers of Trio-ML: a sliding window of blocks (Trio §4), with degraded results averaged over their contributors (§5).

use std::sync::Arc;

use crate::format::{self, HEADER, Header, PORT};
use pktgen_core::config::{KeyTables, Section, settings};
use pktgen_core::record::PacketId;
use pktgen_core::registry::Named;
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, group_ip, worker_ip};
use pktgen_workload::dense::Dense;
use pktgen_workload::workload::Source;

use pktgen_engine::endpoint::rounds::{
    Again, BEHAVIOUR, Contribution, Layout, Order, ResultHead, RoundProtocol, Rounds, Scaled, Scaling, Settings,
    Summing, Trained, dense_of, direction, read_scale,
};
use pktgen_engine::endpoint::{Behaviour, Crew, Facts, Identity, Protocol, Registers, WorkerKind};
use pktgen_engine::frame::Heads;

/// Maximum window (§5). The paper's own choice is 4096 (§6.1), one more than the printed `block_cnt_max` allows (Figure
/// 17), and one more than the default, which was the maximum in earlier versions.
pub(super) const WINDOW_MAX: u32 = 65_535;
const WINDOW: u32 = 4095;

static PROTOCOL: Protocol = Protocol {
    format: "trio_ml",
    smaller: "lower workload.elements",
    whole: false,
    identify,
    values: |payload| Header::parse(payload).map_or(&[], |header| format::values(payload, &header)),
    element_bytes: |_| 4,
    heads: |per_job| Some(heads(per_job)),
};

/// Identifies a frame from a wire.
fn identify(bytes: &[u8], facts: &Facts) -> Option<Identity> {
    let header = Header::parse(&bytes[HEAD..])?;
    let blocks = facts.training.1;
    // Beyond the run's iterations and blocks, numbers may belong to any packet; counting code checks both.
    let seq = u32::from(header.generation).wrapping_mul(blocks).wrapping_add(header.block);
    // A result is identified by the packet that opened its record, whose source it contains.
    direction(bytes, facts, PORT, |worker, first| {
        PacketId::new(worker.unwrap_or(first + u32::from(header.source)), seq, 0)
    })
}

/// Returns the headers of contributions, which contain their sources, and of results, which are for all workers of their jobs.
fn heads(per_job: u32) -> Heads {
    Arc::new(move |payload: &[u8], len: usize, down: bool, head: &mut [u8; HEAD]| {
        let Some(header) = Header::parse(payload) else { return false };
        let (from, to) = match down {
            false => (worker_ip(u32::from(header.job) * per_job + u32::from(header.source)), SERVER_IP),
            true => (SERVER_IP, group_ip(u16::from(header.job))),
        };
        Template::new((from, PORT), (to, PORT), HEAD + len).emit(head);
        true
    })
}

/// `workers = "trio_ml"`.
pub(crate) struct TrioMlKind;

impl Named for TrioMlKind {
    fn name(&self) -> &'static str {
        "trio_ml"
    }
    fn about(&self) -> &'static str {
        "synchronous training: a window of blocks to an aggregating router, which may send partial results"
    }
}

settings! {
    /// What it reads from `[endpoint]` beside what all synchronous workers do.
    keys Window {
        /// Window: outstanding blocks per worker.
        window: u32 = WINDOW in 1..=WINDOW_MAX;
    }
}

impl WorkerKind for TrioMlKind {
    fn keys(&self) -> KeyTables {
        &[Window::KEYS, Scaled::KEYS, Again::KEYS, Trained::KEYS]
    }

    fn protocol(&self) -> &'static Protocol {
        &PROTOCOL
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { program: Some("trio_ml"), ..BEHAVIOUR }
    }

    fn open(&self, section: &mut Section, facts: &Facts, source: Box<dyn Source>) -> Result<Crew> {
        let dense = dense_of(source.as_ref(), self.name())?;
        let window = Window::window(section)?;
        let scale = read_scale(section)?;
        let retransmit = Again::retransmit(section)?.map(Span::ps);
        if retransmit.is_some() && facts.real_time {
            return Err(Error::config(format!(
                "{}: a Trio-ML packet does not say which transmission it is, so on wires the books could not tell them apart; leave it \
                 out, or use transport.kind = \"virtual\"",
                section.place("retransmit")
            )));
        }
        let settings = Settings { retransmit, ..Settings::read(section, facts, &dense, window, Order::Outstanding)? };
        let workers = dense.workers_per_job() as u16;
        let layout = Layout::new(dense, Scaling::Fixed(scale), window).with_lanes(&facts.lanes);
        Ok(Rounds::new(TrioMl { workers }, layout, settings, facts).crew())
    }
}

struct TrioMl {
    /// Number of workers of a job.
    workers: u16,
}

impl RoundProtocol for TrioMl {
    fn template(&self, worker: u32, frame_bytes: usize) -> Template {
        Template::new((worker_ip(worker), PORT), (SERVER_IP, PORT), frame_bytes)
    }

    fn frame_bytes(&self, dense: &Dense, block: u32) -> usize {
        format::frame_bytes(dense.elements_of(block))
    }

    fn emit(&self, layout: &Layout, what: &Contribution, payload: &mut [u8]) -> u32 {
        let dense = &layout.dense;
        let elements = dense.elements_of(what.block);
        let header = Header {
            job: what.job as u8,
            block: what.block,
            age_op: format::AGE_NONE,
            last: what.block + 1 == dense.blocks(),
            degraded: false,
            source: what.source,
            sources: 1,
            // Workloads have no more iterations than its 16 bits tell apart.
            generation: what.iteration as u16,
            elements,
        };
        header.emit(payload);
        let values = &mut payload[HEADER..];
        let clipped = dense.fixed_be(what.worker, what.iteration, what.block, layout.scale_told(what.told), values);
        if let Some(lanes) = &layout.lanes {
            lanes.write(what.worker, what.seq, values);
        }
        clipped
    }

    fn parse(&self, layout: &Layout, payload: &[u8]) -> Option<ResultHead> {
        let dense = &layout.dense;
        let header = Header::parse(payload)?;
        let fits = header.block < dense.blocks() && header.elements == dense.elements_of(header.block);
        let known = header.age_op != format::STRAGGLER && u32::from(header.generation) < dense.iterations();
        // Receivers divide by the number of sources; a result without some of these is degraded (§5).
        let sources = u16::from(header.sources);
        let counted = (1..=self.workers).contains(&sources) && header.degraded == (sources < self.workers);
        (fits && known && counted).then(|| ResultHead {
            job: Some(u16::from(header.job)),
            seq: u32::from(header.generation) * dense.blocks() + header.block,
            count: sources,
            exponent: 0,
            congested: false,
            degraded: header.degraded,
        })
    }

    /// Whether it notifies of a permanent straggler (§5 "Advanced straggler mitigation"): workers continue as before.
    fn is_notice(&self, payload: &[u8]) -> bool {
        Header::parse(payload).is_some_and(|header| header.age_op == format::STRAGGLER && header.elements == 0)
    }

    fn delays(&self) -> &'static str {
        "the device has no room for more blocks (drops as table_full: raise target.block_cnt_max or lower endpoint.window), waits for \
         others (target.mitigation = false), or drops what is sent again after a lost result (drops as late: set target.tombstones = false)"
    }

    fn summing(&self) -> Summing {
        Summing { whole: false, registers: Registers::Wrap }
    }
}
