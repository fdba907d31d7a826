//! SOAR's evaluation as a study: one strategy on BT(n), for one or several workloads (SOAR §5, appendix A).

use pktgen_core::config::{Choice, Key, KeyTables, Section, Value, choices, settings};
use pktgen_core::definition::{Better, Definition, Timing};
use pktgen_core::registry::{Named, find};
use pktgen_core::seed::{Seed, unit};
use pktgen_core::tree::make::{Rates, binary};
use pktgen_core::tree::{ROOT, Tree};
use pktgen_core::{Error, Result};
use pktgen_workload::study::{Finding, Study, TIME_TAKEN, Task, Watch};

use super::bytes::{Sizes, UseCase};
use super::gather::{self, Root};
use super::loads::Loads;
use super::online::Online;
use super::strategy::{STRATEGIES, Strategy};
use super::{Placement, printed};

/// The study.
pub(crate) struct SoarStudy;

const fn time(metric: &'static str, definition: &'static str) -> Definition {
    Definition::new(metric, "ns", Better::Lower, definition)
        .timed(Timing::OneClock)
        .source("SOAR §5.3")
        .needs("study.strategy = \"soar\"")
}

const fn part(metric: &'static str, definition: &'static str) -> Definition {
    Definition::new(metric, "s", Better::Neither, definition).source("SOAR §4.3").needs("study.strategy = \"soar\"")
}

static METRICS: [Definition; 11] = [
    Definition::new("utilisation_ratio", "ratio", Better::Lower, "φ divided by that of the tree without aggregation.")
        .source("SOAR §5"),
    Definition::new(
        "phi",
        "s",
        Better::Lower,
        "Network utilisation φ, summed over workloads: time that messages take on all links.",
    )
    .source("SOAR §2"),
    Definition::new("blue", "switches", Better::Neither, "Switches that aggregate, summed over workloads.")
        .source("SOAR §2"),
    Definition::new("bytes_ratio", "ratio", Better::Lower, "Bytes on all links, divided by those without aggregation.")
        .source("SOAR §5")
        .needs("study.use_case"),
    Definition::new(
        "bytes_over_all_blue",
        "ratio",
        Better::Lower,
        "Bytes on all links, divided by those if every switch aggregates.",
    )
    .source("SOAR §5")
    .needs("study.use_case"),
    part(
        "left_phi",
        "Part of φ by messages from the subtree of the root's first child, on links up to a switch that aggregates.",
    ),
    part(
        "right_phi",
        "Part of φ by messages from the subtree of the root's second child, on links up to a switch that aggregates.",
    ),
    time("gather_time", "Wall-clock time of SOAR-Gather, summed over workloads."),
    time("colour_time", "Wall-clock time of SOAR-Color, summed over workloads."),
    Definition::new("colour_orders", "orders of magnitude", Better::Neither, "log10 of gather_time / colour_time.")
        .source("SOAR §5.3")
        .needs("study.strategy = \"soar\""),
    TIME_TAKEN,
];

/// Parameters of the study.
struct Setup {
    tree: Tree,
    loads: Drawn,
    strategy: &'static Strategy,
    /// How the exact solution is computed, if that is the strategy.
    exact: Option<Exact>,
    k: usize,
    workloads: u32,
    /// `None`: unlimited.
    capacity: Option<u32>,
    use_case: Option<UseCase>,
}

/// Source of loads.
#[derive(Debug, Clone, Copy)]
enum Drawn {
    /// One distribution.
    From(Loads),
    /// Each workload from either distribution with equal probability (§5.2).
    Mixed,
    /// The loads in `study.nodes`.
    Given,
}

/// How the exact solution is computed.
#[derive(Debug, Clone, Copy)]
struct Exact {
    printed: bool,
    root: Root,
}

/// Duration of its two phases in nanoseconds.
#[derive(Default)]
struct Phases {
    gather: u64,
    colour: u64,
}

impl Exact {
    fn place(self, tree: &Tree, k: usize, watch: Watch, phases: &mut Phases) -> Result<Placement, String> {
        let start = watch();
        let (gathered, blue) = if self.printed {
            let tables = printed::gather(tree, k)?;
            (watch(), tables.colour(tree, self.root))
        } else {
            let tables = gather::tables(tree, k, gather::MEMORY)?;
            (watch(), gather::colour(tree, &tables, k, self.root))
        };
        phases.gather += gathered - start;
        phases.colour += watch() - gathered;
        Ok(Placement::of(tree, blue))
    }
}

impl Phases {
    fn findings(&self) -> [Finding; 3] {
        let known = self.gather > 0 && self.colour > 0;
        let orders = (self.gather as f64 / self.colour as f64).log10();
        [
            Finding::new("gather_time", "ns", self.gather as f64),
            Finding::new("colour_time", "ns", self.colour as f64),
            Finding { value: known.then_some(orders), ..Finding::new("colour_orders", "orders of magnitude", 0.0) },
        ]
    }
}

/// Returns the part of φ due to messages from the subtree of the root's child `number`: each message with its path to
/// the next blue switch (Lemma 4.2).
fn part_of(tree: &Tree, blue: &[bool], number: usize) -> Option<f64> {
    let &top = tree.children(tree.order()[0]).get(number)?;
    let up = |v: u32| std::iter::successors(Some(v), |v| Some(tree.parent(*v)).filter(|parent| *parent != ROOT));
    let inside = |v: &u32| up(*v).any(|v| v == top);
    let cost = |v: u32| {
        let messages = if blue[v as usize] { tree.below(v).min(1) } else { tree.load(v) };
        let way = up(v).take_while(|at| *at == v || !blue[*at as usize]);
        messages as f64 * way.map(|at| tree.rho(at)).sum::<f64>()
    };
    Some((0..tree.len() as u32).filter(inside).map(cost).sum())
}

/// Returns the tree of `[[study.nodes]]`, in the format of a tree file; `None` without such a table.
fn nodes(section: &mut Section) -> Result<Option<Tree>> {
    let tables = section.get_tables(NODES.name)?;
    if tables.is_empty() {
        return Ok(None);
    }
    let json = |value| match value {
        Value::Integer(number) => number.into(),
        Value::Float(number) => number.into(),
        Value::Bool(truth) => truth.into(),
        other => serde_json::Value::from(other.to_label()),
    };
    let node = |table: Vec<(String, Value)>| -> serde_json::Value {
        table.into_iter().map(|(key, value)| (key, json(value))).collect()
    };
    let nodes = tables.into_iter().map(node).collect();
    pktgen_core::tree::file::of_tables(nodes, &section.place(NODES.name)).map(Some)
}

impl Named for SoarStudy {
    fn name(&self) -> &'static str {
        "soar"
    }
    fn about(&self) -> &'static str {
        "savings in time and bytes by k aggregating switches on a binary tree (SOAR §5)"
    }
}

/// The use case if bytes are counted.
type Case = Option<UseCase>;

settings! {
    /// What it reads from `[study]`, where that is not a tree of its own.
    keys Settings {
        /// Nodes of the complete binary tree: a power of two.
        size: u32 = 256 in 2..=1 << 24;
        /// Growth of rates towards the destination.
        rates: Rates = "constant" of (choices(Rates::ALL));
        /// Distribution of the loads.
        loads: Drawn = "uniform" of (drawn());
        /// Placement strategy: `soar`, `top`, `max`, `level`, `all_red` or `all_blue` (docs/soar.md).
        strategy: String = "soar";
        /// How SOAR's tables are computed.
        method: bool = "pruned" of [("pruned", false, ""), ("as_printed", true, "")];
        /// Colour of the root switch, next to the destination, for strategy `soar`.
        root: Root = "either" of (choices(Root::ALL));
        /// Maximum number of switches that aggregate.
        k: u32 = 16 in 0..=1_000_000;
        /// Number of consecutive workloads.
        workloads: u32 = 1 in 1..=100_000;
        /// Maximum number of workloads that a switch aggregates; 0: unlimited.
        capacity: u32 = 0 in 0..=1_000_000;
        /// Application whose bytes are counted.
        use_case: Case = "none" of (cases());
    }
}

/// The tree, written in the file.
const NODES: Key = Key::new(
    "nodes",
    "The tree, written as in a tree's file, instead of `size` and `rates`.",
    || "none".into(),
    || "a list of tables".into(),
);

fn drawn() -> [Choice<Drawn>; 5] {
    let [a, b, c, d] = Loads::ALL.map(|(name, loads)| (name, Drawn::From(loads), ""));
    [a, b, c, d, ("mixed", Drawn::Mixed, "")]
}

fn cases() -> [Choice<Case>; 3] {
    let [a, b] = UseCase::ALL.map(|(name, case)| (name, Some(case), ""));
    [a, b, ("none", None, "")]
}

impl Study for SoarStudy {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS, &[NODES]]
    }

    fn metrics(&self) -> &'static [Definition] {
        &METRICS
    }

    fn read(&self, section: &mut Section) -> Result<Task> {
        let setup = Setup::read(section)?;
        Ok(Box::new(move |seed, watch| setup.run(seed, watch)))
    }
}

impl Setup {
    fn read(section: &mut Section) -> Result<Self> {
        let (tree, loads) = match nodes(section)? {
            Some(tree) => {
                if let Some(key) = ["size", "rates", "loads"].into_iter().find(|key| section.has(key)) {
                    return Err(Error::config(format!(
                        "{}: only for the complete binary tree; study.nodes has its own rates and loads; leave {key} out",
                        section.place(key)
                    )));
                }
                (tree, Drawn::Given)
            }
            None => {
                let tree = binary_tree(section)?;
                (tree, Settings::loads(section)?)
            }
        };
        let name = Settings::strategy(section)?;
        let strategy = find(STRATEGIES, "strategy", &name, &section.place("strategy"))?;
        let exact = match strategy.name() {
            "soar" => Some(Exact { printed: Settings::method(section)?, root: Settings::root(section)? }),
            other if section.has("root") && Settings::root(section)? != Root::Either => {
                return Err(Error::config(format!(
                    "{}: the colour of the root is for strategy \"soar\", and study.strategy = \"{other}\"; give \"either\" or \
                     leave it out",
                    section.place("root")
                )));
            }
            _ => None,
        };
        let k = Settings::k(section)? as usize;
        let (workloads, capacity) = (Settings::workloads(section)?, Settings::capacity(section)?);
        if let Some(Exact { root: Root::Blue, .. }) = exact
            && let Some(why) = why_red(&tree, k, workloads, capacity)
        {
            return Err(Error::config(format!(
                "{} = \"blue\": the root cannot aggregate, since {why}; give \"either\" or \"red\"",
                section.place("root")
            )));
        }
        let use_case = Settings::use_case(section)?;
        if let Some(case) = use_case {
            // Every leaf has a server, if loads are drawn later.
            let leaves = || (0..tree.len() as u32).filter(|v| tree.children(*v).is_empty()).count() as u64;
            let servers = if let Drawn::Given = loads { tree.below(tree.order()[0]) } else { leaves() };
            case.check(&tree, servers).map_err(|why| Error::config(format!("{}: {why}", section.place("use_case"))))?;
        }
        Ok(Setup { tree, loads, strategy, exact, k, workloads, capacity: (capacity > 0).then_some(capacity), use_case })
    }

    /// Returns the loads of workload `number`.
    fn loads(&self, seed: Seed, number: u64) -> Result<Vec<u64>, String> {
        let law = match self.loads {
            Drawn::From(law) => law,
            Drawn::Mixed if unit(&mut seed.stream("soar.mixed", number, 0)) < 0.5 => Loads::Uniform,
            Drawn::Mixed => Loads::PowerLaw,
            Drawn::Given => return Ok((0..self.tree.len() as u32).map(|v| self.tree.load(v)).collect()),
        };
        law.draw(&self.tree, seed, number)
    }

    fn run(&self, seed: Seed, watch: Watch) -> Result<Vec<Finding>> {
        let wrong = |why: String| Error::config(format!("[study]: {why}"));
        let mut online = Online::new(&self.tree, self.capacity.unwrap_or(u32::MAX));
        let (mut phi, mut red, mut blue) = (0.0, 0.0, 0);
        let (mut bytes, mut bytes_red, mut bytes_blue) = (0, 0, 0);
        let (mut phases, mut parts) = (Phases::default(), [None; 2]);
        for number in 0..u64::from(self.workloads) {
            let tree = self.tree.with_load(self.loads(seed, number).map_err(wrong)?);
            let load = (0..tree.len() as u32).map(|v| tree.load(v)).collect();
            let place = |tree: &Tree| match self.exact {
                Some(exact) => exact.place(tree, self.k, watch, &mut phases),
                None => self.strategy.place(tree, self.k),
            };
            let placement = online.place_by(load, place).map_err(wrong)?;
            if self.exact.is_some() {
                for (number, sum) in parts.iter_mut().enumerate() {
                    *sum = part_of(&tree, &placement.blue, number).map(|part| part + sum.unwrap_or(0.0));
                }
            }
            let all = |blue: bool| vec![blue; tree.len()];
            phi += placement.phi;
            red += Placement::of(&tree, all(false)).phi;
            blue += placement.switches().count();
            if let Some(case) = self.use_case {
                case.check(&tree, tree.below(tree.order()[0])).map_err(|why| wrong(format!("use_case: {why}")))?;
                let sizes = Sizes::draw(&tree, case, Seed(seed.0 ^ number << 32));
                bytes += sizes.on_links(&tree, &placement.blue);
                bytes_red += sizes.on_links(&tree, &all(false));
                bytes_blue += sizes.on_links(&tree, &all(true));
            }
        }
        let ratio = |metric: &str, a: u64, b: u64| Finding {
            value: (b > 0).then(|| a as f64 / b as f64),
            ..Finding::new(metric, "ratio", 0.0)
        };
        let part = |metric: &str, number: usize| Finding { value: parts[number], ..Finding::new(metric, "s", 0.0) };
        let mut found = vec![
            Finding::new("utilisation_ratio", "ratio", phi / red),
            Finding::new("phi", "s", phi),
            Finding::new("blue", "switches", blue as f64),
            ratio("bytes_ratio", bytes, bytes_red),
            ratio("bytes_over_all_blue", bytes, bytes_blue),
        ];
        if self.exact.is_some() {
            found.extend([part("left_phi", 0), part("right_phi", 1)]);
            found.extend(phases.findings());
        }
        Ok(found)
    }
}

/// Returns why the root cannot aggregate for every workload, if it cannot.
fn why_red(tree: &Tree, k: usize, workloads: u32, capacity: u32) -> Option<String> {
    // The root is the destination's only child.
    let root = tree.order()[0];
    if k == 0 {
        Some("study.k = 0".to_owned())
    } else if !tree.is_available(root) {
        Some(format!("switch {} is not available", tree.id(root)))
    } else if capacity > 0 && capacity < workloads {
        Some(format!("a switch aggregates for study.capacity = {capacity} of study.workloads = {workloads}"))
    } else {
        None
    }
}

/// Returns the complete binary tree with `size` and `rates`.
fn binary_tree(section: &mut Section) -> Result<Tree> {
    let size = Settings::size(section)?;
    let rates = Settings::rates(section)?;
    binary(size, rates).ok_or_else(|| {
        Error::config(format!(
            "{}: {size}; a complete binary tree with its destination has 2, 4, 8, … up to 16777216 nodes",
            section.place("size")
        ))
    })
}
