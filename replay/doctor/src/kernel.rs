//! The kernel: what its version brings, and whether AF_XDP is built into it.

use pktgen_core::registry::Named;

use super::{Check, Finding, Level, View};

const NAME: &str = "kernel";

/// What a version brings: from which on, what, how bad it is without, why, and what mends it.
type Brings = ((u32, u32), &'static str, Level, &'static str, &'static str);
const BRINGS: &[Brings] = &[
    (
        (5, 9),
        "XDP links",
        Level::Cannot,
        "af_xdp and xdp_live attach their programs by links",
        "install Linux 5.9 or later; or use af_packet",
    ),
    ((5, 18), "live frames", Level::Cannot, "xdp_live sends by them", "install Linux 5.18 or later; or use af_xdp"),
    ((6, 3), "XDP features", Level::Note, "below 6.3 no driver reports its XDP features", "install Linux 6.3 or later"),
    (
        (6, 6),
        "multi-buffer AF_XDP",
        Level::Note,
        "frames above a chunk need it",
        "install Linux 6.6 or later; or use af_packet for jumbo frames",
    ),
    (
        (6, 17),
        "AF_XDP send budget",
        Level::Note,
        "in copy mode a call sends at most 32 frames",
        "install Linux 6.17 or later",
    ),
];

/// See the head of this file.
pub(super) struct Kernel;

impl Named for Kernel {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "kernel version and its features, AF_XDP, type information"
    }
}

impl Check for Kernel {
    fn look(&self, view: &View<'_>) -> Vec<Finding> {
        let text = view.host.read("proc/sys/kernel/osrelease").unwrap_or_default();
        let Some(version) = view.host.kernel() else {
            return vec![
                Finding::new(NAME, "version", Level::Warning, format!("{text:?}"))
                    .why("/proc/sys/kernel/osrelease has no version, so the features are unknown")
                    .remedy("mount -t proc proc /proc"),
            ];
        };
        let mut findings = vec![Finding::new(NAME, "version", Level::Ok, text)];
        for (from, what, level, why, remedy) in BRINGS {
            findings.push(match version >= *from {
                true => Finding::new(NAME, *what, Level::Ok, format!("yes, since {}.{}", from.0, from.1)),
                false => Finding::new(NAME, *what, *level, format!("no, since {}.{}", from.0, from.1))
                    .why(*why)
                    .remedy(*remedy),
            });
        }
        findings.push(match has_af_xdp(view.host) {
            Some(true) => Finding::new(NAME, "AF_XDP", Level::Ok, "built in"),
            None => Finding::new(NAME, "AF_XDP", Level::Note, "not available")
                .why("/proc/net/protocols cannot be read")
                .remedy("pktgen doctor --probe --iface IF"),
            Some(false) => Finding::new(NAME, "AF_XDP", Level::Cannot, "absent")
                .why("af_xdp and xdp_live receive by its sockets")
                .remedy("use a kernel built with CONFIG_XDP_SOCKETS=y; or use af_packet"),
        });
        findings.push(match view.host.path("sys/kernel/btf/vmlinux").exists() {
            true => Finding::new(NAME, "BTF", Level::Ok, "present"),
            false => Finding::new(NAME, "BTF", Level::Note, "absent")
                .why("pktgen's programs need none, but reading a card's timestamps in XDP does")
                .remedy("use a kernel built with CONFIG_DEBUG_INFO_BTF=y"),
        });
        findings
    }
}

/// Whether the kernel lists AF_XDP among its protocols. None if unknown.
pub(super) fn has_af_xdp(host: &super::Host) -> Option<bool> {
    let protocols = host.read("proc/net/protocols")?;
    Some(protocols.lines().any(|line| line.split_whitespace().next() == Some("XDP")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, level};

    #[test]
    fn versions_bring_what_they_bring() {
        let cases = [
            ("4.19.0-27-amd64", [Level::Cannot, Level::Cannot, Level::Note, Level::Note, Level::Note]),
            ("5.9.0", [Level::Ok, Level::Cannot, Level::Note, Level::Note, Level::Note]),
            ("5.18.1", [Level::Ok, Level::Ok, Level::Note, Level::Note, Level::Note]),
            ("6.6.99-rt", [Level::Ok, Level::Ok, Level::Ok, Level::Ok, Level::Note]),
            ("6.17.0", [Level::Ok; 5]),
            ("10.0.0", [Level::Ok; 5]),
        ];
        for (text, expected) in cases {
            let found = Fixture::good().file("proc/sys/kernel/osrelease", text).look(&Kernel);
            for ((_, what, ..), expected) in BRINGS.iter().zip(expected) {
                assert_eq!(level(&found, what), expected, "{what} on {text}");
            }
        }
        let found = Fixture::good().file("proc/sys/kernel/osrelease", "odd").look(&Kernel);
        assert_eq!(level(&found, "version"), Level::Warning);
    }

    #[test]
    fn af_xdp_and_btf_are_looked_for() {
        let good = Fixture::good().look(&Kernel);
        assert_eq!((level(&good, "AF_XDP"), level(&good, "BTF")), (Level::Ok, Level::Ok));
        let bad = Fixture::good()
            .file("proc/net/protocols", "protocol size\nUDP 1\nXDPX 1\n")
            .remove("sys/kernel/btf/vmlinux");
        let bad = bad.look(&Kernel);
        assert_eq!((level(&bad, "AF_XDP"), level(&bad, "BTF")), (Level::Cannot, Level::Note));
        let hidden = Fixture::good().remove("proc/net/protocols").look(&Kernel);
        assert_eq!(level(&hidden, "AF_XDP"), Level::Note);
    }
}
