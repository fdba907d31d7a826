//! Devices' counters, as printed by commands.

use super::*;

/// Command that prints the packets through the device's interfaces, from its kernel.
const PORTS: &str = r#"awk '$1 == "e0:" { a = $3 } $1 == "e1:" { b = $11 } END { printf "{\"updates\":%d,\"forwarded\":%d}", a, b }' /proc/net/dev"#;
/// Prints one text the first time, and another afterwards.
const CHANGES: &str = "if [ -e /run/seen ]; then echo AFTER; else touch /run/seen; echo BEFORE; fi";

fn counting(bench: &Bench, script: &str) {
    let command = json!(["sh", "-c", script]);
    bench.write("olaf", &format!("{}\ncounters = {command}", bench.sh(FORWARD)));
}

#[test]
fn what_a_device_counted_during_a_run_is_in_its_manifest_and_metrics() {
    let Some(bench) = script("launchcounts", FORWARD, "") else { return };
    counting(&bench, PORTS);
    let output = bench.check(&DECLARED);
    assert!(output.status.code() == Some(0) && said(&output).contains("counter        updates"), "{}", said(&output));
    let Some(output) = bench.whole(&DECLARED) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let manifest = manifest(&bench.out());
    let (counted, sent) = (&manifest["counters"]["device"], &manifest["balance"]["generated"]);
    // The marked frames of the probe were counted before the run.
    assert!(
        sent.as_u64() > Some(0) && counted["updates"] == *sent && counted["forwarded"] == *sent,
        "{counted}, {sent}"
    );
    let out = bench.out().display().to_string();
    let output = bench.command(&["analyze", &out], &[]).output().expect("it runs");
    let line =
        said(&output).lines().find(|line| line.contains("device") && line.contains("forwarded")).map(str::to_owned);
    assert!(line.is_some_and(|line| line.contains(&sent.to_string())), "{}", said(&output));
}

#[test]
fn what_is_missing_or_fell_has_no_value() {
    let Some(bench) = script("launchfell", FORWARD, "") else { return };
    let changes = |before: &str, after: &str| {
        CHANGES.replace("BEFORE", &format!("'{before}'")).replace("AFTER", &format!("'{after}'"))
    };
    counting(&bench, &changes(r#"{"grew": 1, "fell": 5, "gone": 1}"#, r#"{"grew": 4, "fell": 2, "new": 7}"#));
    let output = bench.check(&DECLARED);
    assert!(said(&output).contains("counter        fell 5"), "{}", said(&output));
    let Some(output) = bench.whole(&DECLARED) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("fell from 5 to 2"), "{}", said(&output));
    let manifest = manifest(&bench.out());
    assert_eq!(manifest["counters"]["device"], json!({ "grew": 3 }));
    assert!(manifest["validity"]["notes"].to_string().contains("device_counters"));
}

#[test]
fn what_is_no_counter_is_refused() {
    let Some(bench) = script("launchnocount", FORWARD, "") else { return };
    for (script, says) in [
        ("echo nothing", "no JSON object of whole numbers"),
        ("echo '{\"packets\": -1}'", "no JSON object of whole numbers"),
        ("echo '{\"packets\": 0.5}'", "no JSON object of whole numbers"),
        ("echo '{\"packets\": 1, \"packets\": 2}'", "\"packets\" comes twice"),
        ("echo no such counter >&2; exit 4", "target.launch.counters: exit code 4: no such counter"),
    ] {
        counting(&bench, script);
        let output = bench.check(&DECLARED);
        assert_eq!(output.status.code(), Some(1), "{script}: {}", said(&output));
        assert!(said(&output).contains(says), "{script}: {}", said(&output));
    }
    // An unreadable counter after a run does not make it invalid.
    counting(&bench, &CHANGES.replace("BEFORE", "'{\"packets\": 0}'").replace("AFTER", "lost"));
    let Some(output) = bench.whole(&DECLARED) else { return };
    assert!(output.status.code() == Some(0) && said(&output).contains("no JSON object"), "{}", said(&output));
    assert_eq!(bench.left(), Vec::<String>::new());
}
