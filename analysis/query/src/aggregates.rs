//! The functions that polars computes over several rows: the one list that checks and rewritings use.

use sqlparser::ast::Function;

/// What an aggregate computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateKind {
    Count,
    /// A TOTAL of no rows is 0, a SUM is empty.
    Sum,
    /// The least or the greatest value.
    Extreme,
    First,
    /// Averages, medians and deviations.
    Mean,
    Quantile,
    List,
    Other,
}

/// Every aggregate of polars, in lower case.
const AGGREGATES: [(AggregateKind, &[&str]); 8] = [
    (AggregateKind::Count, &["count"]),
    (AggregateKind::Sum, &["sum", "total"]),
    (AggregateKind::Extreme, &["min", "max"]),
    (AggregateKind::First, &["first"]),
    (
        AggregateKind::Mean,
        &["avg", "median", "stdev", "stddev", "stdev_samp", "stddev_samp", "var", "variance", "var_samp"],
    ),
    (AggregateKind::Quantile, &["quantile_cont", "quantile_disc"]),
    (AggregateKind::List, &["array_agg"]),
    (
        AggregateKind::Other,
        &["last", "corr", "covar", "covar_pop", "covar_samp", "string_agg", "listagg", "group_concat"],
    ),
];

/// Functions beside aggregates that polars computes over a window as SQL does.
const OF_WINDOWS: [&str; 6] = ["dense_rank", "first_value", "lag", "lead", "rank", "row_number"];

/// Further functions whose rows are not those of their operands.
const OF_OTHER_ROWS: [&str; 2] = ["last_value", "unnest"];

/// Returns the kind of the aggregate `name`; `None` for other functions.
pub(crate) fn kind(name: &str) -> Option<AggregateKind> {
    AGGREGATES.iter().find(|(_, names)| is_in(names, name)).map(|(kind, _)| *kind)
}

/// Whether a call is an aggregate of its group, without OVER.
pub(crate) fn is_aggregate(function: &Function) -> bool {
    function.over.is_none() && kind(&function.name.to_string()).is_some()
}

/// Whether polars computes windows of `name` as SQL does, without ORDER BY at least.
pub(crate) fn has_windows(name: &str) -> bool {
    match kind(name) {
        Some(
            AggregateKind::Count
            | AggregateKind::Sum
            | AggregateKind::Extreme
            | AggregateKind::First
            | AggregateKind::Mean,
        ) => true,
        Some(AggregateKind::Quantile | AggregateKind::List | AggregateKind::Other) => false,
        None => is_in(&OF_WINDOWS, name),
    }
}

/// Whether a call has one value for each row of its operands.
pub(crate) fn keeps_rows(function: &Function) -> bool {
    let name = function.name.to_string();
    function.over.is_none() && kind(&name).is_none() && !is_in(&OF_WINDOWS, &name) && !is_in(&OF_OTHER_ROWS, &name)
}

fn is_in(names: &[&str], name: &str) -> bool {
    names.iter().any(|own| own.eq_ignore_ascii_case(name))
}
