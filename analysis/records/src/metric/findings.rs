//! Findings of a study (`[study]` instead of a workload): those in its manifest, as lines.

use std::borrow::Cow;

use pktgen_core::Result;
use pktgen_core::definition::Definition;
use pktgen_core::record::Manifest;
use pktgen_core::registry::Named;
use pktgen_workload::study::{Finding, STUDIES, Study};
use serde_json::Value;

use super::Metric;
use crate::labels::NUMBERS;
use crate::line::Line;
use crate::resolved::Analysis;

/// See the module documentation.
pub struct Findings;

impl Named for Findings {
    fn name(&self) -> &'static str {
        "findings"
    }

    fn about(&self) -> &'static str {
        "results of studies (without a network)"
    }
}

impl Metric for Findings {
    fn definitions(&self) -> Vec<Definition> {
        declared(STUDIES)
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        out.extend(lines(&run.manifest));
        Ok(())
    }
}

/// Returns the metrics of `studies`, each once.
fn declared(studies: &[&dyn Study]) -> Vec<Definition> {
    let mut all: Vec<Definition> = Vec::new();
    for definition in studies.iter().flat_map(|study| study.metrics()) {
        if !all.contains(definition) {
            all.push(*definition);
        }
    }
    all
}

/// Returns the metrics that `studies` add to those of the stages.
pub fn added(studies: &[&dyn Study]) -> Vec<Definition> {
    let own = Findings.definitions();
    declared(studies).into_iter().filter(|definition| !own.contains(definition)).collect()
}

/// Returns all lines of a study: it has no updates to count, so no other metric has lines.
pub(crate) fn lines(manifest: &Manifest) -> impl Iterator<Item = Line> {
    manifest.findings.iter().map(line)
}

/// Returns the default columns of a study's table: the metrics that it declares, or for an unknown study those in its findings.
pub fn default_keys(manifest: &Manifest, studies: &[&'static dyn Study]) -> Vec<String> {
    let Some(kind) = &manifest.study else { return Vec::new() };
    match STUDIES.iter().chain(studies).find(|study| study.name() == kind) {
        Some(study) => study.metrics().iter().map(|definition| definition.metric.to_owned()).collect(),
        None => lines(manifest).filter_map(|line| line.key()).collect(),
    }
}

fn line(finding: &Finding) -> Line {
    let labels = finding.labels.iter().map(|(name, text)| {
        let number = NUMBERS.contains(&name.as_str()).then(|| text.parse::<u64>().ok()).flatten();
        (name.clone(), number.map_or_else(|| Value::from(text.as_str()), Value::from))
    });
    Line {
        metric: Cow::Owned(finding.metric.clone()),
        unit: Cow::Owned(finding.unit.clone()),
        value: finding.value.filter(|value| value.is_finite()),
        labels: labels.collect(),
    }
}
