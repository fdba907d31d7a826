use pktgen_generator::record::{Action, Reason};

use super::*;
use crate::line::NS;

fn definition_of(line: &Line) -> Option<Definition> {
    super::definition_of(line, &[])
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
fn labels_name_what_there_is() {
    let captured =
        families(&[]).into_iter().flat_map(|family| family.definitions).find(|known| known.metric == "captured");
    let format = captured.iter().flat_map(|known| known.labels).find(|label| label.name == "format");
    assert!(format.is_some_and(|label| label.values.is_empty()));
    assert!(Action::ALL.iter().all(|action| action.about().ends_with('.')));
    assert!(Reason::ALL.iter().all(|reason| reason.about().ends_with('.')));
}

#[test]
fn columns_of_tables_say_what_they_are() {
    for stream in capture::tables::TABLES {
        for column in stream.columns {
            let what = format!("{}.{}", stream.name, column.name);
            assert!(column.about.ends_with('.') && !column.unit.is_empty(), "{what}");
            assert_eq!(column.name.ends_with("_ps"), column.unit == "ps", "{what}");
        }
    }
}
