//! Huge pages: pktgen needs none, but DPDK, which it is compared with, does.

use pktgen_core::registry::Named;

use super::{Check, Finding, Level, View};

const NAME: &str = "hugepages";
const FOLDER: &str = "sys/kernel/mm/hugepages";

/// See the head of this file.
pub(super) struct Hugepages;

impl Named for Hugepages {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "huge pages, for other generators that pktgen is compared with"
    }
}

impl Check for Hugepages {
    fn look(&self, view: &View<'_>) -> Vec<Finding> {
        let mut reserved = Vec::new();
        for size in view.host.names(FOLDER, "hugepages-") {
            let count = |what| view.host.number::<u64>(&format!("{FOLDER}/{size}/{what}")).unwrap_or(0);
            if count("nr_hugepages") > 0 {
                let size = size.trim_start_matches("hugepages-");
                reserved.push(format!("{} of {size}, {} free", count("nr_hugepages"), count("free_hugepages")));
            }
        }
        vec![match reserved.is_empty() {
            false => Finding::new(NAME, "reserved", Level::Ok, reserved.join("; ")),
            true => Finding::new(NAME, "reserved", Level::Note, "none")
                .why("pktgen needs none; dpdk-testpmd, to compare with, does unless it runs with --no-huge")
                .remedy("sudo sysctl -w vm.nr_hugepages=512"),
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    #[test]
    fn pages_are_counted_by_size() {
        let found = Fixture::good().look(&Hugepages);
        assert_eq!((found[0].level, found[0].value.as_str()), (Level::Ok, "512 of 2048kB, 500 free"));
        let none = Fixture::good().file(&format!("{FOLDER}/hugepages-2048kB/nr_hugepages"), "0\n").look(&Hugepages);
        assert_eq!(none[0].level, Level::Note);
    }
}
