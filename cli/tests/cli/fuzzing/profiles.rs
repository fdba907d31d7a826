//! Profiles of hardware.

use std::path::Path;
use std::sync::Arc;

use pktgen_core::topology::Population;
use pktgen_wire::device::check::check;
use pktgen_wire::device::plan::{Job, plan};
use pktgen_wire::device::shipped::SHIPPED;
use pktgen_wire::device::{Facts, open};

use super::Samples;
use super::mutate::Random;

pub fn prepare(folder: &Path) -> Samples {
    let name = |name: &str| format!("{name}.toml");
    for (profile, text) in SHIPPED {
        std::fs::write(folder.join(name(profile)), text).expect("writable");
    }
    let names: Vec<_> = SHIPPED.iter().map(|(profile, _)| name(profile)).collect();
    Samples::of(folder, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Reads a changed profile, checks an experiment against it and plans.
pub fn attempt(samples: &Samples, random: &mut Random) {
    let which = random.below(samples.groups.len());
    let path = samples.change(which, random);
    if let Ok(profile) = open(&path.display().to_string(), "here", &pktgen_registry::all().protocols) {
        let workers = Arc::new(Population::regular(2, 3));
        let facts = Facts { format: "olaf".into(), workers, window: Some(9), ..Facts::default() };
        let _ = check(&profile, &facts);
        if let Ok(addresses) = profile.addressing.resolve(&facts.workers) {
            let job = Job { profile: &profile, facts: &facts, addresses: &addresses };
            let _ = plan(&job);
            profile.planner.syntaxes().iter().for_each(|own| drop((own.write)(&job)));
        }
    }
    samples.restore(which);
}
