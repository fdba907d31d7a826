//! Switches that sum: they are ready when their sums are right, and the probe leaves them as empty as before.

use super::*;

/// The switch of the bench, by docs/switchml.md.
const SWITCH: &str = "DEVICE --in e0 --protocol switchml --first 10.40.0.1 --workers 4 --group 239.40.0.0";

fn switch(tag: &str) -> Option<Bench> {
    prepare(tag, "switchml", "command = [\"true\"]")
}

impl Bench {
    fn becomes(&self, script: &str, more: &str) {
        self.write("switchml", &format!("{}\nready = \"round\"\n{more}", self.sh_at(&["e0"], script)));
    }
}

#[test]
fn sums_from_both_sets_show_that_a_switch_is_ready() {
    let Some(bench) = switch("launchround") else { return };
    for (script, more) in [
        (format!("exec {SWITCH}"), ""),
        (format!("sleep 0.5; exec {SWITCH}"), "slot = 8191"),
        // Lost rounds are no reason to give up.
        (format!("exec {SWITCH} --fault drop --share 0.3 --seed 7"), "timeout = \"60s\""),
        (format!("exec {SWITCH} --fault duplicate --share 1"), ""),
    ] {
        bench.becomes(&script, more);
        let output = bench.check(&[]);
        assert_eq!(output.status.code(), Some(0), "{script}: {}", said(&output));
        assert!(said(&output).contains("rounds of 4 workers in slot"), "{script}: {}", said(&output));
        assert_eq!(bench.left(), Vec::<String>::new(), "{script}");
    }
}

/// All packets of the run use the slot of the probe's rounds, and nothing is retransmitted.
#[test]
fn rounds_leave_a_slot_as_it_was() {
    let Some(bench) = switch("launchslot") else { return };
    bench.becomes(&format!("exec {SWITCH}"), "");
    for pool in ["endpoint.pool=1", "endpoint.pool=32"] {
        let whole = bench.whole(&[pool, "format.lanes=true", "workload.scale=0.0005"]);
        let Some(output) = whole else { continue };
        assert_eq!(output.status.code(), Some(0), "{pool}: {}", said(&output));
        let manifest = manifest(&bench.out());
        assert_eq!(manifest["validity"]["valid"], json!(true), "{pool}");
        assert_eq!(manifest["counters"]["sums_wrong"].as_u64().unwrap_or(0), 0, "{pool}: {}", manifest["counters"]);
        let ready = manifest["host"]["device.ready"].as_str().expect("what showed it").to_owned();
        assert!(ready.starts_with("round: "), "{pool}: {ready}");
        assert_eq!(bench.left(), Vec::<String>::new(), "{pool}");
    }
}

#[test]
fn a_switch_that_sums_wrongly_or_not_at_all_is_not_ready() {
    let Some(bench) = switch("launchnoround") else { return };
    // Only what has no result uses up its time.
    let (short, long) = ("timeout = \"2s\"", "timeout = \"60s\"");
    for (script, limit, says) in [
        (format!("exec {SWITCH} --wrong 1"), long, "the result of a round is wrong: value 255 is"),
        // The last option counts. Its counter goes on where the round before left it.
        (format!("exec {SWITCH} --workers 5"), long, "the result of a round is wrong: value 0 is"),
        (format!("exec {SWITCH} --fault mute"), short, "0 of 4 workers had a result"),
        ("exec DEVICE --in e0".to_owned(), short, "0 of 4 workers had a result"),
        (format!("exec {SWITCH} --fault flood"), long, "floods"),
        ("echo no table >&2; exit 3".to_owned(), long, "exit code 3; it printed: no table"),
    ] {
        bench.becomes(&script, limit);
        let output = bench.check(&[]);
        assert_eq!(output.status.code(), Some(1), "{script}: {}", said(&output));
        assert!(said(&output).contains(says), "{script}: {}", said(&output));
        // It was just started.
        assert!(!said(&output).contains("restart the device"), "{script}: {}", said(&output));
        assert_eq!(bench.left(), Vec::<String>::new(), "{script}");
    }
    bench.becomes(&format!("exec {SWITCH}"), "slot = 8192");
    let output = bench.check(&[]);
    assert!(output.status.code() == Some(2) && said(&output).contains("8191"), "{}", said(&output));
    bench.write("olaf", "command = [\"true\"]\nports = [\"e0\", \"e1\"]\nready = \"round\"");
    let output = bench.check(&[]);
    assert!(output.status.code() == Some(2) && said(&output).contains("slots of two sets"), "{}", said(&output));
}

/// The switch answers until it hangs: the workers give up, and the switch is ended.
#[test]
fn a_switch_that_hangs_during_a_run_leaves_it_unfinished() {
    let Some(bench) = switch("launchhangs") else { return };
    bench.becomes(&format!("{SWITCH} & {}; kill -STOP $!; sleep 1000", awaits(20_000)), "");
    let output = bench.replay(&["workload.iterations=10000"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let manifest = manifest(&bench.out());
    let faults = manifest["validity"]["faults"].to_string();
    assert!(faults.contains("unfinished") && !faults.contains("device_ended"), "{faults}");
    assert_eq!(bench.left(), Vec::<String>::new());
}
