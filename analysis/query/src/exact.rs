//! The functions that are inserted into statements: sums of integers that exceed 64 bits are errors (polars would let them wrap around),
//! quotients are divisions (polars would multiply by the reciprocal of a constant), remainders are exact, and places in texts and their ends are
//! counted in characters.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use polars::chunked_array::ops::arity::binary_elementwise_values;
use polars::prelude::udf::UserDefinedFunction;
use polars::prelude::*;
use polars::sql::{FunctionOptions, FunctionRegistry};

/// Name of the function that is inserted around the operands of sums.
pub(crate) const GUARD: &str = "pktgen_summed";
/// Name of the function that is written in place of `/`.
pub(crate) const QUOTIENT: &str = "pktgen_quotient";
/// Name of the function that is written in place of `%` of decimals.
pub(crate) const REMAINDER: &str = "pktgen_remainder";
/// Name of the function that is written in place of POSITION and STRPOS.
pub(crate) const PLACE: &str = "pktgen_place";
/// Name of the function that is written in place of `//` of decimals.
pub(crate) const WHOLE_QUOTIENT: &str = "pktgen_whole_quotient";
/// Name of the function that is written in place of LEFT.
pub(crate) const LEFT: &str = "pktgen_left";
/// Name of the function that is written in place of RIGHT.
pub(crate) const RIGHT: &str = "pktgen_right";
/// All functions by name.
static FUNCTIONS: [(&str, &LazyLock<UserDefinedFunction>); 7] = [
    (GUARD, &SUMMED),
    (QUOTIENT, &QUOTIENTS),
    (REMAINDER, &REMAINDERS),
    (PLACE, &PLACES),
    (WHOLE_QUOTIENT, &WHOLE_QUOTIENTS),
    (LEFT, &LEFTS),
    (RIGHT, &RIGHTS),
];

static SUMMED: LazyLock<UserDefinedFunction> = LazyLock::new(|| {
    let same = |_: &Schema, fields: &[Field]| {
        let of = &fields[0];
        // For literals.
        let known = of.dtype().clone().materialize_unknown(true)?;
        Ok(Field::new(of.name().clone(), wide(&known)))
    };
    let guard = |columns: &mut [Column]| {
        summed(&columns[0])?;
        columns[0].cast(&wide(columns[0].dtype()))
    };
    elementwise(GUARD, guard, same)
});

static QUOTIENTS: LazyLock<UserDefinedFunction> = LazyLock::new(|| of_decimals(QUOTIENT, |over, under| over / under));

static REMAINDERS: LazyLock<UserDefinedFunction> = LazyLock::new(|| of_decimals(REMAINDER, remainder));

static WHOLE_QUOTIENTS: LazyLock<UserDefinedFunction> = LazyLock::new(|| of_decimals(WHOLE_QUOTIENT, whole_quotient));

/// Returns the remainder, which has the sign of the divisor. That of a rounded quotient may have the other sign: 28.7 / 0.1 is 287, and 0.1 * 287 is
/// greater than 28.7.
fn remainder(over: f64, under: f64) -> f64 {
    let rest = over % under;
    if rest == 0.0 {
        // Not -0.
        0.0
    } else if (rest < 0.0) != (under < 0.0) {
        rest + under
    } else {
        rest
    }
}

/// Returns the quotient rounded down, to which [`remainder`] is the remainder.
fn whole_quotient(over: f64, under: f64) -> f64 {
    let rest = over % under;
    let cut_off = ((over - rest) / under).round();
    if rest != 0.0 && (rest < 0.0) != (under < 0.0) { cut_off - 1.0 } else { cut_off }
}

/// Returns a function that computes columns row by row, whose name and type are those of `field`.
fn elementwise(
    name: &str,
    compute: impl Fn(&mut [Column]) -> PolarsResult<Column> + Send + Sync + 'static,
    field: impl Fn(&Schema, &[Field]) -> PolarsResult<Field> + Send + Sync + 'static,
) -> UserDefinedFunction {
    let mut function = UserDefinedFunction::new(name.into(), BaseColumnUdf::new(compute, field));
    function.options = FunctionOptions::elementwise();
    function
}

/// Returns a function of two numbers, row by row.
fn of_decimals(name: &str, compute: fn(f64, f64) -> f64) -> UserDefinedFunction {
    let double = |_: &Schema, fields: &[Field]| {
        let [over, under] = fields else { polars_bail!(SQLSyntax: "two numbers are needed") };
        for of in [over, under] {
            check_number(&of.dtype().clone().materialize_unknown(true)?)?;
        }
        Ok(Field::new(over.name().clone(), DataType::Float64))
    };
    let each = move |columns: &mut [Column]| {
        let [over, under] = &*columns else { polars_bail!(SQLSyntax: "two numbers are needed") };
        check_number(over.dtype())?;
        check_number(under.dtype())?;
        let name = over.name().clone();
        let (over, under) = (over.cast(&DataType::Float64)?, under.cast(&DataType::Float64)?);
        let constant = if under.len() == 1 { under.f64()?.get(0) } else { None };
        let cells: Float64Chunked = match constant {
            Some(under) => over.f64()?.apply_values(|over| compute(over, under)),
            None => {
                let (over, under) = of_one_height(over, under);
                binary_elementwise_values(over.f64()?, under.f64()?, compute)
            }
        };
        Ok(cells.with_name(name).into_column())
    };
    elementwise(name, each, double)
}

/// The place of a text in another one, in characters from 1; 0 if it is not there. Polars would count bytes, take the text
/// for a regular expression, and return 0 for empty cells.
static PLACES: LazyLock<UserDefinedFunction> = LazyLock::new(|| {
    let whole = |_: &Schema, fields: &[Field]| {
        let [text, _] = fields else { polars_bail!(SQLSyntax: "POSITION is of two texts") };
        Ok(Field::new(text.name().clone(), DataType::Int64))
    };
    let each = |columns: &mut [Column]| {
        let [text, wanted] = &*columns else { polars_bail!(SQLSyntax: "POSITION is of two texts") };
        let name = text.name().clone();
        let (text, wanted) = of_one_height(as_text(text)?, as_text(wanted)?);
        let cells = text.str()?.iter().zip(wanted.str()?.iter()).map(|(text, wanted)| {
            let (text, wanted): (&str, &str) = (text?, wanted?);
            Some(text.find(wanted).map_or(0, |at| text[..at].chars().count() as i64 + 1))
        });
        Ok(Int64Chunked::from_iter_options(name, cells).into_column())
    };
    elementwise(PLACE, each, whole)
});

/// The first characters of a text. Polars would return the whole text for an empty number.
static LEFTS: LazyLock<UserDefinedFunction> = LazyLock::new(|| of_side(LEFT, left));

/// The last characters of a text. Polars would count from the wrong end if there are fewer.
static RIGHTS: LazyLock<UserDefinedFunction> = LazyLock::new(|| of_side(RIGHT, right));

/// Returns a function of a text and a number of characters, row by row, which returns a part of the text.
fn of_side(name: &str, part: fn(&str, i64) -> &str) -> UserDefinedFunction {
    let texts = |_: &Schema, fields: &[Field]| {
        let [text, count] = fields else { polars_bail!(SQLSyntax: "LEFT and RIGHT are of a text and a number") };
        check_count(&count.dtype().clone().materialize_unknown(true)?)?;
        Ok(Field::new(text.name().clone(), DataType::String))
    };
    let each = move |columns: &mut [Column]| {
        let [text, count] = &*columns else { polars_bail!(SQLSyntax: "LEFT and RIGHT are of a text and a number") };
        check_count(count.dtype())?;
        let name = text.name().clone();
        let (text, count) = of_one_height(as_text(text)?, count.strict_cast(&DataType::Int64)?);
        let cells = text.str()?.iter().zip(count.i64()?.iter()).map(|(text, count)| {
            let (text, count): (&str, i64) = (text?, count?);
            Some(part(text, count))
        });
        Ok(StringChunked::from_iter_options(name, cells).into_column())
    };
    elementwise(name, each, texts)
}

/// Returns the first characters of a text; of a negative number, all but as many last ones.
fn left(text: &str, count: i64) -> &str {
    let end = match usize::try_from(count) {
        Ok(count) => text.char_indices().nth(count),
        Err(_) => text.char_indices().rev().nth(characters(count) - 1),
    };
    // Without such a character, the number is that of all characters or more.
    let rest = if count < 0 { "" } else { text };
    end.map_or(rest, |(at, _)| &text[..at])
}

/// Returns the last characters of a text; of a negative number, all but as many first ones.
fn right(text: &str, count: i64) -> &str {
    let (begin, rest) = match usize::try_from(count) {
        Ok(0) => (None, ""),
        Ok(count) => (text.char_indices().rev().nth(count - 1), text),
        Err(_) => (text.char_indices().nth(characters(count)), ""),
    };
    begin.map_or(rest, |(at, _)| &text[at..])
}

/// Returns the magnitude of a number of characters.
fn characters(count: i64) -> usize {
    usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX)
}

/// Refuses a number of characters that is no whole number.
fn check_count(of: &DataType) -> PolarsResult<()> {
    let is_count = of.is_integer() || *of == DataType::Null;
    polars_ensure!(is_count, InvalidOperation: "LEFT and RIGHT have a whole number of characters, and not {of:?}: CAST it AS BIGINT");
    Ok(())
}

/// Returns a column of text; of NULL one of empty cells.
fn as_text(of: &Column) -> PolarsResult<Column> {
    match of.dtype() {
        DataType::Null => of.cast(&DataType::String),
        _ => Ok(of.clone()),
    }
}

/// Repeats the only row of one column for each row of the other.
fn of_one_height(one: Column, other: Column) -> (Column, Column) {
    if other.len() == 1 {
        let repeated = other.new_from_index(0, one.len());
        (one, repeated)
    } else if one.len() == 1 {
        (one.new_from_index(0, other.len()), other)
    } else {
        (one, other)
    }
}

/// Refuses what is divided like a number, but is none.
fn check_number(of: &DataType) -> PolarsResult<()> {
    let is_number = of.is_primitive_numeric() || matches!(of, DataType::Boolean | DataType::Null);
    polars_ensure!(is_number, InvalidOperation: "division is of numbers, and not of {of:?}: CAST it AS DOUBLE");
    Ok(())
}

/// Whether an expression is a function of this crate of each row, and no guard.
pub(crate) fn is_by_row(expr: &Expr) -> bool {
    match expr {
        Expr::AnonymousFunction { function, .. } => {
            FUNCTIONS.iter().any(|(name, own)| *name != GUARD && *function == own.fun)
        }
        _ => false,
    }
}

/// Returns the names of all functions of this crate.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, _)| *name)
}

/// Whether a statement has functions of this crate.
pub(crate) fn has_functions(sql: &str) -> bool {
    names().any(|name| sql.contains(name))
}

/// Returns the guarded expression if `expr` is the guard of a sum.
pub(crate) fn guarded(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::AnonymousFunction { input, function, .. } if *function == SUMMED.fun => input.first(),
        _ => None,
    }
}

/// The functions of this crate that polars calls.
pub(crate) struct Functions(HashMap<&'static str, UserDefinedFunction>);

impl Functions {
    pub(crate) fn all() -> Arc<Functions> {
        let all = FUNCTIONS.iter().map(|(name, function)| (*name, UserDefinedFunction::clone(function)));
        Arc::new(Functions(all.collect()))
    }
}

/// Returns the type in which cells are added up.
pub(crate) fn wide(of: &DataType) -> DataType {
    match of {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32 => DataType::Int64,
        other => other.clone(),
    }
}

/// Refuses integers whose sum might exceed 64 bits.
fn summed(column: &Column) -> PolarsResult<()> {
    let (all, most) = match column.dtype() {
        DataType::Int64 => {
            let cells = column.i64()?;
            (cells.iter().flatten().map(|cell| u128::from(cell.unsigned_abs())).sum::<u128>(), i64::MAX as u128)
        }
        DataType::UInt64 => (column.u64()?.iter().flatten().map(u128::from).sum(), u64::MAX as u128),
        _ => return Ok(()),
    };
    if all <= most { Ok(()) } else { Err(too_much(column.name(), all, most)) }
}

/// Returns the error for integers whose magnitudes add up to `all`, when at most `most` fits.
pub(crate) fn too_much(name: &str, all: u128, most: u128) -> PolarsError {
    polars_err!(
        ComputeError: "SUM: the magnitudes of {name} sum up to {all}, and its type holds {most}: SUM(CAST(… AS DOUBLE)) is \
                       inexact and has no such limit"
    )
}

impl FunctionRegistry for Functions {
    fn register(&mut self, _: &str, _: UserDefinedFunction) -> PolarsResult<()> {
        polars_bail!(InvalidOperation: "functions are fixed")
    }

    fn get_udf(&self, name: &str) -> PolarsResult<Option<UserDefinedFunction>> {
        Ok(self.0.get(name).cloned())
    }

    fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}
