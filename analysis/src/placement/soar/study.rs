//! SOAR's evaluation as a study: one strategy on BT(n), for one or several workloads (SOAR §5, appendix A).

use pktgen_generator::config::Section;
use pktgen_generator::definition::{Better, Definition};
use pktgen_generator::registry::{Named, find};
use pktgen_generator::seed::{Seed, unit};
use pktgen_generator::study::{Finding, Study, TIME_TAKEN, Task};
use pktgen_generator::tree::Tree;
use pktgen_generator::tree::make::{Loads, Rates, binary};
use pktgen_generator::{Error, Result};

use super::Placement;
use super::bytes::{Sizes, UseCase};
use super::online::Online;
use super::strategy::{STRATEGIES, Strategy};

/// The study.
pub struct SoarStudy;

const KEYS: [&str; 8] = ["size", "rates", "loads", "strategy", "k", "workloads", "capacity", "use_case"];

static METRICS: [Definition; 6] = [
    Definition::new(
        "utilisation_ratio",
        "ratio",
        Better::Lower,
        "φ by that of the tree without a switch that aggregates.",
    )
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
    Definition::new(
        "bytes_ratio",
        "ratio",
        Better::Lower,
        "Bytes on all links by those without a switch that aggregates.",
    )
    .source("SOAR §5")
    .needs("study.use_case"),
    Definition::new(
        "bytes_over_all_blue",
        "ratio",
        Better::Lower,
        "Bytes on all links by those if every switch aggregates.",
    )
    .source("SOAR §5")
    .needs("study.use_case"),
    TIME_TAKEN,
];

/// What is studied.
struct Setup {
    tree: Tree,
    /// None: each workload has either, with equal chance (§5.2).
    loads: Option<Loads>,
    strategy: &'static Strategy,
    k: usize,
    workloads: u32,
    /// None: without limit.
    capacity: Option<u32>,
    use_case: Option<UseCase>,
}

impl Named for SoarStudy {
    fn name(&self) -> &'static str {
        "soar"
    }
    fn about(&self) -> &'static str {
        "what a choice of k aggregating switches saves on a binary tree, in time and in bytes (SOAR §5)"
    }
}

impl Study for SoarStudy {
    fn keys(&self) -> &'static [&'static str] {
        &KEYS
    }

    fn metrics(&self) -> &'static [Definition] {
        &METRICS
    }

    fn read(&self, section: &mut Section) -> Result<Task> {
        let setup = Setup::read(section)?;
        Ok(Box::new(move |seed| setup.run(seed)))
    }
}

impl Setup {
    fn read(section: &mut Section) -> Result<Self> {
        let size: u32 = section.get("size", 256u32)?;
        let rates = section.choose("rates", "constant", &Rates::ALL)?;
        let tree = binary(size, rates).filter(|_| size <= 1 << 24).ok_or_else(|| {
            Error::config(format!(
                "{}: {size}; a complete binary tree with its destination has 2, 4, 8, … up to 16777216 nodes",
                section.place("size")
            ))
        })?;
        let kinds = Loads::ALL.map(|(name, loads)| (name, Some(loads)));
        let loads = section.choose("loads", "uniform", &[&kinds[..], &[("mixed", None)]].concat())?;
        let name: String = section.get("strategy", "soar")?;
        let strategy = find(STRATEGIES, "strategy", &name, &section.place("strategy"))?;
        let cases = UseCase::ALL.map(|(name, case)| (name, Some(case)));
        let capacity = section.get_in("capacity", 0u32, 0..=1_000_000u32)?;
        Ok(Setup {
            tree,
            loads,
            strategy,
            k: section.get_in("k", 16u32, 0..=1_000_000u32)? as usize,
            workloads: section.get_in("workloads", 1u32, 1..=100_000u32)?,
            capacity: (capacity > 0).then_some(capacity),
            use_case: section.choose("use_case", "none", &[&cases[..], &[("none", None)]].concat())?,
        })
    }

    /// The loads of workload `number`.
    fn loads(&self, seed: Seed, number: u64) -> Vec<u64> {
        let loads = self.loads.unwrap_or_else(|| {
            let even = unit(&mut seed.stream("soar.mixed", number, 0)) < 0.5;
            if even { Loads::Uniform } else { Loads::PowerLaw }
        });
        loads.draw(&self.tree, seed, number)
    }

    fn run(&self, seed: Seed) -> Result<Vec<Finding>> {
        let wrong = |why: String| Error::config(format!("[study]: {why}"));
        let mut online = Online::new(&self.tree, self.capacity.unwrap_or(u32::MAX));
        let (mut phi, mut red, mut blue) = (0.0, 0.0, 0);
        let (mut bytes, mut bytes_red, mut bytes_blue) = (0, 0, 0);
        for number in 0..u64::from(self.workloads) {
            let tree = self.tree.with_load(self.loads(seed, number));
            let load = (0..tree.len() as u32).map(|v| tree.load(v)).collect();
            let placement = online.place(load, self.k, self.strategy).map_err(wrong)?;
            let all = |blue: bool| vec![blue; tree.len()];
            phi += placement.phi;
            red += Placement::of(&tree, all(false)).phi;
            blue += placement.switches().count();
            if let Some(case) = self.use_case {
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
        Ok(vec![
            Finding::new("utilisation_ratio", "ratio", phi / red),
            Finding::new("phi", "s", phi),
            Finding::new("blue", "switches", blue as f64),
            ratio("bytes_ratio", bytes, bytes_red),
            ratio("bytes_over_all_blue", bytes, bytes_blue),
        ])
    }
}
