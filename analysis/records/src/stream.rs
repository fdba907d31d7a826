//! The streams of a run, batch by batch: decoded by a thread of their own while the previous batch is processed.
//!
//! Called by [`crate::pass`] and pictures. Small runs are read at once into the same columns: they are one batch.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use pktgen_core::record::{Action, BOOKS, Heat, RECEIVED, Reason, SENT, SumOk};
use pktgen_core::{Error, Result};

use crate::columns::{BookColumns, NO_HEAT, NO_PACKET, NO_REASON, ReceivedColumns, Records, SentColumns};
use crate::table::{Reader, Table};

/// Number of batches that are decoded in advance.
const AHEAD: usize = 8;
/// Maximum total size of streams that are held in memory, in bytes.
const SMALL: u64 = 8 << 20;

/// The streams of a run.
#[derive(Debug, Clone)]
pub enum Streams {
    /// All columns in memory.
    Memory(Arc<Records>),
    /// The files of this run dir.
    Files(PathBuf),
}

impl From<Records> for Streams {
    fn from(records: Records) -> Streams {
        Streams::Memory(Arc::new(records))
    }
}

/// Rows of a stream as columns.
pub(crate) trait Columns: Sized + Send {
    /// Name of the stream.
    const STREAM: &'static str;
    /// The columns that are read.
    const NAMES: &'static [&'static str];
    /// Converts the rows of `table`.
    fn of(table: &Table) -> Result<Self>;
}

/// Called with each batch and the index of its first row.
pub(crate) type Each<'a, T> = &'a mut dyn FnMut(&T, usize) -> Result<()>;

impl Streams {
    /// Opens the streams of the run in `dir`; reads them completely if `whole` or if they are small.
    pub(crate) fn open(dir: &Path, whole: bool) -> Result<Streams> {
        let size = |name: &str| file_of(dir, name).and_then(|path| path.metadata().map_err(Error::io("read", &path)));
        let mut bytes = 0;
        for name in [SENT, BOOKS, RECEIVED] {
            bytes += size(name)?.len();
        }
        if whole || bytes <= SMALL { Ok(Records::read(dir)?.into()) } else { Ok(Streams::Files(dir.to_owned())) }
    }

    /// Calls `each` with the transmissions of workers.
    pub fn sent(&self, each: &mut dyn FnMut(&SentColumns, usize) -> Result<()>) -> Result<()> {
        self.each(|records| &records.sent, each)
    }

    /// Calls `each` with the events in devices, in order.
    pub fn books(&self, each: &mut dyn FnMut(&BookColumns, usize) -> Result<()>) -> Result<()> {
        self.each(|records| &records.books, each)
    }

    /// Calls `each` with the arrivals at the server.
    pub fn received(&self, each: &mut dyn FnMut(&ReceivedColumns, usize) -> Result<()>) -> Result<()> {
        self.each(|records| &records.received, each)
    }

    /// Returns all rows at once.
    pub fn whole(&self) -> Result<Arc<Records>> {
        match self {
            Streams::Memory(records) => Ok(records.clone()),
            Streams::Files(dir) => Records::read(dir).map(Arc::new),
        }
    }

    fn each<T: Columns>(&self, held: impl Fn(&Records) -> &T, each: Each<T>) -> Result<()> {
        match self {
            Streams::Memory(records) => each(held(records), 0),
            Streams::Files(dir) => decoded(dir, each),
        }
    }
}

/// Decodes the rows of a stream from its file.
fn decoded<T: Columns>(dir: &Path, each: Each<T>) -> Result<()> {
    let path = file_of(dir, T::STREAM)?;
    std::thread::scope(|scope| {
        let (give, take) = sync_channel(AHEAD);
        scope.spawn(move || {
            let read = || -> Result<()> {
                let mut reader = Reader::stream(&path, T::STREAM, T::NAMES)?;
                while let Some(table) = reader.next_table()? {
                    // After an error, nobody receives it.
                    if give.send(Ok((T::of(&table)?, table.first_row()))).is_err() {
                        break;
                    }
                }
                Ok(())
            };
            if let Err(fault) = read() {
                let _ = give.send(Err(fault));
            }
        });
        for batch in take {
            let (columns, first): (T, usize) = batch?;
            each(&columns, first)?;
        }
        Ok(())
    })
}

/// Returns the file of a stream, which must exist.
pub(crate) fn file_of(dir: &Path, name: &str) -> Result<PathBuf> {
    let path = dir.join(format!("{name}.parquet"));
    if path.exists() {
        return Ok(path);
    }
    let what =
        format!("it is missing although the manifest says records = \"full\"; copy the whole run dir, {name} included");
    Err(Error::data(&path, what))
}

/// Returns the number of rows in the file of a stream.
pub(crate) fn rows_of(dir: &Path, stream: &str) -> Result<usize> {
    Reader::stream(&file_of(dir, stream)?, stream, &[]).map(|reader| reader.rows())
}

impl Records {
    /// Reads all rows of the run in `dir`.
    pub(crate) fn read(dir: &Path) -> Result<Records> {
        fn whole<T: Columns>(dir: &Path) -> Result<T> {
            T::of(&Table::read_stream(&file_of(dir, T::STREAM)?, T::STREAM, T::NAMES)?)
        }
        Ok(Records { sent: whole(dir)?, books: whole(dir)?, received: whole(dir)? })
    }
}

impl Columns for SentColumns {
    const STREAM: &'static str = SENT;
    const NAMES: &'static [&'static str] =
        &["t_gen_ps", "t_sent_ps", "cluster", "job", "worker", "seq", "attempt", "bytes", "reward"];

    fn of(table: &Table) -> Result<Self> {
        Ok(SentColumns {
            reward: table.f32_or_none("reward")?,
            t_gen_ps: table.i64("t_gen_ps")?,
            t_sent_ps: table.i64_or_none("t_sent_ps")?,
            cluster: table.tenants()?,
            worker: table.u32("worker")?,
            seq: table.u32("seq")?,
            attempt: table.u8("attempt")?,
            bytes: table.u32("bytes")?,
        })
    }
}

impl Columns for BookColumns {
    const STREAM: &'static str = BOOKS;
    const NAMES: &'static [&'static str] = &["t_ps", "node", "packet_in", "action", "packet_out", "reason"];

    fn of(table: &Table) -> Result<Self> {
        let books = BookColumns {
            t_ps: table.i64("t_ps")?,
            node: table.u16("node")?,
            packet_in: table.u64("packet_in")?,
            action: table.u8("action")?,
            packet_out: table.u64_or("packet_out", NO_PACKET)?,
            reason: table.u8_or("reason", NO_REASON)?,
        };
        check_books(table, &books)?;
        Ok(books)
    }
}

/// Refuses unknown codes, drops without a reason and replacements without a successor.
fn check_books(table: &Table, books: &BookColumns) -> Result<()> {
    let refuse =
        |row: usize, what: String| Err(Error::data(table.path(), format!("row {}: {what}", table.first_row() + row)));
    for (row, (&action, &reason)) in books.action.iter().zip(&books.reason).enumerate() {
        let Some(&known) = Action::ALL.get(usize::from(action)) else {
            return refuse(row, format!("action {action} is not in 0..={}; update pktgen", Action::ALL.len() - 1));
        };
        if reason != NO_REASON && usize::from(reason) >= Reason::ALL.len() {
            return refuse(row, format!("reason {reason} is not in 0..={}; update pktgen", Reason::ALL.len() - 1));
        }
        if known == Action::Dropped && reason == NO_REASON {
            return refuse(row, "a packet was dropped without a reason".to_owned());
        }
        let replaced = matches!(known, Action::Merged | Action::Subsumed | Action::Outranked);
        if replaced && books.packet_out[row] == NO_PACKET {
            return refuse(row, format!("a packet was {} without saying by which (packet_out)", known.name()));
        }
    }
    Ok(())
}

impl Columns for ReceivedColumns {
    const STREAM: &'static str = RECEIVED;
    const NAMES: &'static [&'static str] = &[
        "t_recv_ps",
        "packet",
        "cluster",
        "job",
        "newest_gen_ps",
        "count",
        "bytes",
        "accepted",
        "heat",
        "last",
        "sum_ok",
    ];

    fn of(table: &Table) -> Result<Self> {
        // An empty cell counts as false.
        let yes = |name: &str| -> Result<Vec<bool>> {
            Ok(table.bool_or_none(name)?.into_iter().map(|answer| answer == Some(true)).collect())
        };
        let heat = table.u8_or("heat", NO_HEAT)?;
        if let Some(row) = heat.iter().position(|code| *code != NO_HEAT && usize::from(*code) >= Heat::ALL.len()) {
            let (code, last) = (heat[row], Heat::ALL.len() - 1);
            let row = table.first_row() + row;
            return Err(Error::data(
                table.path(),
                format!("row {row}: heat {code} is not in 0..={last}; update pktgen"),
            ));
        }
        let sums = table.u8_or("sum_ok", SumOk::Unknown as u8)?;
        Ok(ReceivedColumns {
            t_recv_ps: table.i64("t_recv_ps")?,
            packet: table.u64("packet")?,
            cluster: table.tenants()?,
            newest_gen_ps: table.i64("newest_gen_ps")?,
            count: table.u16("count")?,
            bytes: table.u32("bytes")?,
            accepted: yes("accepted")?,
            heat,
            last: yes("last")?,
            wrong: sums.into_iter().map(|code| code == SumOk::No as u8).collect(),
        })
    }
}
