//! Socket buffers: how large an unprivileged process may make them.

use super::host::Capability;
use pktgen_core::registry::Named;

use super::{Check, Finding, Level, View};

const NAME: &str = "buffers";
/// What the transports ask for at most: setting, what for, bytes.
const ASKED: &[(&str, &str, u64)] = &[("rmem_max", "receive", 16 << 20), ("wmem_max", "send", 1 << 20)];

/// See the head of this file.
pub(super) struct Buffers;

impl Named for Buffers {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "maximum sizes of socket buffers"
    }
}

impl Check for Buffers {
    fn look(&self, view: &View<'_>) -> Vec<Finding> {
        let one = |(setting, what, bytes): &(&str, &str, u64)| {
            let Some(most) = view.host.number::<u64>(&format!("proc/sys/net/core/{setting}")) else {
                return Finding::new(NAME, *setting, Level::Note, "not available here")
                    .why(format!("how large {what} buffers may be is shown in the host's own network namespace"))
                    .remedy(format!("outside of the namespace: sysctl net.core.{setting}"));
            };
            let value = format!("{} KiB", most >> 10);
            match (most >= *bytes, view.host.may(Capability::NetAdmin)) {
                (true, _) => Finding::new(NAME, *setting, Level::Ok, value),
                (false, true) => Finding::new(NAME, *setting, Level::Ok, format!("{value}, passed by CAP_NET_ADMIN")),
                (false, false) => Finding::new(NAME, *setting, Level::Warning, value)
                    .why(format!(
                        "udp and af_packet ask for {what} buffers of up to {} KiB, and bursts that do not fit are lost",
                        bytes >> 10
                    ))
                    .remedy(format!("sudo sysctl -w net.core.{setting}={bytes}")),
            }
        };
        ASKED.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, level};

    #[test]
    fn small_buffers_matter_only_without_privileges() {
        let small = |mask: &str| {
            let fixture = Fixture::good().file("proc/sys/net/core/rmem_max", "212992\n");
            fixture.file("proc/self/status", &format!("CapEff:\t{mask}\n")).look(&Buffers)
        };
        let found = small("0");
        assert_eq!((level(&found, "rmem_max"), level(&found, "wmem_max")), (Level::Warning, Level::Ok));
        assert_eq!(found[0].remedy, "sudo sysctl -w net.core.rmem_max=16777216");
        assert_eq!(level(&small("1000"), "rmem_max"), Level::Ok);
        let gone = Fixture::good().remove("proc/sys/net/core/wmem_max").look(&Buffers);
        assert_eq!(level(&gone, "wmem_max"), Level::Note);
    }
}
