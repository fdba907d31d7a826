//! Workers that send every update when it is generated, whatever comes back.

use pktgen_generator::Result;
use pktgen_generator::config::Section;
use pktgen_generator::registry::Named;
use pktgen_generator::time::Time;
use pktgen_generator::topology::NodeId;
use pktgen_generator::wire::olaf::is_ack;
use pktgen_generator::workload::Source;

use super::sender::Sender;
use super::{Endpoint, Facts, Host, WorkerKind};
use crate::frame::{BURST, Frame, Pool};

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

impl WorkerKind for OpenLoopKind {
    fn keys(&self) -> &'static [&'static str] {
        &[]
    }

    fn open(&self, _section: &mut Section, facts: &Facts, source: Box<dyn Source>) -> Result<Box<dyn Endpoint>> {
        Ok(Box::new(OpenLoop { sender: Sender::new(facts, source) }))
    }
}

struct OpenLoop {
    sender: Sender,
}

impl Endpoint for OpenLoop {
    fn next_wake(&self) -> Time {
        self.sender.next_wake()
    }

    fn reacts(&self) -> bool {
        false
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
            } else {
                host.foreign += 1;
            }
            pool.release(frame.buffer);
        }
    }

    fn failure(&self) -> Option<String> {
        self.sender.source.failure().map(str::to_owned)
    }
}
