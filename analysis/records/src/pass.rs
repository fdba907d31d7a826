//! One pass over the streams of a run, batch by batch: packets, then events in devices, then arrivals.
//!
//! Called by [`crate::resolved`]. Everything that metrics need from rows is added up during the pass; numbers for
//! quantiles go to lists that spill to a file when they are too long for memory.

use pktgen_core::Result;
use pktgen_core::record::Manifest;

use crate::age::meter::{Arrival, Meters};
use crate::age::{AgeOf, Ages};
use crate::arrivals::ServerTally;
use crate::column::{NumberList, Shared};
use crate::columns::{NO_PACKET, NameColumns, ReceivedColumns};
use crate::fates::{Resolver, Tallies, Unseen, is_update};
use crate::firsts::Firsts;
use crate::learning::{self, Learned};
use crate::packets::PacketTable;
use crate::plausible::Plausible;
use crate::provenance::LaneNames;
use crate::stream::Streams;

/// Input and options of a pass.
pub(crate) struct Pass<'a> {
    pub(crate) manifest: &'a Manifest,
    pub(crate) streams: &'a Streams,
    pub(crate) names: Option<&'a NameColumns>,
    /// Checks for implausible values.
    pub(crate) plausible: Option<Plausible>,
    pub(crate) age_of: AgeOf,
    /// Whether ages are computed.
    pub(crate) aged: bool,
    /// Whether a time at the server may be compared with one at a worker.
    pub(crate) one_clock: bool,
    /// The members of packets according to lanes, for comparison.
    pub(crate) lanes: Option<LaneNames<'a>>,
    /// Maximum number of numbers in memory.
    pub(crate) held_max: usize,
}

/// Results of a pass.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) tallies: Tallies,
    pub(crate) duplicates: u64,
    pub(crate) contradictions: u64,
    pub(crate) device_ps: NumberList,
    pub(crate) host_ps: NumberList,
    pub(crate) arrivals: ServerTally,
    pub(crate) ages: Option<Ages>,
    pub(crate) firsts: Option<Firsts>,
    pub(crate) learned: Option<Learned>,
    pub(crate) lanes_wrong: u64,
}

impl Pass<'_> {
    /// Reads all streams, repeatedly if ages require it.
    pub(crate) fn read(&self) -> Result<Found> {
        let mut found = None;
        // The results of a pass are small: the packets are freed before quantiles are computed.
        let ages = Meters::settled(self.age_of, |meters| {
            found = Some(self.once(meters)?);
            Ok(())
        })?;
        let found = found.unwrap_or_else(|| unreachable!("a pass was made"));
        Ok(Found { ages: self.aged.then_some(ages), ..found })
    }

    fn once(&self, meters: &mut Meters) -> Result<Found> {
        let mut learning = learning::Pass::new(self.manifest);
        let mut resolver = Resolver::of(self.packets(meters, &mut learning)?, self.manifest);
        let file = Shared::default();
        let unseen = self.manifest.external.is_some().then(|| Unseen::of(self.manifest));
        if unseen.is_none() {
            self.streams.books(&mut |books, _| {
                resolver.read_books(books);
                if resolver.device_ps.held() > self.held_max {
                    resolver.device_ps.spill(&file).map(drop)
                } else {
                    Ok(())
                }
            })?;
            resolver.close_books();
        }
        let mut found = Found {
            tallies: Tallies::default(),
            duplicates: 0,
            contradictions: 0,
            device_ps: NumberList::default(),
            host_ps: NumberList::default(),
            arrivals: ServerTally::new(),
            ages: None,
            firsts: self.manifest.goal.map(|_| Firsts::default()),
            learned: None,
            lanes_wrong: 0,
        };
        self.streams.received(&mut |received, first_row| {
            if let Some(plausible) = &self.plausible {
                plausible.received(received, first_row)?;
            }
            let named = self.names.map(|names| names.applied(received, first_row, &resolver.packets));
            let received = named.as_ref().unwrap_or(received);
            resolver.read_received(received, unseen.as_ref(), &mut |packets, row, packet, members| {
                self.deliver(&mut found, meters, (received, row, first_row), (packets, packet, members));
            });
            if resolver.device_ps.held() + found.host_ps.held() + meters.held() > self.held_max {
                resolver.device_ps.spill(&file)?;
                found.host_ps.spill(&file)?;
                meters.spill(&file)?;
            }
            Ok(())
        })?;
        resolver.finish(unseen.is_some());
        found.tallies = Tallies::of(&resolver.packets);
        (found.duplicates, found.contradictions) = (resolver.duplicates, resolver.contradictions);
        found.device_ps = std::mem::take(&mut resolver.device_ps);
        drop(resolver);
        found.learned = learning.finish(self.streams)?;
        Ok(found)
    }

    /// Reads the transmissions of workers.
    fn packets(&self, meters: &mut Meters, learning: &mut learning::Pass) -> Result<PacketTable> {
        let mut packets = PacketTable::default();
        self.streams.sent(&mut |sent, first_row| {
            if let Some(plausible) = &self.plausible {
                plausible.sent(sent, first_row)?;
            }
            if self.aged {
                let rows = sent.cluster.iter().zip(&sent.worker).zip(&sent.t_gen_ps);
                rows.for_each(|((cluster, worker), t)| meters.generated(*cluster, *worker, *t));
            }
            learning.count(sent);
            packets.read(sent)
        })?;
        meters.begin();
        Ok(packets)
    }

    /// Processes a row of `received` and the updates in it.
    #[inline]
    fn deliver(
        &self,
        found: &mut Found,
        meters: &mut Meters,
        at: (&ReceivedColumns, usize, usize),
        (packets, packet, members): (&PacketTable, Option<u32>, &[u32]),
    ) {
        let (received, row, first_row) = at;
        found.arrivals.add(received, row);
        let (t, cluster) = (received.t_recv_ps[row], received.cluster[row]);
        if let Some(left) =
            packet.filter(|_| self.one_clock && is_update(cluster)).and_then(|packet| packets.t_sent(packet))
        {
            found.host_ps.push(t.saturating_sub(left));
        }
        if let Some(firsts) = &mut found.firsts {
            firsts.add(packets, t, members);
        }
        if let Some(lanes) = &self.lanes {
            found.lanes_wrong +=
                u64::from(lanes.differs(first_row + row, members.iter().map(|member| packets.id(*member))));
        }
        if self.aged {
            let newest = (received.packet[row] != NO_PACKET).then_some(received.newest_gen_ps[row]);
            let whose = members.iter().map(|member| (packets.worker(*member), packets.t_gen(*member)));
            meters.delivered(Arrival { t, cluster, newest }, whose);
        }
    }
}

impl NameColumns {
    /// Gives received packets the ids derived from their contents, with the generation times of these packets.
    pub(crate) fn applied(
        &self,
        received: &ReceivedColumns,
        first_row: usize,
        packets: &PacketTable,
    ) -> ReceivedColumns {
        let rows = first_row..first_row + received.packet.len();
        let mut named = received.clone();
        named.packet.copy_from_slice(&self.packet[rows.clone()]);
        named.count.copy_from_slice(&self.count[rows]);
        for (generation, packet) in named.newest_gen_ps.iter_mut().zip(&named.packet) {
            if let Some(known) = packets.number(*packet) {
                *generation = packets.t_gen(known);
            }
        }
        named
    }
}
