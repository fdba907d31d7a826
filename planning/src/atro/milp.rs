//! The paper's program, (1) to (21), as text in the LP format of HiGHS, CBC and GLPK.
//!
//! The rate is fixed, and with it the flows per link, which makes the program linear. Three rules missing in the paper are added: each
//! worker emits one flow (W), none enters a worker (K), none leaves the server (P); the last two by omitting such variables.

use std::fmt::Write;

use super::capacities::Capacities;
use super::inventory::Inventory;

/// Maximum number of switches of a program that is written: it has some 600 bytes for each pair of them.
const SWITCHES_MAX: usize = 1_000;

/// Returns an error with the reason if the program of so many switches is too large.
pub fn check_size(switches: usize) -> Result<(), String> {
    if switches > SWITCHES_MAX {
        return Err(format!(
            "the program of {switches} switches has rows for each pair of them; at most {SWITCHES_MAX} are supported"
        ));
    }
    Ok(())
}

/// How workers are represented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MilpForm {
    /// Individually, as in the paper.
    Named,
    /// As counts per switch, since they are interchangeable.
    Counted,
}

/// The question to the solver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MilpQuestion {
    /// Whether this many workers fit.
    Fits(u64),
    /// How many workers fit; only with [`MilpForm::Counted`].
    Most,
}

/// Returns the program at one rate. Its objective is the number of workers if counted, otherwise nothing.
pub fn program(capacities: &Capacities, form: MilpForm, question: MilpQuestion) -> String {
    let mut program = Program { capacities: *capacities, text: String::new(), bounds: String::new(), rows: 0 };
    let (switches, workers) = (capacities.switches(), named_workers(form, question));
    let sum = joined((0..switches).map(|s| format!("w_{s}")));
    let objective = if form == MilpForm::Counted { sum.clone() } else { "0 z_0".into() };
    program.comment(form);
    let _ = writeln!(program.text, "Maximize\n obj: {objective}\nSubject To");
    for switch in 0..switches {
        program.switch(switch, workers);
    }
    program.row(&format!("{} = 1", joined((0..switches).map(|s| format!("z_{s}")))));
    if let (MilpForm::Counted, MilpQuestion::Fits(n)) = (form, question) {
        program.row(&format!("{sum} = {n}"));
    }
    for u in 0..switches {
        for v in u + 1..switches {
            program.pair(u, v);
        }
    }
    for worker in 0..workers.unwrap_or(0) {
        program.worker(worker);
    }
    program.end(workers)
}

fn named_workers(form: MilpForm, question: MilpQuestion) -> Option<u64> {
    match (form, question) {
        (MilpForm::Named, MilpQuestion::Fits(n)) => Some(n),
        _ => None,
    }
}

fn joined(terms: impl Iterator<Item = String>) -> String {
    terms.collect::<Vec<_>>().join(" + ")
}

/// The text under construction. Switches are numbered, those that aggregate first.
struct Program<'a> {
    capacities: Capacities<'a>,
    text: String,
    bounds: String,
    rows: u64,
}

impl Program<'_> {
    fn comment(&mut self, form: MilpForm) {
        let Inventory { switches, layers, .. } = self.capacities.inventory;
        let (aggregators, rate) = (self.capacities.aggregators(), self.capacities.rate_bps);
        let _ = writeln!(
            self.text,
            "\\ {} switches, the first {aggregators} aggregate, L = {layers}, {rate} bit/s for each worker, workers {form:?}.\n\
             \\ x: link, y: flows, a: whether there are any, l: layer, w: workers; of the server z: link, \
             t: flows, b: whether any;\n\\ of a worker h: link, f: flow",
            switches.len()
        );
        for (number, switch) in switches.iter().enumerate() {
            let (name, ports, flows) = (&switch.name, switch.ports, switch.rate_bps / rate);
            let _ = writeln!(self.text, "\\ {number}: {name}, {ports} ports of {flows} flows");
        }
    }

    fn row(&mut self, row: &str) {
        self.rows += 1;
        let _ = writeln!(self.text, " c{}: {row}", self.rows);
    }

    fn others(&self, switch: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.capacities.switches()).filter(move |&other| other != switch)
    }

    /// Adds the constraints of one switch: (7), (9), (10), (13), (18), (19), and its link to the server.
    fn switch(&mut self, s: usize, workers: Option<u64>) {
        let (ports, layers) = (self.capacities.ports(s), self.capacities.inventory.layers);
        let to_server = self.capacities.flows(s, self.capacities.switches());
        let links = joined(self.others(s).map(|o| format!("x_{}_{}", s.min(o), s.max(o))).chain([format!("z_{s}")]));
        let (hosts, inputs) = match workers {
            None => (format!("w_{s}"), format!("w_{s}")),
            Some(n) => (joined((0..n).map(|w| format!("h_{w}_{s}"))), joined((0..n).map(|w| format!("f_{w}_{s}")))),
        };
        let into = joined([inputs].into_iter().chain(self.others(s).map(|o| format!("y_{o}_{s}"))));
        let out: Vec<String> = self.others(s).map(|o| format!("y_{s}_{o}")).chain([format!("t_{s}")]).collect();
        let minus = |factor: u64| out.iter().map(|y| format!(" - {factor} {y}")).collect::<String>();
        self.row(&format!("{links} + {hosts} <= {ports}"));
        if s < self.capacities.aggregators() {
            let widest = self.others(s).map(|o| self.capacities.flows(s, o)).max().unwrap_or(0).max(1);
            self.row(&format!("{} <= 1", out.join(" + ")));
            self.row(&format!("{into}{} >= 0", minus(1)));
            self.row(&format!("{into}{} <= 0", minus(widest * ports.max(2).saturating_sub(1))));
        } else {
            self.row(&format!("{into}{} = 0", minus(1)));
        }
        // The link to the server: flows require a link, and then the layer is 1.
        self.row(&format!("t_{s} - {to_server} b_{s} <= 0"));
        self.row(&format!("b_{s} - t_{s} <= 0"));
        self.row(&format!("b_{s} - z_{s} <= 0"));
        self.row(&format!("l_{s} + {layers} b_{s} <= {}", 1 + layers));
        let _ = writeln!(self.bounds, " 1 <= l_{s} <= {layers}\n 0 <= t_{s} <= {to_server}");
        if workers.is_none() {
            let _ = writeln!(self.bounds, " 0 <= w_{s} <= {ports}");
        }
    }

    /// Adds the constraints of two switches: (14), (16), (17), (20).
    fn pair(&mut self, u: usize, v: usize) {
        let (m, layers) = (self.capacities.flows(u, v), self.capacities.inventory.layers);
        self.row(&format!("y_{u}_{v} + y_{v}_{u} - {m} x_{u}_{v} <= 0"));
        for (from, to) in [(u, v), (v, u)] {
            self.row(&format!("a_{from}_{to} - y_{from}_{to} <= 0"));
            self.row(&format!("y_{from}_{to} - {m} a_{from}_{to} <= 0"));
            self.row(&format!("a_{from}_{to} - x_{u}_{v} <= 0"));
            self.row(&format!("l_{to} - l_{from} + {layers} a_{from}_{to} <= {}", layers as i64 - 1));
            let _ = writeln!(self.bounds, " 0 <= y_{from}_{to} <= {m}");
        }
    }

    /// Adds the constraints of one worker: one link (8), one flow (W), and only on that link.
    fn worker(&mut self, w: u64) {
        let switches = self.capacities.switches();
        self.row(&format!("{} = 1", joined((0..switches).map(|s| format!("h_{w}_{s}")))));
        self.row(&format!("{} = 1", joined((0..switches).map(|s| format!("f_{w}_{s}")))));
        for s in 0..switches {
            self.row(&format!("f_{w}_{s} - h_{w}_{s} <= 0"));
        }
    }

    fn end(self, workers: Option<u64>) -> String {
        let switches = self.capacities.switches();
        let pairs = || (0..switches).flat_map(move |u| (0..switches).filter(move |&v| v != u).map(move |v| (u, v)));
        let mut text = format!("{}Bounds\n{}General\n", self.text, self.bounds);
        for s in 0..switches {
            let _ = write!(text, " l_{s} t_{s}{}", if workers.is_none() { format!(" w_{s}") } else { String::new() });
        }
        pairs().for_each(|(u, v)| text.push_str(&format!(" y_{u}_{v}")));
        text.push_str("\nBinary\n");
        (0..switches).for_each(|s| text.push_str(&format!(" z_{s} b_{s}")));
        for (u, v) in pairs() {
            text.push_str(&format!(" a_{u}_{v}"));
            if u < v {
                text.push_str(&format!(" x_{u}_{v}"));
            }
        }
        for w in 0..workers.unwrap_or(0) {
            (0..switches).for_each(|s| text.push_str(&format!(" h_{w}_{s} f_{w}_{s}")));
        }
        text.push_str("\nEnd\n");
        text
    }
}
