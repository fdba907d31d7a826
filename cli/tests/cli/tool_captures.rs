//! Captures meet other tools: Wireshark's read ours without a warning, and our reader finds in what others wrote the same
//! packets as tshark, to the nanosecond. What needs a tool or a namespace that is not there, says SKIPPED and why.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::captures;
use crate::support::netns::Net;
use crate::support::tools::{agree, is_clean, packets, run};
use pktgen_testing::{HANG, Need, skip};

/// A capture that others change: 540 frames of a run, times to the nanosecond.
fn ours(folder: &Path) -> PathBuf {
    captures::runs(folder).remove(0).1
}

#[test]
fn wireshark_reads_ours_without_a_warning() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let all = [captures::runs(folder.path()), captures::taps(folder.path()), captures::files(folder.path())].concat();
    assert!(all.len() > 13, "{all:?}");
    for (_, file) in all {
        if is_clean(&file, folder.path()).is_none() {
            return;
        }
        let found = agree(&file).expect("tshark is there");
        assert!(found > 10 && found == packets(&file), "{}: {found}", file.display());
    }
}

/// Runs a tool that makes `file`, and compares readers.
fn made(file: &Path, tool: &str, args: &[&str], wanted: usize) {
    if run(Command::new(tool).args(args)).is_some()
        && let Some(found) = agree(file)
    {
        assert_eq!(found, wanted, "{tool} {args:?}");
    }
}

#[test]
fn editcap_mergecap_tcpdump_and_tcprewrite_are_read_as_tshark_reads_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let from = ours(folder.path());
    let (total, from) = (packets(&from), from.to_str().expect("UTF-8"));
    let to = |name: &str| folder.path().join(name).display().to_string();
    let [micro, nano, ng, cut, both] = ["micro.pcap", "nano.pcap", "x.pcapng", "cut.pcap", "both.pcapng"].map(to);
    made(Path::new(&micro), "editcap", &["-F", "pcap", from, &micro], total);
    made(Path::new(&nano), "editcap", &["-F", "nsecpcap", from, &nano], total);
    made(Path::new(&ng), "editcap", &["-F", "pcapng", "-a", "3:a comment", from, &ng], total);
    made(Path::new(&cut), "editcap", &["-F", "nsecpcap", "-s", "61", "-t", "-0.000000001", from, &cut], total);
    let ng_cut = to("cut.pcapng");
    made(Path::new(&ng_cut), "editcap", &["-F", "pcapng", "-s", "60", from, &ng_cut], total);
    // Interfaces of their own, with times of two resolutions, in one file.
    let many: [&[&str]; 3] = [&["-I", "none"], &["-I", "all"], &["-a"]];
    for (i, how) in many.into_iter().enumerate() {
        let out = to(&format!("{i}-{}", "merged.pcapng"));
        made(Path::new(&out), "mergecap", &[how, &["-w", &out, &micro, &nano, from]].concat(), 3 * total);
    }
    made(Path::new(&both), "mergecap", &["-F", "nsecpcap", "-w", &both, &micro, from], 2 * total);
    for (name, extra) in [("td-micro", &[][..]), ("td-nano", &["--nano"])] {
        let out = to(name);
        made(Path::new(&out), "tcpdump", &[&["-r", from, "-w", &out][..], extra].concat(), total);
    }
    let out = to("td-filtered");
    let few = total - 10;
    made(Path::new(&out), "tcpdump", &["-r", &micro, "-c", &few.to_string(), "-w", &out, "udp"], few);
    let rewritten = to("rewritten.pcap");
    let tag = ["--enet-vlan=add", "--enet-vlan-tag=7", "--enet-vlan-pri=0", "--enet-vlan-cfi=0"];
    let files = ["-i", &nano, "-o", &rewritten];
    made(
        Path::new(&rewritten),
        "tcprewrite",
        &[&files[..], &tag, &["--dstipmap=198.18.0.1:192.0.2.9"]].concat(),
        total,
    );
    for file in [&micro, &ng] {
        if !Path::new(file).exists() {
            continue;
        }
        run(Command::new("gzip").args(["-k", file]));
        assert_eq!(agree(Path::new(&format!("{file}.gz"))), Some(total), "{file}.gz");
    }
}

/// What scapy writes: both byte orders and resolutions, packed, snapped, pcapng.
const SCAPY: &str = r#"
import sys
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether, Dot1Q
from scapy.utils import PcapWriter, PcapNgWriter, RawPcapWriter
folder = sys.argv[1]
def frames():
    for i in range(200):
        tag = [Ether(), Ether() / Dot1Q(vlan=5), Ether() / Dot1Q(vlan=5) / Dot1Q(vlan=6)][i % 3]
        p = tag / IP(src="10.0.0.1", dst="198.18.0.1") / UDP(sport=48501, dport=48500) / (bytes([i]) * (i * 7 % 1400))
        p.time = 1700000000 + i * 3 + (i * 1234567 % 1000000) / 1000000
        yield p
def write(name, **how):
    with PcapWriter(folder + "/" + name, sync=True, **how) as writer:
        for p in frames():
            writer.write(p)
write("little.pcap", endianness="<")
write("big.pcap", endianness=">")
write("big-nano.pcap", endianness=">", nano=True)
write("little-nano.pcap", endianness="<", nano=True)
write("packed.pcap.gz", gz=True)
with PcapNgWriter(folder + "/ng.pcapng") as writer:
    for p in frames():
        writer.write(p)
with RawPcapWriter(folder + "/snapped.pcap", linktype=1, nano=True, endianness=">", snaplen=50) as writer:
    writer.write_header(None)
    for i, p in enumerate(frames()):
        b = bytes(p)
        writer.write_packet(b[:50], sec=1700000000 + i, usec=i * 4999999 % 1000000000, caplen=len(b[:50]), wirelen=len(b))
"#;

#[test]
fn what_scapy_writes_is_read_as_tshark_reads_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Debian's own: another Python that comes first may not have it.
    let python = if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" };
    let probe = Command::new(python).args(["-c", "import scapy.utils"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return skip(Need::Scapy, "captures that scapy writes", format!("{python} has no scapy"));
    }
    run(Command::new(python).args(["-c", SCAPY]).arg(folder.path())).expect("it is there");
    for name in
        ["little.pcap", "big.pcap", "big-nano.pcap", "little-nano.pcap", "packed.pcap.gz", "ng.pcapng", "snapped.pcap"]
    {
        let Some(found) = agree(&folder.path().join(name)) else { return };
        assert_eq!(found, 200, "{name}");
    }
}

/// Starts a capture that ends after 30 seconds at the latest.
fn start(net: &Net, args: &[&str]) -> Option<Child> {
    let before = net.inside("all");
    let mut command = Command::new(&before[0]);
    command
        .args(&before[1..])
        .args(["timeout", &HANG.as_secs().to_string()])
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().ok()
}

/// Frames that tcpreplay sends over a veth pair, captured by tcpdump and dumpcap in every form they have.
#[test]
fn what_tcpdump_and_dumpcap_capture_is_read_as_tshark_reads_it() {
    let net = match Net::make("tools", &["all"], &[(("all", "tx0"), ("all", "rx0"))]) {
        Err(why) => return skip(Need::Netns, "captures of a veth pair", why),
        Ok(net) => net,
    };
    for tool in ["tcpreplay", "tcpdump", "dumpcap"] {
        if let Err(why) = Command::new(tool).arg("--version").output() {
            let need = Need::of_program(tool).expect("a need");
            return skip(need, "captures of a veth pair by other tools", why);
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let from = folder.path().join("from.pcap");
    let ours = ours(folder.path());
    run(Command::new("tcpdump").arg("-r").arg(ours).args(["-c", "500", "-w"]).arg(&from)).expect("it is there");
    let to = |name: &str| folder.path().join(name).display().to_string();
    let names = ["td.pcap", "td-nano.pcap", "td-cut.pcap", "dc.pcap", "dc.pcapng", "dc-two.pcapng"].map(to);
    let captures: [&[&str]; 6] = [
        &["tcpdump", "-Z", "root", "-U", "-i", "rx0", "-c", "300", "-w", &names[0]],
        &["tcpdump", "-Z", "root", "-U", "-i", "rx0", "-c", "300", "--nano", "-w", &names[1]],
        &["tcpdump", "-Z", "root", "-U", "-i", "rx0", "-c", "300", "-s", "77", "--nano", "-w", &names[2]],
        &["dumpcap", "-q", "-i", "rx0", "-c", "300", "-P", "-w", &names[3]],
        &["dumpcap", "-q", "-i", "rx0", "-c", "300", "-n", "-s", "80", "-w", &names[4]],
        &["dumpcap", "-q", "-i", "rx0", "-i", "tx0", "-c", "300", "-n", "-w", &names[5]],
    ];
    let mut running: Vec<_> = captures.iter().map(|args| start(&net, args).expect("it starts")).collect();
    // The files exist before the tools listen, so frames are sent for a while until all have enough.
    let before = net.inside("all");
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(300));
        let mut replay = Command::new(&before[0]);
        replay.args(&before[1..]).args(["tcpreplay", "-q", "-i", "tx0", "--pps=5000"]).arg(&from);
        run(&mut replay).expect("it is there");
        if running.iter_mut().all(|child| child.try_wait().is_ok_and(|status| status.is_some())) {
            break;
        }
    }
    for (child, name) in running.iter_mut().zip(&names) {
        let status = child.wait().expect("a child");
        assert!(status.success(), "{name}: {status}");
        let Some(found) = agree(Path::new(name)) else { return };
        // dumpcap ends between batches of packets.
        assert!(found >= 300, "{name}: {found}");
    }
}
