//! Writes the experiment that executes a plan: `pktgen place … --emit EXPERIMENT.toml`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use pktgen_core::plan::{FlowSource, Plan, PlanLink, PlanRole};
use pktgen_core::time::{HORIZON, SECOND, too_late};
use pktgen_core::topology::{NO_PORT, NODES};
use pktgen_core::units::{Rate, Span};
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::FRAME_MAX;
use pktgen_wire::wire::update::FRAME_MIN;

/// Length of a frame, which is one message, in bytes.
pub const MESSAGE_BYTES: RangeInclusive<u64> = FRAME_MIN as u64..=FRAME_MAX as u64;
/// Length of an Ethernet frame's overhead in bytes: FCS, preamble, gap.
const BESIDE: u64 = 24;
/// Maximum number of frames in a queue, the largest possible: the actual maximum is measured.
const SLOTS: u32 = 1 << 20;
/// Maximum number of open messages at an aggregator.
const OPEN_MAX: u32 = 1 << 16;

/// How a plan is executed.
#[derive(Debug, Clone, PartialEq)]
pub struct Emission {
    /// Name of the experiment.
    pub name: String,
    /// Length of a frame in bytes: of [`MESSAGE_BYTES`].
    pub bytes: u32,
    /// Number of messages of each worker.
    pub messages: u32,
    /// How fast they follow each other, as a multiple of the rate that the plan promises. At a plan without a rate it is 1:
    /// all messages of a worker are generated at once.
    pub factor: f64,
    /// Whether the server answers with the complete sums.
    pub allreduce: bool,
}

impl Emission {
    /// Returns the emission that verifies the promise of `plan`: one message of each worker for φ, or a stream of
    /// messages with answers for a rate.
    pub fn of(plan: &Plan, name: &str) -> Emission {
        let rated = plan.rate_bps.is_some();
        let (bytes, messages) = if rated { (1500, 2000) } else { (256, 1) };
        Emission { name: name.to_owned(), bytes, messages, factor: 1.0, allreduce: rated }
    }
}

/// Returns the text of an experiment that executes `plan`, which is read from `plan_file`, relative to the experiment.
pub fn emit(plan: &Plan, plan_file: &str, emission: &Emission) -> Result<String> {
    plan.check().map_err(|why| Error::config(format!("the plan cannot be carried out: {why}")))?;
    let workers = plan.hosts().len();
    let Emission { name, bytes, messages, factor, allreduce } = emission;
    if !MESSAGE_BYTES.contains(&u64::from(*bytes)) {
        let (least, most) = (MESSAGE_BYTES.start(), MESSAGE_BYTES.end());
        return Err(Error::config(format!("--bytes {bytes}: a message has {least} to {most} whole bytes")));
    }
    if *messages == 0 {
        return Err(Error::config("--messages 0: a worker sends at least one; give 1 or more"));
    }
    if !(*factor > 0.0 && *factor <= 1e6) {
        return Err(Error::config(format!("--factor {factor:?}: it is above 0 and at most 1e6; 1 is the plan's rate")));
    }
    if plan.rate_bps.is_none() && *factor != 1.0 {
        return Err(Error::config(format!(
            "--factor {factor:?}: it multiplies the rate that a plan promises, and this plan promises none; leave --factor out"
        )));
    }
    check_network(plan)?;
    check_counts(plan, *allreduce)?;
    check_times(plan, *bytes, *messages)?;
    let period = period_ps(plan, *bytes, *factor);
    // With the period after the last message, in which it is answered.
    let end = period as f64 * f64::from(*messages);
    if end > HORIZON as f64 {
        let what = format!("--messages {messages}, --factor {factor:?}: the end of the run");
        return Err(Error::config(too_late(&what, end, "give fewer messages or a higher factor")));
    }
    let period = Span::from_ps(period);
    let metrics: &[&str] = match plan.rate_bps {
        Some(_) => &["links_unlike_plan", "allreduce_rate", "rate_planned", "link_load_max", "queue_max"],
        None => &["links_unlike_plan", "phi", "phi_planned"],
    };
    // The number that may be open at once: a plan may have thousands of aggregators, and each slot needs memory.
    let open = messages.min(&OPEN_MAX);
    if messages > open && (plan.rate_bps.is_none() || *factor > 1.0) {
        let why =
            if plan.rate_bps.is_none() { "the plan promises no rate" } else { "they come faster than the plan's rate" };
        return Err(Error::config(format!(
            "--messages {messages}: 1 to {OPEN_MAX} may be open at an aggregator, and all may be at once, since {why}; give at most \
             {OPEN_MAX}"
        )));
    }
    check_queues(plan, *messages, *factor)?;
    let about = about(plan);
    let [name, about, plan_file] = [name, &about, plan_file].map(quoted);
    Ok(format!(
        "name = {name}\nabout = {about}\n\n\
         [workload]\nkind = \"rl\"\nclusters = 1\nworkers_per_cluster = {workers}\nupdates = {messages}\nbytes = \"{bytes}B\"\n\n\
         [schedule]\nkind = \"constant\"\nperiod = \"{period}\"\nphase = \"zero\"\n\n\
         [topology]\nkind = \"plan\"\nfile = {plan_file}\noverhead = \"{BESIDE}B\"\n\n\
         [target]\nprogram = \"reduce\"\nqueue = \"fifo\"\nslots = {SLOTS}\nopen_messages = {open}\n\n\
         [endpoint]\nworkers = \"open_loop\"\nallreduce = {allreduce}\nacknowledge = false\n\n\
         [report]\nmetrics = {metrics:?}\n"
    ))
}

/// Refuses networks that no run can have.
fn check_network(plan: &Plan) -> Result<()> {
    if let Some(node) = plan.nodes.iter().skip(NODES).find(|node| node.role != PlanRole::Host) {
        return Err(Error::config(format!(
            "\"{}\" is not among the first {NODES} nodes, which alone may be switches or the server of a run; place in a smaller network",
            node.name
        )));
    }
    let mut degrees = vec![0usize; plan.nodes.len()];
    plan.links.iter().flat_map(|link| [link.from, link.to]).for_each(|end| degrees[end] += 1);
    match plan.nodes.iter().zip(degrees).find(|(_, degree)| *degree > usize::from(NO_PORT)) {
        Some((node, degree)) => Err(Error::config(format!(
            "\"{}\" has {degree} links, and a device of a run has at most {NO_PORT}; place in a smaller network",
            node.name
        ))),
        None => Ok(()),
    }
}

/// Refuses links whose frames alone take longer than a run.
fn check_times(plan: &Plan, bytes: u32, messages: u32) -> Result<()> {
    for (link, [up, down]) in plan.links.iter().zip(plan.messages()) {
        let frames = up.max(down) as f64 * f64::from(messages);
        let end = frames * frame_bits(bytes) / link.rate_bps as f64 * SECOND as f64;
        if end > HORIZON as f64 {
            let [from, to] = [link.from, link.to].map(|node| &plan.nodes[node].name);
            let what = format!("--messages {messages}: the end of the last frame from \"{from}\" to \"{to}\"");
            return Err(Error::config(too_late(&what, end, "give fewer messages, smaller loads or higher rates")));
        }
    }
    Ok(())
}

/// Refuses sums of more updates than a header counts: parts beyond are dropped (`count_full`), and the sum is incomplete.
fn check_counts(plan: &Plan, allreduce: bool) -> Result<()> {
    let nodes = plan.nodes.len();
    let (mut counts, mut next) = (vec![0u64; nodes], vec![None; nodes]);
    // Number of aggregators whose sums are not yet counted where they end.
    let mut pending = vec![0u32; nodes];
    for flow in &plan.flows {
        let Some(&end) = flow.path.last() else { continue };
        match flow.source {
            FlowSource::Worker(_) => counts[end] += 1,
            FlowSource::Aggregator(node) => {
                next[node] = Some(end);
                pending[end] += 1;
            }
        }
    }
    let mut ready: Vec<usize> = (0..nodes).filter(|&node| pending[node] == 0).collect();
    while let Some(node) = ready.pop() {
        let sums = allreduce || plan.nodes[node].role == PlanRole::Aggregator;
        if sums && counts[node] > u64::from(u16::MAX) {
            return Err(Error::config(format!(
                "\"{}\" sums {} updates, and the header of a sum counts at most {}; give smaller loads or fewer workers",
                plan.nodes[node].name,
                counts[node],
                u16::MAX
            )));
        }
        let Some(end) = next[node] else { continue };
        counts[end] += counts[node];
        pending[end] -= 1;
        if pending[end] == 0 {
            ready.push(end);
        }
    }
    Ok(())
}

/// Returns the number of flows on each direction of a link by the node before it, for an aggregator's own sums the aggregator.
fn sources(plan: &Plan) -> BTreeMap<(usize, usize), BTreeMap<usize, u64>> {
    let mut sources: BTreeMap<(usize, usize), BTreeMap<usize, u64>> = BTreeMap::new();
    for flow in &plan.flows {
        for (i, pair) in flow.path.windows(2).enumerate() {
            let before = flow.path[i.saturating_sub(1)];
            *sources.entry((pair[0], pair[1])).or_default().entry(before).or_default() += 1;
        }
    }
    sources
}

/// Returns the maximum number of frames that wait for a link of rate `out`, if its inputs (rate, frames) begin together: as long
/// as all arrivals exceed `out`, the number grows, and the inputs end one after another.
fn peak(mut inputs: Vec<(f64, f64)>, out: f64) -> f64 {
    inputs.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let mut rate: f64 = inputs.iter().map(|(rate, _)| rate).sum();
    let (mut t, mut waiting, mut most): (f64, f64, f64) = (0.0, 0.0, 0.0);
    for (own, frames) in &inputs {
        let end = frames / own;
        waiting = (waiting + (rate - out) * (end - t)).max(0.0);
        (t, rate, most) = (end, rate - own, most.max(waiting));
    }
    // A frame of each may arrive at the same time.
    most + inputs.len() as f64
}

/// Refuses plans with more frames than a queue holds: those beyond are dropped (`queue_full`) and never sent again.
fn check_queues(plan: &Plan, messages: u32, factor: f64) -> Result<()> {
    let loads = plan.messages();
    let both = |(link, flows): (&PlanLink, &[u64; 2])| {
        [(link.from, link.to, flows[0], link.rate_bps as f64), (link.to, link.from, flows[1], link.rate_bps as f64)]
    };
    let directions = || plan.links.iter().zip(&loads).flat_map(both).filter(|(_, _, flows, _)| *flows > 0);
    // The number and total rate of the links on which flows reach each node.
    let mut inputs = vec![(0.0f64, 0.0f64); plan.nodes.len()];
    for (_, to, _, rate) in directions() {
        inputs[to] = (inputs[to].0 + 1.0, inputs[to].1 + rate);
    }
    let (cables, sources) = (plan.cables(), sources(plan));
    for (from, to, flows, rate) in directions().filter(|(from, ..)| plan.nodes[*from].role != PlanRole::Host) {
        let (flows, (links, arriving)) = (flows as f64, inputs[from]);
        let all = flows * f64::from(messages);
        // While `all` frames arrive at a rate, those beyond the link's own rate wait, and those that come at once.
        let waiting = |at_once: f64, arriving: f64| at_once + all * (1.0 - rate / arriving).max(0.0);
        let by_input = sources.get(&(from, to)).into_iter().flatten().map(|(before, flows)| {
            // An aggregator's own sums leave at most as fast as all of its inputs arrive.
            let rate = cables.get(&(*before, from)).map_or(arriving, |link| plan.links[*link].rate_bps as f64);
            (rate, *flows as f64 * f64::from(messages))
        });
        let by_links = waiting(links, arriving).min(peak(by_input.collect(), rate));
        let by_period = plan.rate_bps.map_or(all, |promised| waiting(flows, flows * promised as f64 * factor));
        let most = by_links.min(by_period).min(all);
        if most > f64::from(SLOTS) {
            let [from, to] = [from, to].map(|node| &plan.nodes[node].name);
            return Err(Error::config(format!(
                "--messages {messages}: {flows} flows share the link from \"{from}\" to \"{to}\", where up to {most:.0} frames would \
                 wait, and a queue holds at most {SLOTS}; give fewer messages, smaller loads or a lower factor"
            )));
        }
    }
    Ok(())
}

/// The file of the plan beside the experiment `path`: `NAME.plan.json`.
pub fn plan_beside(path: &Path) -> PathBuf {
    path.with_extension("plan.json")
}

/// Returns the plan beside the experiment `path`, as [`plan_beside`] has it, and the experiment: each file with its text.
pub fn files(plan: &Plan, path: &Path, emission: &Emission) -> Result<[(PathBuf, String); 2]> {
    let beside = plan_beside(path);
    let file = beside.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        Error::config(format!("{}: an experiment is written to a file whose name is text", path.display()))
    })?;
    let text = emit(plan, file, emission)?;
    let mut json = serde_json::to_string_pretty(plan).map_err(|e| Error::data(&beside, e.to_string()))?;
    json.push('\n');
    Ok([(beside, json), (path.to_owned(), text)])
}

/// Returns the time between two messages of a worker: the duration of one at the plan's rate, counted in wire bits (as
/// in ATRO §III-B), rounded up so that no link exceeds its capacity.
fn period_ps(plan: &Plan, bytes: u32, factor: f64) -> i64 {
    let Some(rate_bps) = plan.rate_bps.filter(|rate| *rate > 0) else { return 1 };
    ((frame_bits(bytes) * SECOND as f64 / (rate_bps as f64 * factor)).ceil() as i64).max(1)
}

/// Returns the bits of a frame on a link.
fn frame_bits(bytes: u32) -> f64 {
    (u64::from(bytes) + BESIDE) as f64 * 8.0
}

fn about(plan: &Plan) -> String {
    let of = |role| plan.nodes.iter().filter(|node| node.role == role).count();
    let (sums, plain) = (of(PlanRole::Aggregator), of(PlanRole::Common));
    let promise = match (plan.rate_bps, plan.phi) {
        (Some(rate), _) => format!("AllReduce at {}", Rate::from_bps(rate)),
        (None, Some(phi)) => format!("a network utilisation of {phi}"),
        (None, None) => "what each link carries".to_owned(),
    };
    format!("the plan of {} ({sums} switches aggregate, {plain} forward), which promises {promise}", plan.placer)
}

/// Formats a text for TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use pktgen_core::config::Document;
    use pktgen_core::plan::{PlanFlow, PlanNode};
    use pktgen_core::tree::make::{Rates, binary};

    use super::*;

    /// Returns three switches with four workers, of which the root aggregates.
    fn small() -> Plan {
        let tree = binary(4, Rates::Constant).unwrap().with_load(vec![1, 2, 1]);
        tree.plan("hand", &[true, false, false], Rate::from_bps(100_000_000_000))
    }

    #[test]
    fn the_text_is_an_experiment_and_the_period_is_that_of_the_rate() {
        let mut plan = small();
        let slow = emit(&plan, "p.json", &Emission::of(&plan, "a \"b\"")).unwrap();
        assert!(slow.contains("allreduce = false") && slow.contains("period = \"1ps\""), "{slow}");
        plan.rate_bps = Some(50_000_000_000);
        let fast = Emission::of(&plan, "fast");
        // 1,524 bytes at 50 Gbit/s.
        assert_eq!(period_ps(&plan, fast.bytes, 1.0), 243_840);
        assert_eq!(period_ps(&plan, fast.bytes, 1.02), 239_059);
        for text in [slow, emit(&plan, "p.json", &fast).unwrap()] {
            Document::parse(&text, "emitted.toml").unwrap();
        }
    }

    #[test]
    fn what_cannot_be_carried_out_is_refused() {
        let plan = small();
        for (emission, part) in [
            (Emission { bytes: 10, ..Emission::of(&plan, "x") }, "--bytes 10: a message has 76 to 9036"),
            (Emission { messages: 0, ..Emission::of(&plan, "x") }, "--messages 0: "),
            (Emission { factor: 0.0, ..Emission::of(&plan, "x") }, "--factor 0.0: it is above 0"),
            (Emission { factor: -1e-310, ..Emission::of(&plan, "x") }, "--factor -1e-310: it is above 0"),
            (Emission { factor: f64::NAN, ..Emission::of(&plan, "x") }, "--factor NaN: it is above 0"),
            (Emission { factor: 3.0, ..Emission::of(&plan, "x") }, "--factor 3.0: it multiplies the rate"),
        ] {
            let message = emit(&plan, "p.json", &emission).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
        let broken = Plan { flows: Vec::new(), ..plan };
        assert!(
            emit(&broken, "p.json", &Emission::of(&broken, "x")).unwrap_err().to_string().contains("sends 0 flows")
        );
    }

    /// A message takes 6,096 s at 2 bit/s, and 26.7 days have 378 of these.
    #[test]
    fn runs_that_would_be_too_long_are_refused() {
        let plan = Plan { rate_bps: Some(2), ..small() };
        let ask = |messages, factor| {
            emit(&plan, "p.json", &Emission { messages, factor, ..Emission::of(&plan, "x") }).map_err(|e| e.to_string())
        };
        assert!(ask(378, 1.0).unwrap().contains("period = \"101.6min\""));
        assert!(ask(1, 0.01).is_ok() && ask(2000, 6.0).is_ok());
        for (messages, factor, flags, days) in [
            (379, 1.0, "--messages 379, --factor 1.0: ", "at 26.74 days"),
            (2000, 1.0, "--messages 2000, --factor 1.0: ", "at 141.11 days"),
            (1, 0.001, "--messages 1, --factor 0.001: ", "at 70.56 days"),
            (1, 1e-310, "--messages 1, --factor 1e-310: ", "days"),
        ] {
            let why = ask(messages, factor).unwrap_err();
            let parts = [flags, days, "at most 26 days", "give fewer messages or a higher factor"];
            assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        }
    }

    /// More messages than cells: an aggregator would drop what has none (`table_full`), unless messages leave as fast as they come.
    #[test]
    fn more_messages_than_may_be_open_are_refused_where_all_may_be() {
        let at_once = small();
        let rated = Plan { rate_bps: Some(50_000_000), ..small() };
        let ask = |plan: &Plan, messages, factor| {
            emit(plan, "p.json", &Emission { messages, factor, ..Emission::of(plan, "x") }).map_err(|e| e.to_string())
        };
        for (plan, messages, factor) in [(&at_once, 65_536, 1.0), (&rated, 100_000, 1.0), (&rated, 65_536, 2.0)] {
            assert!(ask(plan, messages, factor).unwrap().contains("open_messages = 65536\n"));
        }
        for (plan, factor, why) in [(&at_once, 1.0, "no rate"), (&rated, 1.01, "faster than the plan's rate")] {
            let message = ask(plan, 65_537, factor).unwrap_err();
            let parts = ["--messages 65537", "1 to 65536", why, "give at most 65536"];
            assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        }
    }

    #[test]
    fn sums_of_more_updates_than_a_header_counts_are_refused() {
        let ask = |loads: [u64; 3], blue: [bool; 3]| {
            let tree = binary(4, Rates::Constant).unwrap().with_load(loads.to_vec());
            let plan = tree.plan("hand", &blue, Rate::from_bps(100_000_000_000));
            emit(&plan, "p.json", &Emission::of(&plan, "x")).map_err(|e| e.to_string())
        };
        assert!(ask([65_535, 0, 0], [true, false, false]).is_ok());
        let message = ask([65_536, 0, 0], [true, false, false]).unwrap_err();
        assert!(message.contains("\"s0\" sums 65536 updates") && message.contains("at most 65535"), "{message}");
        // Each child sums few enough; the root sums all of them, however few messages arrive.
        assert!(ask([0, 40_000, 40_000], [false, true, true]).is_ok());
        assert!(ask([0, 40_000, 40_000], [true; 3]).unwrap_err().contains("\"s0\" sums 80000 updates"));
        assert!(ask([70_000, 0, 0], [false; 3]).is_ok(), "nothing is summed");
    }

    /// The server that answers sums as well.
    #[test]
    fn a_server_that_answers_counts_its_updates() {
        let tree = binary(2, Rates::Constant).unwrap().with_load(vec![65_536]);
        let plan = tree.plan("hand", &[false], Rate::from_bps(100_000_000_000));
        let ask = |allreduce| {
            let emission = Emission { allreduce, ..Emission::of(&plan, "x") };
            emit(&plan, "p.json", &emission).map_err(|e| e.to_string())
        };
        assert!(ask(false).is_ok());
        assert!(ask(true).unwrap_err().contains("\"ps\" sums 65536 updates"));
    }

    #[test]
    fn more_frames_than_a_queue_holds_are_refused() {
        let ask = |loads: &[u64], messages| {
            let tree = binary(loads.len() as u32 + 1, Rates::Constant).unwrap().with_load(loads.to_vec());
            let plan = tree.plan("hand", &vec![false; loads.len()], Rate::from_bps(1_000_000_000));
            emit(&plan, "p.json", &Emission { messages, ..Emission::of(&plan, "x") }).map_err(|e| e.to_string())
        };
        assert!(ask(&[16], 65_536).is_ok(), "all frames are as many as slots");
        let message = ask(&[17], 65_536).unwrap_err();
        let parts = ["--messages 65536: 17 flows", "from \"s0\" to \"ps\"", "1102972 frames", "at most 1048576"];
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        // The root sends half of what its two links bring at the same time.
        assert!(ask(&[0, 9, 9], 65_536).is_ok());
        // Its first link ends earlier; from then on the second one brings as much as the root sends.
        assert!(ask(&[0, 0, 0, 15, 0, 10, 10], 65_536).is_ok());
        let message = ask(&[0, 0, 0, 16, 0, 10, 10], 65_536).unwrap_err();
        assert!(message.contains("36 flows") && message.contains("up to 1048578 frames"), "{message}");
    }

    #[test]
    fn networks_that_no_run_can_have_are_refused() {
        let ask = |size: u32| {
            let tree = binary(size, Rates::Constant).unwrap();
            let (mut load, blue) = (vec![0; tree.len()], vec![false; tree.len()]);
            load[0] = 1;
            let plan = tree.with_load(load).plan("hand", &blue, Rate::from_bps(1_000_000_000));
            emit(&plan, "p.json", &Emission::of(&plan, "x")).map_err(|e| e.to_string())
        };
        assert!(ask(1 << 15).is_ok());
        // 65,535 switches precede the server.
        let message = ask(1 << 16).unwrap_err();
        assert!(message.starts_with("\"ps\" is not among the first 65535 nodes"), "{message}");
        let mut plan = small();
        for worker in 4..65_540 {
            let node = plan.nodes.len();
            plan.nodes.push(PlanNode { name: format!("host{worker}"), role: PlanRole::Host, workers: vec![worker] });
            plan.links.push(PlanLink { from: node, to: 0, rate_bps: 1, cost: None });
            plan.flows.push(PlanFlow { source: FlowSource::Worker(worker), path: vec![node, 0] });
        }
        let message = emit(&plan, "p.json", &Emission::of(&plan, "x")).unwrap_err().to_string();
        assert!(message.contains("\"s0\" has 65540 links, and a device of a run has at most 65535"), "{message}");
    }

    /// A frame takes 2,240 s at 1 bit/s, and a run has 1,029 of these.
    #[test]
    fn frames_that_take_longer_than_a_run_are_refused() {
        let ask = |load| {
            let tree = binary(2, Rates::Constant).unwrap().with_load(vec![load]);
            let plan = tree.plan("hand", &[false], Rate::from_bps(1));
            emit(&plan, "p.json", &Emission::of(&plan, "x")).map_err(|e| e.to_string())
        };
        assert!(ask(1029).is_ok());
        let message = ask(1030).unwrap_err();
        let parts = ["--messages 1: the end of the last frame from \"s0\" to \"ps\"", "at 26.70 days", "higher rates"];
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }

    #[test]
    fn frames_wait_until_inputs_end() {
        // Both inputs for 10 s, then the faster one alone for 10 s: 10 · (3 − 1) + 10 · (2 − 1), and one of each.
        assert_eq!(peak(vec![(2.0, 40.0), (1.0, 10.0)], 1.0), 32.0);
        // The rest arrives more slowly than frames leave.
        assert_eq!(peak(vec![(2.0, 40.0), (1.0, 10.0)], 2.5), 7.0);
        assert_eq!(peak(vec![(1.0, 1e6)], 1.0), 1.0);
    }

    #[test]
    fn frames_that_wait_at_a_rate_are_those_beyond_it() {
        let tree = binary(2, Rates::Constant).unwrap().with_load(vec![40]);
        let plan = tree.plan("hand", &[false], Rate::from_bps(1_000_000_000));
        let plan = Plan { rate_bps: Some(25_000_000), ..plan };
        let ask = |factor| {
            let emission = Emission { messages: 65_536, factor, ..Emission::of(&plan, "x") };
            emit(&plan, "p.json", &emission).map_err(|e| e.to_string())
        };
        assert!(ask(1.0).is_ok() && ask(1.5).is_ok());
        assert!(ask(2.0).unwrap_err().contains("up to 1310760 frames"));
    }

    #[test]
    fn the_plan_is_beside_the_experiment() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("small.toml");
        let [(beside, plan), (experiment, text)] = files(&small(), &path, &Emission::of(&small(), "small")).unwrap();
        assert_eq!((&beside, experiment), (&folder.path().join("small.plan.json"), path));
        std::fs::write(&beside, plan).unwrap();
        assert_eq!(Plan::read(&beside).unwrap(), small());
        assert!(text.contains("\"small.plan.json\""));
    }
}
