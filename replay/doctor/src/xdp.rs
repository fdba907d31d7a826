//! What a driver can do with XDP.

use pktgen_core::registry::Named;

use super::host::Host;
use super::{Check, Finding, Level, View, veth};

use pktgen_realtime::transport::{XdpFacts, safety};

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
            Some(facts) => of(view.host, name, &facts, if view.asked { Level::Warning } else { Level::Note }),
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
fn of(host: &Host, name: &str, facts: &XdpFacts, unfit: Level) -> Vec<Finding> {
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
        false => {
            let (why, remedy) = lacking(host, name);
            new(unfit, "no programs in the driver")
                .why(format!("af_xdp and xdp_live receive by a program in the driver, and {why}"))
                .remedy(remedy)
        }
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

/// Returns why no program in the driver can receive on it, and the remedy.
pub(super) fn lacking(host: &Host, name: &str) -> (String, String) {
    let packet = "--set transport.kind=af_packet";
    match veth::is_veth(host, name) {
        true => {
            let (why, remedy) = safety::too_few_queues(host.root(), name);
            (why, format!("{remedy}; or {packet}"))
        }
        false => ("its driver runs none".to_owned(), format!("{packet}; or use a card whose driver has XDP")),
    }
}

/// Whether it drops frames that a program redirects to it, as far as the kernel reports.
pub(super) fn drops_redirected(facts: Option<XdpFacts>) -> bool {
    facts.is_some_and(|facts| !facts.takes_redirected)
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

    /// The driver of a veth has XDP if there are queues enough.
    #[test]
    fn a_veth_without_programs_needs_queues() {
        let mut fixture = Fixture::good().asking(&["eth1"]).file("sys/class/net/eth1/iflink", "6\n");
        fixture.answers.card.xdp = Some(XdpFacts::default());
        let remedy = |fixture: &Fixture| fixture.look(&Xdp)[0].remedy.clone();
        assert_eq!(remedy(&fixture), "--set transport.kind=af_packet; or use a card whose driver has XDP");
        fixture.answers.card.driver = Some("veth".into());
        assert!(remedy(&fixture).starts_with("sudo ethtool -L eth1 rx N, "), "{}", remedy(&fixture));
        for (file, text) in
            [("ifindex", "6"), ("iflink", "2"), ("queues/tx-0/x", ""), ("queues/tx-1/x", ""), ("queues/tx-2/x", "")]
        {
            fixture = fixture.file(&format!("sys/class/net/d0/{file}"), text);
        }
        let wanted = "sudo ethtool -L eth1 rx 3; or sudo ethtool -L d0 tx 2; or --set transport.kind=af_packet";
        assert_eq!(remedy(&fixture), wanted);
        let why = fixture.look(&Xdp)[0].why.clone();
        let wanted = "eth1 has fewer receive queues (2) than d0, its other end, has send queues (3)";
        assert!(why.ends_with(wanted), "{why}");
    }
}
