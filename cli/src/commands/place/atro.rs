//! `pktgen place atro`: the wiring and routes with the highest AllReduce rate.

use pktgen_core::plan::{Plan, PlanRole};
use pktgen_core::{Error, Result};
use pktgen_planning::atro::milp::{MilpForm, MilpQuestion, check_size, program};
use pktgen_planning::atro::{Capacities, DevicePorts, Flags, Inventory, SolverAsk, Wiring, wire_inventory};
use pktgen_records::human::show;
use serde_json::json;

use super::write;
use crate::args::PlaceAtro;
use crate::schemas;
use crate::ui::Ui;

pub(super) fn run(args: &PlaceAtro, ui: &Ui) -> Result<u8> {
    args.files.check(args.milp.as_ref(), &args.cluster.as_deref().into_iter().collect::<Vec<_>>())?;
    let inventory = inventory(args)?;
    if args.milp.is_some() {
        check_size(inventory.switches.len())
            .map_err(|why| Error::config(format!("--milp: {why}; leave --milp out")))?;
    }
    let rates: Vec<_> = args.rates.iter().map(|rate| rate.bps()).collect();
    let spinner = ui.spinner("placing");
    let workers = inventory.hosts.len() as u64;
    let ask = ask(args);
    let wiring = wire_inventory(&inventory, &rates, ask.as_ref())?;
    spinner.finish_and_clear();
    let ports = DevicePorts::count(&wiring.plan, &inventory)?;
    let texts = args.files.texts(&wiring.plan)?;
    if let Some(path) = &args.milp {
        let capacities = Capacities::new(&inventory, wiring.rate_bps);
        write(path, &program(&capacities, MilpForm::Counted, MilpQuestion::Fits(workers)), ui)?;
    }
    args.files.write(&texts, ui)?;
    if let Some(why) = &wiring.solver_failure {
        ui.note(&format!("--solver: {why}"));
    }
    let Wiring { plan, cross_connects, flows_per_link, rate_bps, bound_bps, optimal, proved, .. } = &wiring;
    if ui.json() {
        let object = json!({ "placer": "atro", "workers": workers, "rate_bps": rate_bps, "bound_bps": bound_bps,
            "optimal": optimal, "proved": proved, "flows_per_link": flows_per_link, "topology": plan,
            "cross_connects": cross_connects, "device_ports": ports });
        ui.object(&schemas::WIRING, &object.to_string());
        return Ok(0);
    }
    rows(&wiring, &inventory, ports, args).iter().for_each(|row| ui.result(row));
    switches(plan).iter().for_each(|row| ui.result(row));
    Ok(0)
}

/// Reads the available hardware from a file or from flags (clap requires one of them).
fn inventory(args: &PlaceAtro) -> Result<Inventory> {
    if let Some(path) = &args.cluster {
        return Inventory::read(path, args.workers);
    }
    Inventory::of_flags(&Flags {
        workers: args.workers.unwrap_or(0),
        switches: args.switches.unwrap_or(0),
        aggregators: args.aggregators.unwrap_or(0),
        ports: args.ports.as_deref().unwrap_or(""),
        capacity: &args.capacity,
        host_rate: args.host_rate,
        server_rate: args.server_rate,
        links: &args.link,
        layers: args.layers,
        device_ports: args.device_ports,
    })
}

fn ask(args: &PlaceAtro) -> Option<SolverAsk> {
    args.solver.clone().map(|command| SolverAsk { command, seconds: args.seconds })
}

/// Formats a rate; `--json` has it in bit/s.
fn told(bps: u64) -> String {
    show("bps", bps as f64)
}

fn rows(wiring: &Wiring, inventory: &Inventory, ports: DevicePorts, args: &PlaceAtro) -> Vec<String> {
    let Wiring { plan, flows_per_link, rate_bps, bound_bps, optimal, proved, .. } = wiring;
    let count = |role| plan.nodes.iter().filter(|node| node.role == role).count();
    let (sums, plain) = (count(PlanRole::Aggregator), count(PlanRole::Common));
    // Of other rates nothing is known then: a wiring may have more.
    let of_rates = if args.rates.is_empty() { "" } else { " of the allowed rates" };
    let of_best = match (optimal, proved, inventory.cluster()) {
        (true, true, _) => format!("the most that any wiring has{of_rates}"),
        (true, false, _) => format!("the most of all shapes that are known{of_rates}"),
        (false, _, Some(_)) => format!("no wiring has more than {}{of_rates}", told(*bound_bps)),
        (false, _, None) => {
            let way_out = match ask(args) {
                None => "--solver may settle it".to_owned(),
                Some(ask) if wiring.solver_failure.is_some() => format!("{} failed", ask.command),
                Some(ask) => ask.unsettled(),
            };
            format!("best known; no wiring has more than {}{of_rates}; {way_out}", told(*bound_bps))
        }
    };
    let links = match inventory.cluster() {
        Some(cluster) => format!("a link of {}", told(cluster.capacity_bps)),
        None => "a link".to_owned(),
    };
    let (workers, aggregators) =
        (inventory.hosts.len(), inventory.switches.iter().filter(|switch| switch.aggregates).count());
    vec![
        format!("rate {}, {of_best}", told(*rate_bps)),
        format!("{workers} workers, at most {flows_per_link} flows on {links}, and as many back"),
        format!("{sums} of {aggregators} aggregators and {plain} other switches, {} cables", plan.links.len()),
        format!("{} of {} ports at the optical device; {}", ports.used, ports.all, ports.remark()),
    ]
}

/// Lists what is below each switch, for plans that fit on a screen.
fn switches(plan: &Plan) -> Vec<String> {
    let shown =
        plan.nodes.iter().enumerate().filter(|(_, node)| node.role != PlanRole::Host && plan.nodes.len() <= 1000);
    let row = |(id, node): (usize, &pktgen_core::plan::PlanNode)| {
        let below = plan.links.iter().filter(|link| link.to == id);
        let (hosts, switches): (Vec<_>, Vec<_>) =
            below.map(|link| &plan.nodes[link.from]).partition(|node| node.role == PlanRole::Host);
        let names: Vec<_> = switches.iter().map(|node| node.name.as_str()).collect();
        let (workers, above) = (hosts.len(), if names.is_empty() { "no switch".into() } else { names.join(" ") });
        format!("  {:<8} {workers:>3} workers, below it {above}", node.name)
    };
    shown.map(row).collect()
}
