//! Runs that execute a plan: the load of links compared with the plan, φ, and how fast complete sums came back.
//!
//! A round is one message of every worker. The manifest has the actual and the planned load of links; both are
//! integers, so a promise is either kept or not.

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition, Label};
use pktgen_core::record::{Answers, LinkLoad, NO_CLUSTER, Planned};
use pktgen_core::registry::Named;

use super::Metric;
use crate::line::{Line, SHARE};
use crate::resolved::Analysis;

/// See the module documentation.
pub(super) struct Plan;

const BPS: &str = "bit/s";

const fn along(metric: &'static str, unit: &'static str, better: Better, definition: &'static str) -> Definition {
    Definition::new(metric, unit, better, definition).needs("a plan, in virtual time")
}

const DEFINITIONS: [Definition; 8] = [
    along(
        "links_unlike_plan",
        "links",
        Better::Lower,
        "Links whose number of messages differs from the plan; 0 if the plan's promise is kept. In a run that was cut, messages under way make links differ, too.",
    ),
    along(
        "phi",
        "cost",
        Better::Lower,
        "Network utilisation φ: messages times cost, summed over links with a cost, per round.",
    )
    .source("SOAR §2"),
    along(
        "phi_planned",
        "cost",
        Better::Lower,
        "φ promised by the plan, where each cluster has its own sums; twice that with answers.",
    )
    .source("SOAR §2"),
    along(
        "allreduce_rate",
        BPS,
        Better::Higher,
        "Wire bits per message, divided by the time between answers, at the slowest worker.",
    )
    .source("docs/reduce.md"),
    along("rate_planned", BPS, Better::Higher, "Rate r promised by the plan.").source("docs/reduce.md"),
    along(
        "link_load_max",
        SHARE,
        Better::Lower,
        "Maximum offered load of a link, as a share of its rate; above 1 the link is overloaded, if by more than a first round that waited explains. Needs two rounds.",
    ),
    along("queue_max", "frames", Better::Lower, "Maximum number of frames waiting for a link."),
    along("link_messages", "messages", Better::Neither, "Updates, sums and answers that crossed a link.").labels(&[
        Label::new("id", "the link's number in the plan"),
        Label::new("link", "its ends"),
        Label::one_of("direction", &["up", "down"], "towards the server, or away from it"),
    ]),
];

impl Named for Plan {
    fn name(&self) -> &'static str {
        "plan"
    }

    fn about(&self) -> &'static str {
        "runs along a plan: messages per link and φ against its promise, AllReduce rate, load and queue of links"
    }
}

impl Metric for Plan {
    fn definitions(&self) -> Vec<Definition> {
        DEFINITIONS.to_vec()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let Some(planned) = &run.manifest.planned else { return Ok(()) };
        let (plan, loads) = (&planned.plan, &run.manifest.counters.links);
        // In real time, the load of links is not counted.
        if loads.len() != plan.links.len() {
            return Ok(());
        }
        let carried: Vec<[u64; 2]> = loads.iter().map(|load| load.map(|way| way.messages)).collect();
        let rounds = rounds(run);
        let promised = expected(planned, &run.manifest.clusters, &rounds);
        let phi_planned = phi_planned(planned, &run.manifest.clusters, &rounds);
        let surplus = surplus(run, planned, &rounds);
        let unlike = surplus.as_ref().map(|more| {
            let should = promised.iter().zip(more).map(|(own, more)| [own[0] + more[0], own[1] + more[1]]);
            carried.iter().zip(should).filter(|(is, should)| *is != should).count() as f64
        });
        out.push(Line::new("links_unlike_plan", "links", unlike));
        let common = rounds.iter().flatten().min().copied().filter(|rounds| *rounds > 0);
        if plan.links.iter().any(|link| link.cost.is_some()) {
            // A cluster may have generated more messages than another: a round is one of all workers.
            let beyond: Vec<_> = rounds.iter().map(|own| own.zip(common).map(|(own, common)| own - common)).collect();
            let beyond = plan.utilisation_of(&expected(planned, &run.manifest.clusters, &beyond));
            let of_rounds = surplus.map(|more| plan.utilisation_of(&carried) - plan.utilisation_of(&more) - beyond);
            out.push(Line::new("phi", "cost", of_rounds.zip(common).map(|(all, n)| all / n as f64)));
            out.push(Line::new("phi_planned", "cost", phi_planned));
        }
        if planned.allreduce {
            let answers = of_workers(&run.manifest.counters.answers, &run.manifest.clusters);
            out.push(Line::new("allreduce_rate", BPS, allreduce_bps(answers, planned)));
        }
        if let Some(rate) = plan.rate_bps {
            out.push(Line::new("rate_planned", BPS, rate as f64));
        }
        // A single round is over immediately and does not require any share.
        let load = common.filter(|n| *n > 1).and_then(|_| load_max(planned, loads));
        out.push(Line::new("link_load_max", SHARE, load));
        let queue = loads.iter().flatten().map(|way| way.queue_max).max().unwrap_or(0);
        out.push(Line::new("queue_max", "frames", queue as f64));
        links(planned, &carried, out);
        Ok(())
    }
}

/// Returns for each cluster how many messages all of its workers generated; `None` for one without workers.
fn rounds(run: &Analysis) -> Vec<Option<u64>> {
    let mut rounds: Vec<Option<u64>> = Vec::new();
    for (cluster, balance) in run.manifest.clusters.iter().zip(&run.manifest.balance_by_worker) {
        let cluster = usize::from(*cluster);
        if cluster == usize::from(NO_CLUSTER) {
            continue;
        }
        rounds.resize(rounds.len().max(cluster + 1), None);
        let own = rounds[cluster].unwrap_or(u64::MAX);
        rounds[cluster] = Some(own.min(balance.generated));
    }
    rounds
}

/// Returns the planned load of links by messages that only some workers of a cluster generated: their own flows, and sums whose parts
/// were all generated. No such message is complete at the server, so it has no answer. `None` if there are some, and incomplete
/// sums left, whose number is not known.
fn surplus(run: &Analysis, planned: &Planned, rounds: &[Option<u64>]) -> Option<Vec<[u64; 2]>> {
    let manifest = &run.manifest;
    let generated = |worker: usize| manifest.balance_by_worker.get(worker).map_or(0, |balance| balance.generated);
    let whole = planned.plan.whole(&manifest.clusters, generated);
    let beyond = |(cluster, messages): &(u16, u64)| {
        let rounds = rounds.get(usize::from(*cluster)).copied().flatten()?;
        Some(messages.saturating_sub(rounds))
    };
    let surplus = planned.plan.messages_of(|flow| whole[flow].iter().filter_map(beyond).sum());
    let partial = manifest.counters.device.get("sums_partial").is_some_and(|sums| *sums > 0);
    let even = surplus.iter().flatten().all(|messages| *messages == 0);
    (even || !partial).then_some(surplus)
}

/// Returns the planned load of links: the actual number of rounds, and the same in the other direction if the server answers.
fn expected(planned: &Planned, cluster_of: &[u16], rounds: &[Option<u64>]) -> Vec<[u64; 2]> {
    let clusters = planned.plan.clusters(cluster_of);
    let times = |flow: usize| {
        let of = clusters[flow].iter().filter_map(|cluster| rounds.get(usize::from(*cluster)).copied().flatten());
        of.sum()
    };
    let mut messages = planned.plan.messages_of(times);
    if planned.allreduce {
        messages.iter_mut().for_each(|[up, down]| (*up, *down) = (*up + *down, *up + *down));
    }
    messages
}

/// φ as promised for a round: the plan's own value is that of one cluster. Several share links, and each has its own sums.
fn phi_planned(planned: &Planned, cluster_of: &[u16], rounds: &[Option<u64>]) -> f64 {
    let plan = &planned.plan;
    if rounds.iter().flatten().count() > 1 {
        let one: Vec<_> = rounds.iter().map(|own| own.map(|_| 1)).collect();
        return plan.utilisation_of(&expected(planned, cluster_of, &one));
    }
    let ways = if planned.allreduce { 2.0 } else { 1.0 };
    ways * plan.phi.unwrap_or_else(|| plan.utilisation())
}

/// Answers of senders with a cluster: flows of background traffic get none.
fn of_workers<'a>(answers: &'a [Answers], cluster_of: &'a [u16]) -> impl Iterator<Item = &'a Answers> {
    let own = answers.iter().enumerate();
    own.filter(move |(sender, _)| cluster_of.get(*sender) != Some(&NO_CLUSTER)).map(|(_, own)| own)
}

/// Wire bits of answers by time, at the worker where they came slowest, between its first and its last.
fn allreduce_bps<'a>(answers: impl Iterator<Item = &'a Answers>, planned: &Planned) -> Option<f64> {
    let rate = |own: &Answers| {
        let (gaps, ps) = (own.messages.checked_sub(1)?, own.last_ps - own.first_ps);
        // Older manifests have the size of the largest message only.
        let bits = own.later_bits.map_or_else(|| gaps as f64 * planned.message_bits as f64, |bits| bits as f64);
        (gaps > 0 && ps > 0).then(|| bits * 1e12 / ps as f64)
    };
    // A worker that received nothing has no rate, so the run has none.
    let rates: Option<Vec<f64>> = answers.map(rate).collect();
    rates?.into_iter().min_by(f64::total_cmp)
}

/// Returns the highest share of a link's capacity that was requested; above 1 it could not be satisfied.
fn load_max(planned: &Planned, loads: &[[LinkLoad; 2]]) -> Option<f64> {
    let ways = planned.rates_bps().flatten().zip(loads.iter().flatten());
    let shares = ways.filter_map(|(rate_bps, load)| Some(load.offered_bps()? / rate_bps as f64));
    shares.max_by(f64::total_cmp)
}

fn links(planned: &Planned, carried: &[[u64; 2]], out: &mut Vec<Line>) {
    let plan = &planned.plan;
    for (i, (link, messages)) in plan.links.iter().zip(carried).enumerate() {
        let [from, to] = [link.from, link.to].map(|end| plan.nodes.get(end).map_or("?", |node| node.name.as_str()));
        for (direction, n) in ["up", "down"].into_iter().zip(messages) {
            let line = Line::new("link_messages", "messages", *n as f64).with("id", i as u64);
            out.push(line.with("link", format!("{from} {to}")).with("direction", direction));
        }
    }
}
