//! `pktgen place soar`: the exact placement compared with other strategies.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use pktgen_core::registry::{Named, suggest};
use pktgen_core::regular::check_regular;
use pktgen_core::seed::Seed;
use pktgen_core::tree::make::{Rates, binary};
use pktgen_core::tree::{LOAD_MAX, Tree, file};
use pktgen_core::units::Rate;
use pktgen_core::{Error, Result};
use pktgen_planning::soar::loads::Loads;
use pktgen_planning::soar::online::Online;
use pktgen_planning::soar::strategy::STRATEGIES;
use pktgen_planning::soar::{Alternative, Placement, explain};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Value, json};

use super::write;
use crate::args::{MadeTree, PlaceSoar};
use crate::schemas;
use crate::ui::Ui;

/// Maximum number of workers in a plan, each of which has its own flow.
const PLANNED_MAX: u64 = 10_000_000;
/// The rate of a link with rate 1 in plans: messages of 125 kB take ρ milliseconds.
const UNIT: Rate = Rate::from_bps(1_000_000_000);

pub(super) fn run(args: &PlaceSoar, ui: &Ui) -> Result<u8> {
    let inputs = [Path::new(&args.tree)].into_iter().chain(args.workloads.as_deref());
    args.files.check(args.made.write.as_ref(), &inputs.collect::<Vec<_>>())?;
    if args.workloads.is_some() && args.made.write.is_none() {
        unused(&args.made)?;
    }
    let tree = tree(&args.tree, &args.made)?;
    let write_tree = || args.made.write.iter().try_for_each(|path| write(path, &file::to_json(&tree), ui));
    if let Some(path) = &args.workloads {
        let loads = workloads(path, &tree)?;
        if !args.tree.starts_with("BT(") && tree.below(tree.order()[0]) > 0 {
            ui.note(&format!("{}: its loads are not used: --workloads has those of every workload", args.tree));
        }
        return online(&tree, args, &loads, &write_tree, ui);
    }
    let wrong = |why: String| Error::config(format!("{}: {why}", args.tree));
    let spinner = ui.spinner("placing");
    let mut placed = Vec::new();
    for strategy in STRATEGIES {
        placed.push((strategy.name(), strategy.place(&tree, args.k).map_err(wrong)?));
    }
    spinner.finish_and_clear();
    let best = &placed[0].1;
    let why = match args.explain {
        true => {
            let bar = ui.bar("explaining", best.switches().count() as u64);
            let why = explain(&tree, args.k, best, || bar.inc(1)).map_err(wrong)?;
            bar.finish_and_clear();
            Some(why)
        }
        false => None,
    };
    let mut texts = Vec::new();
    if args.files.any() {
        let workers: u64 = (0..tree.len() as u32).map(|v| tree.load(v)).sum();
        if workers == 0 {
            return Err(Error::config(format!(
                "--plan, --svg, --dot, --emit: a plan has workers, and {} has no load; give loads",
                args.tree
            )));
        }
        if workers > PLANNED_MAX {
            return Err(Error::config(format!(
                "--plan, --svg, --dot, --emit: a plan has a flow for each of up to {PLANNED_MAX} workers, and the tree has a load of {workers}; give smaller loads"
            )));
        }
        tree.check_plan(UNIT)
            .map_err(|why| Error::config(format!("--plan, --svg, --dot, --emit: {}: {why}", args.tree)))?;
        texts = args.files.texts(&tree.plan("soar", &best.blue, UNIT))?;
    }
    write_tree()?;
    args.files.write(&texts, ui)?;
    if ui.json() {
        ui.object(&schemas::PLACEMENT, &soar_object(&tree, args.k, &placed, why.as_deref()).to_string());
    } else {
        soar_rows(&tree, args, &placed, why.as_deref()).iter().for_each(|row| ui.result(row));
    }
    Ok(0)
}

/// Refuses what only loads of the tree itself use, where workloads have their own and the tree is not written.
fn unused(made: &MadeTree) -> Result<()> {
    let given = [("--loads", made.loads.is_some()), ("--seed", made.seed.is_some())];
    match given.iter().find(|(_, given)| *given) {
        Some((flag, _)) => {
            Err(Error::config(format!("{flag}: --workloads has the loads of every workload; leave {flag} out")))
        }
        None => Ok(()),
    }
}

/// A tree of a file or BT(n).
fn tree(name: &str, made: &MadeTree) -> Result<Tree> {
    let inner = name.strip_prefix("BT(").and_then(|rest| rest.strip_suffix(')'));
    let Some(size) = inner else {
        let given =
            [("--rates", made.rates.is_some()), ("--loads", made.loads.is_some()), ("--seed", made.seed.is_some())];
        return match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Error::config(format!(
                "{flag}: only for generated trees, as BT(64); {name} has its own rates and loads"
            ))),
            None => file::read(Path::new(name)),
        };
    };
    let rates = named("--rates", made.rates.as_deref().unwrap_or("constant"), &Rates::ALL)?;
    let drawn = made.loads.as_deref().unwrap_or("uniform");
    let loads = named("--loads", drawn, &Loads::ALL)?;
    let size = size.parse().ok().filter(|size| *size <= 1 << 24);
    let tree = size.and_then(|size| binary(size, rates)).ok_or_else(|| {
        Error::config(format!(
            "{name}: BT(n) is a complete binary tree with its destination, so n is 2, 4, 8, … up to 16777216"
        ))
    })?;
    let load = loads
        .draw(&tree, Seed(made.seed.unwrap_or(1)), 0)
        .map_err(|why| Error::config(format!("--loads {drawn}: {why}")))?;
    Ok(tree.with_load(load))
}

fn named<T: Copy>(flag: &str, name: &str, all: &[(&str, T)]) -> Result<T> {
    all.iter().find(|(own, _)| *own == name).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|(own, _)| *own).collect();
        let near = suggest(name, &names);
        Error::config(format!("{flag} {name}: it is not known{near}; there are: {}", names.join(", ")))
    })
}

/// Formats the costs of the plan and of others as JSON.
fn soar_object(tree: &Tree, k: usize, placed: &[(&str, Placement)], why: Option<&[Alternative]>) -> Value {
    let best = &placed[0].1;
    let costs: BTreeMap<_, _> = placed.iter().map(|(name, placement)| (*name, placement.phi)).collect();
    let mut object = json!({
        "placer": "soar", "switches": tree.len(), "k": k, "phi": best.phi, "blue": best.ids(tree), "strategies": costs,
    });
    if let Some(why) = why {
        let one = |other: &Alternative| json!({ "without": other.id, "phi": other.without.phi, "blue": other.without.ids(tree) });
        object["alternatives"] = why.iter().map(one).collect();
    }
    object
}

fn soar_rows(tree: &Tree, args: &PlaceSoar, placed: &[(&str, Placement)], why: Option<&[Alternative]>) -> Vec<String> {
    let best = &placed[0].1;
    let red = placed.iter().find(|(name, _)| *name == "all_red").map_or(best.phi, |(_, placement)| placement.phi);
    let mut rows = vec![
        format!("{} switches, {} servers, k = {}", tree.len(), tree.below(tree.order()[0]), args.k),
        format!("phi {}, {} of all red, at best", short(best.phi), share(best.phi, red)),
        format!("blue {}", list(&best.ids(tree))),
        format!("{:<10} {:>12} {:>8} {:>7}", "strategy", "phi", "of red", "blue"),
    ];
    rows.extend(placed.iter().map(|(name, placement)| {
        let (cost, count) = (short(placement.phi), placement.switches().count());
        format!("{name:<10} {cost:>12} {:>8} {count:>7}", share(placement.phi, red))
    }));
    for other in why.into_iter().flatten() {
        let (cost, more) = (short(other.without.phi), short(other.more(best)));
        rows.push(format!("without {}: phi {cost}, {more} more, blue {}", other.id, list(&other.without.ids(tree))));
    }
    rows
}

/// Lists at most twelve ids.
fn list(ids: &[u64]) -> String {
    let shown: Vec<_> = ids.iter().take(12).map(u64::to_string).collect();
    let more = if ids.len() > 12 { format!(" and {} more (--json has all)", ids.len() - 12) } else { String::new() };
    if ids.is_empty() { "none".into() } else { format!("{}{more}", shown.join(", ")) }
}

fn short(phi: f64) -> String {
    match phi.abs() {
        0.0 => "0".into(),
        size if size == size.trunc() && size < 1e15 => format!("{phi}"),
        1e-3..1e15 => format!("{phi:.6}"),
        // Rates in bit/s give ρ in nanoseconds.
        _ => format!("{phi:.6e}"),
    }
}

fn share(phi: f64, red: f64) -> String {
    if red > 0.0 { format!("{:.1} %", phi / red * 100.0) } else { "-".into() }
}

/// Loads of one workload by id, without duplicates.
struct OfWorkload(BTreeMap<u64, u64>);

impl<'de> Deserialize<'de> for OfWorkload {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Once;
        impl<'de> Visitor<'de> for Once {
            type Value = OfWorkload;
            fn expecting(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
                out.write_str("an object from id to load")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> std::result::Result<OfWorkload, A::Error> {
                let mut loads = BTreeMap::new();
                while let Some((id, load)) = entries.next_entry()? {
                    if loads.insert(id, load).is_some() {
                        return Err(serde::de::Error::custom(format!("switch {id} has two loads")));
                    }
                }
                Ok(OfWorkload(loads))
            }
        }
        from.deserialize_map(Once)
    }
}

/// Reads the loads of each workload.
fn workloads(path: &Path, tree: &Tree) -> Result<Vec<Vec<u64>>> {
    check_regular(path)?;
    let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
    let list: Vec<OfWorkload> = serde_json::from_str(&text).map_err(|e| {
        Error::config(format!(
            "--workloads {}: {e}; give a list of objects from id to load, [{{\"3\": 2, \"4\": 6}}, …]",
            path.display()
        ))
    })?;
    let switches: HashMap<u64, usize> = (0..tree.len()).map(|v| (tree.id(v as u32), v)).collect();
    let one = |(number, OfWorkload(loads)): (usize, OfWorkload)| {
        let mut own = vec![0; tree.len()];
        for (id, load) in loads {
            let v = switches.get(&id).ok_or_else(|| {
                Error::config(format!(
                    "--workloads {}: workload {number} has load at {id}, which is no switch",
                    path.display()
                ))
            })?;
            own[*v] = load;
        }
        let total: u128 = own.iter().map(|load| u128::from(*load)).sum();
        if total > u128::from(LOAD_MAX) {
            return Err(Error::config(format!(
                "--workloads {}: workload {number} has a load of {total} in all; at most {LOAD_MAX} are supported",
                path.display()
            )));
        }
        Ok(own)
    };
    list.into_iter().enumerate().map(one).collect()
}

/// Places every workload with every strategy, each of which has all switches for itself.
fn online(
    tree: &Tree,
    args: &PlaceSoar,
    workloads: &[Vec<u64>],
    write_tree: &dyn Fn() -> Result<()>,
    ui: &Ui,
) -> Result<u8> {
    let wrong = |why: String| Error::config(format!("{}: {why}", args.tree));
    let bar = ui.bar("placing", (workloads.len() * STRATEGIES.len()) as u64);
    let mut all = Vec::new();
    for strategy in STRATEGIES {
        let mut online = Online::new(tree, args.capacity.unwrap_or(u32::MAX));
        let mut placed = Vec::new();
        for load in workloads {
            placed.push(online.place(load.clone(), args.k, strategy).map_err(wrong)?);
            bar.inc(1);
        }
        all.push((strategy.name(), placed));
    }
    bar.finish_and_clear();
    write_tree()?;
    // A `sum()` of no numbers is -0.0.
    let total = |placed: &[Placement]| placed.iter().fold(0.0, |sum, placement| sum + placement.phi);
    if ui.json() {
        let costs: BTreeMap<_, _> = all.iter().map(|(name, placed)| (*name, total(placed))).collect();
        let one = |placement: &Placement| json!({ "phi": placement.phi, "blue": placement.ids(tree) });
        let own: Vec<_> = all[0].1.iter().map(one).collect();
        let object = json!({ "placer": "soar", "switches": tree.len(), "k": args.k, "capacity": args.capacity,
            "phi": total(&all[0].1), "workloads": own, "strategies": costs });
        ui.object(&schemas::PLACEMENTS, &object.to_string());
        return Ok(0);
    }
    ui.result(&format!("{} workloads, one after the other, k = {}", workloads.len(), args.k));
    let red = all.iter().find(|(name, _)| *name == "all_red").map_or(0.0, |(_, placed)| total(placed));
    for (name, placed) in &all {
        ui.result(&format!("{name:<10} {:>12} {:>8}", short(total(placed)), share(total(placed), red)));
    }
    for (number, placement) in all[0].1.iter().enumerate() {
        ui.result(&format!("workload {number}: phi {}, blue {}", short(placement.phi), list(&placement.ids(tree))));
    }
    Ok(0)
}
