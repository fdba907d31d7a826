//! From an experiment to its source of updates: the one place where workload, schedule, trace file
//! and background traffic come together.

use sha2::{Digest, Sha256};

use super::mix::Mix;
use super::repeat::Repeat;
use super::{Source, WORKLOADS, Workload, background, edit};
use crate::config::{Document, Section};
use crate::registry::find;
use crate::schedule;
use crate::seed::Seed;
use crate::trace;
use crate::units::Span;
use crate::{Error, Result};

/// A source and where it came from.
pub struct Opened {
    /// The source.
    pub source: Box<dyn Source>,
    /// Hash of the trace file, or of the resolved workload, schedule and seed.
    pub hash: String,
    /// It repeats without end: something else must end the run.
    pub endless: bool,
}

/// Reads `[workload]` and `[schedule]` and opens the source.
///
/// A `workload.trace` replaces whatever kinds the file names, so that `--set workload.trace=FILE` replays any trace
/// in any experiment: no synthetic workload or schedule is opened, and the resolved configuration says `trace` and
/// `as_recorded`. Which keys of `[schedule]` count then: [`schedule::Tempo::read`]. Keys of the kinds that are not
/// used stay valid, so that a sweep can visit several.
pub fn open(document: &mut Document, seed: Seed) -> Result<Opened> {
    let mut section = document.section("workload")?;
    let mut schedule = document.section("schedule")?;
    let written: String = section.get("kind", "rl")?;
    let mut kind = find(WORKLOADS, "workload", &written, &section.place("kind"))?;
    let trace: Option<String> = section.get_opt("trace")?;
    if trace.is_some() {
        kind = find(WORKLOADS, "workload", "trace", "workload.trace")?;
        section.settle("kind", "trace");
    }
    let passes: u32 = section.get("repeat", 1u32)?;
    let (again, again_schedule) = (section.clone(), schedule.clone());
    let mut source = one_pass(kind, &mut section, &mut schedule, seed)?;
    if passes != 1 {
        let reopen = move || one_pass(kind, &mut again.clone(), &mut again_schedule.clone(), seed);
        source = Box::new(Repeat::new(source, passes, Box::new(reopen)));
    }
    source = edit::edited(&mut section, &mut schedule, source)?;
    let stop_is_open = schedule.get_opt::<Span>(edit::STOP)?.is_none();
    if source.population().is_empty() || source.peek().is_none() {
        return Err(Error::config(match source.failure() {
            Some(why) => format!("[workload]: there is nothing to send: {why}"),
            None => "[workload]: there is nothing to send; it has no workers or no updates".to_owned(),
        }));
    }
    section.allow(&["trace", "repeat", edit::MOVES]);
    schedule.allow(&[edit::STOP]);
    section.allow(background::BESIDE);
    for workload in WORKLOADS {
        section.allow(workload.keys());
    }
    schedule::allow_unused(&mut schedule);
    document.close(section)?;
    document.close(schedule)?;
    let hash = match trace {
        Some(path) => trusted_hash(std::path::Path::new(&path))?,
        None => {
            let mut hash = Sha256::new();
            hash.update(document.resolved_section("workload"));
            hash.update(document.resolved_section("schedule"));
            hash.update(seed.0.to_le_bytes());
            trace::hex(&hash.finalize())
        }
    };
    Ok(Opened { source, hash, endless: passes == 0 && stop_is_open })
}

/// The workload and what runs beside it, once.
fn one_pass(kind: &dyn Workload, section: &mut Section, schedule: &mut Section, seed: Seed) -> Result<Box<dyn Source>> {
    let source = kind.open(section, schedule, seed)?;
    Ok(match background::beside(section, source.population().len() as u32, seed)? {
        Some(extra) => Box::new(Mix::new(source, extra)),
        None => source,
    })
}

/// The hash of a trace, which must be the one in its manifest if it has one.
fn trusted_hash(path: &std::path::Path) -> Result<String> {
    let hash = trace::file_hash(path)?;
    match trace::TraceManifest::load(path)? {
        Some(manifest) if manifest.sha256 != hash => Err(Error::data(
            path,
            "the file does not match the hash in its manifest: one of them was changed; `pktgen trace check` tells more",
        )),
        _ => Ok(hash),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::US;
    use crate::trace::synthesise;

    /// What an experiment sends, and how it is resolved.
    fn sent(text: &str, flags: &[String]) -> Result<(Vec<super::super::Update>, String)> {
        let mut document = Document::parse(text, "x.toml")?;
        document.overlay(std::iter::empty(), flags)?;
        let mut source = open(&mut document, Seed(1))?.source;
        let mut updates = Vec::new();
        while let Some(update) = source.peek().copied() {
            updates.push(update);
            source.take(&mut []);
        }
        document.finish(&[])?;
        Ok((updates, document.resolved()))
    }

    fn rate(updates: &[super::super::Update]) -> f64 {
        let span = updates.last().unwrap().t_gen - updates[0].t_gen;
        updates.iter().map(|u| f64::from(u.bytes) * 8.0).sum::<f64>() / (span as f64 / 1e12)
    }

    const TABLE1: &str = "[workload]\nkind = \"rl\"\nupdates = 20\ncluster_sigma = 1.1\nreward_mean = 0.5\n\
        [schedule]\nkind = \"constant\"\njitter = 0.3\noffered = \"60Gbps\"\nline_rate = \"100Gbps\"\n";

    fn recorded(folder: &std::path::Path) -> (String, Vec<super::super::Update>) {
        let path = folder.join("t.parquet");
        let text = "[workload]\nupdates = 20\nbytes = \"9036B\"\n[schedule]\nkind = \"poisson\"\nperiod = \"1ms\"\n";
        let mut document = Document::parse(text, "t.toml").unwrap();
        let mut opened = open(&mut document, Seed(9)).unwrap();
        synthesise(opened.source.as_mut(), &path, false, Default::default(), &mut |_| {}).unwrap();
        (path.display().to_string(), sent(text, &[]).unwrap().0)
    }

    #[test]
    fn a_trace_takes_the_place_of_workload_and_schedule() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = recorded(folder.path());
        let (updates, resolved) = sent(TABLE1, &[format!("workload.trace={path}")]).unwrap();
        assert_eq!(updates.len(), 27 * 20);
        assert!((rate(&updates) / 60e9 - 1.0).abs() < 1e-6, "{}", rate(&updates));
        for line in ["kind = \"trace\"", "kind = \"as_recorded\"", "jitter = 0.3", "cluster_sigma = 1.1"] {
            assert!(resolved.contains(line), "{line}: {resolved}");
        }
        // What is printed can be replayed, and says the same again.
        let (again, same) = sent(&resolved, &[]).unwrap();
        assert_eq!((again, same), (updates, resolved));
    }

    #[test]
    fn a_trace_alone_keeps_its_times_and_speed_divides_them() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = recorded(folder.path());
        let alone = format!("[workload]\ntrace = \"{path}\"\n");
        let (updates, _) = sent(&alone, &[]).unwrap();
        assert_eq!(updates[0].t_gen, 0, "a replay begins with the first update");
        assert!(updates.last().unwrap().t_gen > 100 * US);
        let (half, _) = sent(&alone, &["schedule.speed=0.5".into()]).unwrap();
        assert!(half.iter().zip(&updates).all(|(h, u)| h.t_gen == 2 * u.t_gen));
        let kind = ["schedule.kind=as_recorded".to_owned(), format!("workload.trace={path}")];
        assert!((rate(&sent(TABLE1, &kind).unwrap().0) / 60e9 - 1.0).abs() < 1e-6, "offered is written, so it counts");
        for (flags, part) in [
            (vec!["schedule.speed=0"], "1e-9"),
            (vec!["schedule.offered=0bps"], "above 0"),
            (vec!["schedule.offered=1Gbps", "schedule.speed=2"], "both given"),
            (vec!["schedule.offered=1bps"], "26 days"),
            (vec!["schedule.speed=1e-9"], "26 days"),
            (vec!["schedule.kind=constnat"], "did you mean \"constant\""),
            (vec!["schedule.jiter=1"], "did you mean \"jitter\""),
        ] {
            let flags: Vec<_> = flags.into_iter().map(str::to_owned).collect();
            let message = sent(&alone, &flags).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn keys_of_other_kinds_are_valid_and_kept() {
        let base = "[workload]\npackets = 7\nupdates = 3\n[schedule]\nburst = 4\njitter = 0.1\noffered = \"1Gbps\"\n";
        for (set, count) in [("workload.kind=rl", 81), ("workload.kind=background", 28)] {
            for schedule in ["constant", "poisson", "on_off"] {
                let (updates, resolved) = sent(base, &[set.into(), format!("schedule.kind={schedule}")]).unwrap();
                assert_eq!(updates.len(), count);
                assert!(resolved.contains("burst = 4") && resolved.contains("packets = 7"), "{resolved}");
            }
        }
        let message = sent(base, &["workload.packet=1".into()]).unwrap_err().to_string();
        assert!(message.contains("did you mean \"packets\""), "{message}");
    }

    #[test]
    fn an_end_of_time_is_a_reason() {
        let text = "[workload]\nclusters = 1\nupdates = 2\nworkers_per_cluster = 64\n\
            [schedule]\nkind = \"poisson\"\nperiod = \"600h\"\n";
        let mut document = Document::parse(text, "x.toml").unwrap();
        let mut source = open(&mut document, Seed(1)).unwrap().source;
        while source.peek().is_some() {
            source.take(&mut []);
        }
        assert!(source.failure().unwrap().contains("26 days"));
    }
}
