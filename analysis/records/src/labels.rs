//! Labels shared by several metrics, and requirements for runs.
//!
//! Used by definitions of [`crate::metric`] and of reports.

use pktgen_core::definition::Label;
use pktgen_core::record::Reason;

/// Labels whose values are numbers.
pub const NUMBERS: [&str; 3] = ["id", "n", "job"];
/// Whether a line is about clusters or workers.
pub const FLOW: Label = Label::one_of("flow", &["cluster", "worker"], "of clusters, or of workers");
/// Workers only.
pub(crate) const WORKER: Label = Label::one_of("flow", &["worker"], "of workers");
/// The number of a cluster or worker.
pub(crate) const ONE: Label = Label::new("id", "number of the cluster or worker");
/// The number of a cluster or worker, or absent for all.
pub(crate) const ONE_OR_MEAN: Label =
    Label::new("id", "number of the cluster or worker; without it, the mean over all").optional();
/// The bin of a histogram.
pub const COUNT: Label = Label::new("n", "number of updates");
/// The reason of a drop.
pub(crate) const REASON: Label = Label::one_of("reason", &Reason::NAMES, "drop reason; without it, all").optional();
/// The kind of traffic.
pub(crate) const TRAFFIC: Label = Label::one_of("traffic", &["background"], "not of updates");
/// The job.
pub(crate) const JOB: Label =
    Label::new("job", "number of the job, where there are several; without it, all").optional();

/// What a run must have recorded.
pub const FULL: &str = "capture.records = \"full\"";
/// The same, of ages: at top speed generation times mean nothing.
pub const AGED: &str = "capture.records = \"full\"; not transport.pacing = \"top\"";
/// Requirement: a device without a ledger.
pub(crate) const BLACK_BOX: &str = "target.kind = \"external\"";
/// Requirement on the kind of run.
pub(crate) const SYNCHRONOUS: &str = "synchronous training";
