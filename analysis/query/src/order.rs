//! Rows without a value in ORDER BY of windows: polars fixes their place.

use sqlparser::ast::OrderByExpr;

/// Returns why NULLS FIRST or NULLS LAST in a window is refused, if polars orders otherwise: in windows it ignores both.
pub(crate) fn refusal(keys: &[OrderByExpr]) -> Option<&'static str> {
    // Several keys are compared as one, in which no value is the least.
    let are_last = keys.len() > 1 && keys.iter().all(is_descending);
    let is_refused = keys.iter().any(|key| key.options.nulls_first == Some(are_last));
    is_refused.then_some(if are_last {
        "NULLS FIRST in OVER with several columns and DESC is refused: there rows without a value come last; leave them out by \
         WHERE, or order by COALESCE(x, …)"
    } else {
        "NULLS LAST in OVER is refused: there rows without a value come first; leave them out by WHERE, or order by COALESCE(x, …)"
    })
}

fn is_descending(key: &OrderByExpr) -> bool {
    key.options.asc == Some(false)
}
