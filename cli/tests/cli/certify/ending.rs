//! Devices in lockstep that end with another exit code than 0 after quit (docs/lockstep.md).

use super::{text_lines, with};
use crate::support::bench::{SWITCHML, lockstep};
use crate::support::wired::{pktgen, said};

#[test]
fn a_wrong_end_fails_the_clause_under_way() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("x.toml");
    std::fs::write(&file, SWITCHML).expect("writable");
    let file = file.display().to_string();
    let device = lockstep().to_str().expect("a path");
    for (code, clause, verdict) in [
        (0, "switchml-sum", "passed"),
        (1, "switchml-sum", "failed"),
        (1, "switchml-receivers", "failed"),
        (1, "switchml-throughput", "failed"),
    ] {
        let script = format!("\"$@\"; exit {code}");
        let words = ["sh", "-c", &script, "sh", device, "--ports", "4", "--protocol", "switchml", "--workers", "4"];
        let command = format!("target.lockstep.command={}", serde_json::json!(words));
        let out = folder.path().join(format!("{code}-{clause}")).display().to_string();
        let words = ["certify", &file, "--json", "--allow-launch", "--clause", clause, "--repeats", "2", "--out", &out];
        let set = ["target.kind=external", "target.check=false", &command];
        let output = pktgen(&[], &words, &set).output().expect("it runs");
        let lines = text_lines(&output.stdout);
        assert_eq!(with(&lines, verdict), [clause], "{code}: {}", said(&output));
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        let why = lines[0]["why"].as_str().unwrap_or_default();
        assert_eq!(why.contains("it ended with exit status: 1"), code == 1, "{why}");
    }
}
