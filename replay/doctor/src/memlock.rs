//! Memory that may be locked: the kernel counts the frames' memory of AF_XDP against it.

use super::capabilities::given;
use super::host::{Capability, Host};
use pktgen_core::registry::Named;

use super::{Check, Finding, Level, View};

use pktgen_realtime::transport::{End, memory_of_a_port};

const NAME: &str = "memlock";

/// See the head of this file.
pub(super) struct Memlock;

impl Named for Memlock {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "limit of locked memory for AF_XDP"
    }
}

impl Check for Memlock {
    fn look(&self, view: &View<'_>) -> Vec<Finding> {
        let (one, all) = (memory_of_a_port(), needed(End::ALL.len()));
        let value = match limits(view.host) {
            _ if view.host.may(Capability::IpcLock) => {
                return vec![Finding::new(
                    NAME,
                    "RLIMIT_MEMLOCK",
                    Level::Ok,
                    "does not bind: CAP_IPC_LOCK is in effect",
                )];
            }
            None => {
                return vec![
                    Finding::new(NAME, "RLIMIT_MEMLOCK", Level::Note, "unknown")
                        .why("/proc/self/limits does not tell")
                        .remedy("ulimit -l"),
                ];
            }
            Some((soft, _)) if soft >= all => mib(soft),
            Some((soft, hard)) => {
                let level = if soft >= one { Level::Warning } else { Level::Cannot };
                return vec![
                    Finding::new(NAME, "RLIMIT_MEMLOCK", level, mib(soft))
                        .why(format!("AF_XDP locks {} per port, {} for the four of a run", mib(one), mib(all)))
                        .remedy(remedy(view.host, hard, End::ALL.len())),
                ];
            }
        };
        vec![Finding::new(NAME, "RLIMIT_MEMLOCK", Level::Ok, value)]
    }
}

/// Bytes that this many ports lock.
pub(super) fn needed(ports: usize) -> u64 {
    ports as u64 * memory_of_a_port()
}

/// Whether there is room for this many ports.
pub(super) fn suffices(host: &Host, ports: usize) -> bool {
    host.may(Capability::IpcLock) || limits(host).is_none_or(|(soft, _)| soft >= needed(ports))
}

/// What makes room for so many.
pub(super) fn remedy_here(host: &Host, ports: usize) -> String {
    remedy(host, limits(host).map_or(0, |(_, hard)| hard), ports)
}

fn remedy(host: &Host, hard: u64, ports: usize) -> String {
    match hard >= needed(ports) {
        true => format!("ulimit -l {}", needed(ports) / 1024),
        false => format!("sudo prlimit --pid $$ --memlock=unlimited; or {}", given(host)),
    }
}

/// Soft and hard limit in bytes.
fn limits(host: &Host) -> Option<(u64, u64)> {
    let text = host.read("proc/self/limits")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    let mut limits = line.split_whitespace().map(|word| match word {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    });
    Some((limits.next()??, limits.next()??))
}

fn mib(bytes: u64) -> String {
    match bytes {
        u64::MAX => "unlimited".to_owned(),
        bytes if bytes < 1 << 20 => format!("{} KiB", bytes >> 10),
        bytes => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    fn found(soft: &str, hard: &str, mask: &str) -> Finding {
        let text = format!("Limit Soft Hard Units\nMax locked memory         {soft}   {hard}  bytes\n");
        let fixture = Fixture::good().file("proc/self/limits", &text);
        let found = fixture.file("proc/self/status", &format!("CapEff:\t{mask}\n")).look(&Memlock);
        found.into_iter().next().expect("one finding")
    }

    #[test]
    fn the_limit_is_held_against_the_ports() {
        let (one, all) = (memory_of_a_port(), needed(4));
        assert_eq!((one, all), (17 << 20, 68 << 20));
        for (soft, expected) in [
            ("unlimited".to_owned(), Level::Ok),
            (all.to_string(), Level::Ok),
            ((all - 1).to_string(), Level::Warning),
            (one.to_string(), Level::Warning),
            ((one - 1).to_string(), Level::Cannot),
            ("65536".to_owned(), Level::Cannot),
        ] {
            assert_eq!(found(&soft, "unlimited", "0").level, expected, "{soft}");
        }
        // CAP_IPC_LOCK is bit 14.
        assert_eq!(found("65536", "65536", "4000").level, Level::Ok);
    }

    #[test]
    fn the_remedy_is_one_that_can_work() {
        assert_eq!(found("65536", "unlimited", "0").remedy, "ulimit -l 69632");
        assert!(found("65536", "65536", "0").remedy.contains("cap_ipc_lock"));
    }
}
