//! Selects rows of a scan: row groups excluded by the footer are not read, codes are compared as codes, and polars computes the rest.
//!
//! Called by [`crate::scan`]. A conjunct over one column of codes is evaluated once per name, not once per row.

use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use pktgen_core::arrow::array::{Array, ArrayRef, AsArray};
use pktgen_core::arrow::datatypes::{DataType as ArrowType, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use pktgen_core::record::PacketId;
use pktgen_records::stream_file::StreamFile;
use polars::prelude::*;

use crate::exact::is_by_row;
use crate::keys::Known;
use crate::tables::{Made, QueryColumn, QueryTable};

/// Column that contains whether a row is kept. No column of a table has a space in its name.
const KEPT: &str = "row kept";

/// The predicate of a scan, by conjuncts.
pub(crate) struct Choice {
    /// All conjuncts.
    whole: Vec<Expr>,
    /// Conjuncts over one column of codes: whether each code is kept, and, as the last entry, whether empty cells are.
    codes: Vec<(PlSmallStr, Vec<bool>)>,
    rest: Option<Expr>,
    /// A column, and the keys that its cells must be among for a join to keep the row.
    keys: Option<Known>,
}

/// Returns the names of a column of codes.
pub(crate) fn names_of(column: &QueryColumn) -> Option<&'static [&'static str]> {
    match column.made {
        Made::Names(_, names) => Some(names),
        _ => None,
    }
}

/// Returns the column of `table` as it is decoded: codes in place of their names.
pub(crate) fn as_codes(column: &QueryColumn) -> QueryColumn {
    match column.made {
        Made::Names(source, names) => QueryColumn { made: Made::Codes(source, names), ..column.clone() },
        _ => column.clone(),
    }
}

/// Converts a column of codes to the text that the table has.
pub(crate) fn as_text(codes: &Column, names: &[&str]) -> PolarsResult<Column> {
    Column::new(codes.name().clone(), names).take(codes.u32()?)
}

/// Whether each value of an expression depends on its row only; false for unknown expressions.
pub(crate) fn is_elementwise(expr: &Expr) -> bool {
    use BooleanFunction::{IsIn, IsNan, IsNotNan, IsNotNull, IsNull, Not};
    match expr {
        Expr::Column(_) => true,
        Expr::Literal(value) => value.is_scalar(),
        Expr::Alias(inner, _) | Expr::Cast { expr: inner, .. } => is_elementwise(inner),
        Expr::BinaryExpr { left, right, .. } => is_elementwise(left) && is_elementwise(right),
        Expr::Ternary { predicate, truthy, falsy } => {
            [predicate, truthy, falsy].iter().all(|part| is_elementwise(part))
        }
        Expr::Function { input, function: FunctionExpr::Boolean(IsIn { .. }) } => {
            input.first().is_some_and(is_elementwise) && input.iter().skip(1).all(|of| matches!(of, Expr::Literal(_)))
        }
        Expr::AnonymousFunction { input, .. } => is_by_row(expr) && input.iter().all(is_elementwise),
        Expr::Function { input, function } => {
            let known = matches!(
                function,
                FunctionExpr::Boolean(IsNan | IsNotNan | IsNotNull | IsNull | Not)
                    | FunctionExpr::Abs
                    | FunctionExpr::Negate
                    | FunctionExpr::Coalesce
            );
            known && input.iter().all(is_elementwise)
        }
        _ => false,
    }
}

/// Returns the columns that an expression uses.
pub(crate) fn columns_of(expr: &Expr) -> Vec<PlSmallStr> {
    let name = |part: &Expr| if let Expr::Column(name) = part { Some(name.clone()) } else { None };
    let mut names: Vec<_> = expr.into_iter().filter_map(name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn conjuncts(predicate: Expr, to: &mut Vec<Expr>) {
    match predicate {
        Expr::BinaryExpr { left, op: Operator::And, right } => {
            conjuncts(Arc::unwrap_or_clone(left), to);
            conjuncts(Arc::unwrap_or_clone(right), to);
        }
        other => to.push(other),
    }
}

/// Returns the values of an expression over one column of codes: for every code, and, as the last entry, for an empty cell.
pub(crate) fn dictionary(table: &QueryTable, expr: &Expr) -> Option<(PlSmallStr, Column)> {
    let [name] = <[PlSmallStr; 1]>::try_from(columns_of(expr)).ok()?;
    let names = names_of(table.column(&name)?)?;
    if !is_elementwise(expr) {
        return None;
    }
    let cells: Vec<Option<&str>> = names.iter().map(|name| Some(*name)).chain([None]).collect();
    let frame = DataFrame::new(cells.len(), vec![Column::new(name.clone(), cells)]).ok()?;
    let values = frame.lazy().select([expr.clone().alias(name.clone())]).collect().ok()?;
    let values = values.column(&name).ok()?.clone();
    (values.len() == names.len() + 1).then_some((name, values))
}

/// Returns which codes of a column satisfy `conjunct`, if it depends on one column of codes only.
fn by_code(table: &QueryTable, conjunct: &Expr) -> Option<(PlSmallStr, Vec<bool>)> {
    let (name, kept) = dictionary(table, conjunct)?;
    let kept = kept.bool().ok()?.iter().map(|kept| kept == Some(true)).collect();
    Some((name, kept))
}

impl Choice {
    pub(crate) fn of(table: &QueryTable, predicate: Option<Expr>) -> Choice {
        let mut whole = Vec::new();
        predicate.into_iter().for_each(|predicate| conjuncts(predicate, &mut whole));
        let (mut codes, mut rest) = (Vec::new(), Vec::new());
        for conjunct in &whole {
            match by_code(table, conjunct) {
                Some(kept) => codes.push(kept),
                None => rest.push(conjunct.clone()),
            }
        }
        Choice { whole, codes, rest: rest.into_iter().reduce(Expr::and), keys: None }
    }

    /// Adds the keys of a join.
    pub(crate) fn with_keys(self, keys: Option<Known>) -> Choice {
        Choice { keys: keys.filter(|(_, keys)| keys.get().is_some()), ..self }
    }

    /// Whether it keeps all rows.
    pub(crate) fn is_any(&self) -> bool {
        self.whole.is_empty() && self.keys.is_none()
    }

    /// Returns the columns that it uses.
    pub(crate) fn columns(&self) -> Vec<PlSmallStr> {
        self.whole.iter().flat_map(columns_of).collect()
    }

    /// Whether a row group may contain rows that are kept, according to its statistics.
    pub(crate) fn may_keep(&self, table: &QueryTable, file: &StreamFile, group: usize) -> bool {
        let ranges = Ranges { table, file, group };
        self.whole.iter().all(|conjunct| ranges.may_hold(conjunct))
    }

    /// Whether rows may be kept whose column `run` has this value, according to the conjuncts over that column alone.
    pub(crate) fn may_keep_run(&self, run: &str) -> bool {
        let is_of_run = |conjunct: &&Expr| {
            matches!(columns_of(conjunct).as_slice(), [name] if name.as_str() == "run") && is_elementwise(conjunct)
        };
        // Invalid conjuncts are reported when rows are read.
        let may_hold = |conjunct: &Expr| {
            let frame = DataFrame::new(1, vec![Column::new("run".into(), vec![run])]);
            let kept = frame.and_then(|frame| frame.lazy().filter(conjunct.clone()).collect());
            !kept.is_ok_and(|kept| kept.height() == 0)
        };
        self.whole.iter().filter(is_of_run).all(may_hold)
    }

    /// Returns the rows of a batch of `table` that are kept, with the columns as they are decoded.
    pub(crate) fn kept(&self, table: &QueryTable, mut batch: DataFrame) -> PolarsResult<DataFrame> {
        for (name, kept) in &self.codes {
            let column = batch.column(name)?;
            let empty = kept.len() - 1;
            let mask =
                column.u32()?.iter().map(|code| kept.get(code.map_or(empty, |code| code as usize)) == Some(&true));
            let mask: BooleanChunked = mask.collect_ca(PlSmallStr::EMPTY);
            batch = batch.filter(&mask)?;
        }
        if let Some((name, keys)) = &self.keys
            && let Some(mask) = keys.get().and_then(|keys| keys.may_have(batch.column(name).ok()?))
        {
            batch = batch.filter(&mask)?;
        }
        match &self.rest {
            Some(rest) if batch.height() > 0 => {
                let named = columns_of(rest);
                if named.is_empty() {
                    return batch.lazy().filter(rest.clone()).collect();
                }
                let told = texts(table, batch.clone(), &named)?.lazy();
                let told = told.with_columns([rest.clone().alias(KEPT)]).collect()?;
                batch.filter(told.column(KEPT)?.bool()?)
            }
            _ => Ok(batch),
        }
    }
}

/// Returns `batch` with the `wanted` columns of codes converted to text.
pub(crate) fn texts(table: &QueryTable, batch: DataFrame, wanted: &[PlSmallStr]) -> PolarsResult<DataFrame> {
    let cell = |column: &Column| match table.column(column.name()).and_then(names_of) {
        Some(names) if column.dtype() == &DataType::UInt32 && wanted.contains(column.name()) => as_text(column, names),
        _ => Ok(column.clone()),
    };
    let cells = batch.columns().iter().map(cell).collect::<PolarsResult<Vec<_>>>()?;
    DataFrame::new(batch.height(), cells)
}

/// A number in a statement.
#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Float(f64),
}

fn number(expr: &Expr) -> Option<Number> {
    match expr {
        Expr::Alias(expr, _) => number(expr),
        Expr::Literal(value) => match value.to_any_value()? {
            AnyValue::Float64(value) => Some(Number::Float(value)),
            AnyValue::Float32(value) => Some(Number::Float(f64::from(value))),
            AnyValue::UInt64(value) => Some(Number::Whole(i128::from(value))),
            other if other.is_integer() => other.extract::<i64>().map(|value| Number::Whole(i128::from(value))),
            _ => None,
        },
        _ => None,
    }
}

/// Statistics in the footer about the columns of a row group.
struct Ranges<'a> {
    table: &'a QueryTable,
    file: &'a StreamFile,
    group: usize,
}

type Range = (i128, i128);

impl Ranges<'_> {
    /// Whether `expr` may be true for a row; true if unknown.
    fn may_hold(&self, expr: &Expr) -> bool {
        let Expr::BinaryExpr { left, op, right } = expr else { return true };
        match op {
            Operator::And => return self.may_hold(left) && self.may_hold(right),
            Operator::Or => return self.may_hold(left) || self.may_hold(right),
            _ => {}
        }
        let column = |side: &Expr| match side {
            Expr::Column(name) => self.table.column(name),
            _ => None,
        };
        let (column, value, op) = match (column(left), number(left), column(right), number(right)) {
            (Some(column), _, _, Some(value)) => (column, value, *op),
            (_, Some(value), Some(column), _) => (column, value, mirrored(*op)),
            _ => return true,
        };
        let parts = [("worker", 40, 24), ("attempt", 32, 8), ("seq", 0, 32)];
        if let (Made::Packet, Operator::Eq, Number::Whole(packet)) = (column.made, op, value) {
            let is_in =
                |source, value: i128| self.of(source).is_none_or(|(least, most)| (least..=most).contains(&value));
            return parts.iter().all(|(source, from, bits)| is_in(source, packet >> from & ((1 << bits) - 1)));
        }
        let Some((least, most)) = self.range(column) else { return true };
        match value {
            Number::Whole(value) => meets(op, &least, &most, &value),
            // Converted in the same way as polars does.
            Number::Float(value) => meets(op, &(least as f64), &(most as f64), &value),
        }
    }

    fn range(&self, column: &QueryColumn) -> Option<Range> {
        match column.made {
            Made::Of(source) => self.of(source),
            Made::Bits(source, from, bits) if from + bits == 64 => {
                self.of(source).map(|(least, most)| (least >> from, most >> from))
            }
            Made::Packet => {
                let [worker, attempt, seq] = ["worker", "attempt", "seq"].map(|source| self.of(source));
                let (worker, attempt, seq) = (worker?, attempt?, seq?);
                let id = |worker, attempt, seq| i128::from(PacketId::new(worker as u32, seq as u32, attempt as u8).0);
                Some((id(worker.0, attempt.0, seq.0), id(worker.1, attempt.1, seq.1)))
            }
            _ => None,
        }
    }

    /// Returns the minimum and maximum of a column of integers in the file.
    fn of(&self, source: &str) -> Option<Range> {
        if !self.file.has(source) {
            return None;
        }
        let footer = self.file.footer();
        let converter =
            StatisticsConverter::try_new(source, self.file.schema(), footer.file_metadata().schema_descr()).ok()?;
        let group = [footer.row_group(self.group)];
        Some((whole(&converter.row_group_mins(group).ok()?)?, whole(&converter.row_group_maxes(group).ok()?)?))
    }
}

fn mirrored(op: Operator) -> Operator {
    match op {
        Operator::Lt => Operator::Gt,
        Operator::LtEq => Operator::GtEq,
        Operator::Gt => Operator::Lt,
        Operator::GtEq => Operator::LtEq,
        other => other,
    }
}

/// Whether a value between `least` and `most` may satisfy `op` with `value` on the right.
fn meets<T: PartialOrd>(op: Operator, least: &T, most: &T, value: &T) -> bool {
    match op {
        Operator::Eq => least <= value && value <= most,
        Operator::Lt => least < value,
        Operator::LtEq => least <= value,
        Operator::Gt => most > value,
        Operator::GtEq => most >= value,
        _ => true,
    }
}

/// Returns the single cell of an array of integers.
fn whole(array: &ArrayRef) -> Option<i128> {
    macro_rules! by_type {
        ($($arrow:ident, $kind:ident);*) => {
            match array.data_type() {
                $(ArrowType::$arrow => {
                    let cells = array.as_primitive_opt::<$kind>()?;
                    (cells.len() == 1 && cells.null_count() == 0).then(|| i128::from(cells.value(0)))
                })*
                _ => None,
            }
        };
    }
    by_type!(Int64, Int64Type; UInt64, UInt64Type; UInt32, UInt32Type; UInt16, UInt16Type; UInt8, UInt8Type)
}
