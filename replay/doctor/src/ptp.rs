//! Clocks that follow PTP, and whether they can be opened.

use pktgen_core::registry::Named;

use super::{Check, Finding, Level, View};

const NAME: &str = "ptp";

/// See the head of this file.
pub(super) struct Ptp;

impl Named for Ptp {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "clocks that support PTP"
    }
}

impl Check for Ptp {
    fn look(&self, view: &View<'_>) -> Vec<Finding> {
        let clocks = view.host.names("sys/class/ptp", "ptp");
        if clocks.is_empty() {
            return vec![
                Finding::new(NAME, "clocks", Level::Note, "none")
                    .why("times of different hosts agree no better than NTP makes them")
                    .remedy("on a virtual machine of KVM: sudo modprobe ptp_kvm; else use a card with a PTP clock"),
            ];
        }
        let one = |clock: String| {
            let name = view.host.read(&format!("sys/class/ptp/{clock}/clock_name")).unwrap_or_default();
            match view.host.path(&format!("dev/{clock}")).exists() {
                true => Finding::new(NAME, clock, Level::Ok, name),
                false => Finding::new(NAME, clock.clone(), Level::Warning, format!("{name}, without /dev/{clock}"))
                    .why("it cannot be read")
                    .remedy(format!(
                        "sudo mknod /dev/{clock} c $(tr : ' ' < /sys/class/ptp/{clock}/dev); in a container: --device /dev/{clock}"
                    )),
            }
        };
        clocks.into_iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, level};

    #[test]
    fn clocks_are_named() {
        let found = Fixture::good().look(&Ptp);
        assert_eq!((level(&found, "ptp0"), found[0].value.as_str()), (Level::Ok, "ice-0000:17:00.0-clk"));
        assert_eq!(level(&Fixture::good().remove("dev/ptp0").look(&Ptp), "ptp0"), Level::Warning);
        assert_eq!(level(&Fixture::good().remove("sys/class/ptp/ptp0").look(&Ptp), "clocks"), Level::Note);
    }
}
