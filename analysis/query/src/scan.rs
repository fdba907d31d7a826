//! A table as polars scans it: the columns that a plan needs, of the rows that its predicate keeps, batch by batch.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pktgen_core::Result;
use pktgen_report::sweep::in_parallel;
use polars::prelude::*;

use crate::memory::Budget;
use crate::source::{self, Part, broken};
use crate::tables::{Column as Asked, Table};

/// Why a scan ended early: the error of ours that polars carries as text.
pub(crate) type Fault = Arc<Mutex<Option<pktgen_core::Error>>>;

/// A table of one or several runs.
pub(crate) struct Scan {
    pub(crate) table: Table,
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
        let (done, reading) = (AtomicU64::new(0), Reading { scan: self, own: &own, wanted, what: &what, all });
        let mut whole = reading.empty()?;
        // Rows that a LIMIT wants are the first, and what resolves a run holds much: one after the other.
        let one_by_one =
            wanted.rows.is_some() || self.parts.iter().any(|(_, part)| !matches!(part, Part::Stream { .. }));
        if one_by_one {
            let mut left = wanted.rows.unwrap_or(usize::MAX);
            for piece in &pieces {
                whole.vstack_mut_owned(reading.piece(*piece, &mut left, &done)?).map_err(broken)?;
                if left == 0 {
                    break;
                }
            }
            return Ok(whole);
        }
        let read = |piece: &(usize, usize)| reading.piece(*piece, &mut usize::MAX.clone(), &done);
        for frame in in_parallel(&pieces, &read, &mut |_, _| {}) {
            whole.vstack_mut_owned(frame?).map_err(broken)?;
        }
        Ok(whole)
    }
}

/// A scan under way.
struct Reading<'a> {
    scan: &'a Scan,
    own: &'a [&'a Asked],
    wanted: &'a Wanted,
    what: &'a str,
    all: Option<u64>,
}

impl Reading<'_> {
    fn empty(&self) -> Result<DataFrame> {
        let columns = self
            .own
            .iter()
            .map(|column| Column::new_empty(column.name.as_str().into(), &source::data_type(column.kind)));
        DataFrame::new(0, columns.collect()).map_err(broken)
    }

    /// The rows of one piece that the predicate keeps, of the first `left`: plans cut before they choose.
    fn piece(&self, (at, piece): (usize, usize), left: &mut usize, done: &AtomicU64) -> Result<DataFrame> {
        let (run, part) = &self.scan.parts[at];
        let of_part: Vec<&Asked> =
            self.own.iter().filter(|column| run.is_none() || column.name != "run").copied().collect();
        // Rows are counted even where no column of theirs is needed.
        let first = &self.scan.table.columns[usize::from(run.is_some())];
        let read: &[&Asked] = if of_part.is_empty() { std::slice::from_ref(&first) } else { &of_part };
        let mut kept = self.empty()?;
        part.read(piece, read, &mut |batch| {
            let rows = batch.height();
            let seen = done.fetch_add(rows as u64, Ordering::Relaxed) + rows as u64;
            let batch = if rows > *left { batch.head(Some(*left)) } else { batch };
            *left -= batch.height();
            let batch = self.chosen(run.as_deref(), batch).map_err(query_fault)?;
            self.scan.budget.hold(self.what, batch.estimated_size() as u64, seen, self.all)?;
            kept.vstack_mut_owned(batch).map_err(broken)?;
            Ok(*left > 0)
        })?;
        Ok(kept)
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
