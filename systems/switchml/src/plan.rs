//! SwitchML on a Tofino switch: the configuration of its public controller (p4lang/p4app-switchML at b5c74a0).
//!
//! The controller reads which machine is at which port, workers register with it, and it then writes the tables. The
//! files are those that operators write; the script writes the tables under their public names without the controller.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use serde_json::{Value, json};

use crate::format::{PORT, WORKER_PORT, WORKERS_MAX};
use crate::roce;
use pktgen_core::registry::Named;
use pktgen_core::{Error, Result};
use pktgen_wire::device::Station;
use pktgen_wire::device::plan::{DeviceTemplate, Job, Planner, Syntax, SyntaxFile, groups, station};

/// `plan = "switchml"`.
pub(crate) struct SwitchMl;

/// Mask of SwitchML's UDP ports, which differ in the last four bits: 0xbee0 to 0xbeef.
const PORT_MASK: u16 = 0xfff0;
/// The controller numbers every session 0, and the multicast group is that of the session.
const SESSION: u32 = 0;

/// What a syntax can express of a profile.
struct SyntaxLimits {
    syntax: &'static str,
    /// Speeds of ports, in Gbit/s.
    speeds: &'static [u64],
    /// Whether ports are named with their channel.
    channels: bool,
}

/// The controller's `ports.yaml` (`load_ports_file`).
static CONTROLLER: SyntaxLimits = SyntaxLimits { syntax: "switchml", speeds: &[10, 25, 40, 50, 100], channels: true };
/// BF Runtime, which has names for these speeds.
static RUNTIME: SyntaxLimits = SyntaxLimits { syntax: "bfrt", speeds: &[1, 10, 25, 40, 50, 100, 400], channels: false };

impl SyntaxLimits {
    /// Returns the error of a job that the syntax cannot express.
    fn refused(&self, job: &Job, why: impl Display) -> Error {
        Error::config(format!("{}: --syntax {}: {why}", job.profile.name, self.syntax))
    }
}

impl Named for SwitchMl {
    fn name(&self) -> &'static str {
        "switchml"
    }
    fn about(&self) -> &'static str {
        "session, tables and multicast group of the public P4 program; its controller's and clients' files"
    }
}

/// The experiment written by `pktgen init`.
static TEMPLATE: DeviceTemplate = DeviceTemplate {
    server: false,
    workers: 4,
    rate: "1Gbps",
    strict: true,
    text: "[workload]\nkind = \"dense\"\nmodel = \"resnet50\"\nscale = 0.01\nworkers = WORKERS\niterations = 5\nelements = 256\n\
           compute = \"1ms\"\n\n[topology]\nkind = \"rack\"\n\n[endpoint]\nworkers = \"switchml\"\npool = 32\n\n[target]\npool = 32                    # slots of the device, in each of both sets\n",
};

impl Planner for SwitchMl {
    fn template(&self) -> Option<&'static DeviceTemplate> {
        Some(&TEMPLATE)
    }

    fn plan(&self, job: &Job) -> Value {
        let workers = (0u32..).zip(&job.addresses.workers);
        let session = workers.map(|(rank, own)| {
            json!({
                "rank": rank, "mac": own.mac.to_string(), "mac_number": own.mac.number(), "ip": own.ip.to_string(),
                "ipv4_number": own.ip.0, "bitmap": 1u64.checked_shl(rank),
                "port": job.profile.port_of(rank),
            })
        });
        // RoCEv2 has a port of its own.
        let udp = (job.facts.format != roce::NAME).then(|| json!({ "port": port(job), "mask": PORT_MASK }));
        json!({
            "switch": station(job.addresses.device),
            "udp": udp,
            "session": {
                "session_id": SESSION,
                "num_workers": job.addresses.workers.len(),
                "packet_elements": job.facts.elements,
                "packet_bytes": 4 * job.facts.elements,
                "workers": session.collect::<Vec<_>>(),
            },
            "pool": job.facts.window,
            "multicast_groups": groups(job),
        })
    }

    fn syntaxes(&self) -> &'static [Syntax] {
        &[
            Syntax {
                name: "switchml",
                about: "files of the public controller and client: ports.yaml, switchml-RANK.cfg",
                write: files,
            },
            Syntax {
                name: "bfrt",
                about: "a Python script that writes the public P4 program's tables over BF Runtime",
                write: script,
            },
        ]
    }
}

fn port(job: &Job) -> u16 {
    job.addresses.port.unwrap_or(PORT)
}

/// Returns a rate in the controller's unit.
fn speed(job: &Job) -> u64 {
    job.profile.ports.rate.bps() / 1_000_000_000
}

/// Returns the switch, and the front-panel port and channel of each worker; refuses what a syntax cannot express.
fn expressible(job: &Job, limits: &SyntaxLimits) -> Result<(Station, Vec<(u32, u32)>)> {
    let wrong = |why: String| limits.refused(job, why);
    let Some(device) = job.addresses.device else {
        return Err(wrong("the switch needs an address; give addressing.device and addressing.device_mac".into()));
    };
    if job.facts.format == roce::NAME {
        return Err(wrong(
            "these are tables for UDP, and the workers send RoCEv2; use transport.on_wire = \"strict\"".into(),
        ));
    }
    if job.addresses.vlan > 0 {
        let vlan = job.addresses.vlan;
        return Err(wrong(format!(
            "frames have VLAN tag {vlan}, which the P4 program does not parse; set addressing.vlan = 0"
        )));
    }
    let (jobs, workers) = (job.facts.workers.clusters_ever(), job.addresses.workers.len());
    if jobs > 1 {
        return Err(wrong(format!("{jobs} jobs, and the controller has one session; set workload.jobs = 1")));
    }
    if workers > WORKERS_MAX {
        return Err(wrong(format!("{workers} workers, and a bitmap has {WORKERS_MAX} bits; lower workload.workers")));
    }
    let rate = job.profile.ports.rate;
    if !limits.speeds.iter().any(|speed| speed * 1_000_000_000 == rate.bps()) {
        let speeds = limits.speeds;
        return Err(wrong(format!("ports of {rate}, and there are those of {speeds:?} Gbit/s; change ports.rate")));
    }
    let (mut ports, mut at, mut macs) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    for (rank, own) in (0u32..).zip(&job.addresses.workers) {
        let name = job.profile.port_of(rank);
        let Some(port) = front_and_lane(&name).filter(|_| name.contains('/') || !limits.channels) else {
            let form = if limits.channels { "NUMBER/CHANNEL" } else { "NUMBER or NUMBER/CHANNEL" };
            return Err(wrong(format!("port \"{name}\" of worker {rank} is not {form}; change ports.names")));
        };
        if let Some(other) = at.insert(port, rank) {
            return Err(wrong(format!(
                "workers {other} and {rank} are both at port {name}, and the tables have one worker at each; set \
                 ports.workers_per_port = 1"
            )));
        }
        if let Some(other) = macs.insert(own.mac, rank) {
            return Err(wrong(format!(
                "workers {other} and {rank} both have {}, by which the switch finds their ports; set addressing.shared_mac = false",
                own.mac
            )));
        }
        ports.push(port);
    }
    Ok((device, ports))
}

/// Returns the files that operators write.
fn files(job: &Job) -> Result<Vec<SyntaxFile>> {
    let (device, _) = expressible(job, &CONTROLLER)?;
    if port(job) & PORT_MASK != PORT & PORT_MASK {
        let (first, last, own) = (PORT & PORT_MASK, PORT | !PORT_MASK, port(job));
        let why = format!("the controller's tables have UDP ports {first} to {last}, and workers send to {own}");
        return Err(CONTROLLER.refused(job, format!("{why}; change addressing.port")));
    }
    let mut ports = String::from("ports:\n");
    for (rank, own) in (0u32..).zip(&job.addresses.workers) {
        let _ = writeln!(
            ports,
            "    {} : {{speed: \"{}G\", fec: \"none\", autoneg: \"default\", mac: \"{}\"}}",
            job.profile.port_of(rank),
            speed(job),
            own.mac
        );
    }
    let mut parts = vec![("ports.yaml".to_owned(), ports)];
    let start =
        format!("python switchml.py --ports ports.yaml --switch-mac {} --switch-ip {}\n", device.mac, device.ip);
    parts.push(("controller.txt".into(), start));
    for (rank, own) in (0u32..).zip(&job.addresses.workers) {
        parts.push((format!("switchml-{rank}.cfg"), client(job, rank, own.ip)));
    }
    Ok(parts)
}

/// Returns a client's file with settings that follow from the experiment; all others keep their defaults.
fn client(job: &Job, rank: u32, ip: pktgen_wire::device::Address) -> String {
    format!(
        "[general]\nrank = {rank}\nnum_workers = {}\nmax_outstanding_packets = {}\npacket_numel = {}\nbackend = dpdk\n\
         prepostprocessor = cpu_exponent_quantizer\n\n[backend.dpdk]\nworker_port = {}\nworker_ip = {ip}\n",
        job.addresses.workers.len(),
        job.facts.window.unwrap_or(256),
        job.facts.elements,
        job.addresses.worker_port.unwrap_or(WORKER_PORT),
    )
}

/// The lines before the entries: the connection, and finding ports.
const HEAD: &str = r#"# What the controller of p4lang/p4app-switchML writes when a session of UDP workers begins, over BF Runtime. The entries that never
# change (bitmaps, counters, exponents, processors, next steps) it writes when it starts. Run this where P4 Studio's bfrt_grpc is.
import bfrt_grpc.client as gc

interface = gc.ClientInterface("127.0.0.1:50052", client_id=0, device_id=0)
interface.bind_pipeline_config("SwitchML")
info = interface.bfrt_info_get("SwitchML")
target = gc.Target(0, pipe_id=0xFFFF)


def add(name, keys, data, action=None):
    table = info.table_get(name)
    values = [gc.DataTuple(*d) if isinstance(d, tuple) else d for d in data]
    made = table.make_data(values, action) if action else table.make_data(values)
    table.entry_add(target, [table.make_key([gc.KeyTuple(*k) for k in keys])], [made])


def dev_port(front, lane):
    table = info.table_get("$PORT_HDL_INFO")
    key = table.make_key([gc.KeyTuple("$CONN_ID", front), gc.KeyTuple("$CHNL_ID", lane)])
    return next(table.entry_get(target, [key], {"from_hw": False}))[0].to_dict()["$DEV_PORT"]


receive, forward, reply = (info.table_get(n) for n in (
    "pipe.Ingress.udp_receiver.receive_udp", "pipe.Ingress.forwarder.forward", "pipe.Egress.udp_sender.dst_addr"))
for name in ("hdr.ethernet.dst_addr", "hdr.ethernet.src_addr"):
    receive.info.key_field_annotation_add(name, "mac")
for name in ("hdr.ipv4.dst_addr", "hdr.ipv4.src_addr"):
    receive.info.key_field_annotation_add(name, "ipv4")
forward.info.key_field_annotation_add("hdr.ethernet.dst_addr", "mac")
reply.info.data_field_annotation_add("ip_dst_addr", "Egress.udp_sender.set_dst_addr", "ipv4")
reply.info.data_field_annotation_add("eth_dst_addr", "Egress.udp_sender.set_dst_addr", "mac")
"#;

/// Returns the script that writes the tables as the controller does when a session of UDP workers begins.
fn script(job: &Job) -> Result<Vec<SyntaxFile>> {
    let mut text = HEAD.to_owned();
    let (device, ports) = expressible(job, &RUNTIME)?;
    let group = job.profile.addressing.group_ids;
    if group != SESSION {
        let why = format!("the multicast group is the session's, {SESSION}");
        return Err(RUNTIME.refused(job, format!("{why}; give addressing.group_ids = {SESSION}, not {group}")));
    }
    let speed = speed(job);
    let (mac, ip) = (device.mac.to_string().to_uppercase(), device.ip);
    let _ = write!(
        text,
        "\nswitch = info.table_get(\"pipe.Egress.udp_sender.switch_mac_and_ip\")\n\
         switch.info.data_field_annotation_add(\"switch_mac\", \"Egress.udp_sender.set_switch_mac_and_ip\", \"mac\")\n\
         switch.info.data_field_annotation_add(\"switch_ip\", \"Egress.udp_sender.set_switch_mac_and_ip\", \"ipv4\")\n\
         switch.default_entry_set(target, switch.make_data([gc.DataTuple(\"switch_mac\", \"{mac}\"), \
         gc.DataTuple(\"switch_ip\", \"{ip}\")], \"Egress.udp_sender.set_switch_mac_and_ip\"))\n"
    );
    let count = job.addresses.workers.len();
    let mut nodes = Vec::new();
    for ((rank, own), (front, lane)) in (0u32..).zip(&job.addresses.workers).zip(ports) {
        let worker = own.mac.to_string().to_uppercase();
        let bitmap = 1u64.checked_shl(rank).unwrap_or(0);
        let _ = write!(
            text,
            "\n# Worker {rank}\n\
             port = dev_port({front}, {lane})\n\
             add(\"$PORT\", [(\"$DEV_PORT\", port)], [gc.DataTuple(\"$SPEED\", str_val=\"BF_SPEED_{}G\"), \
             gc.DataTuple(\"$FEC\", str_val=\"BF_FEC_TYP_NONE\"), gc.DataTuple(\"$PORT_ENABLE\", bool_val=True)])\n\
             add(\"pipe.Ingress.forwarder.forward\", [(\"hdr.ethernet.dst_addr\", \"{worker}\")], [(\"egress_port\", port)], \
             \"Ingress.forwarder.set_egress_port\")\n\
             add(\"pipe.Ingress.udp_receiver.receive_udp\", [(\"$MATCH_PRIORITY\", 10), (\"ig_intr_md.ingress_port\", 0, 0),\n    \
             (\"hdr.ethernet.src_addr\", \"{worker}\", \"FF:FF:FF:FF:FF:FF\"), (\"hdr.ethernet.dst_addr\", \"{mac}\", \"FF:FF:FF:FF:FF:FF\"),\n    \
             (\"hdr.ipv4.src_addr\", \"{}\", \"255.255.255.255\"), (\"hdr.ipv4.dst_addr\", \"{ip}\", \"255.255.255.255\"),\n    \
             (\"hdr.udp.dst_port\", {:#06x}, {PORT_MASK:#06x}), (\"ig_prsr_md.parser_err\", 0, 0)],\n    \
             [(\"mgid\", {SESSION}), (\"worker_type\", 1), (\"worker_id\", {rank}), (\"num_workers\", {count}), (\"worker_bitmap\", {bitmap:#x})],\n    \
             \"Ingress.udp_receiver.set_bitmap\")\n\
             add(\"pipe.Egress.udp_sender.dst_addr\", [(\"eg_md.switchml_md.worker_id\", {rank})], [(\"eth_dst_addr\", \"{worker}\"), \
             (\"ip_dst_addr\", \"{}\")], \"Egress.udp_sender.set_dst_addr\")\n\
             add(\"$pre.node\", [(\"$MULTICAST_NODE_ID\", {rank})], [(\"$MULTICAST_RID\", {rank}), \
             gc.DataTuple(\"$DEV_PORT\", int_arr_val=[port])])\n",
            speed,
            own.ip,
            port(job),
            own.ip,
        );
        nodes.push(rank);
    }
    let all: Vec<_> = nodes.iter().map(|_| "True").collect();
    let _ = write!(
        text,
        "\nadd(\"$pre.mgid\", [(\"$MGID\", {SESSION})], [gc.DataTuple(\"$MULTICAST_NODE_ID\", int_arr_val={nodes:?}),\n    \
         gc.DataTuple(\"$MULTICAST_NODE_L1_XID_VALID\", bool_arr_val=[{}]), gc.DataTuple(\"$MULTICAST_NODE_L1_XID\", \
         int_arr_val={nodes:?})])\n",
        all.join(", ")
    );
    Ok(vec![("switchml_tables.py".into(), text)])
}

/// Parses `"3/0"` as two numbers; the default channel is 0. `None` if a part is not a number.
fn front_and_lane(port: &str) -> Option<(u32, u32)> {
    let (front, lane) = port.split_once('/').unwrap_or((port, "0"));
    Some((front.parse().ok()?, lane.parse().ok()?))
}
