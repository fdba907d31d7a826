//! How the kernel treats BPF programs.

use pktgen_core::registry::Named;

use super::{Check, Finding, Level, View};

const NAME: &str = "bpf";
const JIT: &str = "proc/sys/net/core/bpf_jit_enable";
const UNPRIVILEGED: &str = "proc/sys/kernel/unprivileged_bpf_disabled";

/// See the head of this file.
pub(super) struct Bpf;

impl Named for Bpf {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "JIT compilation of BPF programs, and permission to load them"
    }
}

impl Check for Bpf {
    fn look(&self, view: &View<'_>) -> Vec<Finding> {
        let jit = match view.host.number::<u32>(JIT) {
            Some(1) => Finding::new(NAME, "JIT", Level::Ok, "on"),
            Some(0) => Finding::new(NAME, "JIT", Level::Warning, "off")
                .why("programs are interpreted, which costs a large part of the rate")
                .remedy("sudo sysctl -w net.core.bpf_jit_enable=1"),
            Some(_) => Finding::new(NAME, "JIT", Level::Note, "on, with a debug trace")
                .why("every program is written to the kernel log")
                .remedy("sudo sysctl -w net.core.bpf_jit_enable=1"),
            // The file exists in the first network namespace only, and not where the compiler is always on.
            None => Finding::new(NAME, "JIT", Level::Note, "not available here")
                .why("the setting is shown in the host's own network namespace only")
                .remedy("outside of the namespace: sysctl net.core.bpf_jit_enable"),
        };
        let unprivileged = match view.host.number::<u32>(UNPRIVILEGED) {
            Some(0) => Finding::new(NAME, "unprivileged", Level::Note, "allowed")
                .why("pktgen does not need it, and it widens what an attacker can reach")
                .remedy("sudo sysctl -w kernel.unprivileged_bpf_disabled=2"),
            Some(_) => Finding::new(NAME, "unprivileged", Level::Ok, "disabled; pktgen uses its capabilities"),
            None => Finding::new(NAME, "unprivileged", Level::Note, "not available")
                .why("the kernel may have no bpf(2), which af_xdp and xdp_live need")
                .remedy("use a kernel built with CONFIG_BPF_SYSCALL=y"),
        };
        vec![jit, unprivileged]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, level};

    #[test]
    fn settings_are_judged() {
        for (value, expected) in [("1\n", Level::Ok), ("0\n", Level::Warning), ("2\n", Level::Note)] {
            assert_eq!(level(&Fixture::good().file(JIT, value).look(&Bpf), "JIT"), expected, "{value}");
        }
        assert_eq!(level(&Fixture::good().remove(JIT).look(&Bpf), "JIT"), Level::Note);
        for (value, expected) in [("2\n", Level::Ok), ("1\n", Level::Ok), ("0\n", Level::Note)] {
            assert_eq!(level(&Fixture::good().file(UNPRIVILEGED, value).look(&Bpf), "unprivileged"), expected);
        }
    }
}
