//! Several queues on wires: veth pairs with two queues in a network namespace that the test makes and removes. If that
//! is not permitted, it prints SKIPPED and the reason. Counts, shares and refusals are asserted, but no times.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::netns::Net;
use crate::support::wired::is_whole;
use pktgen_testing::{Need, eventually, skip, undisturbed};
use serde_json::Value;

const FOUR: &str = "transport.interfaces=[\"w0\",\"d0\",\"d1\",\"s0\"]";

/// Six workers, 600 updates each, below the capacity of the device's link.
const EXPERIMENT: &str = "name = \"queues\"\n[workload]\nclusters = 2\nworkers_per_cluster = 3\nupdates = 600\nbytes = \"256B\"\n\
    [schedule]\nkind = \"poisson\"\noffered = \"8Mbps\"\n[topology]\nrate = \"1Gbps\"\n\
    [target]\nprogram = \"forward\"\nqueue = \"fifo\"\nslots = 4096\n[transport]\nkind = \"ring\"\nqueues = 2\nlinger = \"2s\"\n";
const SENT: u64 = 3600;

/// Returns a namespace with two cables, every interface with two queues; or the reason why there is none.
fn net(tag: &str) -> Result<Net, String> {
    let net = Net::make(tag, &["all"], &[(("all", "w0"), ("all", "d0")), (("all", "d1"), ("all", "s0"))])?;
    for interface in ["w0", "d0", "d1", "s0"] {
        let inside = net.inside("all");
        let words = inside[1..].iter().map(String::as_str).chain(["ethtool", "-L", interface, "rx", "2", "tx", "2"]);
        let set = Command::new(&inside[0]).args(words).output().map_err(|e| format!("ip does not run: {e}"))?;
        if !set.status.success() {
            return Err(format!("no second queue for {interface}: {}", String::from_utf8_lossy(&set.stderr).trim()));
        }
    }
    Ok(net)
}

fn pktgen(net: &Net, args: &[&str]) -> Command {
    let inside = net.inside("all");
    let mut command = Command::new(&inside[0]);
    command.args(&inside[1..]).arg(env!("CARGO_BIN_EXE_pktgen")).arg("-q").args(args);
    command
}

/// Runs the experiment with these settings.
fn replay(net: &Net, folder: &Path, out: &str, set: &[&str], more: &[&str]) -> Output {
    let file = folder.join("queues.toml");
    std::fs::write(&file, EXPERIMENT).expect("writable");
    let (file, out) = (file.display().to_string(), folder.join(out).display().to_string());
    let mut command = pktgen(net, &["replay", &file, "--no-report", "--out", &out]);
    command.args(set.iter().flat_map(|set| ["--set", set])).args(more).output().expect("it runs")
}

fn manifest(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path.join("manifest.json")).expect("a manifest")).expect("JSON")
}

/// Returns a field of each queue of an end.
fn of(manifest: &Value, end: &str, field: &str) -> Vec<u64> {
    let queues = manifest["queues"].as_array().into_iter().flatten();
    queues.filter(|queue| queue["end"] == end).map(|queue| queue[field].as_u64().expect("a number")).collect()
}

#[test]
fn every_transport_divides_its_traffic_among_its_queues_and_loses_nothing() {
    let net = match net("queues") {
        Ok(net) => net,
        Err(why) => return skip(Need::Netns, "several queues on veth pairs", why),
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (number, (kind, fanout)) in
        [("af_packet", "hash"), ("af_packet", "queue"), ("af_xdp", "hash"), ("xdp_live", "hash")]
            .into_iter()
            .enumerate()
    {
        let (kind_key, fanout_key) = (format!("transport.kind={kind}"), format!("transport.fanout={fanout}"));
        let manifest = undisturbed(&format!("two queues, {kind}, {fanout}"), |i| {
            let out = format!("out{number}-{i}");
            let output = replay(&net, folder.path(), &out, &[&kind_key, &fanout_key, FOUR], &[]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(matches!(output.status.code(), Some(0 | 1)), "{kind}, {fanout}: {said}");
            Some(manifest(&folder.path().join(&out))).filter(is_whole)
        });
        let Some(manifest) = manifest else { continue };
        let what = format!("{kind}, {fanout}: {}, {}", manifest["queues"], manifest["validity"]);
        assert_eq!(manifest["validity"]["valid"], true, "{what}");
        assert_eq!(
            (&manifest["balance"]["sent"], &manifest["balance"]["in_flight"]),
            (&SENT.into(), &0.into()),
            "{what}"
        );
        // Workers alternate between the queues, so each has three of six.
        assert_eq!(of(&manifest, "workers", "sent"), [SENT / 2, SENT / 2], "{what}");
        for end in ["device.down", "server"] {
            let received = of(&manifest, end, "received");
            assert_eq!((received.len(), received.iter().sum::<u64>()), (2, SENT), "{end}: {what}");
        }
        let dropped: u64 =
            ["workers", "device.down", "server"].iter().flat_map(|end| of(&manifest, end, "dropped")).sum();
        assert_eq!(dropped, 0, "{what}");
        // Queue i of one end of a veth leads to queue i of the other; flows are spread by their addresses.
        let down = of(&manifest, "device.down", "received");
        match (kind, fanout) {
            ("af_xdp", _) => assert_eq!(down, [SENT / 2, SENT / 2], "{what}"),
            ("af_packet", "hash") => assert!(down.iter().all(|count| *count % (SENT / 6) == 0), "{what}"),
            _ => {}
        }
    }
    refusals(&net, folder.path());
    captures(&net, folder.path());
    stamps(&net, folder.path());
}

fn refusals(net: &Net, folder: &Path) {
    for (kind, queues, part) in [
        (
            "af_packet",
            3,
            "w0 has 2 receive queues and 2 send queues; ask for 2, or give it more: ethtool -L w0 rx 3 tx 3",
        ),
        ("af_xdp", 3, "transport.queues = 3, and "),
        ("af_xdp", 1, "2 receive queues, and transport.queues = 1"),
        ("af_xdp", 1, "only transport.queues = 2 is possible, unless: ethtool -L w0 rx 1 tx 1"),
    ] {
        let set = [&format!("transport.kind={kind}"), &format!("transport.queues={queues}"), FOUR];
        let output = replay(net, folder, "refused", &set, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{kind}, {queues}: {said}");
        assert!(said.contains(part), "{kind}, {queues}: {said}");
    }
}

/// Captures both queues of an interface into one stream, while workers send on both.
fn captures(net: &Net, folder: &Path) {
    for kind in ["af_packet", "af_xdp"] {
        let out = folder.join(format!("heard-{kind}")).display().to_string();
        let count = SENT.to_string();
        let args = [
            "capture", "--iface", "d0", "--kind", kind, "--queues", "2", "--count", &count, "--for", "60s", "--out",
            &out,
        ];
        let capture = pktgen(net, &args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
        // Once the manifest exists, both sockets are open.
        eventually("a capture that listens", || Path::new(&out).join("manifest.json").exists());
        let only = "transport.interfaces=[\"w0\",\"\",\"\",\"\"]";
        let sent =
            replay(net, folder, &format!("sent-{kind}"), &["transport.kind=af_xdp", only], &["--role", "workers"]);
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        let heard = capture.wait_with_output().expect("it ends");
        assert!(heard.status.success(), "{kind}: {}", String::from_utf8_lossy(&heard.stderr));
        let manifest = manifest(Path::new(&out));
        assert_eq!(
            (&manifest["capture"]["captured"], &manifest["capture"]["kernel_dropped"]),
            (&SENT.into(), &0.into()),
            "{kind}"
        );
        let received = of(&manifest, "capture", "received");
        assert_eq!((received.len(), received.iter().sum::<u64>()), (2, SENT), "{kind}: {}", manifest["queues"]);
        assert!(received.iter().all(|count| count % (SENT / 6) == 0), "{kind}: {}", manifest["queues"]);
        for refused in ["3", "0"] {
            let args = ["capture", "--iface", "d0", "--kind", kind, "--queues", refused, "--out", &format!("{out}-no")];
            let output = pktgen(net, &args).output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(matches!(output.status.code(), Some(2 | 3)) && said.contains("--queues"), "{refused}: {said}");
        }
    }
}

/// A veth has no card, and this is reported; the kernel's stamps are available; cli/tests/cli/capture.rs checks each of them.
fn stamps(net: &Net, folder: &Path) {
    let out = folder.join("stamped").display().to_string();
    for (kind, code, part) in
        [("af_packet", 3, "the driver of d0 has no stamps of a card"), ("af_xdp", 2, "use --kind af_packet")]
    {
        let args = ["capture", "--iface", "d0", "--kind", kind, "--queues", "2", "--stamps", "card", "--out", &out];
        let output = pktgen(net, &args).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(part), "{kind}: {said}");
    }
}

/// Runs the bench of docs/real-time.md with few frames.
#[test]
fn the_bench_over_queues_runs() {
    let mut bench = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/queue-rates"));
    bench.env("PKTGEN", env!("CARGO_BIN_EXE_pktgen"));
    for (key, value) in [("ROUNDS", "1"), ("UPDATES", "400"), ("QUEUES", "2"), ("KINDS", "af_packet af_xdp xdp_live")] {
        bench.env(key, value);
    }
    let output = bench.output().expect("bash runs");
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(3) || said.contains("SKIPPED") {
        return skip(Need::Netns, "scripts/queue-rates", said);
    }
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("x1.00") && said.contains("received counts equal sent counts"), "{said}");
}
