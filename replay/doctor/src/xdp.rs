//! What a driver can do with XDP.

use pktgen_core::registry::Named;

use super::{Check, Finding, Level, View};

use pktgen_realtime::transport::XdpFacts;

const NAME: &str = "xdp";

/// See the head of this file.
pub(super) struct Xdp;

impl Named for Xdp {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "XDP features of the driver: programs, redirected frames, zero copy"
    }
}

impl Check for Xdp {
    fn look(&self, view: &View<'_>) -> Vec<Finding> {
        let one = |name| match view.host.answers().card(name).xdp {
            Some(facts) => of(name, &facts, if view.asked { Level::Warning } else { Level::Note }),
            None => vec![
                Finding::new(NAME, name, Level::Note, "not available")
                    .why("the kernel does not say what its driver can do with XDP (Linux 6.3 and later do)")
                    .remedy(format!("pktgen doctor --probe --iface {name}")),
            ],
        };
        view.present().flat_map(one).collect()
    }
}

/// `unfit` is the level of a driver without XDP.
fn of(name: &str, facts: &XdpFacts, unfit: Level) -> Vec<Finding> {
    let new = |level, value: &str| Finding::new(NAME, name, level, value);
    let mut findings = vec![match facts.driver {
        true => {
            let more = [
                (facts.takes_redirected, ", takes redirected frames"),
                (facts.fragments, ", frames over several buffers"),
                (facts.stamps_received, ", receive timestamps"),
                (facts.stamps_sent, ", send timestamps"),
            ];
            let more: String = more.iter().filter(|(has, _)| *has).map(|(_, what)| *what).collect();
            new(Level::Ok, &format!("programs in the driver{more}"))
        }
        false => new(unfit, "no programs in the driver")
            .why("af_xdp and xdp_live receive by a program in the driver")
            .remedy("--set transport.kind=af_packet; or use a card whose driver has XDP"),
    }];
    findings.push(match facts.zero_copy {
        true => new(Level::Ok, "zero copy possible"),
        false => new(Level::Note, "no zero copy")
            .why("AF_XDP copies every frame here")
            .remedy("no setting gives a driver zero copy; i40e, ice, ixgbe, igc, mlx5 and others have it"),
    });
    findings
}

/// Whether programs in the driver can receive on it, as far as the kernel reports.
pub(super) fn has_driver_mode(facts: Option<XdpFacts>) -> bool {
    facts.is_none_or(|facts| facts.driver)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    fn levels(facts: Option<XdpFacts>) -> Vec<Level> {
        let mut fixture = Fixture::good().asking(&["eth1"]);
        fixture.answers.card.xdp = facts;
        fixture.look(&Xdp).into_iter().map(|f| f.level).collect()
    }

    #[test]
    fn drivers_are_told_apart() {
        let all = XdpFacts { driver: true, takes_redirected: true, zero_copy: true, ..XdpFacts::default() };
        assert_eq!(levels(Some(all)), [Level::Ok, Level::Ok]);
        assert_eq!(levels(Some(XdpFacts { zero_copy: false, ..all })), [Level::Ok, Level::Note]);
        assert_eq!(levels(Some(XdpFacts::default())), [Level::Warning, Level::Note]);
        assert_eq!(levels(None), [Level::Note]);
    }
}
