//! Sparse training as it was recorded: `workload.trace` beside `kind = "sparse"`.
//!
//! Each worker sends in its iteration i what the recorded worker sent in its iteration i, and again from the first one on when
//! the trace is over. Which parameters are hot is counted over the trace, or over a part of it (LIBRA §3.1, §3.3).

use std::collections::BTreeSet;

use super::{HotKnown, Settings, hot};
use crate::config::Section;
use crate::record::NO_CLUSTER;
use crate::seed::Seed;
use crate::sparse::hot::principle_of_counts;
use crate::sparse::recording::{Counted, PAIRS_HELD};
use crate::sparse::{self, HotFrom, PARAMETERS_MAX, Recording, Replay};
use crate::topology::Population;
use crate::trace::Reader;
use crate::workload::survey::{Survey, Traces};
use crate::{Error, Result};

/// Reads the keys of `[workload]` that count for a recording, and its traces.
pub(super) fn open(traces: &Traces, section: &mut Section, seed: Seed) -> Result<sparse::Sparse> {
    let survey = Survey::of_pairs(traces, &section.place("trace"))?;
    let told: Option<u64> = section.get_opt("parameters")?;
    let (jobs, workers_per_job) = members(&survey, section)?;
    let recording = read(&survey, told, Recording::new(jobs, workers_per_job))?;
    let longest = u32::try_from(recording.iterations()).unwrap_or(u32::MAX);
    let name = survey.legs[0].path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let replay = Replay {
        model: name,
        parameters: told.unwrap_or(recording.keys_end()),
        jobs,
        workers_per_job,
        iterations: Settings::iterations(section, longest)?,
        compute: Settings::compute(section)?.ps(),
        compute_jitter: Settings::compute_jitter(section)?,
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
        let clusters = population.cluster_of.iter().filter(|c| **c != NO_CLUSTER).collect::<BTreeSet<_>>().len().max(1);
        return Err(Error::config(format!(
            "{}: {path} has {} workers in {clusters} clusters; a job is a cluster, clusters are numbered from 0 without gaps, all have as \
             many workers, and workers are numbered cluster by cluster: `pktgen trace scale {path} --clusters {clusters} --workers N -o \
             OTHER` makes it so",
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
fn read(survey: &Survey, parameters: Option<u64>, mut recording: Recording) -> Result<Recording> {
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
    let sampled = Settings::hot_from(section)? == HotFrom::Sample;
    let rate = Settings::sample_rate(section)?;
    let counted = recording.count(if sampled { rate } else { 1.0 });
    let (updated, told) = (counted.keys.len(), section.get_opt::<u32>("hot")?);
    if updated == 0 {
        return Err(Error::config(format!(
            "{}: {rate} of {} iterations have no updates; raise it",
            section.place("sample_rate"),
            recording.iterations()
        )));
    }
    let known = HotKnown {
        hot: told.unwrap_or(0),
        is_told: told.is_some(),
        dense: 0,
        proportion: told.is_none().then_some(0.5),
    };
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Document, Value};
    use crate::sparse::Batch;
    use crate::trace::Writer;
    use crate::workload::{self, Source, Update, Workload};

    /// Cluster, worker, iteration, keys and values.
    type Row<'a> = (u16, u32, Option<u32>, &'a [u64], &'a [f32]);

    /// A trace, keys of `[workload]`, and what is said of both.
    type Case<'a> = (&'a [Row<'a>], &'a [(&'a str, Value)], &'a [&'a str]);

    fn write(path: &Path, rows: &[Row]) {
        let mut writer = Writer::create(path).unwrap();
        for (i, (cluster, worker, iteration, keys, values)) in rows.iter().copied().enumerate() {
            let seq = rows[..i].iter().filter(|row| row.1 == worker).count() as u32;
            let t_gen = i as i64;
            writer
                .push_pairs(&Update { t_gen, cluster, worker, seq, bytes: 256, reward: None, iteration }, keys, values)
                .unwrap();
        }
        writer.finish("recorded", Default::default(), "CC0-1.0").unwrap();
    }

    fn open(path: &Path, keys: &[(&str, Value)]) -> Result<Box<dyn Source>> {
        let mut keys = keys.to_vec();
        keys.push(("trace", path.display().to_string().into()));
        let mut section = Section::of("workload", &keys);
        workload::sparse::Sparse.open(&mut section, &mut Section::of("schedule", &[]), Seed(1))
    }

    const ROWS: [Row; 5] = [
        (0, 0, Some(7), &[3, 1], &[0.5, -1.0]),
        (0, 1, Some(7), &[1], &[2.0]),
        (0, 0, Some(9), &[1, 4], &[4.0, 0.0]),
        (0, 1, Some(9), &[], &[]),
        (0, 0, Some(9), &[0], &[1e-40]),
    ];

    #[test]
    fn workers_send_what_they_recorded_and_repeat_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("small.parquet");
        write(&path, &ROWS);
        let sparse = open(&path, &[("iterations", 5u32.into())]).unwrap().known().sparse().unwrap();
        assert_eq!((sparse.model(), sparse.parameters(), sparse.iterations(), sparse.workers()), ("small", 5, 5, 2));
        assert_eq!((sparse.dense(), sparse.pairs(), sparse.jobs()), (0, 2, 1));
        // Three of six updates are of key 1: half of all, so it alone is hot.
        assert_eq!((sparse.hot().len(), sparse.hot().key_of(0), sparse.hot().key_of(1)), (1, 1, u64::MAX));
        let mut batch = Batch::default();
        for iteration in 0..5 {
            sparse.batch(0, iteration, &mut batch);
            let expected: (f32, &[(u64, f32)]) =
                if iteration % 2 == 0 { (-1.0, &[(3, 0.5)]) } else { (4.0, &[(0, 1e-40), (4, 0.0)]) };
            assert_eq!((batch.hot.as_slice(), batch.cold.as_slice()), (&[(0, expected.0)][..], expected.1));
            sparse.batch(1, iteration, &mut batch);
            assert_eq!((batch.hot.len(), batch.cold.len()), (usize::from(iteration % 2 == 0), 0));
        }
        // The same trace twice: as many updates of everything, in four iterations; and the open loop has every gradient.
        let twice = Value::from(path.display().to_string());
        let plain = |value: Value| crate::config::Entry { value, origin: crate::config::Origin::Default };
        let list = Value::List(vec![plain(twice.clone()), plain(twice)]);
        let mut section = Section::of("workload", &[("trace", list)]);
        let mut source =
            workload::sparse::Sparse.open(&mut section, &mut Section::of("schedule", &[]), Seed(1)).unwrap();
        assert_eq!(source.known().sparse().unwrap().iterations(), 4);
        let mut bytes = 0;
        while let Some(update) = source.peek() {
            bytes += update.bytes as usize - crate::wire::frame::HEAD - crate::wire::update::UPDATE_HEAD;
            source.take(&mut []);
        }
        assert_eq!(bytes, 4 * 12);
    }

    #[test]
    fn hot_parameters_are_counted_in_the_trace_or_a_part_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        // Key 1 in every iteration, key 2 in most, key 3 in the last one only.
        let rows: Vec<Row> =
            (0..10).map(|i| (0, 0, Some(i), if i == 9 { &[1, 3][..] } else { &[2, 1][..] }, &[1.0, 1.0][..])).collect();
        write(&path, &rows);
        let hot = |keys: &[(&str, Value)]| {
            let sparse = open(&path, keys).map(|source| source.known().sparse().unwrap())?;
            Ok::<Vec<u64>, Error>((0..sparse.hot().len()).map(|index| sparse.hot().key_of(index)).collect())
        };
        assert_eq!(hot(&[("hot", 2u32.into())]).unwrap(), [1, 2]);
        assert_eq!(hot(&[("proportion", 0.9.into())]).unwrap(), [1, 2]);
        // One of ten iterations is the last one.
        let sample = [("hot_from", "sample".into()), ("sample_rate", 0.1.into())];
        let mut found = hot(&[&sample[..], &[("hot", 2u32.into())]].concat()).unwrap();
        found.sort_unstable();
        assert_eq!(found, [1, 3]);
        for (keys, part) in [
            (&[&sample[..], &[("hot", 3u32.into())]].concat()[..], "only 2 are updated"),
            (&[("hot", 0u32.into())], "workload.hot: 0 is not from 1"),
            (&[("hot_from", "sample".into()), ("sample_rate", 0.05.into())], "of 10 iterations have no updates"),
            (&[("sample_rate", 2.0.into())], "workload.sample_rate: 2"),
            (&[("hot", 300_000u32.into())], "holds 262144"),
        ] {
            let message = hot(keys).unwrap_err().to_string();
            assert!(message.contains(part), "{part}: {message}");
        }
    }

    #[test]
    fn clusters_are_jobs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let rows: Vec<Row> = (0..4).map(|i| ((i / 2) as u16, i, None, &[5][..], &[1.0][..])).collect();
        write(&path, &rows);
        let sparse = open(&path, &[("workers", 2u32.into())]).unwrap().known().sparse().unwrap();
        assert_eq!((sparse.jobs(), sparse.workers_per_job(), sparse.hot_of(1).key_of(0)), (2, 2, 5));
        write(&path, &rows[..3]);
        let message = open(&path, &[]).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("3 workers in 2 clusters") && message.contains("pktgen trace scale"), "{message}");
        // Clusters with gaps between their numbers are counted, too.
        let gaps: Vec<Row> = rows.iter().map(|row| (5 + 2 * row.0, row.1, row.2, row.3, row.4)).collect();
        write(&path, &gaps);
        let message = open(&path, &[]).map(|_| ()).unwrap_err().to_string();
        assert!(
            message.contains("4 workers in 2 clusters") && message.contains("--clusters 2 --workers N"),
            "{message}"
        );
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let keyless: Row = (0, 0, Some(10), &[], &[1.0]);
        let twice: Row = (0, 0, Some(9), &[4], &[1.0]);
        let short: Row = (0, 0, Some(10), &[1, 2], &[1.0]);
        let none: &[(&str, Value)] = &[];
        let cases: [Case; 9] = [
            (&[keyless], none, &["row 0", "column \"keys\" has none for 1 values", "kind = \"trace\""]),
            (&[(0, 0, None, &[], &[])], none, &["no row has pairs", "kind = \"trace\""]),
            (&[short], none, &["row 0", "2 keys for 1 values"]),
            (&[twice, twice], none, &["row 0", "key 4 is twice"]),
            (
                &ROWS,
                &[("parameters", 4u32.into())],
                &["row 2", "column \"keys\": 4 is not below 4", "workload.parameters"],
            ),
            (&[(0, 0, None, &[u64::MAX], &[1.0])], none, &["row 0", "18446744073709551615 is not below", "anew"]),
            (&ROWS, &[("workers", 16u32.into())], &["workload.workers: 16", "has 2", "--workers 16"]),
            (&ROWS, &[("jobs", 2u32.into())], &["workload.jobs: 2", "has 1", "--clusters 2"]),
            (&[], none, &["the trace is empty"]),
        ];
        for (rows, keys, parts) in cases {
            write(&path, rows);
            let message = open(&path, keys).map(|_| ()).unwrap_err().to_string();
            assert!(parts.iter().all(|part| message.contains(part)), "{parts:?}: {message}");
        }
    }

    /// Where another kind is written, the trace is updates without keys, as of any trace.
    #[test]
    fn only_a_sparse_workload_reads_pairs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        write(&path, &ROWS);
        for (kind, is_sparse) in [("sparse", true), ("rl", false), ("trace", false)] {
            let text = format!("[workload]\nkind = \"{kind}\"\ntrace = \"{}\"\nmodel = \"se\"\n", path.display());
            let mut document = Document::parse(&text, "x.toml").unwrap();
            let opened = workload::open(&mut document, Seed(1)).unwrap();
            assert_eq!(opened.source.known().sparse().is_some(), is_sparse, "{kind}");
            assert_eq!(opened.hash, crate::trace::file_hash(&path).unwrap());
            let resolved = document.resolved();
            let says = if is_sparse { "kind = \"sparse\"" } else { "kind = \"trace\"" };
            assert!(resolved.contains(says), "{resolved}");
        }
    }
}
