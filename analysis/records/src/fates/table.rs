//! Fates as a table: a row per transmission in the order of `sent`, as polars frames batch by batch.
//!
//! For queries. A frame has `packet`, `worker`, `cluster` (in training, the job), `seq`, `attempt`, `t_gen_ps`, `fate`
//! (its index in [`Fate::NAMES`]), `reason` (its code, for drops), `t_ps` (when it ended; empty in flight) and
//! `aggregate` (the packet in which it ended). Two passes: the first resolves, the second writes.

use pktgen_core::record::PacketId;
use pktgen_core::{Error, Result};
use polars::prelude::*;

use super::{Fate, Resolver, Unseen};
use crate::columns::SentColumns;
use crate::packets::PacketTable;
use crate::run::RunData;
use crate::table::polars_fault;

/// Bytes per transmission in addition to its packet.
const END: u64 = 16;

/// Calls `each` with all rows of the fates of `run`, some at a time; fails if not everything was recorded.
pub fn frames(run: &RunData, each: &mut dyn FnMut(DataFrame) -> Result<()>) -> Result<()> {
    let Some(streams) = &run.records else {
        let what = format!("it has capture.records = \"{}\", and fates need \"full\"", run.manifest.records);
        return Err(Error::data(&run.dir, what));
    };
    let mut packets = PacketTable::default();
    streams.sent(&mut |sent, _| packets.read(sent))?;
    let mut resolver = Resolver::of(packets, &run.manifest).with_ends();
    let unseen = run.manifest.external.is_some().then(|| Unseen::of(&run.manifest));
    if unseen.is_none() {
        streams.books(&mut |books, _| {
            resolver.read_books(books);
            Ok(())
        })?;
        resolver.close_books();
    }
    streams.received(&mut |received, first_row| {
        let named = run.names.as_ref().map(|names| names.applied(received, first_row, &resolver.packets));
        resolver.read_received(named.as_ref().unwrap_or(received), unseen.as_ref(), &mut |_, _, _, _| ());
        Ok(())
    })?;
    resolver.finish(unseen.is_some());
    streams.sent(&mut |sent, _| each(frame(sent, &resolver).map_err(polars_fault("tabulating fates"))?))
}

/// Returns the memory for this many transmissions, in bytes.
pub fn frame_bytes(transmissions: u64) -> u64 {
    transmissions * (crate::packets::BYTES + END)
}

fn frame(sent: &SentColumns, resolver: &Resolver) -> PolarsResult<DataFrame> {
    let ids = sent.worker.iter().zip(&sent.seq).zip(&sent.attempt);
    let ids: Vec<u64> = ids.map(|((worker, seq), attempt)| PacketId::new(*worker, *seq, *attempt).0).collect();
    // All rows were read before, so none is unknown.
    let numbers: Vec<Option<u32>> = ids.iter().map(|id| resolver.packets.number(*id)).collect();
    let fates: Vec<Option<Fate>> = numbers.iter().map(|number| Some(resolver.packets.fate((*number)?))).collect();
    let reason = |fate: &Option<Fate>| match fate {
        Some(Fate::Dropped(reason)) => Some(*reason as u8),
        _ => None,
    };
    let end = |number: &Option<u32>| resolver.end_of((*number)?);
    let times: Vec<Option<i64>> = numbers.iter().map(|number| Some(end(number)?.t_ps)).collect();
    let aggregate: Vec<Option<u64>> =
        numbers.iter().map(|number| Some(resolver.packets.id(end(number)?.carrier).0)).collect();
    DataFrame::new_infer_height(vec![
        Column::new("packet".into(), ids),
        Column::new("worker".into(), &sent.worker),
        Column::new("cluster".into(), &sent.cluster),
        Column::new("seq".into(), &sent.seq),
        Column::new("attempt".into(), &sent.attempt),
        Column::new("t_gen_ps".into(), &sent.t_gen_ps),
        Column::new("fate".into(), fates.iter().map(|fate| Some((*fate)?.place())).collect::<Vec<_>>()),
        Column::new("reason".into(), fates.iter().map(reason).collect::<Vec<_>>()),
        Column::new("t_ps".into(), times),
        Column::new("aggregate".into(), aggregate),
    ])
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::Reason;

    use super::*;
    use crate::testing::Story;

    #[test]
    fn every_transmission_has_a_row() {
        let mut story = Story::new();
        for worker in 1..=6 {
            story.sent(worker, 0, (worker != 6).then_some(0), 0);
        }
        story.queued(1, 0, 1).merged(2, 0, 1, 2).dropped(3, 0, 3, Reason::QueueFull).subsumed(4, 0, 4, 5);
        story.received(9, 2, 0, 2);
        let dir = tempfile::tempdir().unwrap();
        story.write(dir.path());
        let mut frames = Vec::new();
        super::frames(&RunData::open(dir.path()).unwrap(), &mut |frame| {
            frames.push(frame);
            Ok(())
        })
        .unwrap();
        let [frame] = frames.as_slice() else { panic!("one batch") };
        let codes = |name: &str| -> Vec<Option<u8>> { frame.column(name).unwrap().u8().unwrap().iter().collect() };
        let fate = ["delivered_merged", "delivered_merged", "dropped", "subsumed", "in_flight", "withheld"];
        let names = codes("fate").into_iter().map(|code| Fate::NAMES[usize::from(code.unwrap())]);
        assert_eq!(names.collect::<Vec<_>>(), fate);
        assert_eq!(codes("reason"), [None, None, Some(Reason::QueueFull as u8), None, None, None]);
        let times: Vec<_> = frame.column("t_ps").unwrap().i64().unwrap().iter().collect();
        assert_eq!(times, [Some(9), Some(9), Some(3), Some(4), None, None]);
        let id = |worker: u32| Some(PacketId::new(worker, 0, 0).0);
        let aggregates: Vec<_> = frame.column("aggregate").unwrap().u64().unwrap().iter().collect();
        assert_eq!(aggregates, [id(2), id(2), id(3), id(4), None, None]);
    }
}
