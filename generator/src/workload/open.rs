//! From an experiment to its source of updates: the one place where workload, schedule, trace file
//! and background traffic come together.

use sha2::{Digest, Sha256};

use super::mix::Mix;
use super::{Source, WORKLOADS, background, trace_file};
use crate::config::Document;
use crate::registry::find;
use crate::seed::Seed;
use crate::trace;
use crate::{Error, Result};

/// A source and where it came from.
pub struct Opened {
    /// The source.
    pub source: Box<dyn Source>,
    /// Hash of the trace file, or of the resolved workload, schedule and seed.
    pub hash: String,
}

/// Reads `[workload]` and `[schedule]` and opens the source. A `workload.trace` replaces whatever
/// kind the file names, so that `--set workload.trace=FILE` replays any trace in any experiment.
pub fn open(document: &mut Document, seed: Seed) -> Result<Opened> {
    let mut section = document.section("workload")?;
    let mut schedule = document.section("schedule")?;
    let kind: String = section.get("kind", "rl")?;
    let trace: Option<String> = section.get_opt("trace")?;
    let (mut source, file_hash) = match &trace {
        None => {
            (find(WORKLOADS, "workload", &kind, &section.place("kind"))?.open(&mut section, &mut schedule, seed)?, None)
        }
        Some(path) => {
            // The synthetic workload's keys stay valid (and unused) when a trace takes its place.
            if kind != "trace" {
                find(WORKLOADS, "workload", &kind, &section.place("kind"))?.open(&mut section, &mut schedule, seed)?;
            }
            let path = std::path::Path::new(path);
            (trace_file::open(path, &mut section, &mut schedule, seed)?, Some(trace::file_hash(path)?))
        }
    };
    if let Some(extra) = background::beside(&mut section, source.population().len() as u32, seed)? {
        source = Box::new(Mix::new(source, extra));
    }
    if source.population().is_empty() || source.peek().is_none() {
        return Err(Error::config("[workload]: there is nothing to send; it has no workers or no updates"));
    }
    document.close(section)?;
    document.close(schedule)?;
    let hash = file_hash.unwrap_or_else(|| {
        let mut hash = Sha256::new();
        hash.update(document.resolved_section("workload"));
        hash.update(document.resolved_section("schedule"));
        hash.update(seed.0.to_le_bytes());
        trace::hex(&hash.finalize())
    });
    Ok(Opened { source, hash })
}
