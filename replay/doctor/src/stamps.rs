//! Which interfaces stamp frames in hardware, and with which clock.

use pktgen_core::registry::Named;

use super::{Check, Finding, Level, View};

const NAME: &str = "stamps";

/// See the head of this file.
pub(super) struct StampsOf;

impl Named for StampsOf {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "hardware timestamps and their clock"
    }
}

impl Check for StampsOf {
    fn look(&self, view: &View<'_>) -> Vec<Finding> {
        let one = |name| {
            let stamps = view.host.answers().card(name).stamps.unwrap_or_default();
            let clock = stamps.clock.map_or("no clock".to_owned(), |clock| format!("clock /dev/ptp{clock}"));
            let what = match (stamps.sent, stamps.received) {
                (true, true) => "sent and received",
                (true, false) => "sent only",
                (false, true) => "received only",
                (false, false) => {
                    return Finding::new(NAME, name, Level::Note, "none in hardware")
                        .why("times are those at which the kernel or pktgen saw a frame")
                        .remedy("no setting adds them; use a card with hardware timestamps");
                }
            };
            let value = format!("{what}, {clock}");
            match stamps.every {
                true => Finding::new(NAME, name, Level::Ok, value),
                false => Finding::new(NAME, name, Level::Note, format!("{value}, not of every frame"))
                    .why("what arrives is stamped for PTP only, so updates are not")
                    .remedy("no setting changes it; use a card that stamps every frame"),
            }
        };
        view.present().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::StampSupport;
    use crate::testing::Fixture;

    #[test]
    fn cards_are_told_apart() {
        let all = StampSupport { sent: true, received: true, every: true, clock: Some(2) };
        for (stamps, level, value) in [
            (Some(all), Level::Ok, "sent and received, clock /dev/ptp2"),
            (
                Some(StampSupport { every: false, ..all }),
                Level::Note,
                "sent and received, clock /dev/ptp2, not of every frame",
            ),
            (Some(StampSupport { sent: false, clock: None, ..all }), Level::Ok, "received only, no clock"),
            (Some(StampSupport::default()), Level::Note, "none in hardware"),
            (None, Level::Note, "none in hardware"),
        ] {
            let mut fixture = Fixture::good();
            fixture.answers.card.stamps = stamps;
            let found = fixture.look(&StampsOf);
            assert_eq!((found[0].level, found[0].value.as_str()), (level, value));
        }
    }
}
