//! SwitchML over RoCEv2 on wires: RDMA writes in both directions, and every sum is right. Packet sockets run on veth pairs in network
//! namespaces that the test makes and removes; where it may not, it says SKIPPED and why.

use std::path::Path;

use crate::support::netns::Net;
use crate::support::tools;
use crate::support::wired::{config, datagrams, pktgen, said, trained};
use pktgen_switchml::roce;
use pktgen_testing::{Need, skip};
use pktgen_wire::wire::frame::SERVER_IP;

const ROCE: &str = "transport.on_wire=roce";
const TWO: &str = "transport.interfaces=[\"w0\",\"d0\"]";

/// Checks that all frames are RDMA writes, and that tshark's own InfiniBand dissector agrees with our reader.
fn are_rdma_writes(out: &Path, packets: u64) {
    let file = out.join("tap-device-down.pcapng");
    let mut expected = Vec::new();
    let seen = datagrams(&file, |datagram, len| {
        let header = roce::Header::parse(datagram.payload).expect("a packet");
        let (target, immediate) = (header.target, header.immediate);
        let [low, high] = immediate.message.to_le_bytes();
        let [e0, e1] = immediate.exponents;
        let crc = u32::from_be_bytes(*datagram.payload.last_chunk().expect("a checksum"));
        assert_eq!((datagram.src_port >= 0xc000, datagram.dst_port), (datagram.dst == SERVER_IP, roce::PORT));
        expected.push(format!(
            "\t{len}\t1\t{}\t{:#08x}\t{}\t{:#018x}\t{:#010x}\t{}\t{low:02x}{high:02x}{e0:02x}{e1:02x}\t{crc:#010x}",
            header.part as u8, header.pair, header.psn, target.address, target.key, target.length
        ));
    });
    // Contributions of four workers; and a result for each of them.
    assert_eq!(seen as u64, packets * 5 * 8);
    let own = ["bth.opcode", "bth.destqp", "bth.psn", "reth.va", "reth.r_key", "reth.dmalen", "immdt", "invariant.crc"];
    let names = own.map(|name| format!("infiniband.{name}"));
    let fields =
        ["_ws.malformed", "frame.len", "ip.checksum.status"].into_iter().chain(names.iter().map(String::as_str));
    let mut words = vec!["-n", "-o", "ip.check_checksum:TRUE", "-T", "fields", "-E", "occurrence=f"];
    words.extend(fields.flat_map(|field| ["-e", field]));
    words.push("-r");
    let Some(text) = tools::quiet("tshark", &words, &file) else { return };
    let shown: Vec<_> = text.lines().collect();
    assert_eq!(shown.len(), expected.len());
    for (shown, expected) in shown.iter().zip(&expected) {
        assert_eq!(shown.replace(':', ""), *expected);
    }
}

#[test]
fn training_over_roce_is_rdma_writes() {
    let set = ["transport.kind=ring", ROCE, "workload.elements=64", "workload.scale=0.001"];
    trained(&[], &set, are_rdma_writes);
    match Net::make("roce", &["all"], &[(("all", "w0"), ("all", "d0"))]) {
        Err(why) => skip(Need::Netns, "af_packet on a veth pair", why),
        Ok(net) => {
            let set = ["transport.kind=af_packet", TWO, ROCE, "workload.scale=0.002"];
            trained(&net.inside("all"), &set, are_rdma_writes);
        }
    }
}

/// Frames on the wire are longer than over UDP and have the switch's numbers: a dry run states both, and a profile for UDP refuses them.
#[test]
fn what_is_planned_is_what_is_on_the_wire() {
    let experiment = config("switchml");
    let print = |words: &[&str]| {
        let output = pktgen(&[], words, &[ROCE]).output().expect("it runs");
        (output.status.code(), said(&output))
    };
    let (code, text) = print(&["replay", &experiment, "--dry-run", "--frames", "1"]);
    // Of four workers, in five iterations: 1997 blocks, and the exponents of the first 128 ahead of them.
    let bytes = format!("{} bytes", (1997 + 128) * 5 * 4 * 1102);
    for word in ["1102 bytes", &bytes, "switchml_roce.pair       8388608", "switchml_roce.opcode     43"] {
        assert!(code == Some(0) && text.contains(word), "{word}: {text}");
    }
    let (code, text) = print(&["device", "check", "tofino-switchml", &experiment]);
    for word in ["send switchml_roce", "1102, and tofino-switchml takes at most 1076"] {
        assert!(code == Some(2) && text.contains(word), "{word}: {text}");
    }
}
