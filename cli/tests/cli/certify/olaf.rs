//! Clauses of OLAF against our own card with few slots, in virtual time.

use super::{OLAF, text_lines, with};
use crate::support::wired::{pktgen, said};

/// A card drops updates that have no slot (Algorithm 1, line 22); clauses ask for as many as their stimulus needs.
#[test]
fn our_card_conforms_with_few_slots() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("card.toml");
    std::fs::write(&file, OLAF).expect("writable");
    let file = file.display().to_string();
    for slots in 1..=4 {
        for (is_held, clusters) in [true, false].into_iter().flat_map(|is_held| [3, 5, 6].map(|n| (is_held, n))) {
            let set = [
                format!("target.slots={slots}"),
                format!("target.slot_in_transmission={is_held}"),
                format!("workload.clusters={clusters}"),
            ];
            let out = folder.path().join(format!("{slots}-{is_held}-{clusters}")).display().to_string();
            let words = ["certify", &file, "--json", "--repeats", "5", "--out", &out];
            let output = pktgen(&[], &words, &set.each_ref().map(String::as_str)).output().expect("it runs");
            let lines = text_lines(&output.stdout);
            assert_eq!(output.status.code(), Some(0), "{set:?}: {}", said(&output));
            assert_eq!((with(&lines, "failed"), with(&lines, "not_decidable")), (vec![], vec![]), "{set:?}");
            let has_third = slots + i32::from(!is_held) >= 3;
            for id in ["olaf-merge", "olaf-headers", "olaf-replace", "olaf-lengths"] {
                let verdict = if has_third { "passed" } else { "not_applicable" };
                assert!(with(&lines, verdict).contains(&id), "{set:?}: {id}");
            }
        }
    }
}
