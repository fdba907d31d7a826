//! A table as polars scans it: the columns that a plan needs, of the rows that its predicate keeps, batch by batch.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use pktgen_core::Result;
use polars::prelude::*;

use crate::memory::Budget;
use crate::source::{self, Part, broken};
use crate::tables::{QueryColumn as Asked, QueryTable};

/// Batches that are decoded before they are asked for.
const AHEAD: usize = 2;

/// Why a scan ended early: the error of ours that polars carries as text.
pub(crate) type Fault = Arc<Mutex<Option<pktgen_core::Error>>>;

/// A table of one or several runs.
pub(crate) struct Scan {
    pub(crate) table: QueryTable,
    /// The parts, each with the value of the column `run` if there is one that no part has.
    pub(crate) parts: Vec<(Option<String>, Part)>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) fault: Fault,
    /// What the query does with its rows, for messages.
    pub(crate) doing: Arc<Mutex<String>>,
}

/// What a plan wants of a scan.
struct Wanted {
    columns: Vec<PlSmallStr>,
    predicate: Option<Expr>,
    rows: Option<usize>,
}

impl Scan {
    /// As polars plans with it.
    pub(crate) fn lazy(self) -> PolarsResult<LazyFrame> {
        let schema = self.schema();
        let args = ScanArgsAnonymous { schema: Some(Arc::new(schema)), name: self.table.name, ..Default::default() };
        LazyFrame::anonymous_scan(Arc::new(self), args)
    }

    fn schema(&self) -> Schema {
        self.table.columns.iter().map(|column| (column.name.as_str().into(), source::data_type(column.kind))).collect()
    }

    /// What is read, for messages.
    fn what(&self, wanted: &Wanted) -> String {
        let names: Vec<&str> = wanted.columns.iter().map(PlSmallStr::as_str).take(4).collect();
        let more = if wanted.columns.len() > 4 { ", …" } else { "" };
        let doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{doing} `{}` ({}{more})", self.table.name, names.join(", "))
    }

    fn read(&self, wanted: &Wanted) -> Result<DataFrame> {
        let own: Vec<&Asked> = wanted.columns.iter().filter_map(|name| self.table.column(name)).collect();
        let rows = self.parts.iter().map(|(_, part)| part.rows()).collect::<Result<Vec<_>>>()?;
        let all = rows.iter().copied().sum::<Option<u64>>();
        let held = self.parts.iter().map(|(_, part)| part.held()).collect::<Result<Vec<_>>>()?;
        let width: u64 = own.iter().map(|column| column.kind.bytes()).sum();
        let certain = all.filter(|_| wanted.predicate.is_none() && wanted.rows.is_none()).unwrap_or(0);
        let what = self.what(wanted);
        self.budget.expect(&what, certain.saturating_mul(width), held.into_iter().max().unwrap_or(0))?;
        let mut pieces = Vec::new();
        for (at, (_, part)) in self.parts.iter().enumerate() {
            pieces.extend((0..part.pieces()?).map(|piece| (at, piece)));
        }
        let mut reading = Reading::new(self, own, wanted, what, all)?;
        // A decoder beside: rows are chosen here, in polars' own threads, which the decoder must not wait for.
        if !self.parts.iter().all(|(_, part)| matches!(part, Part::Stream { .. })) {
            reading.decode(&pieces, &mut |reading, at, batch| reading.take(at, batch))?;
            return Ok(reading.kept);
        }
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::sync_channel(AHEAD);
            let decoder = reading.clone();
            scope.spawn(move || {
                let mut decoder = decoder;
                let hand_over = &mut |_: &mut Reading, at, batch| Ok(sender.send(Ok((at, batch))).is_ok());
                // Whoever waits for the rest is gone if that cannot be said.
                decoder.decode(&pieces, hand_over).unwrap_or_else(|fault| _ = sender.send(Err(fault)));
            });
            for batch in receiver {
                let (at, batch) = batch?;
                if !reading.take(at, batch)? {
                    break;
                }
            }
            Ok(reading.kept)
        })
    }
}

/// Takes a batch of a part; false if no more are needed.
type Take<'a, 'b> = dyn FnMut(&mut Reading<'a>, usize, DataFrame) -> Result<bool> + 'b;

/// A scan under way.
#[derive(Clone)]
struct Reading<'a> {
    scan: &'a Scan,
    own: Vec<&'a Asked>,
    wanted: &'a Wanted,
    what: String,
    all: Option<u64>,
    done: u64,
    left: usize,
    kept: DataFrame,
}

impl<'a> Reading<'a> {
    fn new(scan: &'a Scan, own: Vec<&'a Asked>, wanted: &'a Wanted, what: String, all: Option<u64>) -> Result<Self> {
        let column = |column: &&Asked| Column::new_empty(column.name.as_str().into(), &source::data_type(column.kind));
        let kept = DataFrame::new(0, own.iter().map(column).collect()).map_err(broken)?;
        Ok(Reading { scan, own, wanted, what, all, done: 0, left: wanted.rows.unwrap_or(usize::MAX), kept })
    }

    /// Decodes the pieces in their order, as long as more are taken.
    fn decode(&mut self, pieces: &[(usize, usize)], take: &mut Take<'a, '_>) -> Result<()> {
        for &(at, piece) in pieces {
            let (run, part) = &self.scan.parts[at];
            let of_part: Vec<&Asked> =
                self.own.iter().filter(|column| run.is_none() || column.name != "run").copied().collect();
            // Rows are counted even where no column of theirs is needed.
            let first = &self.scan.table.columns[usize::from(run.is_some())];
            let read: &[&Asked] = if of_part.is_empty() { std::slice::from_ref(&first) } else { &of_part };
            let mut more = true;
            part.read(piece, read, &mut |batch| {
                more = take(self, at, batch)?;
                Ok(more)
            })?;
            if !more {
                break;
            }
        }
        Ok(())
    }

    /// Keeps the rows of a batch that the predicate chooses, of the first that are wanted: plans cut before they choose.
    fn take(&mut self, at: usize, batch: DataFrame) -> Result<bool> {
        let rows = batch.height();
        self.done += rows as u64;
        let batch = if rows > self.left { batch.head(Some(self.left)) } else { batch };
        self.left -= batch.height();
        let run = self.scan.parts[at].0.as_deref();
        let batch = self.chosen(run, batch).map_err(query_fault)?;
        self.scan.budget.hold(&self.what, batch.estimated_size() as u64, self.done, self.all)?;
        self.kept.vstack_mut_owned(batch).map_err(broken)?;
        Ok(self.left > 0)
    }

    /// The rows of a batch that the predicate keeps, with the column `run` if it is wanted.
    fn chosen(&self, run: Option<&str>, batch: DataFrame) -> PolarsResult<DataFrame> {
        let rows = batch.height();
        let cell = |column: &&Asked| match run {
            Some(run) if column.name == "run" => {
                Ok(Column::new_scalar("run".into(), Scalar::from(PlSmallStr::from_str(run)), rows))
            }
            _ => batch.column(&column.name).cloned(),
        };
        let batch = DataFrame::new(rows, self.own.iter().map(cell).collect::<PolarsResult<_>>()?)?;
        match &self.wanted.predicate {
            Some(predicate) => batch.lazy().filter(predicate.clone()).collect(),
            None => Ok(batch),
        }
    }
}

/// A predicate without what the engine puts beside the statement's own: bounds that a sort with a limit learns while it sorts, which
/// frames of one batch cannot be asked with, and which the sort applies itself.
fn of_statement(predicate: Expr) -> Option<Expr> {
    match predicate {
        Expr::Display { .. } => None,
        Expr::BinaryExpr { left, op: Operator::And, right } => {
            let both = [left, right].map(|side| of_statement(Arc::unwrap_or_clone(side)));
            both.into_iter().flatten().reduce(Expr::and)
        }
        other => Some(other),
    }
}

/// A predicate may be wrong in itself, such as a division by text.
fn query_fault(fault: PolarsError) -> pktgen_core::Error {
    pktgen_core::Error::config(fault.to_string())
}

impl AnonymousScan for Scan {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn scan(&self, args: AnonymousScanArgs) -> PolarsResult<DataFrame> {
        let all = || self.table.columns.iter().map(|column| column.name.as_str().into()).collect();
        let columns = args.with_columns.map_or_else(all, |columns| columns.to_vec());
        let wanted = Wanted { columns, predicate: args.predicate.and_then(of_statement), rows: args.n_rows };
        self.read(&wanted).map_err(|error| {
            let text = error.to_string();
            self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            PolarsError::ComputeError(text.into())
        })
    }

    fn allows_predicate_pushdown(&self) -> bool {
        true
    }

    fn allows_projection_pushdown(&self) -> bool {
        true
    }
}
