//! Sparse training as it was recorded: `workload.trace` beside `kind = "sparse"`.
//!
//! Each worker sends in its iteration i what the recorded worker sent in its iteration i, and again from the first one on when
//! the trace is over. Which parameters are hot is counted over the trace, or over a part of it (LIBRA §3.1, §3.3).

use super::{Known, hot};
use crate::config::Section;
use crate::seed::Seed;
use crate::sparse::hot::principle_of_counts;
use crate::sparse::recording::{Counted, PAIRS_HELD};
use crate::sparse::{self, PARAMETERS_MAX, Recording, Replay};
use crate::topology::Population;
use crate::trace::Reader;
use crate::units::Span;
use crate::workload::survey::{Survey, Traces};
use crate::{Error, Result};

/// Reads the keys of `[workload]` that count for a recording, and its traces.
pub(super) fn open(traces: &Traces, section: &mut Section, seed: Seed) -> Result<sparse::Sparse> {
    let survey = Survey::make(traces, &section.place("trace"))?;
    let (jobs, workers_per_job) = members(&survey, section)?;
    let told: Option<u64> = section.get_opt("parameters")?;
    let recording = read(&survey, told)?;
    let longest = u32::try_from(recording.iterations()).unwrap_or(u32::MAX);
    let name = survey.legs[0].path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let replay = Replay {
        model: name,
        parameters: told.unwrap_or(recording.keys_end()),
        jobs,
        workers_per_job,
        iterations: section.get("iterations", longest)?,
        compute: section.get::<Span>("compute", "100ms")?.ps(),
        compute_jitter: section.get("compute_jitter", 0.0)?,
        hot: hottest(&recording, section)?,
        recording,
    };
    replay.check().map_err(|(key, why)| Error::config(format!("{}: {why}", section.place(key))))?;
    sparse::Sparse::recorded(replay, seed)
}

/// Jobs and workers of each: those of the trace, where a cluster is a job.
fn members(survey: &Survey, section: &mut Section) -> Result<(u16, u32)> {
    let (population, path) = (&survey.population, survey.legs[0].path.display());
    let jobs = population.clusters().clamp(1, usize::from(u16::MAX)) as u16;
    let workers = (population.len() / usize::from(jobs)) as u32;
    if *population != Population::regular(jobs, workers) {
        return Err(Error::config(format!(
            "{}: {path} has {} workers in {jobs} clusters; a job is a cluster, all have as many workers, and workers are numbered \
             cluster by cluster: `pktgen trace scale {path} --clusters {jobs} --workers N -o OTHER` makes it so",
            section.place("trace"),
            population.len()
        )));
    }
    for (key, flag, has) in [("jobs", "--clusters", u32::from(jobs)), ("workers", "--workers", workers)] {
        let told: u32 = section.get(key, has)?;
        if told != has {
            return Err(Error::config(format!(
                "{}: {told} {key}, but {path} has {has}; leave it out, or make a trace for it: `pktgen trace scale {path} {flag} \
                 {told} -o OTHER`",
                section.place(key)
            )));
        }
    }
    Ok((jobs, workers))
}

/// All pairs of the traces, one after the other.
fn read(survey: &Survey, parameters: Option<u64>) -> Result<Recording> {
    let first = &survey.legs[0].path;
    if survey.values > PAIRS_HELD {
        return Err(Error::data(
            first,
            format!(
                "{} pairs; a run holds at most {PAIRS_HELD} in memory: record fewer iterations or workers",
                survey.values
            ),
        ));
    }
    let end = parameters.unwrap_or(PARAMETERS_MAX);
    let mut recording = Recording::new(survey.population.len());
    for leg in &survey.legs {
        let refuse = |what: String| Error::data(&leg.path, what);
        let (mut reader, mut row) = (Reader::open(&leg.path)?, 0);
        while let Some(block) = reader.next_block()? {
            for (i, update) in block.updates.iter().enumerate() {
                let (keys, values) = (block.keys(i), block.values(i));
                if keys.is_empty() && !values.is_empty() {
                    return Err(refuse(format!(
                        "row {row}: column \"keys\" has none for {} values; workload.kind = \"sparse\" sends pairs, workload.kind = \
                         \"trace\" updates without keys",
                        values.len()
                    )));
                }
                if let Some(key) = keys.iter().find(|key| **key >= end) {
                    return Err(refuse(format!(
                        "row {row}: column \"keys\": {key} is not below {end}, the number of parameters; {}",
                        match parameters {
                            Some(_) =>
                                "raise workload.parameters, or leave it out: then it is one more than the largest key",
                            None => "number them anew",
                        }
                    )));
                }
                recording.push(row, update.worker, update.iteration, keys, values).map_err(refuse)?;
                row += 1;
            }
        }
        recording.end_file().map_err(refuse)?;
    }
    if recording.keys_end() == 0 {
        let what = "no row has pairs: columns \"keys\" and \"values\" are missing or empty; workload.kind = \"sparse\" sends \
                    pairs, workload.kind = \"trace\" updates without keys";
        return Err(Error::data(first, what));
    }
    Ok(recording)
}

/// Keys of the hot parameters. Counted over the whole trace, or over the share `sample_rate` of its iterations: §3.3 trains with a
/// sample of the data, and batches of evenly spread iterations are one. Unless something says how many: those that have half
/// of the updates, as the 30,000 of §3.1.
fn hottest(recording: &Recording, section: &mut Section) -> Result<Vec<u64>> {
    let sampled = section.choose("hot_from", "exact", &[("exact", false), ("sample", true)])?;
    let rate: f64 = section.get("sample_rate", 0.08)?;
    if !(rate > 0.0 && rate <= 1.0) {
        return Err(Error::config(format!("{}: {rate} is not above 0 and at most 1", section.place("sample_rate"))));
    }
    let counted = recording.count(if sampled { rate } else { 1.0 });
    let (updated, told) = (counted.keys.len(), section.get_opt::<u32>("hot")?);
    if updated == 0 {
        return Err(Error::config(format!(
            "{}: {rate} of {} iterations have no updates; raise it",
            section.place("sample_rate"),
            recording.iterations()
        )));
    }
    let known =
        Known { hot: told.unwrap_or(0), is_told: told.is_some(), dense: 0, proportion: told.is_none().then_some(0.5) };
    let count = hot(section, &known, |p, c| principle_of_counts(&counted.counts, p, c))?;
    fewer(&counted, count, section)
}

/// The `count` hottest: only what is updated can be.
fn fewer(counted: &Counted, count: u32, section: &Section) -> Result<Vec<u64>> {
    let updated = counted.keys.len();
    if count as usize > updated {
        return Err(Error::config(format!(
            "{}: {count} hot parameters, but only {updated} are updated in what is counted of the trace; lower it",
            section.place("hot")
        )));
    }
    Ok(counted.hottest(count as usize))
}
