//! veth pairs: what they are no measure of, and what their other end needs.

use pktgen_core::registry::Named;
use pktgen_realtime::transport::safety::other_end;

use super::host::Host;
use super::{Check, Finding, Level, View, xdp};

const NAME: &str = "veth";

/// See the head of this file.
pub(super) struct Veth;

impl Named for Veth {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "veth pairs: limits of measurements on them, requirements at the other end"
    }
}

impl Check for Veth {
    fn look(&self, view: &View<'_>) -> Vec<Finding> {
        let pairs = view.present().filter(|name| is_veth(view.host, name));
        pairs.flat_map(|name| of(view.host, name)).collect()
    }
}

fn of(host: &Host, name: &str) -> Vec<Finding> {
    let peer = other_end(host.root(), name);
    let with = peer.as_deref().unwrap_or("an interface of another namespace");
    let mut findings = vec![
        Finding::new(NAME, name, Level::Note, format!("veth, with {with}"))
            .why("figures from veth are not those of a card; its speed is made up"),
    ];
    if xdp::drops_redirected(host.answers().card(name).xdp) {
        let at = if peer.is_some() { "" } else { "in the other namespace: " };
        findings.push(
            Finding::new(NAME, name, Level::Note, "drops redirected frames")
                .why(format!(
                    "{with} has neither an XDP program nor GRO; af_xdp and xdp_live give it one while they run on it"
                ))
                .remedy(format!("{at}sudo ethtool -K {} gro on", peer.as_deref().unwrap_or("PEER"))),
        );
    }
    findings
}

/// Whether it is one.
pub(super) fn is_veth(host: &Host, name: &str) -> bool {
    host.driver(name).is_some_and(|driver| driver == "veth")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    fn pair() -> Fixture {
        let mut fixture = Fixture::good().asking(&["w0"]);
        for (name, index, link) in [("w0", "5", "6"), ("d0", "6", "5"), ("x0", "7", "5")] {
            for (file, text) in [("ifindex", index), ("iflink", link), ("flags", "0x1003")] {
                fixture = fixture.file(&format!("sys/class/net/{name}/{file}"), text);
            }
        }
        fixture.answers.card.driver = Some("veth".into());
        fixture
    }

    #[test]
    fn a_pair_is_found_and_labelled() {
        let found = pair().look(&Veth);
        assert_eq!((found.len(), found[0].value.as_str()), (1, "veth, with d0"));
        assert!(found[0].why.contains("figures from veth are not those of a card"));
        let apart = pair().remove("sys/class/net/d0").look(&Veth);
        assert_eq!(apart[0].value, "veth, with an interface of another namespace");
        assert_eq!(Fixture::good().look(&Veth), []);
    }

    #[test]
    fn its_other_end_needs_a_program_or_gro() {
        let mut fixture = pair();
        fixture.answers.card.xdp.as_mut().unwrap().takes_redirected = false;
        let found = fixture.look(&Veth);
        assert_eq!(found[1].remedy, "sudo ethtool -K d0 gro on");
    }
}
