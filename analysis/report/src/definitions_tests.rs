use pktgen_core::record::{Action, Reason};
use pktgen_records::line::NS;

use super::*;

fn definition_of(line: &Line) -> Option<Definition> {
    super::definition_of(line, &families(&[], &[]))
}

#[test]
fn a_line_is_defined_with_its_unit_and_labels_only() {
    let age = Line::new("aom_mean", NS, 1.0).with("flow", "cluster");
    assert_eq!(definition_of(&age.clone().with("run", "a")).map(|known| known.metric), Some("aom_mean"));
    assert!(definition_of(&age.clone().with("id", 3)).is_some());
    assert!(definition_of(&age.clone().with("group", "S1")).is_some_and(|known| known.definition.contains("group")));
    assert!(definition_of(&Line::new("dropped", "updates", 1.0).with("reason", "late")).is_some());
    for line in [
        Line::new("aom_means", NS, 1.0).with("flow", "cluster"),
        Line::new("aom_mean", "ps", 1.0).with("flow", "cluster"),
        Line::new("aom_mean", NS, 1.0),
        age.with("n", 3),
        Line::new("dropped", "updates", 1.0).with("reason", "bad_luck"),
    ] {
        assert_eq!(definition_of(&line), None, "{line:?}");
    }
}

#[test]
fn actions_and_reasons_say_what_they_are() {
    assert!(Action::ALL.iter().all(|action| action.about().ends_with('.')));
    assert!(Reason::ALL.iter().all(|reason| reason.about().ends_with('.')));
}
