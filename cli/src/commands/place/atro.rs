//! `pktgen place atro`: the wiring and routes with the highest AllReduce rate.

use pktgen_generator::Result;
use pktgen_generator::plan::PlanRole;
use pktgen_generator::units::Rate;
use pktgen_planning::atro::milp::{Form, Question, program};
use pktgen_planning::atro::{Capacities, Cluster, Inventory, Wiring, wire};
use serde_json::json;

use super::write;
use crate::args::PlaceAtro;
use crate::ui::Ui;

pub(super) fn run(args: &PlaceAtro, ui: &Ui) -> Result<u8> {
    let PlaceAtro { workers, switches, aggregators, ports, layers, capacity, .. } = args;
    let cluster = Cluster {
        switches: *switches,
        aggregators: *aggregators,
        ports: *ports,
        layers: *layers,
        capacity_bps: capacity.bps(),
    };
    let rates: Vec<_> = args.rates.iter().map(|rate| rate.bps()).collect();
    let wiring = wire(&cluster, *workers, &rates)?;
    if let Some(path) = &args.milp {
        let inventory = Inventory::of_cluster(&cluster, *workers);
        let capacities = Capacities::new(&inventory, wiring.rate_bps);
        write(path, &program(&capacities, Form::Counted, Question::Fits(*workers)), ui)?;
    }
    args.files.write(&wiring.plan, ui)?;
    let Wiring { plan, cross_connects, flows_per_link, rate_bps, bound_bps, optimal, proved } = &wiring;
    if ui.json() {
        let object = json!({ "placer": "atro", "workers": workers, "rate_bps": rate_bps, "bound_bps": bound_bps,
            "optimal": optimal, "proved": proved, "flows_per_link": flows_per_link, "topology": plan,
            "cross_connects": cross_connects });
        ui.result(&object.to_string());
        return Ok(0);
    }
    let count = |role| plan.nodes.iter().filter(|node| node.role == role).count();
    let (sums, plain) = (count(PlanRole::Aggregator), count(PlanRole::Common));
    let of_best = match (optimal, proved) {
        (true, true) => "the most that any wiring has".to_owned(),
        (true, false) => "the most of all shapes that are known".to_owned(),
        (false, _) => format!("no wiring has more than {}", Rate::from_bps(*bound_bps)),
    };
    ui.result(&format!("rate {}, {of_best}", Rate::from_bps(*rate_bps)));
    ui.result(&format!("{workers} workers, at most {flows_per_link} flows on a link of {capacity}, and as many back"));
    ui.result(&format!("{sums} of {aggregators} aggregators and {plain} other switches, {} cables", plan.links.len()));
    for (id, node) in plan.nodes.iter().enumerate().filter(|(_, node)| node.role != PlanRole::Host) {
        let below = plan.links.iter().filter(|link| link.to == id);
        let (hosts, switches): (Vec<_>, Vec<_>) =
            below.map(|link| &plan.nodes[link.from]).partition(|node| node.role == PlanRole::Host);
        let names: Vec<_> = switches.iter().map(|node| node.name.as_str()).collect();
        let (workers, above) = (hosts.len(), if names.is_empty() { "no switch".into() } else { names.join(" ") });
        if plan.nodes.len() <= 1000 {
            ui.result(&format!("  {:<8} {workers:>3} workers, below it {above}", node.name));
        }
    }
    Ok(0)
}
