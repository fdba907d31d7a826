//! A preview of a run without sending anything: the first frames as on the wire, their number and rate, and the
//! expected results. Used by `pktgen replay --dry-run`; [`compare`] compares a capture with it.

mod compare;
mod load;
mod outward;
mod parts;
mod sample;

use std::collections::BTreeMap;

use pktgen_core::Result;
use pktgen_core::time::{NEVER, Time};
use pktgen_wire::device::Profile;
use pktgen_wire::device::check::check;
use pktgen_workload::workload::Source;
use serde::Serialize;

use crate::external::Hardware;
use crate::plan::Plan;

pub use compare::{At, Compared, Mistake, Wrong, compare};
pub use load::Load;
pub use sample::FrameSample;

/// Maximum number of updates that are examined; longer workloads are marked incomplete.
pub const UPDATES_MAX: u64 = 1_000_000;

/// Expected number of packets with results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Expected {
    /// What is counted.
    pub what: &'static str,
    /// Number without aggregation and losses.
    pub most: u64,
    /// Number if every aggregate has an update of every worker in its cluster at that time; fewer only if updates are replaced or lost.
    pub fully_aggregated: u64,
}

/// A counter of the device, and its expected value after the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CounterReading {
    /// Its name on the device.
    pub name: String,
    /// How to read it.
    pub read: String,
    /// Minimum.
    pub least: u64,
    /// Maximum.
    pub most: u64,
}

/// A preview of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Draft {
    /// Name of the experiment.
    pub experiment: String,
    /// Folder of the run in its sweep.
    pub run: String,
    /// `software`, or `external`.
    pub target: &'static str,
    /// The profile, if there is one.
    pub profile: Option<String>,
    /// The transport.
    pub transport: &'static str,
    /// Wire format.
    pub format: &'static str,
    /// Passed checks against the profile.
    pub checks: Vec<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The first frames of each kind.
    pub frames: Vec<FrameSample>,
    /// Number of frames that workers would send; for workers that wait for results, without retransmissions.
    pub frames_total: u64,
    /// Their bytes on the wire, without FCS, preamble and gap; in training as if all had the largest size.
    pub bytes_total: u64,
    /// Whether all updates were examined; else the totals cover only the first ones.
    pub complete: bool,
    /// Time from the beginning to the last frame; for workers that wait for results a lower bound.
    pub duration_ps: Time,
    /// Whether each worker waits for results, so that these determine its rate.
    pub closed_loop: bool,
    /// By worker.
    pub workers: Vec<Load>,
    /// By port of the device, or by host without a profile.
    pub ports: Vec<Load>,
    /// Expected results.
    pub expected: Expected,
    /// Expected counters of the device; none if they are not known before the run.
    pub counters: Vec<CounterReading>,
}

/// Drafts a run: `per_kind` frames of each kind.
pub fn draft(mut plan: Plan, source: Box<dyn Source>, names: (&str, &str), per_kind: usize) -> Result<Draft> {
    let facts = plan.asks(names.0);
    let hardware = plan.spec.hardware.clone();
    let profile = hardware.as_ref().map(|own| own.profile.as_ref());
    let counted = load::count(&plan, source, profile)?;
    let checked = profile.map(|profile| check(profile, &facts)).unwrap_or_default();
    let mut notes: Vec<_> = checked.findings.iter().map(|finding| format!("note: {}", finding.text)).collect();
    notes.extend(plan.spec.remarks.iter().map(|note| format!("note: {note}")));
    if !counted.complete {
        notes.push(format!("note: only the first {UPDATES_MAX} updates were looked at; the run is longer"));
    }
    if let Some(key) = early_end(&plan) {
        notes.push(format!("note: totals are those without {key}, which may end the run earlier"));
    }
    let coupled = plan.spec.transport.lockstep.is_some();
    if hardware.as_ref().is_some_and(|own: &Hardware| own.external) && !plan.spec.is_real_time() && !coupled {
        notes.push(
            "note: transport.kind = \"virtual\" has no hardware; to run this, choose a transport in real time".into(),
        );
    }
    let expected = expected(&plan, &counted);
    let counters = match (profile.filter(|own| !own.counters.is_empty()), unforeseeable(&plan, &counted)) {
        (Some(_), Some(why)) => {
            notes.push(format!("note: {why}: its counters are not known beforehand"));
            Vec::new()
        }
        (Some(profile), None) => readings(profile, &counted, &expected),
        (None, _) => Vec::new(),
    };
    let target = if plan.spec.is_external() { "external" } else { "software" };
    let frames = sample::first(&mut plan, per_kind)?;
    Ok(Draft {
        experiment: names.0.to_owned(),
        run: names.1.to_owned(),
        target,
        profile: profile.map(|profile| profile.name.clone()),
        transport: plan.spec.transport.kind.name(),
        format: plan.parts.facts.protocol.format,
        checks: checked.kept,
        notes,
        frames,
        frames_total: counted.frames,
        bytes_total: counted.bytes,
        complete: counted.complete,
        duration_ps: counted.end,
        closed_loop: plan.spec.training.is_some(),
        workers: counted.workers,
        ports: counted.ports,
        expected,
        counters,
    })
}

/// Returns the expected results: packets at the server, or results at the workers.
fn expected(plan: &Plan, counted: &load::Counted) -> Expected {
    if plan.spec.training.is_some() && !plan.spec.transport.has_server {
        // A result is multicast to all workers of its job.
        let results = counted.workers.iter().map(|load| load.frames).sum();
        return Expected { what: "results at workers", most: results, fully_aggregated: results };
    }
    // An aggregate has at most one update of each worker, so a cluster needs at least as many as its busiest worker sends there.
    let mut busiest: BTreeMap<u16, u64> = BTreeMap::new();
    for ((cluster, _), updates) in &counted.members {
        let most = busiest.entry(*cluster).or_default();
        *most = (*most).max(*updates);
    }
    let full = busiest.values().sum();
    Expected { what: "packets at the server", most: counted.frames, fully_aggregated: full }
}

/// Returns the key that may end the run at a moment that depends on what comes back, if there is one.
fn early_end(plan: &Plan) -> Option<&'static str> {
    let capture = &plan.spec.capture;
    // Updates are generated at known times; in training, results determine what is sent by then.
    let is_cut = plan.spec.training.is_some() && capture.until != NEVER;
    is_cut.then_some("capture.until").or(capture.goal.map(|_| "capture.goal"))
}

/// Returns why the number of frames that the device gets is not known before the run, if it is not.
fn unforeseeable(plan: &Plan, counted: &load::Counted) -> Option<&'static str> {
    let is_training = plan.spec.training.is_some();
    // Pushes, pulls, results and their acknowledgements depend on each other.
    if is_training && plan.spec.transport.has_server {
        return Some("what training with a server sends depends on what comes back");
    }
    if !is_training && plan.parts.declared.reacts {
        return Some("a run of workers that withhold or retransmit (endpoint.workers) depends on what comes back");
    }
    if early_end(plan).is_some() {
        return Some("what is sent before the run ends (capture.until, capture.goal) depends on what comes back");
    }
    (!counted.complete).then_some("the run is longer than what was looked at")
}

/// Returns the expected readings of the profile's counters.
fn readings(profile: &Profile, counted: &load::Counted, expected: &Expected) -> Vec<CounterReading> {
    let one = |counter: &pktgen_wire::device::ProfileCounter| {
        let (least, most) = match counter.is {
            "zero" => (0, 0),
            "frames_sent" => (counted.frames, counted.frames),
            // Fewer than fully aggregated if updates are replaced or dropped.
            "frames_to_server" => (0, expected.most),
            _ => (expected.fully_aggregated, expected.most),
        };
        CounterReading { name: counter.name.clone(), read: counter.read.clone(), least, most }
    };
    profile.counters.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use pktgen_core::config::Document;
    use pktgen_wire::device::shipped::SHIPPED;

    use super::*;
    use crate::run::Experiment;

    fn drafted(text: &str) -> Result<Draft> {
        let experiment = Experiment::open(pktgen_registry::all(), Document::parse(text, "small")?)?;
        let run = &experiment.runs[0];
        draft(experiment.draft(run)?, experiment.updates(run)?, ("small", "run"), 1)
    }

    /// Workers in clusters of their own, with frames of 1250 bytes on the link: 1 Gbit/s if one comes every 10 µs.
    fn steady(clusters: u32, updates: u32, period: &str) -> String {
        format!(
            "[workload]\nclusters = {clusters}\nworkers_per_cluster = 1\nupdates = {updates}\nbytes = \"1226B\"\n\
             [schedule]\nkind = \"constant\"\nperiod = \"{period}\"\nphase = \"zero\"\n\
             [topology]\nkind = \"star\"\nhost_rate = \"1Gbps\"\n[target]\nprogram = \"forward\"\nqueue = \"fifo\"\n"
        )
    }

    #[test]
    fn a_steady_schedule_has_its_own_rate() {
        // Also where several ports get their frames at the same times.
        for (clusters, updates) in [(1, 2), (1, 1000), (3, 1000)] {
            let drafted = drafted(&steady(clusters, updates, "10us")).expect("the line rate is no overload");
            assert_eq!(drafted.ports.len(), clusters as usize);
            for load in drafted.ports.iter().chain(&drafted.workers) {
                assert_eq!(load.mean_bps, Some(1_000_000_000), "{updates}: {load:?}");
            }
        }
        let refused = drafted(&steady(1, 1000, "9.99us")).expect_err("above the line rate").to_string();
        assert!(refused.contains("carries 1.000; lower the rate"), "{refused}");
        let lone = drafted(&steady(1, 1, "10us")).expect("a draft");
        assert_eq!(lone.ports[0].mean_bps, None, "one frame has no rate");
    }

    #[test]
    fn a_line_rate_at_several_ports_is_no_overload_whatever_the_phases() {
        for (clusters, updates) in (2..=8).flat_map(|clusters| [(clusters, 5), (clusters, 1000)]) {
            let text = steady(clusters, updates, "10us").replace("phase = \"zero\"\n", "");
            let drafted = drafted(&text).expect("the line rate is no overload");
            // The phases are less than a period apart.
            let least = 1_000_000_000 / u64::from(updates + 1) * u64::from(updates - 1);
            for load in drafted.ports.iter().chain(&drafted.workers) {
                assert!(load.mean_bps.is_some_and(|mean| mean >= least), "{clusters} clusters: {load:?}");
            }
        }
        // One port of two workers, each at half of its rate.
        let apart = steady(2, 10, "20us").replace("phase = \"zero\"\n", "");
        let shared = apart.replace("kind = \"star\"", "kind = \"star\"\nhosts = 1");
        let drafted = drafted(&shared).expect("the line rate is no overload");
        assert_eq!(drafted.ports.len(), 1, "{:?}", drafted.ports);
        let sum: u64 = drafted.workers.iter().filter_map(|load| load.mean_bps).sum();
        assert_eq!(drafted.ports[0].mean_bps, Some(sum));
    }

    #[test]
    fn each_port_has_the_rate_of_its_hosts_link() {
        // Three workers of 1 Gbit/s on the one host, and one on the other.
        let with = |rate: &str| {
            let custom = format!(
                "kind = \"custom\"\nhosts = [\"a 0-2\", \"b 3\"]\ndevices = [\"s\"]\n\
                 links = [\"a s 10Gbps\", \"b s {rate} 9Gbps\", \"s ps 40Gbps\"]"
            );
            drafted(&steady(4, 10, "10us").replace("kind = \"star\"\nhost_rate = \"1Gbps\"", &custom))
        };
        let drafted = with("2Gbps").expect("no overload");
        let ports: Vec<_> =
            drafted.ports.iter().map(|port| (port.name.as_str(), port.mean_bps, port.line_bps)).collect();
        assert_eq!(ports, [("a", Some(3_000_000_000), 10_000_000_000), ("b", Some(1_000_000_000), 2_000_000_000)]);
        assert_eq!([0, 3].map(|worker: usize| drafted.workers[worker].line_bps), [10_000_000_000, 2_000_000_000]);
        let refused = with("500Mbps").expect_err("above the rate of its link").to_string();
        assert!(refused.contains("port b: 1.000 Gbit/s") && refused.contains("carries 0.500;"), "{refused}");
    }

    #[test]
    fn the_total_is_that_of_the_frames_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let profile = folder.path().join("tagged.toml");
        let shipped = SHIPPED.iter().find(|(name, _)| *name == "alveo-u55c-olaf").expect("a profile").1;
        std::fs::write(&profile, shipped.replace("group_ids = 1", "group_ids = 1\nvlan = 7")).expect("written");
        let tagged = format!("[target]\nslots = 8\nprofile = {profile:?}");
        for (layout, target, bytes) in [
            ("ours", "[target]", 1226),
            ("strict", "[target]", 1198),
            ("ours", tagged.as_str(), 1230),
            ("strict", tagged.as_str(), 1202),
        ] {
            let text = steady(1, 10, "10us").replace("[target]", target);
            let text = text + &format!("[transport]\nkind = \"ring\"\non_wire = \"{layout}\"\n");
            let drafted = drafted(&text).expect("a draft");
            assert_eq!((drafted.bytes_total, drafted.frames[0].bytes), (10 * bytes, bytes as usize), "{text}");
        }
        // 0.979 Gbit/s: frames of this layout are shorter than those of the schedule.
        let text = steady(1, 1000, "9.99us") + "[transport]\nkind = \"ring\"\non_wire = \"strict\"\n";
        assert!(drafted(&text).is_ok(), "no overload");
        // 50 bytes of one gradient, which a link carries in 60.
        let short = |period: &str| {
            let text = steady(1, 1000, period).replace("1226B", "76B");
            drafted(&(text + "[transport]\nkind = \"ring\"\non_wire = \"strict\"\n"))
        };
        let drafted = short("672ns").expect("the line rate is no overload");
        assert_eq!((drafted.bytes_total, drafted.ports[0].mean_bps), (50_000, Some(1_000_000_000)));
        assert!(short("671ns").is_err(), "above the line rate");
    }

    #[test]
    fn training_with_short_frames_lasts_as_long_as_a_link_carries_them() {
        let with = |parameters: u64| {
            let text = format!(
                "[topology]\nkind = \"rack\"\nhost_rate = \"1Gbps\"\n[endpoint]\nworkers = \"trio_ml\"\nwindow = 64\n\
                 [workload]\nkind = \"dense\"\nmodel = \"custom\"\nparameters = {parameters}\nelements = 1\nworkers = 2\n\
                 iterations = 2\ncompute = \"1ms\"\n"
            );
            drafted(&text).expect("a draft")
        };
        let (short, long) = (with(1000), with(3000));
        assert_eq!(long.bytes_total, 60 * long.frames_total);
        // Two iterations of 2000 more frames of 60 bytes and 24 beside them, each 672 ns at 1 Gbit/s.
        let longer = long.duration_ps - short.duration_ps;
        assert!((longer - 4000 * 672_000).abs() < 1000, "{longer} ps");
    }

    #[test]
    fn addresses_that_are_switched_off_are_not_shown() {
        let source = |transport: &str| {
            let named = "[target]\nprofile = \"alveo-u55c-olaf\"\nslots = 8";
            let text = steady(1, 2, "10us").replace("[target]", named) + "[transport]\n" + transport;
            let drafted = drafted(&text).expect("a draft");
            drafted.frames[0].fields.iter().find(|(name, _)| name == "ip.src").expect("an address").1.clone()
        };
        for (transport, address) in [
            ("kind = \"ring\"\n", "10.20.0.1"),
            ("kind = \"ring\"\nreaddress = false\n", "10.0.0.1"),
            // Sockets have the host's addresses.
            ("kind = \"udp\"\n", "10.0.0.1"),
            ("kind = \"virtual\"\n", "10.20.0.1"),
            ("kind = \"virtual\"\nreaddress = false\n", "10.0.0.1"),
        ] {
            assert_eq!(source(transport), address, "{transport}");
        }
    }

    #[test]
    fn counters_of_runs_that_are_not_known_are_not_foretold() {
        let of = |updates: u32, workers: &str| {
            let named = "[target]\nprofile = \"alveo-u55c-olaf\"\nslots = 8";
            let text = steady(1, updates, "10us").replace("[target]", named);
            let drafted = drafted(&format!("{text}[endpoint]\nworkers = \"{workers}\"\n")).expect("a draft");
            let is_noted = drafted.notes.iter().any(|note| note.contains("counters are not known beforehand"));
            (drafted.counters.len(), is_noted)
        };
        assert_eq!(of(10, "open_loop"), (2, false));
        assert_eq!(of(10, "transmission_control"), (0, true));
        assert_eq!(of(10, "retransmit"), (0, true));
        assert_eq!(of(UPDATES_MAX as u32 + 1, "open_loop"), (0, true));
    }

    #[test]
    fn counters_of_runs_that_end_early_are_not_foretold() {
        let updates = steady(1, 10, "10us").replace("[target]", "[target]\nprofile = \"alveo-u55c-olaf\"\nslots = 8");
        let training = "[workload]\nkind = \"dense\"\nmodel = \"resnet50\"\nscale = 0.002\nworkers = 4\niterations = 3\n\
                        elements = 256\ncompute = \"1ms\"\n[topology]\nkind = \"rack\"\n[endpoint]\nworkers = \"switchml\"\n\
                        pool = 32\n[target]\nprofile = \"tofino-switchml\"\n[transport]\nkind = \"ring\"\n";
        let updates = updates.as_str();
        for (text, capture, counters, noted) in [
            (updates, "", 2, ""),
            (updates, "until = \"45us\"", 2, ""),
            (updates, "goal = 5", 0, "capture.goal"),
            (training, "", 3, ""),
            (training, "until = \"1us\"", 0, "capture.until"),
        ] {
            let drafted = drafted(&format!("{text}[capture]\n{capture}\n")).expect("a draft");
            assert_eq!(drafted.counters.len(), counters, "{capture}");
            let is_noted = |key: &str| drafted.notes.iter().any(|note| note.contains(&format!("without {key},")));
            assert_eq!(is_noted(noted), !noted.is_empty(), "{capture}: {:?}", drafted.notes);
        }
    }

    #[test]
    fn aggregates_are_counted_in_the_cluster_in_which_a_worker_is() {
        // Worker 0 leaves after five of its ten updates: to the other cluster, or from it to a new one.
        let moved = "[[workload.moves]]\nat = \"45us\"\nworker = 0\ncluster = 1\n";
        let apart = steady(2, 10, "10us") + moved;
        let together = apart.replace("clusters = 2\nworkers_per_cluster = 1", "clusters = 1\nworkers_per_cluster = 2");
        for text in [apart, together] {
            let expected = drafted(&text).expect("a draft").expected;
            assert_eq!((expected.fully_aggregated, expected.most), (15, 20), "{text}");
        }
        let expected = drafted(&steady(2, 10, "10us")).expect("a draft").expected;
        assert_eq!((expected.fully_aggregated, expected.most), (20, 20));
    }
}
