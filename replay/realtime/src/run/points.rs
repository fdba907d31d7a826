//! The points of a sweep, planned before anything is written: mistakes, and keys that no run reads.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use pktgen_core::config::{Run, Unused};
use pktgen_core::shard::Shard;
use pktgen_core::{Error, Result};

use super::{Experiment, study};
use crate::driver::real_time::Roles;
use crate::plan::Plan;
use crate::transport::Transport;

impl Experiment {
    /// Plans one run of every point, the first time, and returns their transports; studies have none. Mistakes are found before anything is
    /// opened or written.
    pub fn transports(&self) -> Result<&[&'static dyn Transport]> {
        if let Some(kinds) = self.transports.get() {
            return Ok(kinds);
        }
        let mut kinds = Vec::new();
        self.check_points(&mut |_, plan| {
            kinds.extend(plan.map(|plan| plan.spec.transport.kind));
            Ok(())
        })?;
        Ok(self.transports.get_or_init(|| kinds))
    }

    /// Plans the part of a run that a process with these roles and this share of the workers does, and returns its transport; a study has
    /// none. Ranks begin together.
    pub fn transports_of_part(
        &self,
        run: &Run,
        roles: Roles,
        share: Shard,
        is_rank: bool,
    ) -> Result<Vec<&'static dyn Transport>> {
        match study::is_one(&self.resolve(run)?) {
            true => Ok(Vec::new()),
            false => Ok(vec![self.plan_part(run, roles, share, is_rank)?.spec.transport.kind]),
        }
    }

    /// Plans what a process with these roles and this share of the workers does of a run.
    pub(super) fn plan_part(&self, run: &Run, roles: Roles, share: Shard, is_rank: bool) -> Result<Plan> {
        let plan = self.prepare_share(run, share)?;
        plan.check_wires(roles)?;
        if roles.part().is_some() || is_rank {
            refuse_flags(&plan.spec.unused, "run")?;
            self.keep_unused(&plan.spec.unused);
        }
        if is_rank && plan.spec.transport.kind.capabilities().own_time {
            return Err(Error::config(
                "transport.kind = \"pcap\": ranks begin at one instant, and time in files is not that of hosts; use another transport",
            ));
        }
        plan.check_together(roles)?;
        Ok(plan)
    }

    /// Plans one run of every point. `each` is called with each of these runs and its plan, if it is no study.
    pub(super) fn check_points(&self, each: &mut dyn FnMut(&Run, Option<&Plan>) -> Result<()>) -> Result<()> {
        self.check_points_of(&|_| true, each)
    }

    /// The same for a process that does the runs of which `takes` is true.
    pub(super) fn check_points_of(
        &self,
        takes: &dyn Fn(&Run) -> bool,
        each: &mut dyn FnMut(&Run, Option<&Plan>) -> Result<()>,
    ) -> Result<()> {
        let plan = |run: &Run| {
            let plan = self.prepare(run)?;
            self.check_launch(&plan)?;
            Ok(plan)
        };
        let mut whole = |run: &Run, plan: Option<&Plan>| {
            plan.map_or(Ok(()), |plan| plan.check_together(Roles::ALL))?;
            each(run, plan)
        };
        self.look_at_points(&plan, takes, &mut whole)
    }

    /// Plans one run of every point for inspection.
    pub fn check_drafts(&self) -> Result<()> {
        self.look_at_points(&|run| self.draft(run), &|_| true, &mut |_, _| Ok(()))
    }

    fn look_at_points(
        &self,
        plan: &dyn Fn(&Run) -> Result<Plan>,
        takes: &dyn Fn(&Run) -> bool,
        each: &mut dyn FnMut(&Run, Option<&Plan>) -> Result<()>,
    ) -> Result<()> {
        let mut seen = HashSet::new();
        let mut points = Vec::new();
        let mut written = HashMap::new();
        for run in &self.runs {
            if !seen.insert(&run.labels) {
                continue;
            }
            let document = self.resolve(run)?;
            if study::is_one(&document) {
                let unused = study::unused(document, run.seed, self.studies)?;
                each(run, None)?;
                points.push((run, unused));
            } else {
                let plan = plan(run)?;
                plan.check_wires(Roles::ALL)?;
                self.check_files(run, &plan, takes, &mut written)?;
                each(run, Some(&plan))?;
                points.push((run, plan.spec.unused));
            }
        }
        let mut unused = self.noted(points.iter().flat_map(|(_, unused)| unused));
        for (run, own) in &points {
            if unused.is_empty() {
                break;
            }
            let document = self.resolve(run)?;
            unused.retain(|key| own.contains(key) || !document.holds(key));
        }
        refuse_flags(unused.iter().copied(), "experiment")?;
        let _ = self.unused.set(unused.into_iter().cloned().collect());
        Ok(())
    }

    /// Refuses a point of the sweep with files that two of its runs which this process `takes`, or one of another point, would write.
    /// `written` has those of the points so far, with the folders of their runs.
    pub fn check_files(
        &self,
        point: &Run,
        plan: &Plan,
        takes: &dyn Fn(&Run) -> bool,
        written: &mut HashMap<PathBuf, String>,
    ) -> Result<()> {
        for (key, file) in files(plan) {
            for run in self.runs.iter().filter(|run| run.labels == point.labels && takes(run)) {
                let folder = run.folder();
                if let Some(other) = written.insert(placed(&folder, &file), folder.clone()) {
                    return Err(Error::config(format!(
                        "transport.{key}: the runs {other} and {folder} would both write \"{file}\"; give a name without a folder, which is \
                         in the run dir of each, or choose one run (--run {folder})"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Returns those of the keys that are noted, each once, in order.
    fn noted<'a>(&self, unused: impl Iterator<Item = &'a Unused>) -> Vec<&'a Unused> {
        // What overrides a file leaves keys of it without effect, such as those of the kind that it replaces.
        let mut unused: Vec<_> = unused.filter(|key| self.overrides.is_empty() || key.origin.is_override()).collect();
        unused.sort_by_cached_key(|key| key.to_string());
        unused.dedup();
        unused
    }

    /// Keeps the keys without effect of a run that is executed without planning all points, for [`unused`](Self::unused).
    pub(super) fn keep_unused(&self, unused: &[Unused]) {
        let _ = self.unused.set(self.noted(unused.iter()).into_iter().cloned().collect());
    }

    /// Returns the keys that were written and that no run reads, since only other choices would (those of a file only where nothing
    /// overrides it); known after [`execute`](Self::execute), which plans all points first, or [`check_drafts`](Self::check_drafts),
    /// and of a single run after [`execute_part`](Self::execute_part).
    pub fn unused(&self) -> &[Unused] {
        self.unused.get().map_or(&[], Vec::as_slice)
    }
}

/// Returns the names of the files that a run writes beside its records, each with its key in `[transport]`.
pub(super) fn files(plan: &Plan) -> impl Iterator<Item = (&'static str, String)> {
    plan.spec.transport.middleware.files()
}

/// Returns the place of a file that the run in `folder` writes: relative to the folder of the sweep, unless its name is absolute.
pub(super) fn placed(folder: &str, file: &str) -> PathBuf {
    let mut place = PathBuf::new();
    for part in Path::new(folder).join(file).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if place.file_name().is_some() => {
                place.pop();
            }
            part => place.push(part),
        }
    }
    place
}

/// Refuses keys without effect that a flag has set; `whole` is what they have no effect in.
pub(super) fn refuse_flags<'a>(unused: impl IntoIterator<Item = &'a Unused>, whole: &str) -> Result<()> {
    let Some(key) = unused.into_iter().find(|key| key.origin.is_flag()) else { return Ok(()) };
    Err(Error::config(format!(
        "{}: it has no effect: nothing of this {whole} reads {} (workers that wait for results send at the pace of the results; \
         transport.limit limits their rate in real time); leave it out",
        key.origin, key.path
    )))
}

/// Returns the overrides (`key=value`), those among the `unused` of a run marked.
pub(super) fn with_unused(overrides: Vec<String>, unused: &[Unused]) -> Vec<String> {
    let told = |text: String| {
        let is_meant = |key: &Unused| text.split_once('=').is_some_and(|(path, _)| path == key.path);
        let is_unused = unused.iter().any(|key| key.origin.is_override() && is_meant(key));
        if is_unused { format!("{text} (without effect: nothing of this run reads it)") } else { text }
    };
    overrides.into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use pktgen_core::config::{Document, Origin, Value};

    use super::*;

    /// A bottleneck; one key is that of another topology.
    const SMALL: &str = "workload.updates = 3\nworkload.bytes = \"256B\"\nschedule.offered = \"1Gbps\"\n\
        target.queue = \"fifo\"\ntopology.leaves = 3\n";

    fn experiment(more: &str, flags: &[&str]) -> Experiment {
        let mut document = Document::parse(&format!("{SMALL}{more}"), "x.toml").unwrap();
        let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        document.overlay(std::iter::empty(), &flags).unwrap();
        Experiment::open(pktgen_registry::all(), document).unwrap()
    }

    fn unused(more: &str, flags: &[&str]) -> Vec<String> {
        let experiment = experiment(more, flags);
        experiment.check_points(&mut |_, _| Ok(())).unwrap();
        experiment.unused().iter().map(Unused::to_string).collect()
    }

    #[test]
    fn keys_that_no_run_reads_are_named_with_their_place() {
        assert_eq!(
            unused("", &["target.reward_threshold=2"]),
            ["target.reward_threshold (--set target.reward_threshold=2)"]
        );
        assert_eq!(unused("", &[]), ["topology.leaves (x.toml:5:10)"]);
        // Other commands read these; in a file they are theirs, and an override is meant for this run.
        assert_eq!(unused("certify.trial = \"1s\"\n", &["certify.late=1s"]), ["certify.late (--set certify.late=1s)"]);
        assert!(unused("topology.kind = \"leaf_spine\"\n", &[]).is_empty());
        let other =
            "[[sweep.variants]]\nname = \"a\"\n[[sweep.variants]]\nname = \"b\"\ntopology.kind = \"leaf_spine\"\n";
        assert!(unused(other, &[]).is_empty(), "one variant reads it");
        // Each value has a place of its own: the file's is read by nobody, the variant's by its runs.
        assert_eq!(unused(&format!("{other}topology.leaves = 4\n"), &[]), ["topology.leaves (x.toml:5:10)"]);
        let three = "[[sweep.variants]]\nname = \"a\"\n[[sweep.variants]]\nname = \"b\"\ntopology.leaves = 4\n\
            [[sweep.variants]]\nname = \"c\"\n";
        let places = unused(three, &[]);
        assert!(places.len() == 2 && places[0] != places[1], "each place once: {places:?}");
    }

    #[test]
    fn slots_are_without_effect_where_the_topology_states_those_of_all_ports() {
        let star = "topology.kind = \"star\"\n";
        assert_eq!(unused(star, &["target.slots=4"]), ["target.slots (--set target.slots=4)"]);
        assert!(unused("", &["target.slots=4"]).is_empty());
        // Those of leaves and of the root are stated, and those towards workers are not.
        let multi_hop = "topology.kind = \"multi_hop\"\ntopology.leaf_rates = [\"5Gbps\", \"5Gbps\", \"5Gbps\"]\n";
        assert!(unused(multi_hop, &["target.slots=4"]).is_empty());
    }

    #[test]
    fn all_queues_have_the_default_of_the_one_that_was_chosen() {
        let text = "workload.kind = \"dense\"\nworkload.model = \"custom\"\nworkload.parameters = 4096\n\
            workload.elements = 62\nworkload.workers = 4\nworkload.iterations = 1\nendpoint.workers = \"atp\"\n";
        for (more, slots) in [
            ("topology.kind = \"bottleneck\"\n", 65_536),
            ("topology.kind = \"star\"\n", 65_536),
            ("topology.kind = \"bottleneck\"\ntarget.queue = \"fifo\"\n", 8),
        ] {
            let document = Document::parse(&format!("{text}{more}"), "x.toml").unwrap();
            let experiment = Experiment::open(pktgen_registry::all(), document).unwrap();
            let plan = experiment.prepare(&experiment.runs[0]).unwrap();
            let config = Document::parse(&plan.spec.config, "config").unwrap();
            assert_eq!(config.get("target.slots"), Some(&Value::Integer(slots)), "{more}");
        }
    }

    #[test]
    fn keys_that_a_study_does_not_read_are_named() {
        let text = "[study]\nkind = \"float_sum\"\nmethod = \"integer\"\n";
        let mut document = Document::parse(text, "x.toml").unwrap();
        document.overlay(std::iter::empty(), &["study.steps=256".to_owned()]).unwrap();
        let experiment = Experiment::open(pktgen_registry::all(), document).unwrap();
        experiment.check_points(&mut |_, _| Ok(())).unwrap();
        let unused: Vec<_> = experiment.unused().iter().map(Unused::to_string).collect();
        assert_eq!(unused, ["study.steps (--set study.steps=256)"]);
    }

    #[test]
    fn a_flag_that_nothing_reads_is_refused() {
        let mut document = Document::parse(SMALL, "x.toml").unwrap();
        document.set("topology.leaves", 4i64.into(), Origin::Flag("--leaves 4".into())).unwrap();
        let experiment = Experiment::open(pktgen_registry::all(), document).unwrap();
        let why = experiment.check_points(&mut |_, _| Ok(())).unwrap_err().to_string();
        assert!(why.starts_with("--leaves 4: it has no effect"), "{why}");
    }

    #[test]
    fn wires_that_cannot_be_opened_are_refused_at_every_point() {
        let small = |transport: &str| format!("{SMALL}transport.kind = \"ring\"\n{transport}");
        let dense = |transport: &str| {
            format!(
                "workload.kind = \"dense\"\nworkload.model = \"custom\"\nworkload.parameters = 4096\n\
                 workload.elements = 256\nworkload.workers = 4\nworkload.iterations = 1\ntopology.kind = \"rack\"\n\
                 endpoint.workers = \"switchml\"\nendpoint.pool = 64\ntarget.pool = 1024\ntransport.kind = \"ring\"\n\
                 {transport}"
            )
        };
        let strict = small("transport.on_wire = \"strict\"\n");
        let roce = dense("transport.on_wire = \"roce\"\n");
        let limited = small("transport.limit = \"1Gbps\"\n");
        let (ring, udp) = (small(""), small("").replace("\"ring\"", "\"udp\""));
        let four = |workers: &str, down: &str| {
            format!("transport.addresses = [\"{workers}\", \"{down}\", \"127.0.0.1:3\", \"127.0.0.1:4\"]")
        };
        let mixed = four("127.0.0.1:1", "[::1]:2");
        let no_port = four("127.0.0.1:1", "127.0.0.1:0");
        let twice = four("127.0.0.1:1", "127.0.0.1:1");
        let (any, both) = (four("127.0.0.1:0", "127.0.0.1:2"), four("127.0.0.1:0", "127.0.0.1:0"));
        let any_server = any.replace("127.0.0.1:4", "127.0.0.1:0");
        let (here, elsewhere) = (four("127.0.0.1:1", "127.0.0.1:2"), four("203.0.113.7:1", "203.0.113.8:1"));
        let card = format!("{udp}target.kind = \"external\"\ntarget.profile = \"alveo-u55c-olaf\"\n{here}\n");
        for (base, later, part) in [
            (&strict, "endpoint.workers = \"retransmit\"", "each must be sent once"),
            (&strict, "endpoint.workers = \"open_loop\"", ""),
            (&small(""), "endpoint.workers = \"retransmit\"", ""),
            (&small(""), "topology.kind = \"leaf_spine\"", "there is one device"),
            (&small(""), "transport.kind = \"udp\"", ""),
            (&roce, "endpoint.pool = 600", "600 packets under way"),
            (&roce, "endpoint.pool = 512", ""),
            (&dense(""), "endpoint.pool = 600", ""),
            (&dense(""), "transport.kind = \"udp\"", "nothing in the packets of these workers"),
            (&ring, "workload.background_rate = \"1Mbps\"", "background traffic"),
            (&ring, "transport.pacing = \"top\"\nendpoint.workers = \"retransmit\"", "transport.pacing = \"top\""),
            (&ring, "transport.pacing = \"top\"", ""),
            (&ring, "transport.kind = \"pcap\"\nendpoint.workers = \"retransmit\"", "nothing comes back from files"),
            // Cores depend on the host.
            (&ring, "transport.cores = [9999]", ""),
            (&udp, "transport.stamps = \"card\"", "the loopback interface has no card"),
            (&udp, "transport.stamps = \"kernel\"", ""),
            (&udp, "transport.addresses = [\"127.0.0.1:1\"]", "transport.addresses has 1 entries"),
            (&udp, mixed.as_str(), "both must be IPv4"),
            (&udp, no_port.as_str(), "nothing is at port 0"),
            (&udp, twice.as_str(), "127.0.0.1:1 is given for workers and for device.down"),
            (&udp, any.as_str(), "127.0.0.1:0 is given for workers"),
            // An external device answers to the source.
            (&card, any.as_str(), ""),
            (&card, any_server.as_str(), "127.0.0.1:0 is given for server"),
            (&card, both.as_str(), "nothing is at port 0"),
            (&udp, here.as_str(), ""),
            (&udp, elsewhere.as_str(), ""),
            (&limited, "transport.limit_burst = \"128B\"", "transport.limit_burst: 128B is below"),
            (&limited, "transport.limit_burst = \"9000B\"", ""),
        ] {
            let points = "[[sweep.variants]]\nname = \"a\"\n[[sweep.variants]]\nname = \"b\"";
            let document = Document::parse(&format!("{base}{points}\n{later}\n"), "x.toml").unwrap();
            let experiment = Experiment::open(pktgen_registry::all(), document).unwrap();
            for found in [experiment.check_points(&mut |_, _| Ok(())), experiment.check_drafts()] {
                let why = found.err().map(|why| why.to_string()).unwrap_or_default();
                assert!(why.contains(part) && why.is_empty() == part.is_empty(), "{later}: {why}");
            }
        }
    }

    /// An inspection is of all parts, which several processes may have.
    #[test]
    fn a_whole_run_over_files_is_refused_and_an_inspection_of_it_is_not() {
        let experiment = experiment("transport.kind = \"pcap\"\n", &[]);
        let why = experiment.check_points(&mut |_, _| Ok(())).unwrap_err().to_string();
        assert!(why.contains("run the roles one after the other"), "{why}");
        assert!(experiment.check_drafts().is_ok());
    }

    #[test]
    fn files_of_a_sweep_that_two_runs_would_write_are_refused() {
        let (seeds, axes) = ("sweep.seeds = \"1..2\"", "[sweep.axes]\nschedule.offered = [\"1Gbps\", \"2Gbps\"]");
        let taps = "[sweep.axes]\ntransport.tap = [\"/tmp/a.pcapng\", \"/tmp/b.pcapng\"]";
        for (tap, sweep, is_refused) in [
            ("/tmp/a.pcapng", "", false),
            ("/tmp/a.pcapng", seeds, true),
            ("/tmp/a.pcapng", axes, true),
            ("../a.pcapng", axes, true),
            ("../x/../a.pcapng", seeds, true),
            ("a.pcapng", seeds, false),
            ("./x/../a.pcapng", axes, false),
            ("a.pcapng", taps, false),
        ] {
            let text = format!("{SMALL}transport.kind = \"ring\"\ntransport.tap = \"{tap}\"\n{sweep}\n");
            let document = Document::parse(&text, "x.toml").unwrap();
            let experiment = Experiment::open(pktgen_registry::all(), document).unwrap();
            // A shard with one of the runs.
            let first = experiment.runs[0].folder();
            experiment.check_points_of(&|run| run.folder() == first, &mut |_, _| Ok(())).unwrap();
            for found in [experiment.check_points(&mut |_, _| Ok(())), experiment.check_drafts()] {
                let why = found.err().map(|why| why.to_string()).unwrap_or_default();
                assert_eq!(why.contains("would both write"), is_refused, "{tap}, {sweep}: {why}");
                assert_eq!(why.is_empty(), !is_refused, "{tap}, {sweep}: {why}");
            }
        }
    }

    #[test]
    fn overrides_without_effect_in_a_run_say_so() {
        let experiment = experiment("", &["topology.leaves=4", "target.slots=2"]);
        let plan = experiment.prepare(&experiment.runs[0]).unwrap();
        let overrides = experiment.manifest(&experiment.runs[0], &plan).overrides;
        assert_eq!(overrides, ["target.slots=2", "topology.leaves=4 (without effect: nothing of this run reads it)"]);
    }
}
