//! Comparability of times at the server with times at workers, and the maximum error.

use pktgen_core::record::{Manifest, Note};
use pktgen_core::time::{NS, Time};

use super::parts::{PARTS, Part};
use crate::settle::early::Early;

/// The fact of a part with the maximum error of its wall clock, in ns; missing if that clock was not synchronised.
pub(super) const CLOCK_ERROR: &str = "clock.error_ns";

/// The relation of the clocks of senders and server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Agreement {
    /// They are the same clock.
    One,
    /// Wall clocks with this maximum offset in ns.
    Within(u64),
    /// Unknown, with the reason.
    Unknown(String),
}

/// Returns the maximum error of a part's wall clock, in ns.
pub(super) fn error_ns(part: &Part) -> Option<u64> {
    part.fact(CLOCK_ERROR).parse().ok()
}

impl Agreement {
    /// As measured by the parts' hosts, or as `stated` by the user for a pair of hosts.
    pub(super) fn of(parts: &[Part], stated: Option<Time>) -> Self {
        let ends: Vec<_> = parts.iter().filter(|part| part.name() != PARTS[1] && part.began()).collect();
        let boots = || ends.iter().map(|part| part.fact("clock.boot_id"));
        if boots().all(|boot| !boot.is_empty() && boots().next() == Some(boot)) {
            return Agreement::One;
        }
        if let Some(stated) = stated {
            return Agreement::Within((stated / NS).max(0) as u64);
        }
        if let Some(part) = ends.iter().find(|part| error_ns(part).is_none()) {
            return Agreement::Unknown(format!(
                "{}: its wall clock was not synchronised all the time, or was set during the run",
                part.label()
            ));
        }
        // The maximum of each side: only the offset between senders and server matters.
        let worst = |name: &str| {
            let of = ends.iter().filter(|part| part.name() == name);
            of.filter_map(|part| error_ns(part)).max().unwrap_or(0)
        };
        Agreement::Within(worst(PARTS[0]) + worst(PARTS[2]))
    }

    /// Returns the maximum offset, if it is known and not of one clock.
    pub(super) fn bound(&self) -> Option<Time> {
        match self {
            Agreement::Within(ns) => Some(Time::try_from(*ns).unwrap_or(Time::MAX).saturating_mul(NS)),
            Agreement::One | Agreement::Unknown(_) => None,
        }
    }

    /// Returns what is left of it after arrivals were compared with transmissions: those earlier by more than the bound disprove it.
    pub(super) fn after(self, early: Early) -> Self {
        match self {
            Agreement::Within(ns) if early.rows > 0 => Agreement::Unknown(format!(
                "their offset is {:.3} ms at least, and not {:.3} us at most: {} packets arrived before they were sent by more than that",
                early.most as f64 / 1e9,
                ns as f64 / 1e3,
                early.rows
            )),
            other => other,
        }
    }

    /// Adds the note for readers to the manifest of the whole.
    pub(super) fn tell(&self, manifest: &mut Manifest) {
        let note = match self {
            Agreement::One => return,
            Agreement::Within(ns) => {
                manifest.host.insert("clocks.error_ns".into(), ns.to_string());
                Note::ClocksWithin { ns: *ns }
            }
            Agreement::Unknown(why) => {
                manifest.host.insert("clocks.error_ns".into(), "unknown".into());
                manifest.clocks.insert("received.t_recv_ps".into(), "another host, not synchronised".into());
                Note::ClocksUnknown { why: why.clone() }
            }
        };
        manifest.incidents.notes.push(note);
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::testing::part;
    use super::*;

    #[test]
    fn ages_are_between_workers_and_server_and_a_device_elsewhere_does_not_matter() {
        let of = |parts: &[Part]| Agreement::of(parts, None);
        let device = || part("device", "c", None);
        assert_eq!(of(&[part("workers", "a", None), device(), part("server", "a", None)]), Agreement::One);
        let known =
            [part("workers", "a", Some("500")), part("workers", "b", Some("900")), part("server", "c", Some("30"))];
        assert_eq!(of(&known), Agreement::Within(930), "the worst sender and the server");
        let one_free = [part("workers", "a", Some("500")), device(), part("server", "b", None)];
        let Agreement::Unknown(why) = of(&one_free) else { panic!("nobody knows") };
        assert!(why.starts_with("server: its wall clock was not synchronised"), "{why}");
        assert_eq!(Agreement::of(&one_free, Some(2_000 * NS)), Agreement::Within(2_000));
        let nowhere = [part("workers", "", None), part("server", "", None)];
        assert!(matches!(of(&nowhere), Agreement::Unknown(_)), "no boot is no proof of one host");
    }

    #[test]
    fn arrivals_before_their_transmission_disprove_a_bound() {
        let within = Agreement::Within(1_000);
        assert_eq!(within.bound(), Some(1_000 * NS));
        assert_eq!(within.clone().after(Early { most: 900 * NS, ..Early::default() }), within);
        let early = Early { rows: 6518, most: 49_455_760_000, largest: 49_500_000_000 };
        let Agreement::Unknown(why) = within.after(early) else { panic!("it holds no more") };
        assert!(why.contains("49.456 ms at least, and not 1.000 us at most: 6518 packets"), "{why}");
        assert_eq!((Agreement::One.bound(), Agreement::One.after(early)), (None, Agreement::One), "one clock");
    }

    #[test]
    fn what_is_not_comparable_has_another_clock_in_the_manifest() {
        let told = |agreement: Agreement| {
            let mut manifest = part("workers", "a", None).manifest;
            agreement.tell(&mut manifest);
            (
                manifest.clocks.len(),
                manifest.host.get("clocks.error_ns").cloned(),
                manifest.incidents.notes.iter().map(Note::to_string).collect::<String>(),
            )
        };
        assert_eq!(told(Agreement::One), (0, None, String::new()));
        let (clocks, error, note) = told(Agreement::Within(1500));
        assert!((clocks, error.as_deref()) == (0, Some("1500")) && note.contains("1.500 us apart at most"), "{note}");
        let (clocks, error, note) = told(Agreement::Unknown("rank 1".into()));
        assert!((clocks, error.as_deref()) == (1, Some("unknown")) && note.contains("withheld"), "{note}");
        assert!(note.contains("(rank 1)") && note.contains("--clock-error 1us"), "{note}");
    }
}
