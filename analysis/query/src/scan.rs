//! A table as scanned by polars: the columns that a plan needs, of the rows that its predicate keeps, batch by batch and on all cores.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pktgen_core::Result;
use polars::prelude::*;
use polars_core::runtime::RAYON;

use crate::choice::{Choice, as_codes, is_elementwise, texts};
use crate::keys::Known;
use crate::memory::Budget;
use crate::source::{self, Part, broken};
use crate::tables::{QueryColumn as Asked, QueryTable};

/// The error that ended a scan early, which polars passes on as text only.
pub(crate) type Fault = Arc<Mutex<Option<pktgen_core::Error>>>;

/// A table of one or several runs.
pub(crate) struct Scan {
    pub(crate) table: QueryTable,
    /// The parts, each with the value of column `run` if there is one that parts lack.
    pub(crate) parts: Vec<(Option<String>, Part)>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) fault: Fault,
    /// What the query does with its rows, for error messages.
    pub(crate) doing: Arc<Mutex<String>>,
}

impl Scan {
    /// Converts the scan into a lazy frame of polars.
    pub(crate) fn lazy(self) -> PolarsResult<LazyFrame> {
        let schema = self.schema();
        let args = ScanArgsAnonymous { schema: Some(Arc::new(schema)), name: self.table.name, ..Default::default() };
        LazyFrame::anonymous_scan(Arc::new(self), args)
    }

    /// Returns its columns with their polars types.
    pub(crate) fn schema(&self) -> Schema {
        self.table.columns.iter().map(|column| (column.name.as_str().into(), source::data_type(column.kind))).collect()
    }

    /// Describes what is read, for error messages.
    fn what(&self, doing: &str, columns: &[PlSmallStr]) -> String {
        let names: Vec<&str> = columns.iter().map(PlSmallStr::as_str).take(4).collect();
        let more = if columns.len() > 4 { ", …" } else { "" };
        format!("{doing} `{}` ({}{more})", self.table.name, names.join(", "))
    }

    /// Returns the number of rows, if known.
    pub(crate) fn rows(&self) -> Option<u64> {
        self.parts.iter().map(|(_, part)| part.rows().ok()?).sum()
    }

    /// Executes the request of a plan, restricted to rows with `keys` if these are known.
    pub(crate) fn scanned(&self, args: AnonymousScanArgs, keys: Option<Known>) -> PolarsResult<DataFrame> {
        let all = || self.table.columns.iter().map(|column| column.name.as_str().into()).collect();
        let columns = args.with_columns.map_or_else(all, |columns| columns.to_vec());
        let choice = Choice::of(&self.table, args.predicate.and_then(of_statement)).with_keys(keys);
        self.read(&columns, &choice, args.n_rows).map_err(|error| self.failed(error))
    }

    /// Returns the `columns` of the selected rows, of all rows or of the first ones.
    fn read(&self, columns: &[PlSmallStr], choice: &Choice, first: Option<usize>) -> Result<DataFrame> {
        let doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let reading = Reading::new(self, &doing, columns, choice)?;
        let width: u64 = reading.own.iter().map(|column| column.kind.bytes()).sum();
        let certain = reading.all.filter(|_| choice.is_any() && first.is_none()).unwrap_or(0);
        reading.expect(certain.saturating_mul(width))?;
        let empty = |column: &Asked| Column::new_empty(column.name.as_str().into(), &source::data_type(column.kind));
        let none = DataFrame::new(0, reading.own.iter().map(empty).collect()).map_err(broken)?;
        let take = |kept: &mut DataFrame, batch: DataFrame| {
            let batch = texts(&self.table, batch, columns).map_err(broken)?;
            reading.hold(batch.estimated_size() as u64)?;
            kept.vstack_mut_owned(batch).map_err(broken).map(drop)
        };
        let join = |whole: &mut DataFrame, kept: DataFrame| whole.vstack_mut_owned(kept).map_err(broken).map(drop);
        reading.all_pieces(first, &|| none.clone(), &take, &join)
    }

    /// Converts an error of this crate into one for polars.
    pub(crate) fn failed(&self, error: pktgen_core::Error) -> PolarsError {
        let text = error.to_string();
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        PolarsError::ComputeError(text.into())
    }
}

/// Returns the scan of this crate below `plan` and collects the predicates over it; `None` if there are other operations.
pub(crate) fn source(plan: &DslPlan, predicates: &mut Vec<Expr>) -> Option<Arc<dyn AnonymousScan>> {
    match plan {
        DslPlan::Filter { input, predicate } if is_elementwise(predicate) => {
            predicates.push(predicate.clone());
            source(input, predicates)
        }
        DslPlan::Select { input, expr, .. } if expr.iter().all(|expr| matches!(expr, Expr::Column(_))) => {
            source(input, predicates)
        }
        DslPlan::IR { dsl, .. } => source(dsl, predicates),
        DslPlan::Scan { scan_type, .. } => match scan_type.as_ref() {
            FileScanDsl::Anonymous { function, .. } if function.as_any().is::<Scan>() => Some(function.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// A scan in progress.
pub(crate) struct Reading<'a> {
    scan: &'a Scan,
    /// Its columns as they are decoded.
    own: Vec<Asked>,
    choice: &'a Choice,
    what: String,
    /// Number of rows of the table, if known.
    all: Option<u64>,
    done: AtomicU64,
    /// Number of pieces of each part that are not done.
    pending: Vec<AtomicUsize>,
}

/// Creates the accumulator of a piece.
type New<'a, T> = &'a (dyn Fn() -> T + Sync);
/// Adds a batch to the accumulator of a piece.
type Take<'a, T> = &'a (dyn Fn(&mut T, DataFrame) -> Result<()> + Sync);
/// Adds the accumulator of a piece to that of all pieces before it.
type Join<'a, T> = &'a (dyn Fn(&mut T, T) -> Result<()> + Sync);

/// The accumulators of finished pieces, joined in the order of pieces, so that sums of floats do not depend on threads.
struct Joined<T> {
    whole: Option<T>,
    /// The first piece that is not in `whole`.
    next: usize,
    /// Finished pieces behind it.
    waiting: BTreeMap<usize, T>,
}

impl<T> Joined<T> {
    fn add(&mut self, at: usize, own: T, join: Join<T>) -> Result<()> {
        self.waiting.insert(at, own);
        while let Some(own) = self.waiting.remove(&self.next) {
            self.next += 1;
            match &mut self.whole {
                Some(whole) => join(whole, own)?,
                None => self.whole = Some(own),
            }
        }
        Ok(())
    }
}

impl<'a> Reading<'a> {
    pub(crate) fn new(scan: &'a Scan, doing: &str, columns: &[PlSmallStr], choice: &'a Choice) -> Result<Self> {
        let own = columns.iter().filter_map(|name| scan.table.column(name)).map(as_codes).collect();
        let rows = scan.parts.iter().map(|(_, part)| part.rows()).collect::<Result<Vec<_>>>()?;
        let (what, all) = (scan.what(doing, columns), rows.into_iter().sum());
        let pending = scan.parts.iter().map(|(_, part)| part.pieces().map(AtomicUsize::new)).collect::<Result<_>>()?;
        Ok(Reading { scan, own, choice, what, all, done: AtomicU64::new(0), pending })
    }

    /// Refuses `bytes` of rows if they are known in advance to exceed the limit.
    pub(crate) fn expect(&self, bytes: u64) -> Result<()> {
        let held = self.scan.parts.iter().map(|(_, part)| part.held(&self.own));
        let mut held = held.collect::<Result<Vec<u64>>>()?;
        held.sort_unstable_by_key(|own| Reverse(*own));
        // Each thread reads a piece, and what the pieces of a part share is freed after the last one.
        let at_once = if self.is_parallel() { RAYON.current_num_threads() } else { 1 };
        let beside = held.into_iter().take(at_once).fold(0, u64::saturating_add);
        self.scan.budget.expect(&self.what, bytes, beside)
    }

    /// Whether several pieces are read at once.
    fn is_parallel(&self) -> bool {
        self.scan.parts.iter().all(|(_, part)| !matches!(part, Part::Fates { .. } | Part::Metrics { .. }))
    }

    /// Counts `bytes` more in memory.
    pub(crate) fn hold(&self, bytes: u64) -> Result<()> {
        self.scan.budget.hold(&self.what, bytes, self.done.load(Ordering::Relaxed), self.all)
    }

    /// Counts `bytes` less in memory.
    pub(crate) fn free(&self, bytes: u64) {
        self.scan.budget.free(bytes);
    }

    /// Accumulates the selected rows piece by piece and joins the accumulators in order: of the first rows, or of all on all cores.
    pub(crate) fn all_pieces<T: Send>(
        &self,
        first: Option<usize>,
        new: New<T>,
        take: Take<T>,
        join: Join<T>,
    ) -> Result<T> {
        let mut pieces = Vec::new();
        for (at, (run, part)) in self.scan.parts.iter().enumerate() {
            // A limit applies before the predicate, to rows of all runs.
            if first.is_none() && run.as_deref().is_some_and(|run| !self.choice.may_keep_run(run)) {
                self.done.fetch_add(part.rows()?.unwrap_or(0), Ordering::Relaxed);
                continue;
            }
            pieces.extend((0..part.pieces()?).map(|piece| (at, piece)));
        }
        if first.is_some() || !self.is_parallel() {
            let (mut left, mut gathered) = (first.unwrap_or(usize::MAX), new());
            for piece in pieces.into_iter().take_while(|_| first != Some(0)) {
                self.piece(piece, &mut left, &mut |batch| take(&mut gathered, batch))?;
                if left == 0 {
                    break;
                }
            }
            return Ok(gathered);
        }
        let (next, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
        let joined = Mutex::new(Joined { whole: None, next: 0, waiting: BTreeMap::new() });
        let fault = Mutex::new(None);
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(&piece) = pieces.get(at).filter(|_| !stopped.load(Ordering::Relaxed)) else { return };
                let mut own = new();
                let done = self.piece(piece, &mut usize::MAX.clone(), &mut |batch| take(&mut own, batch));
                // Joining computes nothing in other threads, so the lock is never held by a thread that waits.
                let done = done.and_then(|()| joined.lock().unwrap_or_else(PoisonError::into_inner).add(at, own, join));
                if let Err(error) = done {
                    stopped.store(true, Ordering::Relaxed);
                    fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
        };
        // Threads of polars, which computes in them, so none may wait for another.
        RAYON.scope(|scope| (0..RAYON.current_num_threads().min(pieces.len())).for_each(|_| scope.spawn(|_| work())));
        if let Some(fault) = fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(fault);
        }
        Ok(joined.into_inner().unwrap_or_else(PoisonError::into_inner).whole.unwrap_or_else(new))
    }

    /// Passes the selected rows of a piece to `take`, limited to the first `left` rows: plans apply the limit before the predicate.
    fn piece(
        &self,
        (at, piece): (usize, usize),
        left: &mut usize,
        take: &mut dyn FnMut(DataFrame) -> Result<()>,
    ) -> Result<()> {
        let (run, part) = &self.scan.parts[at];
        if let Part::Stream(stream) = part
            && stream.is_of_file(&self.own)
            && !self.choice.may_keep(&self.scan.table, stream.file()?, piece)
        {
            let rows = part.counted(piece)?.unwrap_or(0);
            self.done.fetch_add(rows as u64, Ordering::Relaxed);
            *left -= (*left).min(rows);
            return Ok(());
        }
        let of_part: Vec<&Asked> = self.own.iter().filter(|column| run.is_none() || column.name != "run").collect();
        // Rows are counted even if no column of theirs is needed.
        let first = as_codes(&self.scan.table.columns[usize::from(run.is_some())]);
        let read: &[&Asked] = if of_part.is_empty() { &[&first] } else { &of_part };
        let counted = if of_part.is_empty() { part.counted(piece)? } else { None };
        let mut batch = |batch: DataFrame| {
            self.done.fetch_add(batch.height() as u64, Ordering::Relaxed);
            let batch = if batch.height() > *left { batch.head(Some(*left)) } else { batch };
            *left -= batch.height();
            let chosen =
                self.with_run(run.as_deref(), batch).and_then(|batch| self.choice.kept(&self.scan.table, batch));
            let chosen = chosen.map_err(query_fault)?;
            if chosen.height() > 0 {
                take(chosen)?;
            }
            Ok(*left > 0)
        };
        match counted {
            Some(rows) => batch(DataFrame::new(rows, Vec::new()).map_err(broken)?).map(drop)?,
            None => part.read(piece, read, &mut batch)?,
        }
        if self.pending[at].fetch_sub(1, Ordering::AcqRel) == 1 {
            part.free();
        }
        Ok(())
    }

    /// Returns a batch as required by the plan, with the column `run` if it is requested.
    fn with_run(&self, run: Option<&str>, batch: DataFrame) -> PolarsResult<DataFrame> {
        let rows = batch.height();
        let cell = |column: &Asked| match run {
            Some(run) if column.name == "run" => {
                Ok(Column::new_scalar("run".into(), Scalar::from(PlSmallStr::from_str(run)), rows))
            }
            _ => batch.column(&column.name).cloned(),
        };
        DataFrame::new(rows, self.own.iter().map(cell).collect::<PolarsResult<_>>()?)
    }
}

/// Removes what the engine added to a predicate of the statement: bounds that a sort with a limit determines while
/// sorting, which cannot be evaluated on frames of one batch, and which the sort applies itself.
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

/// Converts an error of polars. A predicate may itself be invalid, such as a division by text.
pub(crate) fn query_fault(fault: PolarsError) -> pktgen_core::Error {
    pktgen_core::Error::config(fault.to_string())
}

impl AnonymousScan for Scan {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn scan(&self, args: AnonymousScanArgs) -> PolarsResult<DataFrame> {
        self.scanned(args, None)
    }

    fn allows_predicate_pushdown(&self) -> bool {
        true
    }

    fn allows_projection_pushdown(&self) -> bool {
        true
    }
}
