//! The model of `docs/verify.md` as SMT-LIB 2, in linear integer arithmetic.
//!
//! Called by [`super::decide`] and for `--emit`. Times are ticks. For update k of cluster v:
//!
//! - `G_v_k` generation, `X_v_k` sent, `M_v_k` merged into a waiting one, `E_v_k` appended (enters the queue);
//! - `S_v_k` start of the transmission of the cluster's latest queue entry as of this update: its own if it was
//!   appended or merged, else the one before; −p/C while there is none.
//!
//! With `S`, the queue depends only on the latest start among the updates before an arrival (§12.2, §12.3), without a sorted sequence of
//! departures: an arrival is appended at `S = max(A, latest start + p/C)`; all slots are taken if the latest start is more than
//! `full_after` after A; it merges if its own cluster's start is after A. Only pairs of arrivals that can meet have an order variable.

use std::fmt::Write;

use super::bounds::Bounds;
use super::setup::{Arrivals, Setup, Ticks};

/// A model that queries are added to.
pub struct SmtModel<'a> {
    setup: &'a Setup,
    bounds: Bounds,
    text: String,
}

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    /// Whether there is a behaviour that keeps the objective.
    Keeps,
    /// Whether there is one in which the first cluster's average peak exceeds the second's by more than ε.
    Exceeds(usize, usize),
    /// Whether there is one in which the cluster has no peak.
    Starves(usize),
}

impl std::fmt::Display for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Query::Keeps => write!(f, "a behaviour keeps the objective"),
            Query::Exceeds(u, v) => write!(f, "cluster {u} exceeds cluster {v} by more than epsilon"),
            Query::Starves(v) => write!(f, "cluster {v} has no peak"),
        }
    }
}

/// Formats a number for SMT-LIB.
pub fn number(n: Ticks) -> String {
    if n < 0 { format!("(- {})", n.unsigned_abs()) } else { n.to_string() }
}

/// Applies `op` to `terms`; returns `empty` for none and the term itself for one.
pub(super) fn fold(op: &str, terms: &[String], empty: &str) -> String {
    match terms {
        [] => empty.to_owned(),
        [one] => one.clone(),
        many => format!("({op} {})", many.join(" ")),
    }
}

macro_rules! line {
    ($model:expr, $($arg:tt)*) => {
        // Writing to a text cannot fail.
        let _ = writeln!($model.text, $($arg)*);
    };
}

impl<'a> SmtModel<'a> {
    /// Writes everything except the queries.
    pub fn new(setup: &'a Setup) -> SmtModel<'a> {
        let mut model = SmtModel { setup, bounds: Bounds::of(setup), text: String::new() };
        // Solvers answer "success" to each command unless they are told otherwise.
        line!(model, "(set-option :print-success false)\n(set-option :produce-models true)\n(set-logic QF_LIA)");
        for v in 0..setup.clusters.len() {
            model.arrivals(v);
        }
        for v in 0..setup.clusters.len() {
            for k in 0..setup.clusters[v].updates {
                model.states(v, k);
            }
        }
        model.orders();
        for v in 0..setup.clusters.len() {
            for k in 0..setup.clusters[v].updates {
                model.queue(v, k);
            }
        }
        if model.bounds.holds {
            super::feedback::write(&mut model.text, setup, &model.bounds);
        }
        for v in 0..setup.clusters.len() {
            model.totals(v);
        }
        model.leads();
        model
    }

    /// Returns the bounds known in advance.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Returns the declarations and constraints.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn updates(&self, v: usize) -> usize {
        self.setup.clusters[v].updates
    }

    fn arrivals(&mut self, v: usize) {
        let arrivals = self.setup.clusters[v].arrivals;
        line!(self, "; cluster {v}: {arrivals:?}");
        if let Arrivals::Periodic { phase: None, period, .. } = arrivals {
            line!(self, "(declare-const F_{v} Int)\n(assert (<= 0 F_{v} {}))", period - 1);
        }
        for k in 0..self.updates(v) {
            let (low, high) = arrivals.window(k);
            match arrivals {
                Arrivals::Periodic { phase: Some(_), jitter: 0, .. } => {
                    line!(self, "(define-fun G_{v}_{k} () Int {low})");
                }
                Arrivals::Periodic { phase: None, period, jitter: 0 } => {
                    line!(self, "(define-fun G_{v}_{k} () Int (+ F_{v} {}))", period * k as Ticks);
                }
                Arrivals::Periodic { phase, period, jitter } => {
                    line!(self, "(declare-const G_{v}_{k} Int)");
                    let from = phase.map_or(format!("(+ F_{v} {})", period * k as Ticks), |_| low.to_string());
                    line!(self, "(assert (<= 0 (- G_{v}_{k} {from}) {jitter}))");
                }
                Arrivals::Free { gap_min, gap_max } => {
                    line!(self, "(declare-const G_{v}_{k} Int)\n(assert (<= {low} G_{v}_{k} {high}))");
                    if k > 0 {
                        line!(self, "(assert (<= {gap_min} (- G_{v}_{k} G_{v}_{}) {gap_max}))", k - 1);
                    }
                }
            }
            line!(self, "(define-fun A_{v}_{k} () Int (+ G_{v}_{k} {}))", self.setup.inbound());
        }
    }

    /// Declares sent, merged, appended, and the start, as variables unless they are certain.
    fn states(&mut self, v: usize, k: usize) {
        line!(self, "(declare-const S_{v}_{k} Int)");
        // A worker has no ACK before its first update (§5).
        if self.bounds.holds && k > 0 {
            line!(self, "(declare-const X_{v}_{k} Bool)");
        } else {
            line!(self, "(define-fun X_{v}_{k} () Bool true)");
        }
        if self.bounds.merges[v] && k > 0 {
            line!(self, "(define-fun M_{v}_{k} () Bool (and X_{v}_{k} (> S_{v}_{} A_{v}_{k})))", k - 1);
        } else {
            line!(self, "(define-fun M_{v}_{k} () Bool false)");
        }
        if self.bounds.drops {
            line!(self, "(declare-const E_{v}_{k} Bool)\n(assert (=> E_{v}_{k} (and X_{v}_{k} (not M_{v}_{k}))))");
        } else {
            line!(self, "(define-fun E_{v}_{k} () Bool (and X_{v}_{k} (not M_{v}_{k})))");
        }
    }

    /// Declares `B_u_j_v_k`: update j of u arrives before update k of v, u < v; ties are resolved in favour of the lower cluster.
    fn orders(&mut self) {
        for u in 0..self.setup.clusters.len() {
            for v in u + 1..self.setup.clusters.len() {
                for j in 0..self.updates(u) {
                    for k in 0..self.updates(v) {
                        let apart = self.bounds.gone_before(self.setup, (u, j), (v, k))
                            || self.bounds.gone_before(self.setup, (v, k), (u, j));
                        if !apart && self.bounds.order((u, j), (v, k)).is_none() {
                            line!(self, "(declare-const B_{u}_{j}_{v}_{k} Bool)");
                            line!(self, "(assert (= B_{u}_{j}_{v}_{k} (<= G_{u}_{j} G_{v}_{k})))");
                        }
                    }
                }
            }
        }
    }

    /// Returns the updates of other clusters that may be ahead of (v, k), with the condition for this.
    fn ahead(&self, v: usize, k: usize) -> Vec<(usize, usize, Option<String>)> {
        let mut found = Vec::new();
        for u in (0..self.setup.clusters.len()).filter(|u| *u != v) {
            for j in 0..self.updates(u) {
                if self.bounds.gone_before(self.setup, (u, j), (v, k))
                    || self.bounds.gone_before(self.setup, (v, k), (u, j))
                {
                    continue;
                }
                match self.bounds.order((u, j), (v, k)) {
                    Some(false) => {}
                    Some(true) => found.push((u, j, None)),
                    None if u < v => found.push((u, j, Some(format!("B_{u}_{j}_{v}_{k}")))),
                    None => found.push((u, j, Some(format!("(not B_{v}_{k}_{u}_{j})")))),
                }
            }
        }
        found
    }

    /// Constrains the outcome of an arrival: see the module documentation.
    fn queue(&mut self, v: usize, k: usize) {
        let (c, full_after) = (self.setup.service, number(self.setup.full_after()));
        let (own, start, arrival) = (format!("E_{v}_{k}"), format!("S_{v}_{k}"), format!("A_{v}_{k}"));
        let certain = self.bounds.plain(v);
        let when = |condition: &str, then: &str| match certain {
            true => format!("(assert {then})"),
            false => format!("(assert (=> {condition} {then}))"),
        };
        let mut lines = vec![when(&own, &format!("(<= 0 (- {start} {arrival}) {})", self.bounds.wait))];
        let mut reasons = vec![format!("(= {start} {arrival})")];
        let mut full = Vec::new();
        let mut ahead = self.ahead(v, k);
        if k > 0 && !self.bounds.spread {
            ahead.push((v, k - 1, None));
        }
        for (u, j, condition) in ahead {
            let after = match &condition {
                None => own.clone(),
                Some(before) if certain => before.clone(),
                Some(before) => format!("(and {own} {before})"),
            };
            let mut then = vec![format!("(>= (- {start} S_{u}_{j}) {c})")];
            reasons.push(format!("(= (- {start} S_{u}_{j}) {c})"));
            if self.bounds.drops {
                then.push(format!("(<= (- S_{u}_{j} {arrival}) {full_after})"));
                let late = format!("(> (- S_{u}_{j} {arrival}) {full_after})");
                full.push(condition.as_ref().map_or(late.clone(), |before| format!("(and {before} {late})")));
            }
            let then = fold("and", &then, "true");
            lines.push(match condition {
                None => when(&own, &then),
                Some(_) => format!("(assert (=> {after} {then}))"),
            });
        }
        // Work conserving: the link is never idle while a frame waits.
        lines.push(when(&own, &fold("or", &reasons, "true")));
        if !certain {
            let before = if k > 0 { format!("S_{v}_{}", k - 1) } else { number(-c) };
            lines.push(format!("(assert (=> (not {own}) (= {start} {before})))"));
        }
        if self.bounds.drops {
            let full = fold("or", &full, "false");
            lines.push(format!("(assert (=> (and X_{v}_{k} (not M_{v}_{k}) (not {own})) {full}))"));
        }
        for text in lines {
            line!(self, "{text}");
        }
    }

    /// Defines `T_v`, the sum of the cluster's peaks, and `N_v`, their number: by telescoping, the sum is that of the
    /// waits of delivered updates plus the time from the first generation to the last delivered one.
    fn totals(&mut self, v: usize) {
        let last = self.updates(v) - 1;
        let way = self.setup.outbound();
        if self.bounds.plain(v) {
            let waits: Vec<_> = (1..=last).map(|k| format!("(- S_{v}_{k} G_{v}_{k})")).collect();
            line!(self, "(define-fun N_{v} () Int {last})");
            line!(self, "(declare-const T_{v} Int)");
            let span = format!("(- G_{v}_{last} G_{v}_0)");
            line!(self, "(assert (= T_{v} (+ {} {span} {})))", waits.join(" "), way * last as Ticks);
            return;
        }
        // O: the cluster's next sent update replaces this one. V: delivered.
        for k in (0..=last).rev() {
            let next = k + 1;
            if k == last || !self.bounds.merges[v] {
                line!(self, "(define-fun O_{v}_{k} () Bool false)");
            } else {
                line!(self, "(define-fun O_{v}_{k} () Bool (ite X_{v}_{next} M_{v}_{next} O_{v}_{next}))");
            }
            line!(self, "(define-fun V_{v}_{k} () Bool (and (or E_{v}_{k} M_{v}_{k}) (not O_{v}_{k})))");
        }
        for k in 1..=last {
            let way = format!("(+ (- S_{v}_{k} G_{v}_{k}) {way})");
            line!(self, "(declare-const P_{v}_{k} Int)");
            line!(self, "(assert (ite V_{v}_{k} (= P_{v}_{k} {way}) (= P_{v}_{k} 0)))");
            // Z: generation of the newest update delivered so far.
            let before = if k == 1 { format!("G_{v}_0") } else { format!("Z_{v}_{}", k - 1) };
            line!(self, "(declare-const Z_{v}_{k} Int)");
            line!(self, "(assert (= Z_{v}_{k} (ite V_{v}_{k} G_{v}_{k} {before})))");
        }
        let counts: Vec<_> = (1..=last).map(|k| format!("(ite V_{v}_{k} 1 0)")).collect();
        let sums: Vec<_> = (1..=last).map(|k| format!("P_{v}_{k}")).collect();
        line!(self, "(declare-const N_{v} Int)\n(assert (= N_{v} {}))", fold("+", &counts, "0"));
        line!(self, "(declare-const T_{v} Int)\n(assert (= T_{v} (+ {} (- Z_{v}_{last} G_{v}_0))))", sums.join(" "));
    }

    /// Adds constraints that follow from the others but are hard to derive.
    fn leads(&mut self) {
        for u in 0..self.setup.clusters.len() {
            for v in (0..self.setup.clusters.len()).filter(|v| *v != u) {
                if let Some(lead) = self.bounds.lead(self.setup, u, v) {
                    line!(self, "(assert (<= (- T_{u} T_{v}) {}))", number(lead));
                }
            }
        }
    }

    /// Returns the possible numbers of peaks of the cluster.
    fn counts(&self, v: usize) -> std::ops::RangeInclusive<usize> {
        let most = self.updates(v) - 1;
        if self.bounds.plain(v) { most..=most } else { 1..=most }
    }

    /// Returns the formula that the average of u stays (or, with `exceeds`, does not stay) within ε above that of v, for all counts.
    fn compare(&self, u: usize, v: usize, exceeds: bool) -> String {
        let mut cases = Vec::new();
        for a in self.counts(u) {
            for b in self.counts(v) {
                let limit = self.setup.epsilon * (a * b) as Ticks;
                let test = format!("({} (- (* {b} T_{u}) (* {a} T_{v})) {limit})", if exceeds { ">" } else { "<=" });
                let mut given = Vec::new();
                for (cluster, count) in [(u, a), (v, b)] {
                    if !self.bounds.plain(cluster) {
                        given.push(format!("(= N_{cluster} {count})"));
                    }
                }
                cases.push(match given.len() {
                    0 => test,
                    _ => format!("(=> {} {test})", fold("and", &given, "true")),
                });
            }
        }
        let some: Vec<_> = [u, v].iter().filter(|c| !self.bounds.plain(**c)).map(|c| format!("(>= N_{c} 1)")).collect();
        cases.extend(some);
        fold("and", &cases, "true")
    }

    /// Returns all queries: whether the objective can be kept, and each way to violate it: the negation of a
    /// conjunction over pairs is a disjunction, whose parts are easier individually.
    pub fn queries(&self) -> Vec<Query> {
        let clusters = 0..self.setup.clusters.len();
        let starving = clusters.clone().filter(|v| !self.bounds.plain(*v)).map(Query::Starves);
        let pairs =
            clusters.clone().flat_map(|u| clusters.clone().filter(move |v| *v != u).map(move |v| Query::Exceeds(u, v)));
        std::iter::once(Query::Keeps).chain(pairs).chain(starving).collect()
    }

    /// Returns the assertion of a query.
    pub(crate) fn assertion(&self, query: Query) -> String {
        let clusters = self.setup.clusters.len();
        let formula = match query {
            Query::Keeps => {
                let pairs = (0..clusters).flat_map(|u| (0..clusters).filter(move |v| *v != u).map(move |v| (u, v)));
                fold("and", &pairs.map(|(u, v)| self.compare(u, v, false)).collect::<Vec<_>>(), "true")
            }
            Query::Exceeds(u, v) => self.compare(u, v, true),
            Query::Starves(v) => format!("(= N_{v} 0)"),
        };
        format!("(assert {formula})\n")
    }

    /// Returns the request for the values of a behaviour: generations, decisions, starts, totals.
    pub fn request(&self) -> String {
        let mut names = Vec::new();
        for v in 0..self.setup.clusters.len() {
            names.extend([format!("T_{v}"), format!("N_{v}")]);
            for k in 0..self.updates(v) {
                names.extend([format!("G_{v}_{k}"), format!("X_{v}_{k}"), format!("S_{v}_{k}")]);
            }
        }
        format!("(check-sat)\n(get-value ({}))\n", names.join(" "))
    }

    /// Returns one query as a separate script.
    pub fn script(&self, query: Query, extra: &str) -> String {
        format!("{}{extra}{}{}", self.text, self.assertion(query), self.request())
    }

    /// Returns a script with all queries, each between `push` and `pop`.
    pub fn whole(&self) -> String {
        let mut out = self.text.clone();
        for query in self.queries() {
            let _ = write!(out, "(push 1)\n(echo \"{query}\")\n{}(check-sat)\n(pop 1)\n", self.assertion(query));
        }
        out
    }
}
