//! Joins the parts of a run, from separate processes or hosts, into one run dir whose balance closes.

mod agreement;
mod parts;
mod skew;

use std::path::{Path, PathBuf};

use pktgen_core::config::{Document, Run};
use pktgen_core::record::{
    CONTROLS, Counters, Fault, Incidents, InterfaceCounts, Manifest, Note, PacingCounts, QueueCounts, RunState,
    STAMPS_RECEIVED, STAMPS_SENT,
};
use pktgen_core::time::{HORIZON, MS, Time};
use pktgen_core::{Error, Result};

use super::declared::expected;
use super::real::settle_into;
use super::shard::read;
use super::{Experiment, Finished, SWEEP, write_sweep};
use crate::capture::{PartDirs, claim, join_records, write_manifest};
use crate::catalogue::Catalogue;
use crate::driver::real_time::{RealOutcome, Roles};
use crate::plan::{Plan, source};
use crate::settle::early::{self, Early};
use crate::settle::frames_again;
use crate::target::program::Expected;
use agreement::Agreement;
use parts::{PARTS, Part, anchors, find_parts, one_execution, same_run, same_time};

pub(super) use parts::shared_config;
pub use skew::Skew;

/// Assumed offset of clocks of different hosts, unless the user states a larger one, or records show it.
const SLACK: Time = 100 * MS;
/// Maximum offset: times of runs are below the horizon.
const SLACK_MAX: Time = HORIZON / 2;

/// A joined run.
#[derive(Debug, Clone)]
pub struct Merged {
    /// The whole.
    pub finished: Finished,
    /// Difference of the senders' starts, if there were several.
    pub skew: Option<Skew>,
}

/// Joins the run dirs of workers (one process, or several with a share each), of the device and of the server, if there
/// is one, in any order, into `out`. `clock_error` is the maximum offset of the wall clocks of two hosts, if known.
/// `waived`: digests of the parts' files are not checked.
pub fn merge(
    catalogue: &'static Catalogue,
    dirs: &[PathBuf],
    out: &Path,
    clock_error: Option<Time>,
    waived: bool,
) -> Result<Merged> {
    let parts = find_parts(catalogue, dirs, out, waived)?;
    let workers = &parts[0];
    for other in &parts[1..] {
        same_run(workers, other)?;
    }
    one_execution(&parts)?;
    let (late, one_host) = anchors(&parts)?;
    // Senders' records are in the time of their schedules, which is the same for all: the parts may be apart by the difference.
    let spread = parts.iter().zip(&late).filter(|(part, _)| part.name() == PARTS[0]).map(|(_, late)| late.abs());
    let slack = if one_host { spread.max().unwrap_or(0) } else { SLACK.max(clock_error.unwrap_or(0)).min(SLACK_MAX) };
    same_time(&parts, &late, slack, one_host)?;
    let skew = Skew::of(&parts, one_host, clock_error)?;
    let mut manifest = joined(&parts, &late, one_host);
    for part in &parts {
        let of_part = |note| Note::OfPart { part: part.label(), note: Box::new(note) };
        manifest.incidents.notes.extend(part.verified.note().map(of_part));
    }
    manifest.host.extend(skew.iter().flat_map(Skew::facts));
    let name = workers.dir.join("manifest.json").display().to_string();
    let experiment = Experiment::open(catalogue, Document::parse(&workers.manifest.config, &name)?)?;
    let (run, plan) = planned(&experiment, &workers.manifest)?;
    let by_key = expected(&plan, Roles::ALL) == Expected::SumsByKey;
    manifest.incidents.only_senders_killed = only_senders_killed(&parts, by_key);
    manifest.incidents.receiver_absent = is_receiver_absent(&parts, by_key);
    parts.iter().try_for_each(|part| check_profile(&plan, &part.manifest))?;
    let _claim = claim(out)?;
    manifest.files = join_records(&records(&parts, &late), out)?;
    let agreement = Agreement::of(&parts, clock_error);
    let (mut early, mut apart) = (Early::default(), 0);
    // Packets without ids cannot be compared.
    if !one_host && !plan.parts.ledger.is_nameless() {
        early = early::arrivals(out, agreement.bound().unwrap_or(Time::MAX))?;
        apart = early::at_device(out)?;
    }
    let agreement = agreement.after(early);
    agreement.tell(&mut manifest);
    // A bound that holds says how far apart arrivals and transmissions are.
    apart = agreement.bound().unwrap_or(early.largest).max(apart);
    // Rows that were not compared may lie further apart than others.
    let slack = slack.max(apart.saturating_add(slack / 2).min(SLACK_MAX));
    let mut counters = std::mem::take(&mut manifest.counters);
    counters.frames_again += uncounted_again(&parts)?;
    let outcome = RealOutcome {
        counters,
        faults: faults(&parts),
        interrupted: parts.iter().any(|part| part.manifest.state == RunState::Interrupted),
        cut: parts.iter().any(Part::is_cut),
        ..RealOutcome::empty(plan.parts.ledger)?
    };
    let again = || source(catalogue, experiment.resolve(run)?, run.seed);
    settle_into(&mut manifest, out, &again, outcome, slack)?;
    write_manifest(out, &manifest)?;
    // A killed process did not write one.
    if let Some(sweep) = parts.iter().map(|part| part.dir.join(SWEEP)).find(|path| path.exists()) {
        write_sweep(out, &mut read(&sweep)?)?;
    }
    Ok(Merged { finished: Finished::of(out, manifest), skew })
}

/// Returns the folders of the parts' records.
fn records<'a>(parts: &'a [Part], late: &[Time]) -> PartDirs<'a> {
    let dir_of = |name: &str| {
        let found = parts.iter().zip(late).find(|(part, _)| part.name() == name);
        found.map(|(part, late)| (part.dir.as_path(), *late))
    };
    let workers = parts.iter().filter(|part| part.name() == PARTS[0]);
    PartDirs {
        workers: workers.map(|part| part.dir.as_path()).collect(),
        device: dir_of(PARTS[1]),
        server: dir_of(PARTS[2]),
        workers_receive: parts[0].manifest.training.is_some(),
    }
}

/// Returns the faults of the parts.
fn faults(parts: &[Part]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for part in parts {
        let of_part = |fault: &Fault| Fault::InPart { part: part.label(), fault: Box::new(fault.clone()) };
        faults.extend(part.manifest.validity.faults.iter().map(of_part));
    }
    faults
}

/// Returns the number of frames with results that came again, by their rows, of the workers' parts without a count: those of older
/// versions, and killed ones.
fn uncounted_again(parts: &[Part]) -> Result<u64> {
    let is_uncounted = |part: &&Part| part.name() == PARTS[0] && part.manifest.counters.frames_again == 0;
    parts.iter().filter(is_uncounted).map(|part| frames_again(&part.dir)).sum()
}

/// Returns which parts receive: the server, and workers without one, or whose device sums `by_key` and sends hot sums to them.
fn receivers(parts: &[Part], by_key: bool) -> impl Fn(&Part) -> bool + use<> {
    let has_server = parts.iter().any(|part| part.name() == PARTS[2]);
    let workers_receive = !has_server || by_key;
    move |part| part.name() == PARTS[2] || (workers_receive && part.name() == PARTS[0])
}

/// Returns whether a part that receives ended before its time began.
fn is_receiver_absent(parts: &[Part], by_key: bool) -> bool {
    let receives = receivers(parts, by_key);
    parts.iter().any(|part| receives(part) && part.is_rank() && !part.began())
}

/// Returns whether parts were killed, and none that receives.
fn only_senders_killed(parts: &[Part], by_key: bool) -> bool {
    let receives = receivers(parts, by_key);
    let is_killed = |part: &&Part| part.manifest.validity.faults.iter().any(Fault::is_kill);
    let killed: Vec<_> = parts.iter().filter(is_killed).collect();
    !killed.is_empty() && !killed.into_iter().any(receives)
}

/// Plans the only run of `experiment` again, as it `ran`. Refuses a recorded trace that was changed since: sums are recomputed from it.
pub(super) fn planned<'a>(experiment: &'a Experiment, ran: &Manifest) -> Result<(&'a Run, Plan)> {
    let run = experiment.choose(None)?;
    let plan = experiment.prepare(run)?;
    if experiment.replays_trace() && plan.spec.trace_hash != ran.trace_hash {
        return Err(Error::config(format!(
            "workload.trace was changed since the run, and sums are recomputed from it; restore the trace (sha256 {})",
            ran.trace_hash
        )));
    }
    Ok((run, plan))
}

/// Refuses a profile that was changed since the run: the account is settled by the device that it describes.
fn check_profile(plan: &Plan, ran: &Manifest) -> Result<()> {
    match (plan.spec.profile_hash(), &ran.profile_hash) {
        (Some(now), Some(then)) if now != *then => Err(Error::config(format!(
            "target.profile was changed since the run, and the account is settled by it; restore the profile (its hash was \
             {then}, and is {now})"
        ))),
        _ => Ok(()),
    }
}

/// Whether the whole says this itself: from its counters and its balance, or by the sum of its parts.
fn is_of_whole(note: &Note) -> bool {
    matches!(
        note,
        Note::Part { .. }
            | Note::CutOff { .. }
            | Note::TooLate { .. }
            | Note::CarrierChanged { .. }
            | Note::InterfaceDisagrees { .. }
    )
}

/// Returns the manifest of the whole, with the account still open.
fn joined(parts: &[Part], late: &[Time], one_host: bool) -> Manifest {
    let (mut manifest, mut stay) = (parts[0].manifest.clone(), None);
    (manifest.part, manifest.rank) = (None, None);
    // Parts of older versions have none.
    manifest.profile_hash = parts.iter().find_map(|part| part.manifest.profile_hash.clone());
    if parts.iter().filter(|part| part.name() == PARTS[0]).count() > 1 && manifest.clocks.remove(STAMPS_SENT).is_some()
    {
        manifest.stamp_clocks.clear();
        stay = Some(Note::StampsElsewhere {});
    }
    // Changes of a part that was steered stay in its folder.
    manifest.clocks.remove(&format!("{CONTROLS}.t_ps"));
    manifest.host.clear();
    manifest.incidents = Incidents::default();
    manifest.incidents.notes.extend(stay);
    manifest.state = RunState::Finished;
    if !one_host {
        manifest.incidents.notes.push(Note::DifferentHosts {});
    }
    if let Some(part) = parts.iter().find(|part| part.began()) {
        manifest.anchor_unix_ns = part.manifest.anchor_unix_ns;
    }
    for part in parts {
        let of_part = |(key, value): (&String, &String)| (format!("{}.{key}", part.prefix()), value.clone());
        manifest.host.extend(part.manifest.host.iter().map(of_part));
        let told = part.manifest.validity.notes.iter().filter(|note| !is_of_whole(note));
        for note in told {
            let note = match note {
                Note::Steered { .. } => Note::OfPart { part: part.label(), note: Box::new(note.clone()) },
                note => note.clone(),
            };
            if !manifest.incidents.notes.contains(&note) {
                manifest.incidents.notes.push(note);
            }
        }
    }
    let notes = parts.iter().flat_map(|part| &part.manifest.validity.notes);
    let frames = notes.filter_map(|note| if let Note::TooLate { frames } = note { Some(*frames) } else { None }).sum();
    manifest.incidents.notes.extend((frames > 0).then_some(Note::TooLate { frames }));
    manifest.queues.clear();
    for queue in parts.iter().flat_map(|part| &part.manifest.queues) {
        // Queues of several senders are numbered consecutively.
        let number = manifest.queues.iter().filter(|other| other.end == queue.end).count() as u32;
        manifest.queues.push(QueueCounts { queue: number, ..queue.clone() });
    }
    let pacing = parts.iter().filter_map(|part| part.manifest.pacing.as_ref());
    manifest.pacing =
        pacing.fold(None, |all: Option<PacingCounts>, own| Some(all.map_or_else(|| own.clone(), |all| all.plus(own))));
    manifest.interfaces.clear();
    for part in parts {
        let own = part.manifest.interfaces.iter();
        let labelled = own.map(|counts| InterfaceCounts { part: Some(part.prefix()), ..counts.clone() });
        manifest.interfaces.extend(labelled);
    }
    for (part, late) in parts.iter().zip(late).filter(|(part, _)| part.name() == PARTS[2]) {
        let domain = part.manifest.clocks.get_key_value(STAMPS_RECEIVED);
        manifest.clocks.extend(domain.map(|(column, domain)| (column.clone(), domain.clone())));
        let clocks = part.manifest.stamp_clocks.iter();
        manifest.stamp_clocks.extend(clocks.map(|(column, clock)| (column.clone(), clock.shifted(-late))));
    }
    for (part, late) in parts.iter().zip(late).skip(1) {
        let own = &part.manifest.counters;
        let received_ps = own.received_ps.map(|(first, last)| (first + late, last + late));
        manifest.counters.add(&Counters { end_ps: own.end_ps + late, received_ps, ..own.clone() });
    }
    manifest
}

#[cfg(test)]
mod tests {
    use parquet::arrow::ArrowWriter;
    use pktgen_core::arrow::array::RecordBatch;
    use pktgen_core::record::{PacketId, Rank, Reply, Row};

    use super::parts::testing::part;
    use super::*;

    #[test]
    fn changes_are_of_the_part_that_was_steered() {
        let mut steered = part("workers", "a", None);
        steered.manifest.validity.notes = vec![Note::Steered { changes: 3 }];
        steered.manifest.clocks.insert("controls.t_ps".to_owned(), "monotonic".to_owned());
        let label = steered.label();
        let whole = joined(&[steered], &[0], true);
        assert!(whole.clocks.is_empty());
        assert_eq!(whole.incidents.notes, [Note::OfPart { part: label, note: Box::new(Note::Steered { changes: 3 }) }]);
    }

    #[test]
    fn killed_parts_that_receive_nothing_are_only_senders() {
        let of = |by_key: bool, names: &[(&str, bool)]| {
            let parts = names.iter().map(|(name, killed)| {
                let mut part = part(name, "a", None);
                part.manifest.validity.faults = killed.then_some(Fault::Killed {}).into_iter().collect();
                part
            });
            only_senders_killed(&parts.collect::<Vec<_>>(), by_key)
        };
        let senders = [("workers", true), ("workers", false), ("server", false)];
        assert!(of(false, &senders), "results are of the server");
        assert!(!of(true, &senders), "hot sums are of the device");
        assert!(of(true, &[("workers", false), ("device", true), ("server", false)]));
        assert!(!of(false, &[("workers", false), ("server", false)]), "none was killed");
        assert!(!of(false, &[("workers", true), ("server", true)]));
        assert!(!of(false, &[("workers", true), ("workers", false)]), "they receive");
    }

    #[test]
    fn receivers_that_never_began_are_absent() {
        let parts = |began: [bool; 2]| {
            ["workers", "server"].into_iter().zip(began).map(|(name, began)| match began {
                true => part(name, "a", None),
                false => {
                    let mut part = part(name, "", None);
                    part.manifest.anchor_unix_ns = 0;
                    part
                }
            })
        };
        let of = |by_key: bool, began: [bool; 2]| {
            let ranks = parts(began).map(|mut part| {
                part.manifest.rank = Some(Rank::default());
                part
            });
            is_receiver_absent(&ranks.collect::<Vec<_>>(), by_key)
        };
        assert!(!of(true, [true, true]) && of(false, [true, false]));
        assert!(!of(false, [false, true]) && of(true, [false, true]), "workers receive sums by key");
        // Parts without ranks do not begin together.
        assert!(!is_receiver_absent(&parts([true, false]).collect::<Vec<_>>(), false));
    }

    /// A server's count, of copies without rows, does not stand for that of the workers.
    #[test]
    fn results_that_came_again_are_counted_by_the_rows_of_workers_without_a_count() {
        let row = |worker: u32| Reply {
            t_recv: 20,
            t_sent: Some(0),
            worker,
            job: 0,
            seq: 7,
            packet: PacketId::new(0, 7, 0),
            count: 2,
            degraded: false,
            again: true,
        };
        let folder = |row: Reply| {
            let dir = tempfile::tempdir().unwrap();
            let rows = RecordBatch::try_new(Reply::schema(), Reply::arrays(&[row])).unwrap();
            let file = std::fs::File::create(dir.path().join("results.parquet")).unwrap();
            let mut writer = ArrowWriter::try_new(file, Reply::schema(), None).unwrap();
            writer.write(&rows).unwrap();
            writer.close().unwrap();
            dir
        };
        let dirs = [folder(row(0)), folder(row(1))];
        let of = |workers: [u64; 2], server: u64| {
            let mut parts = [part("workers", "a", None), part("workers", "a", None), part("server", "a", None)];
            for (part, dir) in parts.iter_mut().zip(&dirs) {
                part.dir = dir.path().to_owned();
            }
            for (part, count) in parts.iter_mut().zip(workers.into_iter().chain([server])) {
                part.manifest.counters.frames_again = count;
            }
            uncounted_again(&parts).unwrap()
        };
        assert_eq!((of([0, 0], 0), of([0, 0], 3), of([5, 0], 0), of([5, 1], 0)), (2, 2, 1, 0));
    }

    #[test]
    fn notes_of_parts_are_of_the_whole_once() {
        let sender = |end: &str| {
            let mut part = part("workers", "a", None);
            let changed =
                Note::CarrierChanged { end: end.into(), interface: "e0".into(), changes: 1, state: "up".into() };
            part.manifest.validity.notes =
                vec![Note::TooLate { frames: 5 }, Note::CutOff { in_flight: 0 }, Note::DifferentHosts {}, changed];
            part
        };
        let parts = [sender("workers"), sender("workers")];
        assert!(parts.iter().all(Part::is_cut));
        let notes = joined(&parts, &[0, 0], true).incidents.notes;
        assert_eq!(notes, [Note::DifferentHosts {}, Note::TooLate { frames: 10 }]);
    }
}
