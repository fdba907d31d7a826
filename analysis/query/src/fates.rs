//! The table of fates: what became of every packet, when, and in which packet.
//!
//! The fates are those of `pktgen_records`. When a packet ended, and in which, follows from `received` for what was delivered, and else from
//! the row of the books that says so of the packet, or of the one that it was merged into.

use std::collections::HashMap;

use pktgen_core::record::{Action, PacketId};
use pktgen_records::fates::Fate;
use pktgen_records::resolved::Resolved;
use pktgen_records::run::{NO_PACKET, Records};
use polars::prelude::*;

use crate::tables::{FATES, QueryColumn as Asked};

fn code(fate: Fate) -> usize {
    match fate {
        Fate::Withheld => 0,
        Fate::InFlight => 1,
        Fate::DeliveredAlone => 2,
        Fate::DeliveredMerged => 3,
        Fate::Subsumed => 4,
        Fate::Outranked => 5,
        Fate::Dropped(_) => 6,
        Fate::Unaccounted => 7,
    }
}

/// Whether a row of the books with this action may be the end of a packet with this fate.
fn ends(action: u8, fate: Fate) -> bool {
    match fate {
        Fate::Subsumed => action == Action::Subsumed as u8,
        Fate::Outranked => action == Action::Outranked as u8,
        Fate::Dropped(_) => action == Action::Dropped as u8,
        _ => false,
    }
}

/// The requested columns of all packets, in the order of `sent`.
pub(crate) fn frame(resolved: &Resolved, trains: bool, columns: &[&Asked]) -> PolarsResult<DataFrame> {
    let (sent, fates) = (&resolved.records.sent, &resolved.fates.fate);
    let id = |row: usize| PacketId::new(sent.worker[row], sent.seq[row], sent.attempt[row]).0;
    let ended = columns.iter().any(|column| ["t_ps", "aggregate"].contains(&column.name.as_str()));
    let ends = if ended { ends_of(resolved, &id) } else { Vec::new() };
    let reason = |fate: &Fate| match fate {
        Fate::Dropped(reason) => Some(*reason),
        _ => None,
    };
    let cells = columns.iter().map(|column| {
        let name: PlSmallStr = column.name.as_str().into();
        let rows = 0..fates.len();
        let tenants = |wanted: bool| {
            Column::new(
                name.clone(),
                sent.cluster.iter().map(|of| wanted.then_some(i64::from(*of))).collect::<Vec<_>>(),
            )
        };
        match column.name.as_str() {
            "packet" => Column::new(name, rows.map(id).collect::<Vec<_>>()),
            "worker" => Column::new(name, sent.worker.iter().map(|of| i64::from(*of)).collect::<Vec<_>>()),
            "cluster" => tenants(!trains),
            "job" => tenants(trains),
            "seq" => Column::new(name, sent.seq.iter().map(|of| i64::from(*of)).collect::<Vec<_>>()),
            "attempt" => Column::new(name, sent.attempt.iter().map(|of| i64::from(*of)).collect::<Vec<_>>()),
            "fate" => Column::new(name, fates.iter().map(|fate| FATES[code(*fate)]).collect::<Vec<_>>()),
            "fate_code" => Column::new(name, fates.iter().map(|fate| code(*fate) as i64).collect::<Vec<_>>()),
            "reason" => {
                Column::new(name, fates.iter().map(|fate| reason(fate).map(|of| of.name())).collect::<Vec<_>>())
            }
            "reason_code" => {
                Column::new(name, fates.iter().map(|fate| reason(fate).map(|of| of as i64)).collect::<Vec<_>>())
            }
            "t_ps" => Column::new(name, ends.iter().map(|end| end.map(|(t, _)| t)).collect::<Vec<_>>()),
            _ => Column::new(name, ends.iter().map(|end| end.map(|(_, packet)| packet)).collect::<Vec<_>>()),
        }
    });
    DataFrame::new(fates.len(), cells.collect())
}

/// When each packet ended, and in which packet; none where it did not end or that is unknown.
fn ends_of(resolved: &Resolved, id: &dyn Fn(usize) -> u64) -> Vec<Option<(i64, u64)>> {
    let (records, fates) = (&resolved.records, &resolved.fates);
    let mut ends = vec![None; fates.fate.len()];
    for (row, bounds) in fates.member_start.windows(2).enumerate() {
        for member in &fates.members[bounds[0]..bounds[1]] {
            ends[*member as usize] = Some((records.received.t_recv_ps[row], records.received.packet[row]));
        }
    }
    let undelivered = |fate: &Fate| matches!(fate, Fate::Subsumed | Fate::Outranked | Fate::Dropped(_));
    if fates.fate.iter().any(undelivered) {
        let books = Books::of(records);
        for (row, fate) in fates.fate.iter().enumerate().filter(|(_, fate)| undelivered(fate)) {
            ends[row] = books.end(records, id(row), *fate);
        }
    }
    ends
}

/// Which row of the books was the last to end a packet, and into which packet it was merged last.
struct Books {
    ended: HashMap<u64, usize>,
    carrier: HashMap<u64, u64>,
}

impl Books {
    fn of(records: &Records) -> Books {
        let books = &records.books;
        let (mut ended, mut carrier) = (HashMap::new(), HashMap::new());
        for (row, packet) in books.packet_in.iter().enumerate() {
            match Action::ALL[usize::from(books.action[row])] {
                Action::Merged if books.packet_out[row] != *packet && books.packet_out[row] != NO_PACKET => {
                    carrier.insert(*packet, books.packet_out[row]);
                }
                Action::Subsumed | Action::Outranked | Action::Dropped => _ = ended.insert(*packet, row),
                _ => {}
            }
        }
        Books { ended, carrier }
    }

    /// The end of a packet with this fate: its own, or that of the packet that carries it.
    fn end(&self, records: &Records, packet: u64, fate: Fate) -> Option<(i64, u64)> {
        let (books, mut at) = (&records.books, packet);
        // What is merged is merged into something else; invented books may go round in circles.
        for _ in 0..=self.carrier.len() {
            let own = self.ended.get(&at).filter(|row| ends(books.action[**row], fate));
            match (own, self.carrier.get(&at)) {
                (Some(row), _) => return Some((books.t_ps[*row], at)),
                (None, Some(next)) => at = *next,
                (None, None) => return None,
            }
        }
        None
    }
}
