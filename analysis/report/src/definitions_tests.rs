use pktgen_core::definition::Timing;
use pktgen_core::record::{Action, Reason};
use pktgen_records::line::NS;
use pktgen_records::metric::is_one_way;

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

#[test]
fn one_way_times_are_known_by_their_definitions() {
    for known in families(&[], &[]).iter().flat_map(|family| &family.definitions) {
        // Keys have the name alone.
        assert!(known.timing != Some(Timing::OneWay) || is_one_way(known.metric), "{}", known.metric);
    }
    for (key, one_way) in [
        ("aom_peak_p99/worker", true),
        ("aom_mean/cluster/S1", true),
        ("lanes_aom_mean/cluster", true),
        ("host_latency_p99", true),
        ("time_to_goal", true),
        ("aom_fairness/groups", false),
        ("device_latency_mean", false),
        ("iteration_time_mean", false),
        ("aom_mine", false),
    ] {
        assert_eq!(is_one_way(key), one_way, "{key}");
    }
}
