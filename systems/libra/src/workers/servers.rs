//! Several parameter servers, each with parameters of its own (LIBRA §2.1; `docs/libra.md`).

use pktgen_generator::Result;
use pktgen_generator::config::Section;
use pktgen_generator::time::{NEVER, Time};
use pktgen_generator::topology::NodeId;

use super::controller;
use super::server::{self, SparseServer};
use pktgen_engine::endpoint::{Facts, Host, Receiver, Server, ServerEnd};
use pktgen_engine::frame::{Frame, Pool};

/// What stands at the servers: one and perhaps a controller, or several.
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

    fn watches(&self) -> Time {
        NEVER
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

    /// Counters are sums over servers, but for the longest queue; beside them what the busiest server did.
    fn end(&self, worked: Option<Time>) -> ServerEnd {
        let ends: Vec<_> = self.all.iter().map(|server| server.end(worked)).collect();
        let each = || ends.iter().flat_map(|end| end.counters.iter().copied());
        let most = |wanted| each().filter(|(name, _)| *name == wanted).map(|(_, n)| n).max().unwrap_or(0);
        let mut counters: Vec<(&'static str, u64)> = Vec::new();
        for (name, n) in each() {
            match counters.iter_mut().find(|(known, _)| *known == name) {
                Some((_, total)) => *total += n,
                None => counters.push((name, n)),
            }
        }
        counters.iter_mut().filter(|(name, _)| *name == server::QUEUE_MAX).for_each(|(name, n)| *n = most(*name));
        counters.push(("servers", self.all.len() as u64));
        counters.push(("server.busy_most_ns", most(server::BUSY)));
        counters.push(("server.pairs_most", most(server::PAIRS)));
        ServerEnd { unfinished: ends.into_iter().find_map(|end| end.unfinished), counters, held: 0 }
    }
}
