//! The tables of RFC 2544 for raw frames through a device that forwards: throughput, latency, frame loss rate, back-to-back frames (§26.1 to
//! §26.4), for each size of frame (docs/raw.md).

use std::path::Path;

use pktgen_core::config::{Document, Run};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use serde::Serialize;

use super::find_rate::{JudgedTrial, Limiter, Search, Searched, of_rate, slower};
use super::{Experiment, Finished, Task};
use crate::capture::claim;

/// Bytes of the FCS, which the frame sizes of the RFC include, and ours do not.
const FCS: u32 = 4;
/// Durations required by the RFC, in seconds: trials of throughput and loss, trials of latency; numbers of trials of
/// latency and of bursts.
const TRIAL_S: f64 = 60.0;
const LATENCY_S: f64 = 120.0;
/// Wait for residual frames after each trial (§23), in seconds.
const RESIDUAL_S: f64 = 2.0;
const LATENCIES: u32 = 20;
const BURSTS: u32 = 50;
/// Step of the loss table, relative to its first rate.
const STEP: f64 = 0.1;
/// Minimum duration of bursts at the highest rate, if nothing is lost.
const BURST_S: f64 = 2.0;

/// Parameters of the benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchmarkPlan {
    /// Sizes of frames, with FCS.
    pub sizes: Vec<u32>,
    /// Parameters of the search for throughput.
    pub search: Search,
    /// Length of a trial.
    pub trial: String,
    /// Number of trials of latency, and of bursts that must pass.
    pub repeats: u32,
    /// Whether an external device is probed first.
    pub probe: bool,
}

/// Delays of the frames of a run, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Delays {
    /// Mean.
    pub mean_ns: f64,
    /// 99 %.
    pub p99_ns: f64,
    /// The longest.
    pub max_ns: f64,
}

/// Callbacks that judge and measure runs.
pub struct Bench<'a> {
    /// Judges the loss of a run.
    pub judge: &'a mut dyn FnMut(&Finished) -> Result<JudgedTrial>,
    /// Returns the delays of a run; `None` if unknown.
    pub delays: &'a mut dyn FnMut(&Path) -> Result<Option<Delays>>,
    /// Called with the name of the next measurement.
    pub next: &'a mut dyn FnMut(&str),
}

/// Loss at a rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LossAt {
    /// The rate, in packets/s.
    pub pps: f64,
    /// Share of the frames; none if unknown.
    pub loss: Option<f64>,
}

/// The row of a frame size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizeRow {
    /// Bytes of a frame, with FCS.
    pub bytes: u32,
    /// Highest rate without loss, in packets/s; none if none was found.
    pub throughput_pps: Option<f64>,
    /// The same rate in bit/s, with FCS.
    pub throughput_bps: Option<f64>,
    /// The limiting component; none if the highest permitted rate passed.
    pub limited_by: Option<Limiter>,
    /// Delays at that rate: means over the repeats, and the longest of all.
    pub latency: Option<Delays>,
    /// Losses, from the highest tried rate downwards.
    pub losses: Vec<LossAt>,
    /// Frames of the longest burst without loss, at the highest rate of this host; none if the shortest lost.
    pub burst_frames: Option<u64>,
    /// Whether no tried burst lost a frame: the device may support longer ones.
    pub burst_is_bound: bool,
}

/// The complete benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Benchmark {
    /// Rows by size.
    pub rows: Vec<SizeRow>,
    /// Parameters that are shorter or fewer than required by the RFC; empty if none.
    pub shortened: Vec<String>,
    /// Whether the user requested a stop, so that rows are missing.
    pub interrupted: bool,
}

impl BenchmarkPlan {
    /// Returns the parameters that are shorter or fewer than required by the RFC; trials wait `residual_s` for residual frames.
    fn shortened(&self, trial_s: f64, residual_s: f64) -> Vec<String> {
        let mut all = Vec::new();
        if trial_s < TRIAL_S {
            all.push(format!("trials of throughput and loss take {trial_s} s (RFC 2544 §24: {TRIAL_S} s)"));
        }
        if trial_s < LATENCY_S {
            all.push(format!("trials of latency take {trial_s} s (§26.2: {LATENCY_S} s)"));
        }
        if residual_s < RESIDUAL_S {
            all.push(format!("trials wait {residual_s} s for residual frames, transport.linger (§23: {RESIDUAL_S} s)"));
        }
        if self.repeats < LATENCIES {
            all.push(format!("{} trials of latency (§26.2: {LATENCIES})", self.repeats));
        }
        if self.repeats < BURSTS {
            all.push(format!("the longest burst passes {} times (§26.4: {BURSTS})", self.repeats));
        }
        all
    }
}

/// Returns how many seconds trials wait for residual frames: `linger_s` if the experiment or its sweep writes it; else sets what the RFC
/// requires.
fn residual_s(document: &mut Document, run: &Run, linger_s: f64) -> Result<f64> {
    const KEY: &str = "transport.linger";
    if document.get(KEY).is_some() || run.set.iter().any(|(key, _)| key == KEY) {
        return Ok(linger_s);
    }
    document.overlay(std::iter::empty(), &[format!("{KEY}={RESIDUAL_S}s")])?;
    Ok(RESIDUAL_S)
}

/// Keys that the tables set, or that would change what they say of frames.
const OWN: [&str; 7] = [
    "workload.sizes",
    "workload.weights",
    "workload.flows",
    "workload.packets",
    "workload.frames",
    "workload.pattern",
    "schedule.stop",
];

impl Experiment {
    /// Measures the tables into `out`.
    pub fn rfc2544(
        searched: Searched,
        out: &Path,
        plan: &BenchmarkPlan,
        task: &Task,
        bench: &mut Bench,
    ) -> Result<Benchmark> {
        let span: Span = plan.trial.parse().map_err(|e| Error::config(format!("--trial {}: {e}", plan.trial)))?;
        let trial_s = span.ps() as f64 / 1e12;
        let kind = Experiment::open(searched.catalogue, searched.document.clone())?;
        let run = kind.choose(searched.run)?;
        if let Some((key, _)) = run.set.iter().find(|(key, _)| OWN.contains(&key.as_str())) {
            return Err(Error::config(format!(
                "--rfc2544: the sweep sets {key}, which the tables set themselves; leave it out"
            )));
        }
        let raw = kind.updates(run)?.known().raw.is_some();
        let is_made = ["workload.frames", "workload.pattern"].iter().all(|key| searched.document.get(key).is_none());
        if !raw || !is_made {
            return Err(Error::config(
                "--rfc2544: its frames have given sizes and must be generated; use workload.kind = \"raw\" without \
                 frames and pattern",
            ));
        }
        let (mut waiting, spec) = (searched.document.clone(), kind.draft(run)?.spec);
        // Without a wire no frame is late.
        let residual_s = match spec.is_real_time() {
            true => residual_s(&mut waiting, run, spec.transport.linger as f64 / 1e12)?,
            false => RESIDUAL_S,
        };
        if plan.probe {
            kind.probe_device(run)?;
        }
        claim(out)?.keep();
        let shortened = plan.shortened(trial_s, residual_s);
        let mut all = Benchmark { rows: Vec::new(), shortened, interrupted: false };
        for bytes in &plan.sizes {
            let mut document = waiting.clone();
            let size = bytes.checked_sub(FCS).unwrap_or_default();
            document
                .overlay(std::iter::empty(), &[format!("workload.sizes=[{size}]"), "workload.weights=[]".into()])?;
            // They would cut bursts short; trials have ends of their own.
            ["capture.until", "schedule.stop"].iter().for_each(|key| document.unset(key));
            let own = SizeBench {
                searched: Searched { document: &document, ..searched },
                out: &out.join(bytes.to_string()),
                plan,
                task,
            };
            match own.row(*bytes, bench)? {
                Some(row) => all.rows.push(row),
                None => {
                    all.interrupted = true;
                    break;
                }
            }
        }
        Ok(all)
    }
}

/// The measurements of one size.
struct SizeBench<'a> {
    searched: Searched<'a>,
    out: &'a Path,
    plan: &'a BenchmarkPlan,
    task: &'a Task<'a>,
}

impl SizeBench<'_> {
    /// Measures the row; `None` if the user requested a stop.
    fn row(&self, bytes: u32, bench: &mut Bench) -> Result<Option<SizeRow>> {
        (bench.next)(&format!("{bytes} bytes: throughput"));
        let search = self.out.join("throughput");
        let found =
            Experiment::find_rate(self.searched, &search, &self.plan.search, &self.plan.trial, self.task, bench.judge)?;
        let stopped = || self.task.stop.load(std::sync::atomic::Ordering::Relaxed);
        if stopped() {
            return Ok(None);
        }
        let mut row = SizeRow {
            bytes,
            throughput_pps: found.pps.filter(|_| found.confirmed),
            throughput_bps: None,
            limited_by: found.limited_by,
            latency: None,
            losses: Vec::new(),
            burst_frames: None,
            burst_is_bound: false,
        };
        row.throughput_bps = row.throughput_pps.map(|pps| pps * f64::from(bytes) * 8.0);
        if let Some(pps) = row.throughput_pps {
            (bench.next)(&format!("{bytes} bytes: latency"));
            row.latency = self.latency(pps, bench)?;
        }
        let highest = found.trials.iter().map(|trial| trial.pps).fold(0.0, f64::max);
        (bench.next)(&format!("{bytes} bytes: loss"));
        row.losses = self.losses(highest, bench)?;
        (bench.next)(&format!("{bytes} bytes: bursts"));
        (row.burst_frames, row.burst_is_bound) = self.bursts(highest, bench)?;
        Ok((!stopped()).then_some(row))
    }

    /// Makes and judges a run with these settings.
    fn run(&self, name: &str, set: &[String], bench: &mut Bench) -> Result<(Finished, JudgedTrial)> {
        let mut document: Document = self.searched.document.clone();
        document.overlay(std::iter::empty(), set)?;
        let experiment = Experiment::open(self.searched.catalogue, document)?.launching(self.searched.may_launch);
        let run = experiment.choose(self.searched.run)?;
        let dir = self.out.join(name);
        if dir.exists() {
            std::fs::remove_dir_all(&dir).map_err(Error::io("remove", &dir))?;
        }
        let finished = experiment.run_one(run, &dir, self.task)?;
        let judged = (bench.judge)(&finished)?;
        Ok((finished, judged))
    }

    /// Makes a trial at a rate.
    fn at(&self, name: &str, pps: f64, bench: &mut Bench) -> Result<(Finished, JudgedTrial)> {
        self.run(name, &of_rate(pps, &self.plan.trial), bench)
    }

    /// Measures §26.2, over all frames instead of one per trial.
    fn latency(&self, pps: f64, bench: &mut Bench) -> Result<Option<Delays>> {
        let mut all: Vec<Delays> = Vec::new();
        for _ in 0..self.plan.repeats.max(1) {
            let (finished, _) = self.at("latency", pps, bench)?;
            all.extend((bench.delays)(&finished.dir)?);
        }
        if all.is_empty() {
            return Ok(None);
        }
        let mean = |of: fn(&Delays) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        Ok(Some(Delays {
            mean_ns: mean(|own| own.mean_ns),
            p99_ns: mean(|own| own.p99_ns),
            max_ns: all.iter().map(|own| own.max_ns).fold(0.0, f64::max),
        }))
    }

    /// Measures §26.3: from the highest rate down in steps, until two successive ones lose nothing.
    fn losses(&self, highest: f64, bench: &mut Bench) -> Result<Vec<LossAt>> {
        let (mut losses, mut clean, mut share) = (Vec::new(), 0, 1.0);
        while clean < 2 && share > STEP / 2.0 {
            let pps = highest * share;
            let loss = match self.at("loss", pps, bench) {
                // The host refuses the rate, as it may have done in the search.
                Err(Error::Host(_)) => None,
                made => made.map(|(run, judged)| judged.loss.filter(|_| slower(&run, pps).is_none()))?,
            };
            clean = if loss == Some(0.0) { clean + 1 } else { 0 };
            losses.push(LossAt { pps, loss });
            share -= STEP;
        }
        Ok(losses)
    }

    /// Measures §26.4: the longest burst without loss, and whether no tried one lost a frame.
    fn bursts(&self, highest: f64, bench: &mut Bench) -> Result<(Option<u64>, bool)> {
        let most = (highest * BURST_S).ceil().clamp(1.0, f64::from(u32::MAX)) as u64;
        let mut passes = |frames: u64| -> Result<bool> {
            for _ in 0..self.plan.repeats.max(1) {
                let set = [
                    "workload.flows=1".to_owned(),
                    format!("workload.packets={frames}"),
                    "workload.repeat=1".into(),
                    "transport.pacing=top".into(),
                ];
                if self.run("bursts", &set, bench)?.1.loss != Some(0.0) {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        longest(most, &mut passes)
    }
}

/// Searches the longest burst that passes: doubles until one fails, then halves the gap. At most `most`, which is then a lower bound.
fn longest(most: u64, passes: &mut dyn FnMut(u64) -> Result<bool>) -> Result<(Option<u64>, bool)> {
    let (mut low, mut frames) = (0, 16.min(most));
    let mut high = loop {
        match passes(frames)? {
            false => break frames,
            true if frames >= most => return Ok((Some(frames), true)),
            true => (low, frames) = (frames, (frames * 2).min(most)),
        }
    };
    // To one frame for short bursts, to 1 % for long ones.
    while high - low > 1 + low / 100 {
        let middle = low + (high - low) / 2;
        if passes(middle)? { low = middle } else { high = middle }
    }
    Ok(((low > 0).then_some(low), false))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::run::find_rate::{Attempt, search};
    use pktgen_core::config::Value;
    use proptest::prelude::*;

    proptest! {
        /// Any capacity of a queue is found, within 1 %.
        #[test]
        fn the_longest_burst_is_found(room in 0u64..2_000_000, most in 1u64..1_000_000) {
            let mut tried = 0;
            let found = longest(most, &mut |frames| { tried += 1; Ok(frames <= room) }).unwrap();
            prop_assert!(tried < 64);
            match found {
                (Some(frames), true) => prop_assert!(frames == most && room >= most),
                (Some(frames), false) => prop_assert!(frames <= room && room < frames + 2 + frames / 100),
                (None, bound) => prop_assert!(room == 0 && !bound),
            }
        }
    }

    #[test]
    fn a_device_that_returns_nothing_is_the_limit() {
        let plan = Search { from_pps: 100.0, to_pps: 400.0, precision: 0.01, confirm: 0, trials: 40, goal: None };
        let nothing = search(&plan, 1.0, |_, _| Ok(Some(Attempt::NothingBack))).unwrap();
        assert_eq!((nothing.pps, nothing.limited_by), (None, Some(Limiter::Device)));
        let all = search(&plan, 1.0, |_, _| Ok(Some(Attempt::Passed(String::new())))).unwrap();
        assert_eq!((all.pps, all.limited_by), (Some(400.0), None));
    }

    #[test]
    fn what_is_shorter_than_the_rfc_asks_for_is_said() {
        let search = Search { from_pps: 1.0, to_pps: 1e6, precision: 0.01, confirm: 0, trials: 40, goal: None };
        let plan = |trial: &str, repeats| BenchmarkPlan {
            sizes: vec![64],
            search,
            trial: trial.into(),
            repeats,
            probe: false,
        };
        assert_eq!(plan("120s", 50).shortened(120.0, 2.0), Vec::<String>::new());
        assert_eq!(plan("2s", 3).shortened(2.0, 0.2).len(), 5);
        assert_eq!(
            plan("120s", 50).shortened(120.0, 0.2),
            ["trials wait 0.2 s for residual frames, transport.linger (§23: 2 s)"]
        );
        assert_eq!(
            plan("60s", 20).shortened(60.0, 2.0),
            ["trials of latency take 60 s (§26.2: 120 s)", "the longest burst passes 20 times (§26.4: 50)"]
        );
    }

    /// A device may hold frames for longer than other runs wait.
    #[test]
    fn trials_wait_for_residual_frames_as_the_rfc_asks_for() {
        let waits = |text: &str| {
            let mut document = Document::parse(text, "test").unwrap();
            let run = Run { labels: BTreeMap::new(), seed: 1, set: Vec::new() };
            let waited_s = residual_s(&mut document, &run, 0.3).unwrap();
            (waited_s, document.get("transport.linger").map(Value::to_label))
        };
        assert_eq!(waits("[transport]\nkind = \"af_packet\"\n"), (2.0, Some("2s".to_owned())));
        assert_eq!(waits("[transport]\nlinger = \"300ms\"\n"), (0.3, Some("300ms".to_owned())));
    }
}
