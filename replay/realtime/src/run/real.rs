//! A run in real time: driven, closed, settled, concluded.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pktgen_core::record::{
    CONTROLS, Counters, Facts, Fault, FileDigests, InterfaceCounts, Manifest, NO_CLUSTER, Note, RunState,
    STAMPS_RECEIVED, STAMPS_SENT, SteeredRow, Unseen, judge,
};
use pktgen_core::time::{NEVER, NS, SECOND, Time};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_workload::workload::Source;

use super::conclude::conclude;
use super::declared::Declared;
use super::launched::{attend, dismiss};
use super::{Meeting, Summary, Task};
use crate::capture::lateness::{LATENESS, by_host, describe, describe_by_host, write_lateness};
use crate::capture::{Records, RunDir, write_controls, write_manifest};
use crate::clock::{RunClock, Watched, reading};
use crate::driver::real_time::{self, FrameSet, OpenedRoles, RealOutcome, Roles, RunOrder, only_device};
use crate::driver::virtual_time::Outcome;
use crate::launch::LaunchedDevice;
use crate::live::Ends;
use crate::plan::{MeanRates, Plan, link_bits};
use crate::settle::{LanesOf, settle};
use crate::steer::{Steerable, Steering};
use crate::transport::middleware::HELD_SHARE;
use crate::transport::safety::link_bps;
use crate::transport::{
    Departure, End, InterfaceReading, Late, Pacing, Stamps, TransportPlan, WireCounters, card_clock,
};

/// Refuses what real time cannot do, whatever the roles of a process, before anything is sent.
pub(super) fn check(plan: &Plan) -> Result<()> {
    let kind = plan.spec.transport.kind;
    let (can, middleware) = (kind.capabilities(), &plan.spec.transport.middleware);
    let bytes = plan.spec.transport.wire_bytes(plan.parts.frame_bytes);
    if bytes > can.frame_max {
        return Err(Error::config(format!(
            "frames of up to {bytes} bytes do not fit transport \"{}\", which carries {}; {}",
            kind.name(),
            can.frame_max,
            plan.spec.transport.smaller
        )));
    }
    if plan.spec.transport.pacing == Pacing::Top && plan.parts.declared.reacts {
        return Err(Error::config(
            "transport.pacing = \"top\": these workers (endpoint.workers) react to what they receive; use \
             \"open_loop\"",
        ));
    }
    if plan.spec.transport.stamps != Stamps::None && !plan.spec.transport.has_server {
        return Err(Error::config(
            "transport.stamps: what arrives at the server is stamped, and this run has none; leave it out, or capture an interface: \
             pktgen capture --kind af_packet",
        ));
    }
    if let Some(name) = middleware.declaring(|it| can.own_time && it.by_time).next() {
        return Err(Error::config(format!(
            "transport.{name}: it depends on time, which does not pass in files; use a transport in real time"
        )));
    }
    if let Some(name) = middleware.declaring(|it| it.addresses && !can.heads).next() {
        return Err(Error::config(format!(
            "transport.{name}: frames over \"{}\" have the addresses of this host's sockets; use af_packet, af_xdp or xdp_live, \
             or leave it out",
            kind.name()
        )));
    }
    if let Some(dialect) = plan.spec.transport.dialect.filter(|dialect| dialect.headless && !can.heads) {
        return Err(Error::config(format!(
            "transport.on_wire = \"{}\": addresses say who sent an update, and of frames over kind = \"{}\" only the \
             payload travels; use ring, af_packet or af_xdp",
            dialect.word,
            kind.name()
        )));
    }
    let quantum = can.quantum_ns as Time * NS;
    if plan.spec.transport.late != Late::CatchUp && plan.spec.transport.late_limit < quantum {
        return Err(Error::config(format!(
            "transport.late_limit = {}: transport \"{}\" sends in quanta of {}, so frames are late by that much; raise the \
             limit, use late = \"catch_up\", or another transport",
            Span::from_ps(plan.spec.transport.late_limit),
            kind.name(),
            Span::from_ps(quantum)
        )));
    }
    if plan.spec.capture.goal.is_some() {
        return Err(Error::config("capture.goal is for virtual time; use capture.until"));
    }
    if plan.spec.workers.cluster_of.contains(&NO_CLUSTER) {
        return Err(Error::config("workload: background traffic is supported in virtual time only"));
    }
    Ok(())
}

impl Plan {
    /// Refuses a run of which no host could run `roles`: because of its network, its transport or the layout of its frames. The same for
    /// inspections and for runs; what depends on the host is refused when it is opened.
    pub fn check_wires(&self, roles: Roles) -> Result<()> {
        let transport = &self.spec.transport;
        if self.spec.is_real_time() {
            check(self)?;
            only_device(&self.parts.topology)?;
            if !transport.kind.capabilities().heads {
                transport.payload_heads()?;
            }
            self.check_roles(roles.of_run(transport.has_server, self.spec.is_external())?)?;
            if let Some(launch) = &self.spec.launch {
                launch.cables(transport)?;
            }
        }
        transport.dialect.map_or(Ok(()), |dialect| (dialect.open)(&self.parts.traffic()).map(drop))
    }

    /// Refuses a run whose `roles` no process could run, or not together, such as a whole run over files, or a part of one with a launched
    /// device. Inspections also show experiments whose parts run on several hosts, or one after the other.
    pub fn check_together(&self, roles: Roles) -> Result<()> {
        let transport = &self.spec.transport;
        if !self.spec.is_real_time() {
            return Ok(());
        }
        if roles.part().is_some() && self.spec.launch.is_some() {
            return Err(Error::config(
                "target.launch: a launched device belongs to a whole run in one process; leave --role and --rank out, or start the device \
                 by hand and leave [target.launch] out",
            ));
        }
        let roles = roles.of_run(transport.has_server, self.spec.is_external())?;
        transport.kind.check_together(transport, &roles.ends(transport.has_server))
    }

    /// Refuses roles whose frames cannot leave, or whose ends no host could open.
    fn check_roles(&self, roles: Roles) -> Result<()> {
        let transport = &self.spec.transport;
        // A device or a server alone may read what such workers sent elsewhere.
        if roles.workers && transport.kind.capabilities().own_time && self.parts.declared.reacts {
            return Err(Error::config(
                "endpoint.workers: these react to what comes back, and nothing comes back from files (transport.kind = \"pcap\"); \
                 use \"open_loop\"",
            ));
        }
        if roles.workers {
            transport.middleware.check(transport.wire_bytes(self.parts.frame_bytes))?;
        }
        transport.kind.check(transport, &roles.ends(transport.has_server))
    }

    /// Refuses workers whose first updates offer more than their interface's link carries, on a host whose files are below `root`.
    pub(super) fn check_rate(&self, root: &Path, source: impl FnOnce() -> Result<Box<dyn Source>>) -> Result<()> {
        let transport = &self.spec.transport;
        // Synchronous workers are paced by windows.
        if transport.pacing != Pacing::Deadlines || self.spec.training.is_some() {
            return Ok(());
        }
        let looked = (self.spec.workers.len(), self.spec.capture.until);
        offered(source()?, transport, looked).map_or(Ok(()), |(_, bps)| transport.check_link_in(root, bps))
    }
}

/// Number of updates examined for the offered rate; of many workers, a few of each.
const LOOK: usize = 100_000;
/// Number of updates of each worker then, and of all at most.
const LOOK_EACH: usize = 4;
const LOOK_MAX: usize = 1_000_000;
/// Overhead of a frame on an Ethernet link, in bytes: FCS, preamble, gap.
const BESIDE: u64 = 24;

/// Returns the packets and bits per second that the first updates of a schedule offer up to `until`, bits as on a link; `None` if all are at
/// one time.
fn offered(
    mut source: Box<dyn Source>,
    transport: &TransportPlan,
    (workers, until): (usize, Time),
) -> Option<(f64, f64)> {
    let (mut rates, mut first, mut last, mut count) = (MeanRates::default(), None, 0, 0u64);
    for _ in 0..LOOK.max(workers.saturating_mul(LOOK_EACH).min(LOOK_MAX)) {
        let Some(update) = source.peek().filter(|update| update.t_gen <= until) else { break };
        let bytes = transport.cable_bytes(update.bytes as usize) as u64;
        rates.add(update.worker, update.t_gen, link_bits(bytes, BESIDE));
        count += 1;
        last = update.t_gen;
        first.get_or_insert(last);
        source.take(&mut []);
    }
    let span = last - first.unwrap_or(last);
    // The last update has no duration.
    let pps = count.saturating_sub(1) as f64 * SECOND as f64 / span as f64;
    rates.bps().map(|bps| (pps, bps.iter().sum::<u64>() as f64))
}

/// Returns the steerable properties of a run; `None` if it has no workers here, or uses the time of files.
fn steerable(
    name: String,
    plan: &Plan,
    source: &dyn Fn() -> Result<Box<dyn Source>>,
    roles: Roles,
) -> Result<Option<Steerable>> {
    let transport = plan.spec.transport.clone();
    if !roles.workers || transport.kind.capabilities().own_time {
        return Ok(None);
    }
    let reacts = plan.parts.declared.reacts;
    let looked = (plan.spec.workers.len(), plan.spec.capture.until);
    let offered =
        if reacts { None } else { Some(offered(source()?, &transport, looked).unwrap_or((f64::INFINITY, 0.0))) };
    Ok(Some(Steerable {
        name,
        offered,
        frame_bits: ((transport.wire_bytes(plan.parts.frame_bytes) as u64 + BESIDE) * 8) as f64,
        paced: transport.pacing == Pacing::Deadlines,
        drops_late: reacts && transport.late != Late::CatchUp,
        transport,
    }))
}

/// Acquires the host's resources for this process's part of `plan`.
pub(super) fn open(
    plan: &Plan,
    source: impl Fn() -> Result<Box<dyn Source>>,
    (roles, steered): (Roles, bool),
) -> Result<OpenedRoles> {
    if roles.workers {
        plan.check_rate(Path::new("/"), &source)?;
    }
    let set = if roles.workers && attaches(plan, steered) { FrameSet::of(source()?) } else { None };
    real_time::open(&plan.parts, &plan.spec.transport, roles, set.as_ref())
}

/// Returns whether the frames may be attached to the wires: whole, at top speed, with no other rule that selects frames.
fn attaches(plan: &Plan, steered: bool) -> bool {
    let transport = &plan.spec.transport;
    transport.kind.capabilities().attaches
        && transport.pacing == Pacing::Top
        && transport.middleware.declaring(|_| true).next().is_none()
        && plan.parts.facts.raw.is_some()
        && plan.spec.capture.until == NEVER
        && !steered
}

/// Runs this process's part of `plan` and writes its run dir.
pub(super) fn run(
    plan: Plan,
    (opened, device): (OpenedRoles, Option<LaunchedDevice>),
    source: impl Fn() -> Result<Box<dyn Source>>,
    manifest: &mut Manifest,
    mut dir: RunDir,
    task: &Task,
    watched: Option<Ends>,
) -> Result<Summary> {
    let transport = plan.spec.transport.clone();
    let reacts = task.roles.workers && plan.parts.declared.reacts;
    let declared = Declared::of(&plan, task);
    let (until, records) = (plan.spec.capture.until, plan.spec.capture.records);
    let (stop, progress) = (task.stop, task.progress);
    let (about, path, began) = (manifest.clone(), dir.path().to_owned(), RefCell::new(Vec::new()));
    let meet = |meeting: &Meeting| {
        let clock = meeting.begin(&about, stop)?;
        let facts = meeting.facts(&clock, reading());
        let host = about.host.clone().into_iter().chain(facts.iter().cloned()).chain(clock.facts()).collect();
        began.replace(facts);
        // If killed from here on, it leaves a run dir that can be joined with the others.
        write_manifest(&path, &Manifest { anchor_unix_ns: clock.anchor_unix_ns(), host, ..about.clone() })?;
        Ok(clock)
    };
    let meet = task.meeting.map(|meeting| move || meet(meeting));
    let begin = meet.as_ref().map(|meet| meet as &dyn Fn() -> Result<RunClock>);
    let steering = steer(task, &path, &plan, &source)?;
    let order =
        RunOrder { plan: &transport, roles: task.roles, serve: task.serve, begin, until, stop, steering, progress };
    let clocks = (!transport.kind.capabilities().own_time).then(|| watch(&transport, task.roles));
    let interfaces = open_interfaces(&transport, task.roles);
    let counts = watched.as_ref().and_then(|ends| Some((ends.device.0.clone(), ends.device.1?)));
    let drive = |order: &RunOrder| real_time::run(plan.parts, opened, order, watched, &mut dir);
    let driven = attend(device.as_ref(), &order, counts, drive);
    let changes = steering.map(Steering::end).unwrap_or_default();
    let ((mut outcome, mut failure), dir) = or_give_up(driven, dir, manifest, !began.borrow().is_empty())?;
    // Before the device ends, and its cables with it.
    count_interfaces(&interfaces, &outcome.frames, manifest);
    dismiss(device, &mut outcome);
    compare(manifest, declared, &outcome);
    // The host does not delay frames in the time of files.
    outcome.lateness_of_others.take_if(|_| transport.kind.capabilities().own_time);
    let summary = Summary::of(&outcome, reacts, transport.pacing == Pacing::Deadlines);
    manifest.anchor_unix_ns = dir.clock().anchor_unix_ns();
    tell_clocks(manifest, clocks, &transport, task.roles, &dir.clock());
    manifest.host.extend(began.take().into_iter().chain(std::mem::take(&mut outcome.facts)));
    manifest.queues = std::mem::take(&mut outcome.queues);
    manifest.incidents.notes.append(&mut outcome.notes);
    let (path, files) = close(dir, &transport.departures.take(), manifest, (&mut failure, task))?;
    manifest.files = files;
    keep_changes(manifest, &path, &changes)?;
    keep_lateness(manifest, &path, &outcome, (task.roles, transport.pacing))?;
    if outcome.skipped > 0 {
        manifest.incidents.notes.push(Note::TooLate { frames: outcome.skipped });
    }
    if task.roles.part().is_some() {
        // A part that serves is ended by stopping it; a rank that serves, by the end of the workers.
        outcome.interrupted &= task.roles.workers || task.meeting.is_some_and(Meeting::was_left);
        let part = task.roles.part().unwrap_or("roles");
        manifest.incidents.notes.push(Note::Part { part: part.to_owned() });
        conclude(manifest, outcome_of(outcome));
    } else if records == Records::Full {
        settle_into(manifest, &path, &source, outcome, 0)?;
    } else {
        outcome.faults.push(Fault::NotSettled { records: records.to_string() });
        conclude(manifest, outcome_of(outcome));
    }
    write_manifest(&path, manifest)?;
    failure.map_or(Ok(summary), |failure| Err(until_then(failure, &path, task)))
}

/// Returns what was `driven`, with its run dir. The part of a rank that failed before it `began` is ended, without rows: the others may have
/// begun, and a whole with this part has the reason.
fn or_give_up<T>(driven: Result<T>, dir: RunDir, manifest: &mut Manifest, began: bool) -> Result<(T, RunDir)> {
    let error = match driven {
        Ok(driven) => return Ok((driven, dir)),
        Err(error) => error,
    };
    if manifest.rank.is_some() && !began {
        manifest.incidents.faults.push(Fault::RoleFailed { why: error.to_string() });
        manifest.state = RunState::Finished;
        manifest.validity = judge(&Facts::of(manifest));
        let ended = dir.close().and_then(|(path, files)| {
            manifest.files = files;
            write_manifest(&path, manifest)
        });
        // Without room for this manifest, that of the beginning stays.
        drop(ended);
    }
    Err(error)
}

/// Closes the files of a run. If they cannot be written, as on a full disk, its streams stay as they are, to be recovered, and the manifest has
/// the reason: the failure of a role, if there is one.
fn close(
    mut dir: RunDir,
    departures: &[Departure],
    manifest: &mut Manifest,
    (failure, task): (&mut Option<Error>, &Task),
) -> Result<(PathBuf, FileDigests)> {
    let path = dir.path().to_owned();
    let departed = dir.departed(departures);
    departed.and_then(|()| dir.close()).map_err(|error| {
        let why = failure.take().unwrap_or(error);
        manifest.incidents.faults.push(Fault::RoleFailed { why: why.to_string() });
        manifest.validity = judge(&Facts::of(manifest));
        // Without room for this one, that of the beginning stays.
        drop(write_manifest(&path, manifest));
        until_then(why, &path, task)
    })
}

/// Compares declared properties of the device and the limit with observations.
fn compare(manifest: &mut Manifest, declared: Option<Declared>, outcome: &RealOutcome) {
    manifest.unseen = declared.map(|declared| Unseen {
        load: declared.load(outcome),
        acks: declared.acks(outcome.counters.acks_sent, &outcome.acks),
        ..Unseen::default()
    });
    manifest.incidents.notes.extend(limited(outcome));
}

/// Share of the sending time from which on a limit that held frames back determined their rate.
const DECIDES: f64 = 0.5;

/// Returns a note if `transport.limit` determined the rate.
fn limited(outcome: &RealOutcome) -> Option<Note> {
    let (_, share) = outcome.facts.iter().find(|(name, _)| name.starts_with(HELD_SHARE))?;
    let share: f64 = share.parse().ok().filter(|share| *share >= DECIDES)?;
    Some(Note::LimitDecided { share_percent: (share * 100.0).round() as u64 })
}

/// Returns the steering of the run in `path`, if permitted.
fn steer<'a>(
    task: &Task<'a>,
    path: &Path,
    plan: &Plan,
    source: &dyn Fn() -> Result<Box<dyn Source>>,
) -> Result<Option<&'a Steering>> {
    let Some(steering) = task.steering else { return Ok(None) };
    let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    let Some(plan) = steerable(name, plan, source, task.roles)? else { return Ok(None) };
    steering.plan(plan);
    Ok(Some(steering))
}

/// Records how a run was steered, if it was; the note comes first.
fn keep_changes(manifest: &mut Manifest, path: &Path, changes: &[SteeredRow]) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    write_controls(path, changes, &mut manifest.files)?;
    manifest.clocks.insert(format!("{CONTROLS}.t_ps"), "monotonic".to_owned());
    manifest.incidents.notes.insert(0, Note::Steered { changes: changes.len() as u64 });
    Ok(())
}

/// Records the lateness of the workers' frames, if they are among the roles.
fn keep_lateness(
    manifest: &mut Manifest,
    path: &Path,
    outcome: &RealOutcome,
    (roles, pacing): (Roles, Pacing),
) -> Result<()> {
    if !roles.workers {
        return Ok(());
    }
    let length = Duration::from_nanos((outcome.counters.end_ps / NS).max(0) as u64);
    let digest = write_lateness(path, &outcome.lateness, length)?;
    manifest.files.insert(LATENESS.to_owned(), digest);
    if pacing == Pacing::Deadlines {
        manifest.host.insert("lateness".into(), describe(&outcome.lateness));
        let others = outcome.lateness_of_others.as_ref().filter(|_| !outcome.lateness.is_empty());
        manifest.pacing = others.map(|others| by_host(&outcome.lateness, others));
        manifest.host.extend(manifest.pacing.iter().map(|own| ("lateness.by_host".into(), describe_by_host(own))));
    }
    Ok(())
}

/// Adds the place of the records, if they stay, to the error that ended a run.
fn until_then(failure: Error, path: &Path, task: &Task) -> Error {
    match failure {
        Error::Host(why) if !task.is_trial => Error::Host(format!("{why}; the records up to then: {}", path.display())),
        other => other,
    }
}

/// Returns the interfaces of these roles, with their counters so far; empty if the transport uses other sockets.
fn open_interfaces(transport: &TransportPlan, roles: Roles) -> Vec<(End, InterfaceReading)> {
    let bound = transport.kind.capabilities().privileged;
    let own = End::ALL.into_iter().zip(&transport.interfaces).filter(|(end, _)| bound && roles.holds(*end));
    own.filter_map(|(end, name)| Some((end, InterfaceReading::of(name)?))).collect()
}

/// Returns the counts of an end's interface during the run, beside `frames`, which the run counted.
fn counted(end: End, before: &InterfaceReading, frames: &[(String, WireCounters)]) -> InterfaceCounts {
    let own = frames.iter().find(|(name, _)| name == end.name()).map(|(_, own)| *own);
    let received = own.map_or(0, |own| own.received);
    InterfaceCounts { sent: own.map(|own| own.sent), received, ..before.since(end.name()) }
}

/// Adds counters and links of interfaces to the manifest.
fn count_interfaces(
    interfaces: &[(End, InterfaceReading)],
    frames: &[(String, WireCounters)],
    manifest: &mut Manifest,
) {
    manifest.interfaces = interfaces.iter().map(|(end, before)| counted(*end, before, frames)).collect();
    manifest.host.extend(links(&manifest.interfaces));
}

/// Returns the rates of links by end, if interfaces report them.
fn links(interfaces: &[InterfaceCounts]) -> Vec<(String, String)> {
    let rate = |counts: &InterfaceCounts| {
        Some((format!("link.{}", counts.end), format!("{} bit/s", link_bps(&counts.interface)?)))
    };
    interfaces.iter().filter_map(rate).collect()
}

/// Reads the host's clocks, and those of the cards of these roles, before time begins.
fn watch(transport: &TransportPlan, roles: Roles) -> Watched {
    let own =
        End::ALL.into_iter().zip(&transport.interfaces).filter(|(end, name)| roles.holds(*end) && !name.is_empty());
    let mut names: Vec<_> = own.map(|(_, name)| name.clone()).collect();
    for (_, end, _) in stamping(transport, roles).filter(|(.., stamps)| *stamps == Stamps::Card) {
        // For a socket only the address is written.
        let more = transport.interface_at(end).filter(|name| !names.contains(name));
        names.extend(more);
    }
    let cards: Vec<_> = names.into_iter().map(|name| (name.clone(), card_clock(&name))).collect();
    Watched::begin(&cards)
}

/// Records the state of the host's clocks, and the offsets of stamp clocks from the run's.
fn tell_clocks(
    manifest: &mut Manifest,
    clocks: Option<Watched>,
    transport: &TransportPlan,
    roles: Roles,
    run: &RunClock,
) {
    manifest.host.extend(run.facts());
    let Some(seen) = clocks.map(Watched::end) else { return };
    manifest.host.extend(seen.facts());
    for (column, end, stamps) in stamping(transport, roles) {
        let interface = transport.interface_at(end).unwrap_or_default();
        manifest.clocks.extend(stamps.domain(&interface).map(|domain| (column.to_owned(), domain)));
        let card = (stamps == Stamps::Card).then_some(interface.as_str());
        match seen.stamp_clock(card, run.anchor_monotonic_ns()) {
            Ok(clock) => drop(manifest.stamp_clocks.insert(column.to_owned(), clock)),
            Err(why) => {
                manifest.incidents.notes.push(Note::StampClock { column: column.to_owned(), why });
            }
        }
    }
}

/// Returns the columns of stamps that these roles write, with the end and the source of each.
fn stamping(transport: &TransportPlan, roles: Roles) -> impl Iterator<Item = (&'static str, End, Stamps)> {
    let (received, sent) = (transport.stamps, transport.departure_stamps());
    let all = [(STAMPS_RECEIVED, End::Server, received), (STAMPS_SENT, End::Workers, sent)];
    all.into_iter().filter(move |(_, end, stamps)| *stamps != Stamps::None && roles.holds(*end))
}

fn outcome_of(outcome: RealOutcome) -> Outcome {
    Outcome {
        counters: outcome.counters,
        ledger: outcome.ledger,
        interrupted: outcome.interrupted,
        cut: outcome.cut,
        beyond_horizon: false,
        goal_reached: false,
        source_failure: None,
        faults: outcome.faults,
        note: None,
        events: 0,
        leaked: 0,
    }
}

/// Settles the account of a whole run in `path`, and judges its validity. `slack` is the maximum offset between the clocks of its parts.
pub(super) fn settle_into(
    manifest: &mut Manifest,
    path: &Path,
    source: &dyn Fn() -> Result<Box<dyn Source>>,
    outcome: RealOutcome,
    slack: Time,
) -> Result<()> {
    settle_outcome(manifest, path, source, outcome_of(outcome), slack)
}

/// Settles the outcome of a driver of either time.
pub(super) fn settle_outcome(
    manifest: &mut Manifest,
    path: &Path,
    source: &dyn Fn() -> Result<Box<dyn Source>>,
    outcome: Outcome,
    slack: Time,
) -> Result<()> {
    let mut settled = settle(path, source()?.as_mut(), outcome.ledger, slack)?;
    settled.ledger.came_again(outcome.counters.frames_again);
    if let Some(lanes) = LanesOf::checkable(manifest) {
        settled.check_by_lanes(path, lanes, source()?.as_mut())?;
    }
    manifest.files.append(&mut settled.files);
    let (wrong, unproven) = judge_sums(settled.sums[1], &outcome.faults);
    manifest.incidents.notes.extend(unproven);
    let counters = Counters { sums_ok: settled.sums[0], sums_wrong: wrong, ..outcome.counters };
    let mut faults = outcome.faults;
    if settled.unknown > 0 {
        faults.push(Fault::NotOfWorkload { updates: settled.unknown });
    }
    conclude(manifest, Outcome { counters, faults, ledger: settled.ledger, ..outcome });
    Ok(())
}

/// Returns how many of the sums that `differ` from what the rows explain are wrong, or a note that this is not known: rows of a killed part
/// are missing behind its last whole batch, and a sum may hold, or have been merged by, one of them.
fn judge_sums(differ: u64, faults: &[Fault]) -> (u64, Option<Note>) {
    match faults.iter().any(Fault::is_kill) {
        true => (0, (differ > 0).then_some(Note::Unproven { packets: differ })),
        false => (differ, None),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use pktgen_core::config::Document;
    use pktgen_core::record::{MANIFEST_VERSION, Rank};
    use pktgen_core::seed::Seed;
    use pktgen_core::time::US;
    use pktgen_workload::workload;

    use super::*;
    use crate::capture::Wanted;
    use crate::transport::TRANSPORTS;

    #[test]
    fn errors_name_records_that_stay() {
        let stop = AtomicBool::new(false);
        let [run, trial] = [false, true].map(|is_trial| Task { is_trial, ..Task::whole(&stop) });
        let said = |task: &Task| until_then(Error::Host("w0 is down".into()), Path::new("out"), task).to_string();
        assert_eq!(said(&run), "w0 is down; the records up to then: out");
        assert_eq!(said(&trial), "w0 is down");
    }

    #[test]
    fn a_rank_that_fails_before_the_start_leaves_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = Wanted { server: true, ..Wanted::ROWS };
        let (version, part, rank) = (MANIFEST_VERSION, Some("server".to_owned()), Some(Rank::default()));
        let mut manifest = Manifest { version, part, rank, ..Manifest::default() };
        let (dir, late) = (RunDir::bare(folder.path(), wanted), Err::<(), _>(Error::config("too late")));
        assert!(or_give_up(late, dir, &mut manifest, false).is_err_and(|error| error.to_string() == "too late"));
        let kept: Manifest =
            serde_json::from_slice(&std::fs::read(folder.path().join("manifest.json")).unwrap()).unwrap();
        assert_eq!(kept.validity.faults, [Fault::RoleFailed { why: "too late".to_owned() }]);
        assert!(kept.state == RunState::Finished && kept.files.contains_key("received.parquet"), "{:?}", kept.files);
    }

    /// The rows of their members, or of their merges, may be those that are missing.
    #[test]
    fn sums_of_a_run_with_a_killed_part_are_not_known_to_be_wrong() {
        let of_part = |fault| [Fault::InPart { part: "rank 1".to_owned(), fault: Box::new(fault) }];
        assert_eq!(judge_sums(412, &of_part(Fault::Killed {})), (0, Some(Note::Unproven { packets: 412 })));
        assert_eq!(judge_sums(0, &of_part(Fault::Killed {})), (0, None));
        assert_eq!(judge_sums(412, &of_part(Fault::Interrupted {})), (412, None));
    }

    /// As in a dry run: 10,000 bits of each worker per period.
    #[test]
    fn a_schedule_offers_no_more_than_its_own_rate() {
        let until = |workers: u32, updates: u32, schedule: &str, until: Time| {
            let text = format!(
                "[workload]\nclusters = 1\nworkers_per_cluster = {workers}\nupdates = {updates}\nbytes = \"1226B\"\n\
                 [schedule]\nperiod = \"100us\"\n{schedule}"
            );
            let mut document = Document::parse(&text, "test").expect("an experiment");
            let source = workload::open(&mut document, Seed(1)).expect("a workload").source;
            offered(source, &TransportPlan::of(TRANSPORTS[0]), (workers as usize, until))
        };
        let of = |workers: u32, updates: u32, schedule: &str| until(workers, updates, schedule, NEVER);
        // Ten workers at the same times.
        for (updates, pps) in [(100, 999.0 / 9.9e-3), (2, 19.0 / 1e-4)] {
            let (packets, bits) = of(10, updates, "kind = \"grid\"\n").expect("a rate");
            assert!((packets / pps - 1.0).abs() < 1e-9, "{packets}");
            assert_eq!(bits, 1e9, "{updates} updates");
        }
        // At different ones.
        let (_, bits) = of(10, 100, "kind = \"constant\"\n").expect("a rate");
        assert!((0.99e9..=1e9).contains(&bits), "{bits}");
        assert_eq!(of(10, 1, "kind = \"grid\"\n"), None, "all at one time");
        // Up to the end, and of so many workers that the first updates are not two of each.
        let (_, bits) = until(10, 100, "kind = \"grid\"\n", 250 * US).expect("a rate");
        assert_eq!(bits, 1e9, "three of each");
        assert_eq!(until(10, 100, "kind = \"grid\"\n", 50 * US), None, "one of each");
        let (_, bits) = of(60_000, 4, "kind = \"grid\"\n").expect("a rate");
        assert_eq!(bits, 6e12, "four of each");
    }
}
