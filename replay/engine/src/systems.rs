//! Every system, and the catalogue of all.

use std::sync::LazyLock;

use pktgen_generator::device::plan;
use pktgen_generator::wire;

use crate::catalogue::{Catalogue, Defaults, System};
use crate::dialect;
use crate::endpoint::{learner, open_loop, retransmit, sparse, switchml, transmission_control, trio_ml};
use crate::target::{program, queue};

/// What is no system's own: updates that are sent, forwarded and received one by one.
static PLAIN: System = System {
    planners: &[&plan::generic::Generic],
    workers: &[&open_loop::OpenLoopKind, &retransmit::RetransmitKind, &learner::LearnerKind],
    programs: &[&program::forward::ForwardKind],
    queues: &[&queue::fifo::FifoDiscipline],
    ..System::new("plain")
};

static OLAF: System = System {
    formats: &[&wire::olaf::Olaf, &wire::olaf_strict::OlafStrict],
    planners: &[&plan::olaf::Olaf],
    workers: &[&transmission_control::TransmissionControlKind],
    programs: &[&program::olaf::OlafKind],
    queues: &[&queue::olaf::OlafDiscipline],
    dialects: &[&dialect::olaf::KIND],
    ..System::new("olaf")
};

static TRIO_ML: System = System {
    formats: &[&wire::trio_ml::TrioMl],
    planners: &[&plan::trio_ml::TrioMl],
    workers: &[&trio_ml::TrioMlKind],
    programs: &[&program::trio_ml::TrioMlKind],
    dialects: &[&dialect::TRIO_ML],
    ..System::new("trio_ml")
};

static SWITCHML: System = System {
    formats: &[&wire::switchml::SwitchMl, &wire::switchml_roce::SwitchMlRoce],
    planners: &[&plan::switchml::SwitchMl],
    workers: &[&switchml::SwitchMlKind],
    programs: &[&program::switchml::SwitchMlKind],
    dialects: &[&dialect::switchml::KIND, &dialect::switchml_roce::KIND],
    ..System::new("switchml")
};

static LIBRA: System = System {
    formats: &[&wire::libra::Libra],
    planners: &[&plan::libra::Libra],
    workers: &[&sparse::LibraKind, &sparse::PsLiteKind],
    programs: &[&program::libra::LibraKind],
    ..System::new("libra")
};

static REDUCE: System = System { programs: &[&program::reduce::ReduceKind], ..System::new("reduce") };

static ATP: System = System { formats: &[&wire::atp_ml::AtpMl], ..System::new("atp") };

static ALL: LazyLock<Catalogue> = LazyLock::new(|| {
    let systems = [&PLAIN, &OLAF, &TRIO_ML, &SWITCHML, &LIBRA, &REDUCE, &ATP];
    Catalogue::of(&systems, Defaults { workers: "open_loop", program: "olaf" })
});

/// The catalogue of all systems.
pub fn all() -> &'static Catalogue {
    &ALL
}
