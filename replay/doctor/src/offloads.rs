//! What a card and its driver do to packets on the way, and who may stop it.

use pktgen_core::registry::Named;

use super::{Check, Finding, Level, View};

use super::answers::Offloads;

const NAME: &str = "offloads";

/// See the head of this file.
pub(super) struct OffloadsOf;

impl Named for OffloadsOf {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "GRO and other offloads, pause frames, the receive ring"
    }
}

impl Check for OffloadsOf {
    fn look(&self, view: &View<'_>) -> Vec<Finding> {
        view.present().flat_map(|name| of(name, &view.host.answers().card(name).offloads)).collect()
    }
}

fn of(name: &str, offloads: &Offloads) -> Vec<Finding> {
    let new = |level, value: String| Finding::new(NAME, name, level, value);
    let mut findings = Vec::new();
    let told = [
        ("GRO", offloads.gro),
        ("LRO", offloads.lro),
        ("GSO", offloads.gso),
        ("TSO", offloads.tso),
        ("rx checksum", offloads.receive_checksum),
        ("tx checksum", offloads.send_checksum),
    ];
    let told: Vec<_> =
        told.iter().filter_map(|(what, on)| Some(format!("{what} {}", if (*on)? { "on" } else { "off" }))).collect();
    findings.push(match told.is_empty() {
        true => new(Level::Note, "not available".into()).why("its driver does not report it"),
        // Our frames are UDP and built whole: GRO and the senders' offloads leave them alone.
        false => new(Level::Ok, told.join(", ")),
    });
    if offloads.lro == Some(true) {
        findings.push(
            new(Level::Warning, "LRO on".into())
                .why("the card may merge what arrives, and most drivers then refuse XDP programs")
                .remedy(format!("sudo ethtool -K {name} lro off")),
        );
    }
    if offloads.pause == Some(true) {
        findings.push(
            new(Level::Warning, "pause frames obeyed".into())
                .why("the other side may stop our sending, so rates are not ours alone")
                .remedy(format!("sudo ethtool -A {name} rx off tx off")),
        );
    }
    if let Some((now, most)) = offloads.receive_ring
        && now < most
    {
        findings.push(
            new(Level::Note, format!("receive ring {now} of {most}"))
                .why("a longer one loses less in bursts")
                .remedy(format!("sudo ethtool -G {name} rx {most}")),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    #[test]
    fn what_hinders_is_told() {
        let good = Fixture::good().look(&OffloadsOf);
        assert_eq!(good.len(), 1);
        assert_eq!(good[0].value, "GRO on, LRO off, GSO on, TSO on, rx checksum on, tx checksum on");
        let mut fixture = Fixture::good();
        let offloads = &mut fixture.answers.card.offloads;
        (offloads.lro, offloads.pause, offloads.receive_ring) = (Some(true), Some(true), Some((512, 4096)));
        let remedies: Vec<_> = fixture.look(&OffloadsOf).into_iter().map(|f| f.remedy).collect();
        let expected =
            ["", "sudo ethtool -K eth1 lro off", "sudo ethtool -A eth1 rx off tx off", "sudo ethtool -G eth1 rx 4096"];
        assert_eq!(remedies, expected);
    }

    #[test]
    fn a_driver_without_answers_is_told() {
        let mut fixture = Fixture::good();
        fixture.answers.card.offloads = Offloads::default();
        let found = fixture.look(&OffloadsOf);
        assert_eq!((found.len(), found[0].level), (1, Level::Note));
    }
}
