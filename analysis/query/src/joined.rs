//! Joins on a column of integers: rows of the right table whose key the left one lacks are skipped while reading.
//!
//! Called by [`crate::grouped`]. The left table is read before the right one, each on all cores.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use polars::prelude::*;

use crate::keys::{Keys, Known};
use crate::scan::{Scan, source};

/// One side of a join.
struct JoinScan {
    scan: Arc<dyn AnonymousScan>,
    keys: Known,
    /// Whether this side is read first and determines the keys.
    is_left: bool,
}

impl AnonymousScan for JoinScan {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn scan(&self, args: AnonymousScanArgs) -> PolarsResult<DataFrame> {
        let Some(scan) = self.scan.as_any().downcast_ref::<Scan>() else {
            polars_bail!(ComputeError: "a join of no table");
        };
        if !self.is_left {
            return scan.scanned(args, Some(self.keys.clone()));
        }
        let frame = scan.scanned(args, None)?;
        if let Some(keys) = frame.column(&self.keys.0).ok().and_then(Keys::of) {
            let _ = self.keys.1.set(keys);
        }
        Ok(frame)
    }

    fn allows_predicate_pushdown(&self) -> bool {
        true
    }

    fn allows_projection_pushdown(&self) -> bool {
        true
    }
}

/// Returns `join` with skipping of rows, if possible.
pub(crate) fn with_keys(join: DslPlan) -> DslPlan {
    try_with_keys(&join).unwrap_or(join)
}

fn try_with_keys(join: &DslPlan) -> Option<DslPlan> {
    let DslPlan::Join { input_left, input_right, left_on, right_on, predicates, options } = join else { return None };
    let ([Expr::Column(left), Expr::Column(right)], true) = ([left_on.first()?, right_on.first()?], left_on.len() == 1)
    else {
        return None;
    };
    if !predicates.is_empty()
        || options.args.nulls_equal
        || !matches!(options.args.how, JoinType::Inner | JoinType::Left)
    {
        return None;
    }
    let (mut chosen, mut right_chosen) = (Vec::new(), Vec::new());
    let (left_scan, right_scan) = (source(input_left, &mut chosen)?, source(input_right, &mut right_chosen)?);
    let (of_left, of_right) = (left_scan.as_any().downcast_ref::<Scan>()?, right_scan.as_any().downcast_ref::<Scan>()?);
    if of_left.schema().get(left)? != of_right.schema().get(right)? {
        return None;
    }
    // Worthwhile only with few keys and many rows.
    if chosen.is_empty() && of_left.rows()? * 2 > of_right.rows()? {
        return None;
    }
    let keys: Arc<OnceLock<Keys>> = Arc::default();
    let side = |scan: &Arc<dyn AnonymousScan>, name: &PlSmallStr, is_left| JoinScan {
        scan: scan.clone(),
        keys: (name.clone(), keys.clone()),
        is_left,
    };
    let input_left = Arc::new(over(input_left, side(&left_scan, left, true), of_left)?);
    let input_right = Arc::new(over(input_right, side(&right_scan, right, false), of_right)?);
    let options = Arc::new(JoinOptions { allow_parallel: false, ..options.as_ref().clone() });
    let (left_on, right_on) = (left_on.clone(), right_on.clone());
    Some(DslPlan::Join { input_left, input_right, left_on, right_on, predicates: Vec::new(), options })
}

/// Returns `plan` with its table replaced by `scan`.
fn over(plan: &DslPlan, scan: JoinScan, of: &Scan) -> Option<DslPlan> {
    Some(match plan {
        DslPlan::Filter { input, predicate } => {
            DslPlan::Filter { input: Arc::new(over(input, scan, of)?), predicate: predicate.clone() }
        }
        DslPlan::Select { input, expr, options } => {
            DslPlan::Select { input: Arc::new(over(input, scan, of)?), expr: expr.clone(), options: *options }
        }
        DslPlan::IR { dsl, .. } => over(dsl, scan, of)?,
        _ => {
            let args =
                ScanArgsAnonymous { schema: Some(Arc::new(of.schema())), name: of.table.name, ..Default::default() };
            LazyFrame::anonymous_scan(Arc::new(scan), args).ok()?.logical_plan
        }
    })
}
