//! Reports integer sums that exceed 64 bits as errors: polars would let them wrap around.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use polars::prelude::udf::UserDefinedFunction;
use polars::prelude::*;
use polars::sql::{FunctionOptions, FunctionRegistry};

/// Name of the function that is inserted around the operands of sums.
pub(crate) const GUARD: &str = "pktgen_summed";

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
    let mut function = UserDefinedFunction::new(GUARD.into(), BaseColumnUdf::new(guard, same));
    function.options = FunctionOptions::elementwise();
    function
});

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
        Arc::new(Functions(HashMap::from([(GUARD, SUMMED.clone())])))
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
