//! Can an experiment run here?

use std::collections::{HashMap, HashSet};

use pktgen_core::config::Run;
use pktgen_core::{Error, Result};

use super::capabilities::given;
use super::cores::permitted;
use super::host::{Capability, Host};
use super::needs::Needs;
use super::{Finding, Level, veth, xdp};
use pktgen_realtime::driver::real_time::{Roles, check_cores, threads};
use pktgen_realtime::launch::has_id;
use pktgen_realtime::plan::Plan;
use pktgen_realtime::run::Experiment;
use pktgen_realtime::transport::ethtool::set_queues;
use pktgen_realtime::transport::{End, TransportPlan, Wait, XdpFacts, check_enough_queues, safety};

const NAME: &str = "experiment";
/// Bytes of an Ethernet header, which the MTU does not count.
const ETHERNET: usize = 14;

/// What a host says to an experiment.
#[derive(Debug, Default)]
pub struct Suitability {
    /// What hinders it, and what is to be known. Those that hinder are of level [`Level::Cannot`].
    pub findings: Vec<Finding>,
    /// The interfaces of this host that it uses.
    pub interfaces: Vec<String>,
}

impl Suitability {
    /// Whether nothing prevents it.
    pub(crate) fn can_run(&self) -> bool {
        self.findings.iter().all(|finding| finding.level != Level::Cannot)
    }

    fn add(&mut self, finding: Finding) {
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    fn hinder(&mut self, subject: &str, value: &str, why: impl Into<String>, remedy: impl Into<String>) {
        self.add(Finding::new(NAME, subject, Level::Cannot, value).why(why).remedy(remedy));
    }
}

/// Prepares one run of every point of the experiment, and holds what `roles` need of it against the host. An experiment
/// that is wrong in itself is an error; one that is right and cannot run here has findings that say why.
pub fn judge(experiment: &Experiment, roles: Roles, host: &Host) -> Result<Suitability> {
    let mut verdict = Suitability::default();
    let (mut seen, mut written) = (HashSet::new(), HashMap::new());
    for run in &experiment.runs {
        if !seen.insert(&run.labels) {
            continue;
        }
        match experiment.prepare(run) {
            Ok(plan) => {
                // A part runs one run.
                if roles.part().is_none() {
                    experiment.check_files(run, &plan, &|_| true, &mut written)?;
                }
                of_plan(&plan, (experiment, run), roles, host, &mut verdict)?;
            }
            Err(Error::Host(message)) => verdict.add(Finding::refused(NAME, "plan", "cannot be prepared", &message)),
            Err(other) => return Err(other),
        }
    }
    if verdict.can_run() {
        verdict.add(Finding::new(NAME, experiment.name.clone(), Level::Ok, "can run here"));
    }
    verdict.findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    Ok(verdict)
}

fn of_plan(
    plan: &Plan,
    (experiment, run): (&Experiment, &Run),
    roles: Roles,
    host: &Host,
    verdict: &mut Suitability,
) -> Result<()> {
    plan.check_wires(roles)?;
    plan.check_together(roles)?;
    let (part, roles) = (roles.part(), roles.of_run(plan.spec.transport.has_server, plan.spec.is_external())?);
    if !plan.spec.is_real_time() {
        return Ok(());
    }
    let transport = &plan.spec.transport;
    let kind = transport.kind.name();
    let cores = host.answers().cores();
    let threads = threads(&plan.parts, transport, roles);
    let ends: Vec<End> = transport.ends().iter().copied().filter(|end| roles.holds(*end)).collect();
    if transport.wait == Wait::Spin && cores < threads {
        verdict.hinder(
            "transport.wait",
            "spin",
            format!("{threads} threads need a core each, and there are {cores}"),
            "--set transport.wait=block",
        );
    }
    match check_cores(&transport.cores, threads, &permitted(host)) {
        Err(Error::Host(message)) => verdict.add(Finding::refused(NAME, "transport.cores", "not permitted", &message)),
        other => other?,
    }
    if let Some(user) = plan.spec.launch_user() {
        of_launch(plan, user, host, verdict);
    }
    let needs = Needs::of(transport.kind);
    for (why, remedy) in needs.missing(host, ends.len() * transport.queues as usize) {
        verdict.hinder(kind, "not usable", why, remedy);
    }
    if !needs.interfaces {
        return Ok(());
    }
    if let Err(error) = host.check_namespace() {
        verdict.add(Finding::refused(NAME, "transport.interfaces", "unknown", &error.to_string()));
        return Ok(());
    }
    of_ends(plan, &ends, part.is_some(), host, verdict)?;
    if !roles.workers {
        return Ok(());
    }
    match experiment.check_rate(run, plan, host.root()) {
        Err(Error::Host(message)) => {
            let refused = Finding::refused(NAME, transport.interface_name(End::Workers)?, "link too slow", &message);
            let is_shared = part.is_some() && experiment.may_share(run);
            verdict.add(if is_shared { of_all_workers(refused) } else { refused });
            Ok(())
        }
        other => other,
    }
}

/// The refused rate of all workers, as a note for a part that may have a share of them: `replay --rank` checks the rate of the share.
fn of_all_workers(refused: Finding) -> Finding {
    let remedy = format!("several ranks of workers (--rank), each with a share of them; or {}", refused.remedy);
    Finding { level: Level::Note, value: "link too slow for all workers".into(), remedy, ..refused }
}

/// What the launch of a device needs beside the transport.
fn of_launch(plan: &Plan, user: u32, host: &Host, verdict: &mut Suitability) {
    let missing = |file: &str| host.read(file).is_some_and(|map| !has_id(&map, user));
    if host.is_root() && (missing("proc/self/uid_map") || missing("proc/self/gid_map")) {
        let why = format!("the device runs as user and group {user}, and this user namespace does not have them");
        verdict.hinder("target.launch.user", "unknown here", why, "--set target.launch.user=0, or another that it has");
    }
    if plan.spec.makes_interfaces() && !host.may(Capability::NetAdmin) {
        let why = "the launch of the device makes interfaces, and CAP_NET_ADMIN is missing";
        verdict.hinder("target.launch.ports", "not permitted", why, given(host));
    }
}

/// The interfaces of these ends of a whole run or a part.
fn of_ends(plan: &Plan, ends: &[End], is_part: bool, host: &Host, verdict: &mut Suitability) -> Result<()> {
    let transport = &plan.spec.transport;
    let made = plan.spec.makes_interfaces();
    for &end in ends {
        let name = transport.interface_name(end)?;
        if made && !name.is_empty() {
            of_made(name, host, verdict);
        } else if name.is_empty() {
            let mut unnamed = Finding::refused(NAME, end.name(), "no interface", &transport.unnamed(end));
            if !is_part {
                unnamed.remedy += "; or --role, if this host runs a part";
            }
            verdict.add(unnamed);
        } else {
            of_end(transport, end, name, transport.wire_bytes(plan.parts.frame_bytes), host, verdict);
        }
    }
    Ok(())
}

/// The interface of an end that the launch of the device makes.
fn of_made(name: &str, host: &Host, verdict: &mut Suitability) {
    match host.of_interface(name, "ifindex") {
        None => verdict.add(Finding::new(NAME, name, Level::Note, "is made when the device is launched")),
        Some(_) => verdict.hinder(
            name,
            "exists",
            "the launch of the device makes it, and needs a name that is free",
            "another name in transport.interfaces, or remove the interface: ip -details link show dev ".to_owned()
                + name,
        ),
    }
}

/// The interface of one end.
fn of_end(plan: &TransportPlan, end: End, name: &str, frame_bytes: usize, host: &Host, verdict: &mut Suitability) {
    if !verdict.interfaces.iter().any(|other| other == name) {
        verdict.interfaces.push(name.to_owned());
    }
    if let Err(error) = safety::check_in(host.root(), &|| host.answers().routes(), name, plan.allow_default_route) {
        verdict.add(Finding::refused(NAME, name, "refused", &error.to_string()));
        return;
    }
    if host.of_interface(name, "carrier").is_some_and(|carrier| carrier == "0") {
        let remedy = "connect its cable, or set the other end up: sudo ip link set PEER up";
        verdict.hinder(name, "no carrier", "nothing is sent or received", remedy);
    }
    let mtu = host.number::<usize>(&format!("sys/class/net/{name}/mtu"));
    if let Some(mtu) = mtu.filter(|mtu| frame_bytes > mtu + ETHERNET) {
        verdict.hinder(
            name,
            &format!("MTU {mtu}"),
            format!("frames of up to {frame_bytes} bytes need {}", frame_bytes - ETHERNET),
            format!("sudo ip link set {name} mtu {}; or {}", frame_bytes - ETHERNET, plan.smaller),
        );
    }
    let card = host.answers().card(name);
    if let Err(error) = plan.check_stamping(end, name, card.stamping) {
        verdict.add(Finding::refused(NAME, name, "no stamps of a card", &error.to_string()));
    }
    let folder = host.path("sys/class/net");
    if Needs::of(plan.kind).af_xdp {
        of_driver(plan, (end, name), card.xdp, host, verdict);
    } else if let Err(error) = check_enough_queues(&folder, name, "transport.queues", plan.queues) {
        verdict.add(Finding::refused(NAME, name, "too few queues", &error.to_string()));
    }
}

/// What AF_XDP and live frames need of a driver with these facts.
fn of_driver(
    plan: &TransportPlan,
    (end, name): (End, &str),
    facts: Option<XdpFacts>,
    host: &Host,
    verdict: &mut Suitability,
) {
    if !xdp::has_driver_mode(facts) {
        let (why, remedy) = xdp::lacking(host, name);
        verdict.hinder(name, "no XDP", format!("it receives by a program in the driver, and {why}"), remedy);
        return;
    }
    let has = host.names(&format!("sys/class/net/{name}/queues"), "rx-").len();
    if has > 0 && has != plan.queues as usize {
        let why = format!("AF_XDP needs a socket for each of them, and transport.queues = {}", plan.queues);
        let channels = set_queues(host.driver(name).as_deref(), name, plan.queues);
        let remedy = format!("--set transport.queues={has}; or sudo {channels}");
        verdict.hinder(name, &format!("{has} receive queues"), why, remedy);
    }
    if plan.zero_copy && facts.is_some_and(|facts| !facts.zero_copy) {
        let remedy = "--set transport.zero_copy=false; or use a card whose driver has it";
        verdict.hinder(name, "no zero copy", "transport.zero_copy = true, and its driver copies every frame", remedy);
    }
    let live = plan.kind.name() == "xdp_live" && end == End::Workers;
    if !live || !xdp::drops_redirected(facts) {
        return;
    }
    // A veth whose other end gets a program by this run takes them then.
    let peer = safety::other_end(host.root(), name).filter(|_| veth::is_veth(host, name));
    match peer {
        Some(peer) if plan.interfaces.contains(&peer) => {}
        Some(peer) => {
            let why = format!("{peer} has neither an XDP program nor GRO");
            verdict.hinder(name, "drops live frames", why, format!("sudo ethtool -K {peer} gro on"));
        }
        None => {
            let remedy = "--set transport.kind=af_xdp; on a veth: ethtool -K PEER gro on in the other namespace";
            verdict.hinder(name, "drops live frames", "its driver takes no redirected frames", remedy);
        }
    }
}
