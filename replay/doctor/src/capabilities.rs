//! Capabilities of this process: what it may ask of the kernel.

use pktgen_core::registry::Named;

use super::host::Capability;
use super::{Check, Finding, Level, View};
use pktgen_realtime::transport::SETCAP;

const NAME: &str = "capability";

/// Leaves a user namespace.
pub(super) const OUTSIDE: &str = "run it outside of the container or namespace that maps users";

/// A capability, others that stand for it, how bad it is without, and what needs it.
const WANTED: &[(Capability, &[Capability], Level, &str)] = &[
    (Capability::NetRaw, &[], Level::Cannot, "packet sockets and AF_XDP sockets need it"),
    (Capability::NetAdmin, &[], Level::Cannot, "attaching XDP programs needs it (af_xdp, xdp_live)"),
    (Capability::Bpf, &[Capability::SysAdmin], Level::Cannot, "loading XDP programs needs it (af_xdp, xdp_live)"),
    (Capability::Perfmon, &[Capability::SysAdmin], Level::Note, "the verifier is stricter without it (xdp_live)"),
    (Capability::SysAdmin, &[], Level::Cannot, "xdp_live keeps its program registered in a namespace of its own"),
];

/// See the head of this file.
pub(super) struct Capabilities;

impl Named for Capabilities {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "capabilities of this process"
    }
}

impl Check for Capabilities {
    fn look(&self, view: &View<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (wanted, instead, level, why) in WANTED {
            let other = instead.iter().find(|capability| view.host.may(**capability));
            findings.push(match (view.host.may(*wanted), other) {
                (true, _) => Finding::new(NAME, wanted.name(), Level::Ok, "in effect"),
                (false, Some(other)) => Finding::new(NAME, wanted.name(), Level::Ok, format!("by {}", other.name())),
                (false, None) => {
                    Finding::new(NAME, wanted.name(), *level, "missing").why(*why).remedy(given(view.host))
                }
            });
        }
        if in_user_namespace(view.host) {
            findings.push(
                Finding::new(NAME, "user namespace", Level::Warning, "not the host's own")
                    .why("capabilities count in this namespace only, and BPF asks for those of the host")
                    .remedy(OUTSIDE),
            );
        }
        findings
    }
}

/// The capabilities that [`SETCAP`] gives.
const GIVEN: &[Capability] = &[
    Capability::NetRaw,
    Capability::NetAdmin,
    Capability::Bpf,
    Capability::Perfmon,
    Capability::SysAdmin,
    Capability::IpcLock,
];

/// Returns what gives capabilities to this process. The kernel does not execute a file whose capabilities exceed the bounding set.
pub(super) fn given(host: &super::Host) -> String {
    let beyond = host.beyond(GIVEN);
    if beyond.is_empty() {
        return SETCAP.to_owned();
    }
    let flags: Vec<_> =
        beyond.iter().map(|own| format!("--cap-add={}", own.name().trim_start_matches("CAP_"))).collect();
    format!(
        "start the container as root with {} (its bounding set lacks them: with setcap pktgen would not start)",
        flags.join(" ")
    )
}

/// Whether this process's users differ from those of the host.
pub(super) fn in_user_namespace(host: &super::Host) -> bool {
    let map = host.read("proc/self/uid_map").unwrap_or_default();
    !map.is_empty() && map.split_whitespace().collect::<Vec<_>>() != ["0", "0", "4294967295"]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, level};

    fn with(mask: &str) -> Vec<Finding> {
        Fixture::good()
            .file("proc/self/status", &format!("Name:\tpktgen\nCapPrm:\tffff\nCapEff:\t{mask}\n"))
            .look(&Capabilities)
    }

    #[test]
    fn each_bit_is_its_own_capability() {
        for (mask, having) in [
            ("0000000000001000", vec!["CAP_NET_ADMIN"]),
            ("0000000000002000", vec!["CAP_NET_RAW"]),
            ("0000000000200000", vec!["CAP_SYS_ADMIN", "CAP_BPF", "CAP_PERFMON"]),
            ("0000004000000000", vec!["CAP_PERFMON"]),
            ("0000008000000000", vec!["CAP_BPF"]),
            ("0000000000000000", vec![]),
        ] {
            let found = with(mask);
            for (wanted, _, expected, _) in WANTED {
                let expected = if having.contains(&wanted.name()) { Level::Ok } else { *expected };
                assert_eq!(level(&found, wanted.name()), expected, "{} of {mask}", wanted.name());
            }
        }
    }

    #[test]
    fn what_is_missing_names_the_command() {
        let found = with("0");
        assert!(found.iter().all(|f| f.remedy.contains("setcap cap_net_raw,cap_net_admin,cap_bpf")), "{found:?}");
    }

    #[test]
    fn capabilities_given_are_those_of_the_remedy() {
        for own in GIVEN {
            assert!(SETCAP.contains(&own.name().to_lowercase()), "{}", own.name());
        }
        assert_eq!(SETCAP.matches("cap_").count(), GIVEN.len());
    }

    #[test]
    fn in_a_container_the_remedy_is_at_its_start() {
        // The default capabilities of a container.
        let status = "CapEff:\t00000000a80425fb\nCapBnd:\t00000000a80425fb\n";
        let found = Fixture::good().file("proc/self/status", status).look(&Capabilities);
        let remedy = |name: &str| &found.iter().find(|f| f.subject == name).expect("listed").remedy;
        assert_eq!(level(&found, "CAP_NET_RAW"), Level::Ok);
        for name in ["CAP_NET_ADMIN", "CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN"] {
            let remedy = remedy(name);
            assert!(
                !remedy.contains("sudo setcap") && remedy.contains("--cap-add=NET_ADMIN --cap-add=BPF "),
                "{remedy}"
            );
        }
    }

    #[test]
    fn capabilities_that_the_kernel_does_not_know_are_no_container() {
        // A user on Linux 5.4.
        let status = "CapEff:\t0000000000000000\nCapBnd:\t0000003fffffffff\n";
        let host = Fixture::good().file("proc/self/status", status).file("proc/sys/kernel/cap_last_cap", "37\n");
        let found = host.look(&Capabilities);
        assert!(!found.is_empty() && found.iter().all(|f| f.remedy.contains("sudo setcap")), "{found:?}");
        // A container there.
        let status = "CapEff:\t00000000a80425fb\nCapBnd:\t00000000a80425fb\n";
        let remedy = given(&host.file("proc/self/status", status).host());
        assert!(remedy.contains(" --cap-add=NET_ADMIN --cap-add=SYS_ADMIN --cap-add=IPC_LOCK "), "{remedy}");
    }

    #[test]
    fn a_user_namespace_is_told() {
        let said = |map: &str| {
            let found = Fixture::good().file("proc/self/uid_map", map).look(&Capabilities);
            found.iter().any(|f| f.subject == "user namespace")
        };
        assert!(!said("         0          0 4294967295\n"));
        assert!(said("         0       1000          1\n"));
    }
}
