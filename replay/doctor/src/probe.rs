//! Does an AF_XDP socket really open? Only where that was asked for.

use pktgen_core::registry::Named;

use super::{Check, Finding, Level, View};

const NAME: &str = "probe";

/// See the head of this file.
pub(super) struct Probe;

impl Named for Probe {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "with --probe: opens an AF_XDP socket that only sends, in copy mode, and closes it"
    }
}

impl Check for Probe {
    fn look(&self, view: &View<'_>) -> Vec<Finding> {
        if !view.probe {
            return Vec::new();
        }
        let one = |name: &str| match view.host.answers().bind(name) {
            Ok(mode) => Finding::new(NAME, name, Level::Ok, mode),
            Err(error) => Finding::refused(NAME, name, "AF_XDP does not open", &error.to_string()),
        };
        // One that is down refuses everything; its state is told by another check.
        view.present().filter(|name| view.host.is_up(name)).map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    #[test]
    fn sockets_are_opened_only_where_asked_for() {
        let mut fixture = Fixture::good();
        assert_eq!(fixture.look(&Probe), []);
        fixture.probe = true;
        assert_eq!(fixture.look(&Probe)[0].level, Level::Ok);
        fixture.answers.refusal = Some("this host cannot bind: busy (os error 16); end the other socket".into());
        let found = fixture.look(&Probe);
        assert_eq!((found[0].level, found[0].remedy.as_str()), (Level::Cannot, "end the other socket"));
        assert_eq!(found[0].why, "this host cannot bind: busy (os error 16)");
        let down = fixture.file("sys/class/net/eth1/flags", "0x1002\n").look(&Probe);
        assert_eq!(down, []);
    }
}
