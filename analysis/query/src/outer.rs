//! Visits of what is outside of subqueries, with the number of functions around it.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Function, Query, Visit, VisitMut, Visitor, VisitorMut};

/// What is outside of subqueries.
pub(crate) enum Outer<'a> {
    Subquery,
    Expr(&'a Expr),
}

/// Calls `visit` with the expressions and subqueries outside of subqueries, from the outermost to the innermost one, and the number of
/// functions around each for which `is_counted` holds.
pub(crate) fn visit_outer<B>(
    of: &impl Visit,
    is_counted: fn(&Function) -> bool,
    visit: impl FnMut(Outer<'_>, usize) -> ControlFlow<B>,
) -> ControlFlow<B> {
    of.visit(&mut OuterVisitor { depth: Depth::new(is_counted), visit })
}

/// Calls `visit` with the expressions outside of subqueries and of functions for which `is_counted` holds, from the innermost to the
/// outermost one.
pub(crate) fn visit_outer_mut(of: &mut impl VisitMut, is_counted: fn(&Function) -> bool, visit: impl FnMut(&mut Expr)) {
    _ = VisitMut::visit(of, &mut OuterVisitor { depth: Depth::new(is_counted), visit });
}

struct OuterVisitor<V> {
    depth: Depth,
    visit: V,
}

/// Number of subqueries, and of counted functions outside of them, around an expression.
struct Depth {
    is_counted: fn(&Function) -> bool,
    queries: usize,
    functions: usize,
}

impl Depth {
    fn new(is_counted: fn(&Function) -> bool) -> Depth {
        Depth { is_counted, queries: 0, functions: 0 }
    }

    /// Whether a counted function outside of subqueries begins or ends.
    fn is_function(&self, expr: &Expr) -> bool {
        self.queries == 0 && matches!(expr, Expr::Function(function) if (self.is_counted)(function))
    }

    fn enter(&mut self, expr: &Expr) {
        self.functions += usize::from(self.is_function(expr));
    }

    /// Returns whether a function ends.
    fn leave(&mut self, expr: &Expr) -> bool {
        let is_function = self.is_function(expr);
        self.functions -= usize::from(is_function);
        is_function
    }
}

impl<B, V: FnMut(Outer<'_>, usize) -> ControlFlow<B>> Visitor for OuterVisitor<V> {
    type Break = B;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<B> {
        self.depth.queries += 1;
        match self.depth.queries {
            1 => (self.visit)(Outer::Subquery, self.depth.functions),
            _ => ControlFlow::Continue(()),
        }
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<B> {
        self.depth.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        if self.depth.queries == 0 {
            (self.visit)(Outer::Expr(expr), self.depth.functions)?;
        }
        self.depth.enter(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        self.depth.leave(expr);
        ControlFlow::Continue(())
    }
}

impl<V: FnMut(&mut Expr)> VisitorMut for OuterVisitor<V> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth.enter(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let is_function = self.depth.leave(expr);
        if !is_function && self.depth.queries == 0 && self.depth.functions == 0 {
            (self.visit)(expr);
        }
        ControlFlow::Continue(())
    }
}
