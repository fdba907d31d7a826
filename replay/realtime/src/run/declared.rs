//! The declared properties of an experiment's device, and their comparison with observations.

use pktgen_core::config::Document;
use pktgen_core::record::{AckCopies, CarriedBits, DeviceLoad, Family};
use pktgen_core::time::Time;
use pktgen_core::topology::Role;

use super::{Task, text};
use crate::acks::AcksAtEnds;
use crate::catalogue::Catalogue;
use crate::driver::real_time::{RealOutcome, RoleTally, Roles};
use crate::external::may_merge;
use crate::plan::Plan;
use crate::target::program::Expected;

/// Returns the expected effect of a run's device.
pub(super) fn expected(plan: &Plan, roles: Roles) -> Expected {
    let of_program = of_program(plan);
    if of_program == Some(Expected::SumsByKey) {
        return Expected::SumsByKey;
    }
    if plan.spec.transport.has_server && !roles.server {
        return Expected::Elsewhere;
    }
    // In a layout without a header, only lanes tell how many updates were merged.
    let counted = plan.spec.lanes.is_some() || plan.spec.transport.dialect.is_none_or(|dialect| !dialect.headless);
    of_program.filter(|expected| counted || *expected != Expected::MergesUnderLoad).unwrap_or(Expected::Unknown)
}

/// Returns the expected effect of the program of `[target]`, by default that of the workers.
fn of_program(plan: &Plan) -> Option<Expected> {
    let document = Document::parse(&plan.spec.config, "config").ok()?;
    let program = text(&document, "target.program", "forward");
    let workers = plan.spec.workers.len() / plan.spec.workers.clusters().max(1);
    let kind = plan.spec.catalogue.programs.iter().find(|kind| kind.name() == program);
    kind.map(|kind| kind.expected(workers as u32))
}

/// The declared properties of a device without books between workers and a server of this process.
pub(super) struct Declared {
    /// Rate of the links towards the server.
    link_bps: u64,
    /// Whether it merges waiting updates of several workers.
    merges: bool,
    /// Whether acknowledgements go to all workers of a cluster; none without acknowledgements.
    group: Option<bool>,
}

impl Declared {
    /// `None` if the device keeps books, or if this process does not have both ends.
    pub(super) fn of(plan: &Plan, task: &Task) -> Option<Declared> {
        let spec = &plan.spec;
        let both = task.roles.workers && task.roles.server && task.meeting.is_none();
        if !both || !spec.is_external() || !spec.transport.has_server {
            return None;
        }
        let topology = &plan.parts.topology;
        let to_server =
            topology.links.iter().filter(|link| matches!(topology.nodes[link.to as usize].role, Role::Server));
        let several = spec.workers.len() > spec.workers.clusters();
        let merges = several && may_merge(&spec.config) && of_program(plan) == Some(Expected::MergesUnderLoad);
        let grouped = spec.hardware.as_ref().is_some_and(|hardware| hardware.profile.planner.groups_acks());
        Some(Declared {
            link_bps: to_server.map(|link| link.rate.bps()).sum(),
            merges,
            group: (spec.family == Family::Updates && !spec.raw).then_some(grouped),
        })
    }

    /// Returns the declared, offered and arrived load.
    pub(super) fn load(&self, outcome: &RealOutcome) -> Option<DeviceLoad> {
        let (_, arrived) = outcome.tallies.iter().find(|(role, _)| *role == "server")?;
        let offered = outcome.offered.as_ref()?;
        Some(DeviceLoad {
            link_bps: self.link_bps,
            offered: carried(offered),
            arrived: carried(arrived),
            merges: self.merges,
        })
    }

    /// Returns the acknowledgements, of which `sent` are from the server, and the workers that they reached; `None` if there are none.
    pub(super) fn acks(&self, sent: u64, ends: &AcksAtEnds) -> Option<AckCopies> {
        // A device without a profile shows by its addresses that each is for all of a cluster.
        let group = self.group? || ends.go_to_groups();
        (sent > 0).then_some(AckCopies {
            acks: sent,
            expected: if group { ends.due.total() } else { sent },
            seen: if group { ends.seen.of_due(&ends.due) } else { ends.seen.total() },
            elsewhere: ends.elsewhere,
            group,
            again: if group { ends.again.of_cluster } else { ends.again.of_worker },
            lost: if group { ends.lost.acks } else { 0 },
            lost_copies: if group { ends.lost.copies } else { 0 },
            at_device: ends.at_device,
        })
    }
}

/// Returns the traffic of a role on its cable.
fn carried(tally: &RoleTally) -> CarriedBits {
    let span: Time = tally.first.map_or(0, |first| tally.last - first);
    CarriedBits { bits: tally.bytes.saturating_sub(tally.last_bytes) * 8, ps: span }
}

/// Returns whether the workers, of the experiment or of a variant, train in iterations.
fn is_synchronous(catalogue: &Catalogue, document: &Document) -> bool {
    let named = text(document, "endpoint.workers", "");
    named.is_empty() && text(document, "workload.kind", "") == "dense"
        || catalogue.workers.iter().any(|kind| kind.name() == named && kind.behaviour().synchronous)
}

/// Default metrics for updates in a layout that does not identify the members of a packet, if lanes do.
const LANES: [&str; 9] = [
    "sent",
    "received",
    "unaccounted",
    "loss",
    "duplicates",
    "damaged",
    "sums_wrong",
    "lanes_aggregation_mean",
    "lanes_aom_mean/cluster",
];

/// Returns the default metrics of a report of runs.
pub(super) fn default_metrics(catalogue: &Catalogue, document: &Document) -> &'static [&'static str] {
    if text(document, "target.kind", "software") == "external" && !is_synchronous(catalogue, document) {
        let word = text(document, "transport.on_wire", "ours");
        let headless = catalogue.dialects.iter().any(|dialect| dialect.word == word && dialect.headless);
        let lanes = !["false", ""].contains(&&*text(document, "format.lanes", ""));
        return match headless && lanes {
            // Packets do not identify their updates: their lanes do.
            true => &LANES,
            false => {
                &["sent", "received", "unaccounted", "loss", "duplicates", "damaged", "sums_wrong", "aom_mean/cluster"]
            }
        };
    }
    match is_synchronous(catalogue, document) {
        true => &["iteration_time_mean", "over_ideal", "degraded_share", "sources_mean", "elements_per_s"],
        false => &["received", "absorbed", "loss", "aom_mean/cluster", "aom_mean/worker"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Sees;
    use crate::run::{Experiment, sees};

    /// Three acknowledgements for two workers: of a device that sends each to their group, one is missing.
    #[test]
    fn acknowledgements_to_groups_are_due_to_all_of_a_cluster() {
        let workers = pktgen_core::topology::Population::regular(1, 2);
        let [mut due, mut seen] = [0; 2].map(|_| crate::acks::AcksByCluster::new(&workers));
        due.count(0, 6);
        seen.count(0, 4);
        for (grouped, frames, wanted) in
            [(false, [2, 0], (6, 4, true)), (false, [0, 4], (3, 4, false)), (true, [0, 4], (6, 4, true))]
        {
            let declared = Declared { link_bps: 0, merges: true, group: Some(grouped) };
            let ends = AcksAtEnds { due: due.clone(), seen: seen.clone(), frames, ..AcksAtEnds::default() };
            let acks = declared.acks(3, &ends).expect("some were sent");
            assert_eq!((acks.expected, acks.seen, acks.group), wanted, "{frames:?}");
        }
    }

    /// Returns what is expected of the device of this experiment, in a process with all roles, and what that process sees.
    fn seen_of(text: &str) -> (Expected, Sees) {
        let document = Document::parse(text, "x.toml").unwrap();
        let experiment = Experiment::open(pktgen_registry::all(), document).unwrap();
        let plan = experiment.draft(&experiment.runs[0]).unwrap();
        let roles = Roles::ALL.of_run(plan.spec.transport.has_server, plan.spec.is_external()).unwrap();
        let expected = expected(&plan, roles);
        (expected, sees(&plan, roles, expected))
    }

    fn expected_of(text: &str) -> Expected {
        seen_of(text).0
    }

    /// Generation times mean nothing then.
    #[test]
    fn live_views_have_no_ages_at_top_speed() {
        for (pacing, is_dated) in [("deadlines", true), ("top", false)] {
            let (_, sees) = seen_of(&format!(
                "[workload]\nclusters = 2\nworkers_per_cluster = 3\nupdates = 9\n[schedule]\noffered = \"4Mbps\"\n[topology]\n\
                 rate = \"2Mbps\"\n[transport]\nkind = \"ring\"\npacing = \"{pacing}\"\n"
            ));
            assert_eq!(sees.dated, is_dated, "{pacing}");
        }
    }

    #[test]
    fn a_program_that_is_not_written_is_that_of_the_workers() {
        let switchml = include_str!("../../../../configs/wires/switchml.toml");
        let trio_ml = include_str!("../../../../configs/wires/trio-ml.toml");
        assert_eq!([switchml, trio_ml].map(expected_of), [Expected::Sums(4); 2]);
        let sparse = |workers: &str| {
            expected_of(&format!(
                "[workload]\nkind = \"sparse\"\nparameters = 500\ndense = 0\npairs = 100\nhot = 250\ncurve = \"zipf\"\nexponent = 0.3\n\
                 workers = 4\niterations = 40\ncompute = \"5ms\"\n[topology]\nkind = \"star\"\n[endpoint]\nworkers = \"{workers}\"\n\
                 [transport]\nkind = \"ring\"\n"
            ))
        };
        assert_eq!(["libra", "ps_lite"].map(sparse), [Expected::SumsByKey, Expected::Single]);
        let card = |program: &str| {
            expected_of(&format!(
                "[workload]\nclusters = 3\nworkers_per_cluster = 3\nupdates = 9\nbytes = \"256B\"\n[schedule]\noffered = \"4Mbps\"\n[topology]\n\
                 rate = \"2Mbps\"\n[target]\nkind = \"external\"\nprofile = \"alveo-u55c-olaf\"\n{program}\n[transport]\n\
                 kind = \"af_packet\"\ninterfaces = [\"h0\", \"\", \"\", \"h1\"]\n"
            ))
        };
        assert_eq!(["", "program = \"olaf\""].map(card), [Expected::MergesUnderLoad; 2]);
    }
}
