//! GROUP BY and aggregates of whole tables in bounded memory: batches are added to groups as they are decoded, on all cores.
//!
//! Called by [`crate::database`] with every plan: only [`in_batches`] decides. A grouping whose aggregates can all be
//! decomposed, over a table of this crate with at most a selection of rows, becomes a [`GroupedScan`]; all others are
//! left to polars, which holds the columns in memory.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use pktgen_core::Result;
use polars::prelude::*;

use crate::choice::{Choice, as_text, columns_of, dictionary, is_elementwise, names_of, texts};
use crate::exact::{guarded, is_by_row, too_much, wide};
use crate::groups::{Aggregate, Groups};
use crate::joined::with_keys;
use crate::scan::{Reading, Scan, query_fault, source};

/// Kind of a grouping key.
enum Key {
    /// A column of codes, with their names.
    Codes(Vec<String>),
    /// The column `run`.
    Run(Vec<String>),
    /// Integers or booleans.
    Number(DataType),
}

/// An expression over a row, evaluated for each batch.
enum Input {
    Column(PlSmallStr),
    /// An expression over one column of codes: its value for every code, and, as the last entry, for an empty cell.
    Dictionary(PlSmallStr, Column),
    Expr(Expr),
}

/// A grouping that can be decomposed.
struct Grouping {
    scan: Arc<dyn AnonymousScan>,
    schema: SchemaRef,
    predicate: Option<Expr>,
    keys: Vec<(PlSmallStr, Key)>,
    /// Inputs, those of the keys first.
    inputs: Vec<(Expr, Input)>,
    /// Aggregates: the index of the input, if any, its type, and the name there.
    partials: Vec<(Aggregate, Option<usize>, DataType)>,
    having: Vec<Expr>,
    answer: Vec<Expr>,
}

/// Returns `plan` with decomposable groupings replaced by scans, and whether there are any.
pub(crate) fn in_batches(plan: DslPlan) -> PolarsResult<(DslPlan, bool)> {
    let mut any = false;
    let mut input = |plan: Arc<DslPlan>| -> PolarsResult<Arc<DslPlan>> {
        let (plan, inner) = in_batches(Arc::unwrap_or_clone(plan))?;
        any |= inner;
        Ok(Arc::new(plan))
    };
    let found = match &plan {
        DslPlan::GroupBy { input, keys, predicates, aggs, apply: None, .. } => {
            Grouping::of(input, keys, predicates, aggs)
        }
        DslPlan::Select { input, expr, .. } => Grouping::of(input, &[], &[], expr),
        _ => None,
    };
    if let Some(grouping) = found {
        let schema = LazyFrame::from(plan).collect_schema()?;
        return Ok((grouping.scanned(schema)?, true));
    }
    let plan = match plan {
        DslPlan::Filter { input: of, predicate } => DslPlan::Filter { input: input(of)?, predicate },
        DslPlan::Select { expr, input: of, options } => DslPlan::Select { expr, input: input(of)?, options },
        DslPlan::GroupBy { input: of, keys, predicates, aggs, maintain_order, options, apply } => {
            DslPlan::GroupBy { input: input(of)?, keys, predicates, aggs, maintain_order, options, apply }
        }
        DslPlan::Join { input_left, input_right, left_on, right_on, predicates, options } => {
            let (input_left, input_right) = (input(input_left)?, input(input_right)?);
            with_keys(DslPlan::Join { input_left, input_right, left_on, right_on, predicates, options })
        }
        DslPlan::HStack { input: of, exprs, options } => DslPlan::HStack { input: input(of)?, exprs, options },
        DslPlan::Distinct { input: of, options } => DslPlan::Distinct { input: input(of)?, options },
        DslPlan::Sort { input: of, by_column, slice, sort_options } => {
            DslPlan::Sort { input: input(of)?, by_column, slice, sort_options }
        }
        DslPlan::Slice { input: of, offset, len } => DslPlan::Slice { input: input(of)?, offset, len },
        DslPlan::MapFunction { input: of, function } => DslPlan::MapFunction { input: input(of)?, function },
        // Already planned, to determine its columns.
        DslPlan::IR { dsl, .. } => return in_batches(Arc::unwrap_or_clone(dsl)),
        other => other,
    };
    Ok((plan, any))
}

impl Grouping {
    fn of(input: &DslPlan, keys: &[Expr], having: &[Expr], aggregates: &[Expr]) -> Option<Grouping> {
        let mut predicates = Vec::new();
        let scan = source(input, &mut predicates)?;
        let of = scan.as_any().downcast_ref::<Scan>()?;
        let schema = Arc::new(of.schema());
        // The predicate closest to the scan is applied first.
        let predicate = predicates.into_iter().rev().reduce(Expr::and);
        let mut grouping = Grouping {
            scan: scan.clone(),
            schema,
            predicate,
            keys: Vec::new(),
            inputs: Vec::new(),
            partials: Vec::new(),
            having: Vec::new(),
            answer: Vec::new(),
        };
        for key in keys {
            grouping.key(of, key)?;
        }
        for predicate in having {
            let predicate = grouping.lifted(of, predicate)?;
            grouping.having.push(predicate);
        }
        for aggregate in aggregates {
            let name = aggregate.to_field(&grouping.schema).ok()?.name;
            let aggregate = grouping.lifted(of, aggregate)?.alias(name);
            grouping.answer.push(aggregate);
        }
        (!keys.is_empty() || !grouping.partials.is_empty()).then_some(grouping)
    }

    fn key(&mut self, scan: &Scan, key: &Expr) -> Option<()> {
        let field = key.to_field(&self.schema).ok()?;
        let bare = if let Expr::Alias(inner, _) = key { inner.as_ref() } else { key };
        let named = if let Expr::Column(name) = bare { scan.table.column(name) } else { None };
        let runs: Option<Vec<String>> = scan.parts.iter().map(|(run, _)| run.clone()).collect();
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (of, input) = match (named.and_then(names_of), field.dtype()) {
            (Some(names), _) => (Key::Codes(owned(names)), bare.clone()),
            (None, DataType::String) if named.is_some_and(|column| column.name == "run") => {
                (Key::Run(runs?), bare.clone())
            }
            (None, number @ (DataType::Int64 | DataType::UInt64)) => (Key::Number(number.clone()), bare.clone()),
            (None, DataType::Boolean) => (Key::Number(DataType::Boolean), bare.clone().cast(DataType::UInt64)),
            _ => return None,
        };
        // One input per key, in their order.
        let input = self.prepared(scan, input)?;
        self.inputs.push(input);
        self.keys.push((field.name().clone(), of));
        Some(())
    }

    fn prepared(&self, scan: &Scan, expr: Expr) -> Option<(Expr, Input)> {
        if !is_elementwise(&expr) || columns_of(&expr).is_empty() {
            return None;
        }
        let input = match (&expr, dictionary(&scan.table, &expr)) {
            (Expr::Column(name), _) => Input::Column(name.clone()),
            (_, Some((name, values))) => Input::Dictionary(name, values),
            _ => Input::Expr(expr.clone()),
        };
        Some((expr, input))
    }

    /// Adds an aggregate of `of` and returns its column.
    fn partial(&mut self, scan: &Scan, aggregate: Aggregate, of: Option<Expr>) -> Option<Expr> {
        let (mut kind, mut place) = (DataType::UInt64, None);
        if let Some(mut of) = of {
            kind = of.to_field(&self.schema).ok()?.dtype;
            if matches!(kind, DataType::Unknown(_)) && aggregate != Aggregate::Count {
                // The type of literals.
                kind = wide(&kind.materialize_unknown(true).ok()?);
                of = of.cast(kind.clone());
            }
            let fits = matches!(kind, DataType::Int64 | DataType::UInt64 | DataType::Float64);
            if !fits && aggregate != Aggregate::Count {
                return None;
            }
            let keys = self.keys.len();
            let known = self.inputs.iter().skip(keys).position(|(known, _)| *known == of).map(|known| known + keys);
            place = Some(match known {
                Some(known) => known,
                None => {
                    let input = self.prepared(scan, of)?;
                    self.inputs.push(input);
                    self.inputs.len() - 1
                }
            });
        }
        let partial = (aggregate, place, kind);
        let at = self.partials.iter().position(|known| *known == partial).unwrap_or(self.partials.len());
        if at == self.partials.len() {
            self.partials.push(partial);
        }
        Some(col(partial_name(at)))
    }

    /// Rewrites an expression over groups in terms of the aggregates; `None` if a part cannot be decomposed.
    fn lifted(&mut self, scan: &Scan, expr: &Expr) -> Option<Expr> {
        Some(match expr {
            Expr::Len => self.partial(scan, Aggregate::Rows, None)?,
            Expr::Agg(aggregate) => self.aggregate(scan, aggregate)?,
            Expr::Function { input, function: FunctionExpr::NullCount } => {
                let [of] = input.as_slice() else { return None };
                self.rows(scan, of)? - self.partial(scan, Aggregate::Count, Some(chosen(of)))?
            }
            Expr::Literal(value) if value.is_scalar() => expr.clone(),
            Expr::Alias(inner, name) => self.lifted(scan, inner)?.alias(name.clone()),
            Expr::Cast { expr, dtype, options } => {
                Expr::Cast { expr: Arc::new(self.lifted(scan, expr)?), dtype: dtype.clone(), options: *options }
            }
            Expr::BinaryExpr { left, op, right } => {
                let (left, right) = (self.lifted(scan, left)?, self.lifted(scan, right)?);
                Expr::BinaryExpr { left: Arc::new(left), op: *op, right: Arc::new(right) }
            }
            Expr::Ternary { predicate, truthy, falsy } => Expr::Ternary {
                predicate: Arc::new(self.lifted(scan, predicate)?),
                truthy: Arc::new(self.lifted(scan, truthy)?),
                falsy: Arc::new(self.lifted(scan, falsy)?),
            },
            Expr::AnonymousFunction { input, function, options, fmt_str } if is_by_row(expr) => {
                Expr::AnonymousFunction {
                    input: input.iter().map(|of| self.lifted(scan, of)).collect::<Option<_>>()?,
                    function: function.clone(),
                    options: *options,
                    fmt_str: fmt_str.clone(),
                }
            }
            _ => return None,
        })
    }

    fn aggregate(&mut self, scan: &Scan, aggregate: &AggExpr) -> Option<Expr> {
        match aggregate {
            AggExpr::Sum(of) => {
                let of = chosen(of);
                if of.to_field(&self.schema).ok()?.dtype == DataType::Boolean {
                    let yes = when(of).then(lit(1)).otherwise(lit(NULL));
                    return Some(self.partial(scan, Aggregate::Count, Some(yes))?.cast(DataType::Int64));
                }
                self.partial(scan, Aggregate::Sum, Some(of))
            }
            AggExpr::Mean(of) => self.partial(scan, Aggregate::Mean, Some(chosen(of))),
            AggExpr::Min { input, propagate_nans: false } => self.partial(scan, Aggregate::Least, Some(chosen(input))),
            AggExpr::Max { input, propagate_nans: false } => self.partial(scan, Aggregate::Most, Some(chosen(input))),
            AggExpr::Count { input, include_nulls: true } => self.rows(scan, input),
            AggExpr::Count { input, include_nulls: false } => self.partial(scan, Aggregate::Count, Some(chosen(input))),
            _ => None,
        }
    }

    /// Returns the number of rows of `of`, including empty cells.
    fn rows(&mut self, scan: &Scan, of: &Expr) -> Option<Expr> {
        match guarded(of).unwrap_or(of) {
            Expr::Filter { by, .. } => {
                let yes = when(by.as_ref().clone()).then(lit(1)).otherwise(lit(NULL));
                self.partial(scan, Aggregate::Count, Some(yes))
            }
            _ if columns_of(of).is_empty() => None,
            _ => self.partial(scan, Aggregate::Rows, None),
        }
    }

    fn scanned(self, schema: SchemaRef) -> PolarsResult<DslPlan> {
        let name = self.scan.as_any().downcast_ref::<Scan>().map_or("groups", |scan| scan.table.name);
        let args = ScanArgsAnonymous { schema: Some(schema.clone()), name, ..Default::default() };
        Ok(LazyFrame::anonymous_scan(Arc::new(GroupedScan { grouping: self, schema }), args)?.logical_plan)
    }
}

fn partial_name(at: usize) -> PlSmallStr {
    format!("partial {at}").into()
}

/// Returns the operand of an aggregate: without the guard of sums, which are checked at the end, and empty for rows that FILTER excludes.
fn chosen(expr: &Expr) -> Expr {
    match (guarded(expr), expr) {
        (Some(inner), _) => chosen(inner),
        (None, Expr::Filter { input, by }) => when(by.as_ref().clone()).then(chosen(input)).otherwise(lit(NULL)),
        (None, other) => other.clone(),
    }
}

/// A table that is grouped while it is read.
struct GroupedScan {
    grouping: Grouping,
    /// Schema of the groups.
    schema: SchemaRef,
}

impl GroupedScan {
    fn read(&self, scan: &Scan) -> PolarsResult<DataFrame> {
        let Grouping { predicate, keys, inputs, partials, .. } = &self.grouping;
        let choice = Choice::of(&scan.table, predicate.clone());
        let named: Vec<PlSmallStr> =
            inputs.iter().flat_map(|(expr, _)| columns_of(expr)).chain(choice.columns()).collect();
        let columns = scan.table.columns.iter().map(|column| PlSmallStr::from_str(&column.name));
        let columns: Vec<PlSmallStr> = columns.filter(|name| named.contains(name)).collect();
        let reading = Reading::new(scan, "GROUP BY over", &columns, &choice).map_err(|error| scan.failed(error))?;
        reading.expect(0).map_err(|error| scan.failed(error))?;
        let kinds: Vec<_> = partials.iter().map(|(aggregate, _, kind)| (*aggregate, kind.clone())).collect();
        let new = || (Groups::new(keys.len(), &kinds), 0);
        // Polars errors are passed on unchanged, so that their position in the statement can be found.
        let theirs = Mutex::new(None);
        let take = |(groups, held): &mut (Groups, u64), batch: DataFrame| {
            self.gather(scan, groups, batch).map_err(|fault| {
                let text = query_fault(fault.clone());
                theirs.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
                text
            })?;
            let bytes = groups.bytes();
            reading.hold(bytes - *held)?;
            *held = bytes;
            Ok(())
        };
        // Groups of a piece are held until they are joined to those of the pieces before.
        let join = |(whole, held): &mut (Groups, u64), (own, own_held): (Groups, u64)| -> Result<()> {
            whole.merge(own);
            let bytes = whole.bytes();
            reading.hold(bytes - *held)?;
            *held = bytes;
            reading.free(own_held);
            Ok(())
        };
        let gathered = reading.all_pieces(None, &new, &take, &join);
        if let Some(fault) = theirs.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(fault);
        }
        let (whole, _) = gathered.map_err(|error| scan.failed(error))?;
        self.answer(&whole)
    }

    fn gather(&self, scan: &Scan, groups: &mut Groups, batch: DataFrame) -> PolarsResult<()> {
        let Grouping { keys, inputs, partials, .. } = &self.grouping;
        let (rows, mut computed) = (batch.height(), Vec::new());
        for (at, (_, input)) in inputs.iter().enumerate() {
            if let Input::Expr(expr) = input {
                computed.push(expr.clone().alias(partial_name(at)));
            }
        }
        let computed = if computed.is_empty() {
            DataFrame::empty()
        } else {
            let named: Vec<PlSmallStr> = computed.iter().flat_map(columns_of).collect();
            texts(&scan.table, batch.clone(), &named)?.lazy().select(computed).collect()?
        };
        let cell = |(at, (_, input)): (usize, &(Expr, Input))| match (input, keys.get(at)) {
            (Input::Column(name), Some((_, Key::Run(runs)))) => {
                let run = batch.column(name)?.str()?.get(0).unwrap_or_default().to_owned();
                let place = runs.iter().position(|known| *known == run).unwrap_or_default();
                Ok(Column::new_scalar(name.clone(), Scalar::from(place as u32), rows))
            }
            (Input::Column(name), _) => batch.column(name).cloned(),
            (Input::Dictionary(name, values), _) => {
                let (codes, empty) = (batch.column(name)?.u32()?, values.len() as IdxSize - 1);
                let places = codes.iter().map(|code| code.unwrap_or(empty));
                values.take(&IdxCa::from_iter_values(name.clone(), places))
            }
            (Input::Expr(_), _) => computed.column(&partial_name(at)).cloned(),
        };
        let cells = inputs.iter().enumerate().map(cell).collect::<PolarsResult<Vec<Column>>>()?;
        let of: Vec<Option<Column>> = partials.iter().map(|(_, input, _)| input.map(|at| cells[at].clone())).collect();
        groups.add(rows, &cells[..keys.len()], &of)
    }

    /// Returns the groups as required by the plan.
    fn answer(&self, groups: &Groups) -> PolarsResult<DataFrame> {
        let Grouping { keys, inputs, partials, having, answer, .. } = &self.grouping;
        let mut cells = Vec::new();
        for (at, (name, key)) in keys.iter().enumerate() {
            let values = groups.key(at);
            cells.push(match key {
                Key::Codes(names) | Key::Run(names) => {
                    let codes = values.into_iter().map(|value| value.map(|value| value as u32));
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    as_text(&UInt32Chunked::from_iter_options(name.clone(), codes).into_column(), &names)?
                }
                Key::Number(DataType::Int64) => {
                    let values = values.into_iter().map(|value| value.map(|value| value as i64));
                    Int64Chunked::from_iter_options(name.clone(), values).into_column()
                }
                Key::Number(kind) => {
                    UInt64Chunked::from_iter_options(name.clone(), values.into_iter()).into_column().cast(kind)?
                }
            });
        }
        for (at, (aggregate, input, kind)) in partials.iter().enumerate() {
            let most = if *kind == DataType::UInt64 { u64::MAX as u128 } else { i64::MAX as u128 };
            if let (Aggregate::Sum, Some(input)) = (aggregate, input)
                && groups.magnitude(at) > most
            {
                let of = inputs[*input].0.to_field(&self.grouping.schema)?;
                return Err(too_much(of.name(), groups.magnitude(at), most));
            }
            cells.push(groups.aggregate(at, partial_name(at), kind)?);
        }
        let frame = DataFrame::new(groups.len(), cells)?.lazy();
        let frame = having.iter().fold(frame, |frame, predicate| frame.filter(predicate.clone()));
        let named = keys.iter().map(|(name, _)| col(name.clone()));
        let frame = frame.select(named.chain(answer.iter().cloned()).collect::<Vec<_>>()).collect()?;
        let cell = |(column, (name, kind)): (&Column, (&PlSmallStr, &DataType))| {
            Ok(column.strict_cast(kind)?.with_name(name.clone()))
        };
        let cells = frame.columns().iter().zip(self.schema.iter()).map(cell).collect::<PolarsResult<Vec<_>>>()?;
        DataFrame::new(frame.height(), cells)
    }
}

impl AnonymousScan for GroupedScan {
    fn as_any(&self) -> &dyn Any {
        self
    }

    /// Polars passes the selected columns, the predicate and the row limit to each scan.
    fn scan(&self, args: AnonymousScanArgs) -> PolarsResult<DataFrame> {
        let Some(scan) = self.grouping.scan.as_any().downcast_ref::<Scan>() else {
            polars_bail!(ComputeError: "a grouping of no table");
        };
        let groups = self.read(scan)?;
        let groups = match args.predicate {
            Some(predicate) => groups.lazy().filter(predicate).collect()?,
            None => groups,
        };
        let groups = args.n_rows.map_or_else(|| groups.clone(), |rows| groups.head(Some(rows)));
        match args.with_columns {
            Some(columns) => groups.select(columns.iter().cloned()),
            None => Ok(groups),
        }
    }
}
