//! Every metric with its definition: those of lines computed here and of other sources.
//!
//! Called by `pktgen explain`, from which docs/schema.md is generated, and by tests: a line without a definition is an error.

use pktgen_core::definition::Definition;
use pktgen_core::registry::Named;
use pktgen_core::study::Study;
use pktgen_records::line::Line;
use pktgen_records::metric::METRICS;
use pktgen_records::metric::findings::{self, Findings};

use crate::{baseline, group};

/// Metrics that are computed together.
#[derive(Debug, Clone)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Its metrics.
    pub definitions: Vec<Definition>,
}

/// Returns all families: those of [`METRICS`], and those of `studies`, `captures` and reports.
pub fn families(studies: &[&dyn Study], captures: &[Definition]) -> Vec<Family> {
    let of = |name, about, definitions: &[Definition]| Family { name, about, definitions: definitions.to_vec() };
    let own = METRICS.iter().map(|metric| of(metric.name(), metric.about(), &metric.definitions()));
    let more = [
        of("captures", "captures: what is in them, and what a capture alone can say", captures),
        of("groups", "reports: the groups of clusters of [[report.groups]]", &group::DEFINITIONS),
        of(
            "comparison",
            "reports: a run beside the baseline's run of the same seed at the same point",
            &baseline::DEFINITIONS,
        ),
    ];
    let added = of(Findings.name(), Findings.about(), &findings::added(studies));
    let added = Some(added).filter(|family| !family.definitions.is_empty());
    own.chain(added).chain(more).collect()
}

/// Returns the definition of a line in these families; `None` if there is none.
pub fn definition_of(line: &Line, families: &[Family]) -> Option<Definition> {
    families.iter().flat_map(|family| &family.definitions).find(|definition| line.is_of(definition)).copied()
}

#[cfg(test)]
#[path = "definitions_tests.rs"]
mod tests;
