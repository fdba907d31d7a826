//! Several parameter servers, each with parameters of its own (LIBRA §2.1; `docs/libra.md`).

use pktgen_core::Result;
use pktgen_core::config::Section;
use pktgen_core::record::Counter;
use pktgen_core::time::{NEVER, Time};
use pktgen_core::topology::NodeId;

use super::controller;
use super::server::{self, SparseServer};
use pktgen_engine::endpoint::{Facts, Host, Receiver, Server, ServerEnd};
use pktgen_engine::frame::{Frame, Pool};

/// Opens the servers: one and possibly a controller, or several.
pub(super) fn open(section: &mut Section, facts: &Facts, asynchronous: bool) -> Result<Receiver> {
    let count = facts.racks.servers.len() as u32;
    let one = server::open(section, facts, asynchronous)?;
    if count < 2 {
        return controller::open(section, facts, one);
    }
    let rest = (1..count).map(|number| Ok(server::open(section, facts, asynchronous)?.at(facts, number)));
    let all = std::iter::once(Ok(one.at(facts, 0))).chain(rest).collect::<Result<_>>()?;
    Ok(Receiver { server: Box::new(Servers { all }), timers: true, answers_all: false })
}

/// The servers, by number.
struct Servers {
    all: Vec<SparseServer>,
}

impl Server for Servers {
    fn next_wake(&self) -> Time {
        self.all.iter().map(Server::next_wake).fold(NEVER, Time::min)
    }

    fn pull(&mut self, until: Time, pool: &mut Pool, host: &mut Host) {
        self.all
            .iter_mut()
            .filter(|server| server.next_wake() <= until)
            .for_each(|server| server.pull(until, pool, host));
    }

    fn on_burst(&mut self, node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host) {
        match self.all.iter_mut().find(|server| server.node() == node) {
            Some(server) => server.on_burst(node, burst, pool, host),
            None => {
                host.foreign += burst.len() as u64;
                burst.iter().for_each(|frame| pool.release(frame.buffer));
            }
        }
    }

    /// Returns the counters of every server, with those of the busiest one.
    fn end(&self, worked: Option<Time>) -> ServerEnd {
        let mut whole = ServerEnd::default();
        for end in self.all.iter().map(|server| server.end(worked)) {
            let most = |own: &Counter| match own.name {
                server::BUSY => Some(Counter::largest("server.busy_most_ns", own.value)),
                server::PAIRS => Some(Counter::largest("server.pairs_most", own.value)),
                _ => None,
            };
            whole.counters.extend(end.counters.iter().filter_map(most));
            whole.counters.push(Counter::sum("servers", 1));
            whole.counters.extend(end.counters);
            whole.unfinished = whole.unfinished.or(end.unfinished);
        }
        whole
    }
}
