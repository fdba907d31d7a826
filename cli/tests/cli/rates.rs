//! The table of `scripts/rates`, from rows as the script writes them.

use std::process::Command;

use crate::support::{root, text};
use pktgen_testing::{Need, skip};

/// Runs the part of the script that reads its rows; returns its exit code and what it printed.
fn table(rows: &str) -> Option<(Option<i32>, String)> {
    let script = std::fs::read_to_string(root().join("scripts/rates")).expect("the script");
    let (_, part) = script.split_once("python3 - \"$out/rows\" <<'P'\n").expect("the table");
    let (part, _) = part.split_once("\nP\n").expect("its end");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("rows");
    std::fs::write(&file, rows).expect("writable");
    match Command::new("python3").args(["-c", part]).arg(&file).output() {
        Ok(output) => {
            assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
            Some((output.status.code(), text(&output.stdout)))
        }
        Err(why) => {
            skip(Need::Python, "the table of scripts/rates", why);
            None
        }
    }
}

#[test]
fn lost_frames_end_the_script_with_1_behind_the_table() {
    let whole = "256    none  af_xdp                    1.000  sent      1000  arrived      1000\n\
                 256    none  testpmd net_af_xdp        1.000  sent         -  arrived       900\n";
    let lossy = "256    none  af_packet                 0.500  sent      1000  arrived       999\n";
    let Some((code, printed)) = table(whole) else { return };
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.ends_with("received counts equal sent counts\n"), "{printed}");
    let Some((code, printed)) = table(&format!("{whole}{lossy}")) else { return };
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("256 B af_packet") && printed.contains("LOST:\n256    none  af_packet"), "{printed}");
}
