//! Labels that several metrics have, and what they ask of a run.
//!
//! Used by definitions of [`crate::metric`] and of reports.

use pktgen_core::definition::Label;
use pktgen_core::record::Reason;

/// Whose age it is.
pub const FLOW: Label = Label::one_of("flow", &["cluster", "worker"], "of clusters, or of workers");
/// Of workers alone.
pub(crate) const WORKER: Label = Label::one_of("flow", &["worker"], "of workers");
/// Which flow.
pub(crate) const ONE: Label = Label::new("id", "number of the flow");
/// Which flow, or all.
pub(crate) const ONE_OR_MEAN: Label =
    Label::new("id", "number of the flow; without it, the mean over flows").optional();
/// Which bin.
pub const COUNT: Label = Label::new("n", "number of updates");
/// Why.
pub(crate) const REASON: Label = Label::one_of("reason", &Reason::NAMES, "drop reason; without it, all").optional();
/// Of what traffic.
pub(crate) const TRAFFIC: Label = Label::one_of("traffic", &["background"], "not of updates");
/// Which job.
pub(crate) const JOB: Label =
    Label::new("job", "number of the job, where there are several; without it, all").optional();

/// What a run must have recorded.
pub const FULL: &str = "capture.records = \"full\"";
/// Where a device keeps no books.
pub(crate) const BLACK_BOX: &str = "target.kind = \"external\"";
/// What it must be.
pub(crate) const SYNCHRONOUS: &str = "synchronous training";
