//! Recirculations per packet for layouts and ways of packing (LIBRA §5.4, Figure 16).
//!
//! Draws batches of hot gradients of a model, packs each, and counts in every packet the pairs that the pipeline cannot
//! serve in its first pass; then packs it again so that no packet needs more recirculations than the prototype does.

use rand::seq::SliceRandom;

use super::{Finding, Study, Task};
use crate::config::{KeyTables, Section, settings};
use crate::definition::{Better, Definition};
use crate::registry::Named;
use crate::seed::Seed;
use crate::sparse::layout::Layout;
use crate::sparse::packaging::{Estimate, PAIRS_MAX, Packaging, Packer, Pair};
use crate::sparse::pipeline::{Scratch, passes};
use crate::sparse::read::{Model, OfBatch, OfCurve, shape};
use crate::sparse::{self, Batch, DENSE_SHARE, Sparse};
use crate::{Error, Result};

/// The study.
pub struct Recirculations;

const fn packing(metric: &'static str, unit: &'static str, better: Better, definition: &'static str) -> Definition {
    Definition::new(metric, unit, better, definition).source("LIBRA §3.4, §5.4, Figure 16")
}

static METRICS: [Definition; 8] = [
    packing(
        "recirculations_sum",
        "recirculations",
        Better::Lower,
        "Mean per packet of pairs beyond the first of their register: recirculations if each serves one pair.",
    ),
    packing(
        "recirculations_max",
        "recirculations",
        Better::Lower,
        "Mean per packet of passes of the pipeline beyond the first, if each serves one pair of every register.",
    ),
    packing("pairs_per_packet", "pairs", Better::Higher, "Mean number of key-gradient pairs per packet."),
    packing("packets_per_batch", "packets", Better::Lower, "Mean number of packets per batch."),
    packing(
        "leftover_share",
        "share",
        Better::Lower,
        "Share of pairs that Algorithm 1 packed without looking at registers.",
    ),
    packing(
        "split_packets_per_batch",
        "packets",
        Better::Lower,
        "Packets per batch, if no packet may need more than `max_recirculations`.",
    ),
    packing(
        "split_pairs_per_packet",
        "pairs",
        Better::Higher,
        "Pairs per packet, if no packet may need more than `max_recirculations`.",
    ),
    packing(
        "split_recirculations_max",
        "recirculations",
        Better::Lower,
        "Passes beyond the first, if no packet may need more than `max_recirculations`.",
    ),
];

/// Registers unless they are told: one in each of the nine stages that Libra takes (LIBRA §5.7). Our reading; a random
/// layout then needs the 10 recirculations of §5.4.
const REGISTERS: u32 = 9;

/// In which order gradients are packed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    Rank(Packaging),
    Arrival,
}

settings! {
    /// What it reads from `[study]` beside the model.
    #[derive(Debug)]
    struct Settings {
        /// Batches to pack.
        batches: u32 = 100 in 1..=1_000_000;
        /// Registers of the pipeline.
        registers: u32 = REGISTERS in 1..=65_536;
        /// Maximum number of pairs per packet.
        packet_pairs: u32 = (PAIRS_MAX as u32) in 1..=1000;
        /// Layout of parameters in registers.
        layout: bool = "heat" of [("heat", true, ""), ("random", false, "")];
        /// Packing order of pairs.
        packaging: Order = "algorithm1" of [
            ("algorithm1", Order::Rank(Packaging::Algorithm1), ""), ("rank_order", Order::Rank(Packaging::RankOrder), ""),
            ("arrival_order", Order::Arrival, "")
        ];
        /// Estimate of a packet's room used by packing.
        estimate: Estimate = "registers" of [("registers", Estimate::Registers, ""), ("capacity", Estimate::Capacity, "")];
        /// Maximum number of recirculations per packet, for the metrics `split_*`.
        max_recirculations: u32 = 1 in 0..=1000;
    }
}

/// What is packed, and how.
#[derive(Debug)]
struct Plan {
    model: sparse::SparsePlan,
    settings: Settings,
}

impl Plan {
    fn read(section: &mut Section) -> Result<Self> {
        let settings = Settings::read(section)?;
        Ok(Plan { model: model(section, settings.batches)?, settings })
    }

    fn packer(&self) -> Packer {
        Packer::new(self.settings.packet_pairs as usize, self.settings.registers).estimating(self.settings.estimate)
    }
}

/// Sums over all packets of one way of packing.
#[derive(Debug, Default)]
struct Sums {
    pairs: u64,
    packets: u64,
    extra: u64,
    recirculations: u64,
    set_aside: u64,
}

impl Sums {
    fn add(&mut self, packer: &mut Packer, batch: &[Pair], layout: &Layout, how: Packaging, scratch: &mut Scratch) {
        let packets = packer.pack(batch, layout, how);
        self.pairs += batch.len() as u64;
        self.packets += packets.len() as u64;
        self.set_aside += packets.set_aside() as u64;
        for packet in packets.iter() {
            let found = passes(packet, layout, scratch);
            self.extra += u64::from(found.extra);
            self.recirculations += u64::from(found.recirculations());
        }
    }
}

impl Named for Recirculations {
    fn name(&self) -> &'static str {
        "recirculations"
    }
    fn about(&self) -> &'static str {
        "recirculations per packet of hot gradients, by layout in registers and packaging (LIBRA §5.4)"
    }
}

impl Study for Recirculations {
    fn keys(&self) -> KeyTables {
        &[Model::KEYS, OfCurve::KEYS, OfBatch::KEYS, Settings::KEYS]
    }

    fn metrics(&self) -> &'static [Definition] {
        &METRICS
    }

    fn read(&self, section: &mut Section) -> Result<Task> {
        let plan = Plan::read(section)?;
        Ok(Box::new(move |seed, _| plan.run(seed)))
    }
}

impl Plan {
    fn run(&self, seed: Seed) -> Result<Vec<Finding>> {
        let plan = self;
        let hot = plan.model.hot;
        let layout = match plan.settings.layout {
            true => Layout::heat(plan.settings.registers),
            false => Layout::random(plan.settings.registers, hot.div_ceil(plan.settings.registers), seed),
        };
        let model = Sparse::new(plan.model.clone(), seed)?;
        let (mut packer, mut splitter) =
            (plan.packer(), plan.packer().recirculating_at_most(plan.settings.max_recirculations));
        let (mut free, mut split) = (Sums::default(), Sums::default());
        let (mut batch, mut scratch) = (Batch::default(), Scratch::default());
        for number in 0..plan.settings.batches {
            model.batch(0, number, &mut batch);
            let how = match plan.settings.packaging {
                Order::Rank(how) => how,
                Order::Arrival => {
                    batch.hot.shuffle(&mut seed.stream("recirculations.arrival", number.into(), 0));
                    Packaging::RankOrder
                }
            };
            free.add(&mut packer, &batch.hot, &layout, how, &mut scratch);
            split.add(&mut splitter, &batch.hot, &layout, how, &mut scratch);
        }
        Ok(findings(&free, &split, plan.settings.batches))
    }
}

/// Means; none where there is nothing to take a mean of.
fn findings(free: &Sums, split: &Sums, batches: u32) -> Vec<Finding> {
    let mean = |metric: &str, unit: &str, sum: u64, of: u64| Finding {
        value: (of > 0).then(|| sum as f64 / of as f64),
        ..Finding::new(metric, unit, 0.0)
    };
    vec![
        mean("recirculations_sum", "recirculations", free.extra, free.packets),
        mean("recirculations_max", "recirculations", free.recirculations, free.packets),
        mean("pairs_per_packet", "pairs", free.pairs, free.packets),
        mean("packets_per_batch", "packets", free.packets, batches.into()),
        mean("leftover_share", "share", free.set_aside, free.pairs),
        mean("split_packets_per_batch", "packets", split.packets, batches.into()),
        mean("split_pairs_per_packet", "pairs", split.pairs, split.packets),
        mean("split_recirculations_max", "recirculations", split.recirculations, split.packets),
    ]
}

/// Reads what the batches are: the model as the workload `sparse` knows it, one worker.
fn model(section: &mut Section, batches: u32) -> Result<sparse::SparsePlan> {
    let shape = shape(section)?;
    let pairs = OfBatch::pairs(section, shape.pairs)?;
    let dense = OfBatch::dense(section, (f64::from(pairs) * DENSE_SHARE).round() as u32)?;
    let known = sparse::SparsePlan::of_shape(shape);
    let plan = sparse::SparsePlan { pairs, dense, workers_per_job: 1, iterations: batches, ..known };
    plan.check().map_err(|(key, why)| Error::config(format!("{}: {why}", section.place(key))))?;
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::Value;

    fn study(values: &[(&str, Value)]) -> BTreeMap<String, f64> {
        let mut section = Section::of("study", &[values, &[("batches", 10i64.into())]].concat());
        let found = Recirculations.run(&mut section, Seed(1)).unwrap();
        let names: Vec<&str> = found.iter().map(|finding| finding.metric.as_str()).collect();
        assert_eq!(names, METRICS.map(|definition| definition.metric));
        assert!(
            section.asked().iter().all(|key| crate::config::names_of(Recirculations.keys()).any(|known| known == key))
        );
        found.into_iter().map(|finding| (finding.metric, finding.value.unwrap())).collect()
    }

    /// Of `pairs` in uniformly random registers, how many share theirs with one before.
    fn expected_extra(pairs: i32, registers: f64) -> f64 {
        f64::from(pairs) - registers * (1.0 - (1.0 - 1.0 / registers).powi(pairs))
    }

    #[test]
    fn heat_and_algorithm1_need_less_than_one_and_a_random_layout_ten() {
        for model in ["oa", "se"] {
            let of = |layout: &str, packaging: &str| {
                study(&[("model", model.into()), ("layout", layout.into()), ("packaging", packaging.into())])
            };
            let best = of("heat", "algorithm1");
            assert!(best["recirculations_sum"] < 0.2, "{best:?}");
            assert!((8.5..9.1).contains(&best["pairs_per_packet"]), "{best:?}");
            for packaging in ["rank_order", "arrival_order"] {
                let random = of("random", packaging);
                assert!((random["recirculations_sum"] - expected_extra(18, 9.0)).abs() < 0.1, "{random:?}");
                assert!((2.5..4.0).contains(&random["recirculations_max"]), "{random:?}");
                assert_eq!(random["leftover_share"], 0.0);
                assert!(random["split_packets_per_batch"] > 2.0 * random["packets_per_batch"], "{random:?}");
                assert!(random["split_recirculations_max"] <= 1.0);
            }
            let ordered = of("heat", "rank_order");
            assert!(ordered["recirculations_sum"] < of("random", "rank_order")["recirculations_sum"], "{ordered:?}");
        }
    }

    #[test]
    fn the_estimate_decides_where_registers_are_few() {
        let of = |estimate: &str| study(&[("estimate", estimate.into())]);
        let (capacity, registers) = (of("capacity"), of("registers"));
        // Half of the gradients find no packet, and fill further ones to the brim.
        assert!((capacity["leftover_share"] - 0.5).abs() < 0.01, "{capacity:?}");
        assert!(capacity["recirculations_sum"] > 3.0 && capacity["pairs_per_packet"] > 11.5, "{capacity:?}");
        assert!(registers["leftover_share"] < 0.02, "{registers:?}");
        // From as many registers as pairs on it is all one.
        let wide = |estimate: &str| study(&[("estimate", estimate.into()), ("registers", 24i64.into())]);
        assert_eq!(wide("capacity"), wide("registers"));
    }

    #[test]
    fn wrong_values_are_refused() {
        let fails = |values: &[(&str, Value)], parts: &[&str]| {
            let message = Recirculations.run(&mut Section::of("study", values), Seed(1)).unwrap_err().to_string();
            assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        };
        fails(&[("registers", 0i64.into())], &["study.registers", "0 is not from 1"]);
        fails(&[("layout", "haet".into())], &["study.layout", "\"haet\"", "heat"]);
        fails(&[("packaging", "algorithm2".into())], &["did you mean \"algorithm1\""]);
        fails(&[("batches", 0i64.into())], &["study.batches"]);
    }

    #[test]
    fn the_ranges_of_hot_and_parameters_are_those_that_are_listed() {
        for (key, most) in [("hot", 5_000_000i64), ("parameters", 1 << 62)] {
            let mut keys = Recirculations.keys().iter().flat_map(|table| table.iter());
            assert_eq!(keys.find(|known| known.name == key).unwrap().range(), format!("1 to {most}"));
            let read = |value: i64| Recirculations.read(&mut Section::of("study", &[(key, value.into())]));
            assert!(read(most).is_ok(), "{key}");
            for value in [0, most + 1, i64::from(u32::MAX) + 1, i64::MAX] {
                let said = format!("study.{key}: {value} is not from 1 to {most}");
                let is_within = (1..=most).contains(&value);
                assert!(is_within || read(value).err().unwrap().to_string().starts_with(&said), "{said}");
            }
        }
    }
}
