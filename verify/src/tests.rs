//! Compares the model with the reference: brute force over all behaviours of tiny instances, and planted configurations.

use std::time::Duration;

use pktgen_core::config::{Document, Value};
use pktgen_core::time::US;
use pktgen_workload::control::SendingRule;
use proptest::prelude::*;

use super::decide::{self, BehaviourSource, Proof};
use super::encode::{Query, SmtModel};
use super::reference::run;
use super::setup::{Arrivals, Cluster, Setup, Ticks};
use super::solver::{DEFAULT, Reply};
use super::{PROPERTIES, Question, Solver};

/// Returns two clusters with neutral settings, which tests change.
pub(super) fn tiny() -> Setup {
    let arrivals = Arrivals::Periodic { period: 100, phase: Some(0), jitter: 0 };
    Setup {
        clusters: vec![Cluster { updates: 3, arrivals }; 2],
        service: 10,
        access: 1,
        ack: 1,
        delay: 0,
        slots: 2,
        hold_slot: true,
        window: None,
        rule: SendingRule::urgent(400 * US),
        slope: Value::Text("1/delta_t".into()),
        epsilon: 10,
        candidates: 0,
    }
}

#[test]
fn a_window_without_arrivals_is_refused() {
    let refused = Setup { window: Some(0), ..tiny() }.check(&|key| key.to_owned()).unwrap_err().to_string();
    assert!(refused.starts_with("active_window: "), "{refused}");
    assert!(Setup { window: Some(1), ..tiny() }.check(&|key| key.to_owned()).is_ok());
}

#[test]
fn a_value_of_a_list_is_there_once() {
    let read = |text: &str| {
        let mut document = Document::parse(text, "x.toml").unwrap();
        super::setup::read(&mut document.section("verify").unwrap()).map(|setups| setups.len())
    };
    let refused = read("[verify]\nepsilon = [\"1ms\", \"1000us\"]\n").unwrap_err().to_string();
    assert!(refused.contains("verify.epsilon") && refused.contains("a value is there twice"), "{refused}");
    assert_eq!(read("[verify]\nepsilon = [\"1ms\", \"1001us\"]\n").unwrap(), 2);
}

#[test]
fn the_list_of_keys_is_that_of_the_readers() {
    let mut section = Document::parse("[verify]\n", "x.toml").unwrap().section("verify").unwrap();
    super::setup::read(&mut section).unwrap();
    super::rate::read(&mut section, 2).unwrap();
    let mut read = section.asked().to_vec();
    read.sort_unstable();
    read.dedup();
    let mut keys = super::setup::KEYS;
    keys.sort_unstable();
    assert_eq!(read, keys);
}

fn solver(seconds: u64) -> Solver {
    Solver { command: DEFAULT.into(), timeout: Duration::from_secs(seconds), clock: Box::new(Duration::default) }
}

/// Returns all sequences of generation times of a cluster.
fn sequences(cluster: &Cluster) -> Vec<Vec<Ticks>> {
    let mut all: Vec<Vec<Ticks>> = Vec::new();
    match cluster.arrivals {
        Arrivals::Free { gap_min, gap_max } => {
            all.extend((0..=gap_max).map(|t| vec![t]));
            for _ in 1..cluster.updates {
                let longer = |times: Vec<Ticks>| {
                    let last = times[times.len() - 1];
                    (gap_min..=gap_max).map(move |gap| [&times[..], &[last + gap]].concat())
                };
                all = all.into_iter().flat_map(longer).collect();
            }
        }
        Arrivals::Periodic { period, phase, jitter } => {
            for phase in phase.map_or(0..=period - 1, |p| p..=p) {
                let mut own = vec![Vec::new()];
                for k in 0..cluster.updates as Ticks {
                    let longer =
                        |times: Vec<Ticks>| (0..=jitter).map(move |x| [&times[..], &[phase + k * period + x]].concat());
                    own = own.into_iter().flat_map(longer).collect();
                }
                all.extend(own);
            }
        }
    }
    all
}

/// Returns which queries have an instance, by trying all times and all choices.
fn brute_force(setup: &Setup, queries: &[Query]) -> Vec<bool> {
    let mut shown = vec![false; queries.len()];
    let each: Vec<_> = setup.clusters.iter().map(sequences).collect();
    for a in &each[0] {
        for b in &each[1] {
            let generated = [a.clone(), b.clone()];
            // Choices in the order of occurrence; the last 0 becomes a 1 until there is none.
            let mut choices: Vec<bool> = Vec::new();
            loop {
                let mut at = 0;
                let run = run(setup, &generated, &mut |_, _| {
                    if at == choices.len() {
                        choices.push(false);
                    }
                    at += 1;
                    choices[at - 1]
                });
                choices.truncate(at);
                for (shown, query) in shown.iter_mut().zip(queries) {
                    *shown |= decide::shows(setup, &run, *query);
                }
                while choices.pop_if(|last| *last).is_some() {}
                match choices.last_mut() {
                    Some(last) => *last = true,
                    None => break,
                }
            }
        }
    }
    shown
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    prop_oneof![
        (1i64..5, 0i64..2).prop_map(|(gap_min, more)| Arrivals::Free { gap_min, gap_max: gap_min + more }),
        (2i64..7, 0i64..2, prop::option::of(0i64..4)).prop_map(|(period, jitter, phase)| Arrivals::Periodic {
            period,
            phase,
            jitter
        }),
    ]
}

fn setups() -> impl Strategy<Value = Setup> {
    let clusters = prop::collection::vec((2usize..4, arrivals()), 2);
    let device = (1i64..6, 0i64..2, 1u32..4, any::<bool>(), prop::option::of(1i64..12));
    let control = (1i64..9, prop_oneof![Just(0.0), 10_000.0f64..400_000.0]);
    (clusters, device, control, 0i64..4).prop_map(|(clusters, device, control, epsilon)| {
        let (service, delay, slots, hold_slot, window) = device;
        let clusters = clusters.into_iter().map(|(updates, arrivals)| Cluster { updates, arrivals }).collect();
        let control = rule(control.0, control.1);
        Setup { clusters, service, delay, slots, hold_slot, window, epsilon, ..control }
    })
}

fn rule(threshold: Ticks, slope: f64) -> Setup {
    Setup { rule: SendingRule { threshold: threshold * US, slope }, slope: Value::Float(slope), ..tiny() }
}

/// Generates one slot and gaps about as long as the return of an ACK: single ticks decide which ACK arrived and how old it is.
fn congested() -> impl Strategy<Value = Setup> {
    let cluster = || (-1i64..2, 0i64..3, any::<bool>());
    let control = (0i64..4, prop_oneof![Just(125_000.0), Just(250_000.0), Just(500_000.0)]);
    let device = (1i64..3, 0i64..2, any::<bool>(), prop::option::of(3i64..9));
    ([cluster(), cluster()], device, control, 0i64..4).prop_map(|(clusters, device, control, epsilon)| {
        let (service, delay, hold_slot, window) = device;
        let setup = Setup { service, delay, hold_slot, window, epsilon, slots: 1, ..rule(control.0.max(1), control.1) };
        let back = setup.inbound() + setup.outbound() + 2 * setup.ack_hop();
        let cluster = |(more, phase, free): (i64, i64, bool)| {
            let gap = back + more;
            let arrivals = match free {
                true => Arrivals::Free { gap_min: gap, gap_max: gap },
                false => Arrivals::Periodic { period: gap, phase: Some(phase), jitter: 1 },
            };
            Cluster { updates: 3, arrivals }
        };
        Setup { clusters: clusters.map(cluster).to_vec(), ..setup }
    })
}

/// Generates spread arrivals and enough slots, so that the bound on the lead is part of the model, with ε close to it.
fn spread() -> impl Strategy<Value = Setup> {
    let arrivals = || (0i64..3, 0i64..4, any::<bool>());
    ([arrivals(), arrivals()], 1i64..3, 2usize..4, 0i64..6).prop_map(|(arrivals, service, updates, epsilon)| {
        let cluster = |(gap, more, free): (i64, i64, bool)| {
            let gap_min = 2 * service + gap;
            let arrivals = match free {
                true => Arrivals::Free { gap_min, gap_max: gap_min + more.min(2) },
                false => Arrivals::Periodic { period: gap_min + 1, phase: (more > 0).then_some(more), jitter: 1 },
            };
            Cluster { updates, arrivals }
        };
        Setup { clusters: arrivals.map(cluster).to_vec(), service, epsilon, ..tiny() }
    })
}

/// Checks that the solver's answers, with and without the surrounding code, equal those of brute force.
fn agree(setup: &Setup) -> Result<(), TestCaseError> {
    let model = SmtModel::new(setup);
    let queries = model.queries();
    let shown = brute_force(setup, &queries);
    for (query, shown) in queries.iter().zip(&shown) {
        let reply = solver(60).ask(model.script(*query, ""), Duration::from_secs(60)).unwrap();
        prop_assert!(!matches!(reply, Reply::Unknown(_)), "{query}: {reply:?}");
        prop_assert_eq!(matches!(reply, Reply::Sat(_)), *shown, "{}", query);
    }
    // A cluster that cannot starve according to the bounds does not.
    for v in 0..2 {
        let asked = queries.contains(&Query::Starves(v));
        prop_assert!(asked || !brute_force(setup, &[Query::Starves(v)])[0]);
    }
    for candidates in [0, 100] {
        let case = decide::check(&Setup { candidates, ..setup.clone() }, &solver(60)).unwrap();
        let breaks = shown[1..].iter().any(|s| *s);
        prop_assert_eq!(case.all.verdict, if breaks { Proof::Fails } else { Proof::Holds });
        prop_assert_eq!(case.any.verdict, if shown[0] { Proof::Holds } else { Proof::Fails });
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: (ProptestConfig::default().cases / 8).min(1000), ..ProptestConfig::default() })]
    #[test]
    fn the_solver_finds_what_brute_force_finds(setup in setups()) {
        agree(&setup)?;
    }

    #[test]
    fn spread_arrivals_are_bounded_rightly(setup in spread()) {
        prop_assert!(SmtModel::new(&setup).bounds().lead(&setup, 0, 1).is_some());
        agree(&setup)?;
    }

    #[test]
    fn the_solver_knows_no_larger_lead(gaps in prop::collection::vec((0i64..3, 0i64..9), 3), service in 1i64..4, updates in 2usize..6) {
        let arrivals = |(gap, more)| Arrivals::Free { gap_min: 3 * service + gap, gap_max: 3 * service + gap + more };
        let clusters = gaps.into_iter().map(|gap| Cluster { updates, arrivals: arrivals(gap) }).collect();
        let setup = Setup { clusters, service, slots: 3, ..tiny() };
        let model = SmtModel::new(&setup);
        let lead = model.bounds().lead(&setup, 0, 1).unwrap();
        // The model without the constraint that is to be proved.
        let own: String = model.text().lines().filter(|l| !l.starts_with("(assert (<= (- T_")).map(|l| format!("{l}\n")).collect();
        let more = format!("{own}(assert (> (- T_0 T_1) {lead}))(check-sat)");
        prop_assert_eq!(solver(60).ask(more, Duration::from_secs(60)).unwrap(), Reply::Unsat);
    }

    #[test]
    fn transmission_control_is_the_same_to_the_tick(setup in congested()) {
        agree(&setup)?;
    }
}

fn question(text: &str) -> Box<dyn Question> {
    PROPERTIES[0].open(Document::parse(text, "x.toml").unwrap()).unwrap()
}

#[test]
fn a_planted_unfair_configuration_is_rejected_and_a_fair_one_accepted() {
    let same = "[verify]\nperiod = \"100ms\"\nepsilon = \"2ms\"";
    for candidates in ["candidates = 0", ""] {
        let case = question(&format!("{same}\n{candidates}")).check(0, &solver(60)).unwrap();
        assert_eq!((case.all.verdict, case.any.verdict), (Proof::Holds, Proof::Holds));
        let unfair = same.replace("\"100ms\"", "[\"100ms\", \"300ms\"]");
        let case = question(&format!("{unfair}\n{candidates}")).check(0, &solver(60)).unwrap();
        assert_eq!((case.all.verdict, case.any.verdict), (Proof::Fails, Proof::Fails));
        let found = case.all.found.unwrap();
        assert_eq!(
            found.source,
            if candidates.is_empty() { BehaviourSource::Simulation } else { BehaviourSource::Solver }
        );
        assert!(!found.run.keeps(2000));
    }
}

#[test]
fn a_tiny_timeout_gives_unknown() {
    let setup = Setup {
        clusters: vec![Cluster { updates: 40, arrivals: Arrivals::Free { gap_min: 30, gap_max: 31 } }; 4],
        ..tiny()
    };
    let mut ticking = solver(0);
    ticking.timeout = Duration::from_millis(30);
    let case = decide::check(&Setup { epsilon: 8, ..setup }, &ticking).unwrap();
    assert_eq!((case.all.verdict, case.any.verdict), (Proof::Unknown, Proof::Unknown));
    assert!(case.all.note.contains("out of time"), "{}", case.all.note);
}

#[test]
fn wrong_values_are_named() {
    for (text, words) in [
        ("", "no section [verify]"),
        ("[verify]\nclusters = 1", "verify.clusters: 1 clusters; 2 to 64"),
        ("[verify]\nupdates = [3, 4, 5]", "3 values for 2 clusters"),
        ("[verify]\nupdates = 1", "1 updates; 2 to"),
        ("[verify]\nperiod = \"1ns\"", "whole number of microseconds"),
        ("[verify]\nperiod = []", "the list is empty"),
        ("[verify]\nphase = \"maybe\"", "or \"free\""),
        ("[verify]\nslots = [1, 0]", "0 slots"),
        ("[verify]\nslope = \"x\"", "1/delta_t"),
        ("[verify]\ndelta_t = \"0s\"", "not above 0"),
        ("[verify]\nservice = \"0s\"", "below 1us"),
        ("[verify]\nack = \"3us\"", "no whole rate"),
        ("[verify]\nack = \"3ms\"", "ACKs would queue"),
        ("[verify]\naccess = \"200ms\"", "the worker's link takes 200000us"),
        ("[verify]\nservice = \"99991us\"", "choose rounder times"),
        ("[verify]\narrivals = \"free\"\ngap_min = \"2s\"\ngap_max = \"1s\"", "above gap_max"),
        ("[verify]\narrivals = \"often\"", "periodic, free"),
        ("[verify]\nrate_cluster = 2", "no cluster 2"),
        ("[verify]\nepsilom = 2", "did you mean \"epsilon\""),
        ("[verify]\n[nothing]\na = 1", "unknown section"),
    ] {
        let error = PROPERTIES[0].open(Document::parse(text, "x.toml").unwrap()).err().expect(text);
        assert!(error.to_string().contains(words), "{text}: {error}");
        assert_eq!(error.exit_code(), 2);
    }
}

#[test]
fn the_largest_rate_is_found_to_the_tick() {
    // Two clusters, anywhere in the period, of which one may wait one service time: fair until the queue is crowded.
    let report =
        question("[verify]\nepsilon = \"2ms\"\nslots = 2\nupdates = 4").max_rate(0, &solver(60), &mut |_| ()).unwrap();
    let (holds, beyond) = (report.holds.expect("one holds"), report.beyond.expect("one fails"));
    assert_eq!(beyond.period, holds.period - 1);
    assert_eq!(beyond.answer.verdict, Proof::Fails);
    assert_eq!(holds.period, 4000, "two services of 2 ms fill the link");
    assert!(report.violations.iter().all(|period| *period < 4000), "an overloaded link may be fair again");
    // With periods of 1 and 3 the average peaks differ by two periods: slow rates fail, too.
    let report = question("[verify]\nperiod = [\"100ms\", \"300ms\"]\nepsilon = \"100ms\"\nupdates = 3")
        .max_rate(0, &solver(60), &mut |_| ())
        .unwrap();
    assert!(report.holds.unwrap().period < 50_000 && report.violations.contains(&100_000), "{:?}", report.violations);
}

#[test]
fn no_probe_is_longer_than_a_replay() {
    let text = "[verify]\nslots = 1\nperiod = \"60s\"";
    let report = question(text).max_rate(0, &solver(60), &mut |_| ()).unwrap();
    assert!(report.holds.is_none());
    let last = report.beyond.unwrap().setup.clusters[0].arrivals.window(11).1;
    assert!(last <= pktgen_core::time::HORIZON / pktgen_core::time::US, "{last}");
}

/// By the standard, solvers answer "success" to each command, and that is no verdict.
#[test]
fn a_model_asks_for_no_answer_to_each_command() {
    let setup = tiny();
    assert!(SmtModel::new(&setup).text().starts_with("(set-option :print-success false)\n"));
}
