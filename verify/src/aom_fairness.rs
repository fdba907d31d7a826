//! AoM fairness (§6): whether the average peak Age-of-Model of every cluster is within ε of every other's.
//!
//! Registered in [`super::PROPERTIES`]; reads `[verify]` and uses [`super::decide`] for everything else.

use pktgen_core::config::{Document, SECTIONS, UNNAMED};
use pktgen_core::registry::Named;
use pktgen_core::{Error, Result};

use super::decide::{self, Case};
use super::encode::SmtModel;
use super::rate::{self, Probe, RateReport};
use super::setup::{self, Setup};
use super::solver::Solver;
use super::{Property, Question};

/// The sections that are read here.
const OURS: [&str; 4] = ["name", "about", "seed", "verify"];

/// `aom-fairness`.
pub(super) struct AomFairness;

impl Named for AomFairness {
    fn name(&self) -> &'static str {
        "aom-fairness"
    }
    fn about(&self) -> &'static str {
        "average peak Age-of-Model of any two clusters differs by at most epsilon (OLAF §6)"
    }
}

impl Property for AomFairness {
    fn open(&self, mut document: Document) -> Result<Box<dyn Question>> {
        let name = document.top("name", UNNAMED)?;
        document.top("about", "")?;
        if document.get("verify").is_none() {
            return Err(Error::config(format!(
                "{}: there is no section [verify]; docs/verify.md has its keys, configs/verify/ examples",
                document.name()
            )));
        }
        let mut section = document.section("verify")?;
        let setups = setup::read(&mut section)?;
        let find = rate::read(&mut section, setups[0].clusters.len())?;
        document.close(section)?;
        // The same file may be an experiment, whose other sections are ignored.
        document.top("seed", "1")?;
        for section in SECTIONS.iter().filter(|section| !OURS.contains(section)) {
            drop(document.section(section)?);
        }
        document.finish(&OURS)?;
        Ok(Box::new(Fairness { name, setups, find }))
    }
}

struct Fairness {
    name: String,
    setups: Vec<Setup>,
    /// The cluster whose rate is searched; `None`: all.
    find: Option<usize>,
}

impl Question for Fairness {
    fn name(&self) -> &str {
        &self.name
    }

    fn cases(&self) -> usize {
        self.setups.len()
    }

    fn script(&self, index: usize) -> String {
        SmtModel::new(&self.setups[index]).whole()
    }

    fn check(&self, index: usize, solver: &Solver) -> Result<Case> {
        decide::check(&self.setups[index], solver)
    }

    fn max_rate(&self, index: usize, solver: &Solver, progress: &mut dyn FnMut(&Probe)) -> Result<RateReport> {
        rate::search(&self.setups[index], self.find, solver, progress)
    }
}
