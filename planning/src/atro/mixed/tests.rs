//! Unequal switches: compared with brute force, the criterion, and the paper's program.

use std::collections::BTreeMap;

use pktgen_core::plan::{Plan, PlanRole};
use proptest::prelude::*;

use super::super::testing::{GBPS, arbitrary, cluster};
use super::super::validate::validate_inventory;
use super::super::*;
use super::bound::upper;
use super::search::{Answer, search};

/// The maximum number of workers at a rate, by trying all ways to link the switches; shares only rates with the planner.
mod brute {
    use super::Capacities;

    pub fn most(capacities: &Capacities) -> u64 {
        let switches = capacities.switches();
        let pairs: Vec<(usize, usize)> = (0..switches).flat_map(|a| (a + 1..switches).map(move |b| (a, b))).collect();
        let ways = 3usize.pow(pairs.len() as u32);
        let mut most = 0;
        for root in (0..switches).filter(|&root| capacities.flows(root, switches) > 0) {
            for way in 0..ways {
                let (mut up, mut rest) = (vec![Vec::new(); switches + 1], way);
                up[root].push(switches);
                for &(a, b) in &pairs {
                    match rest % 3 {
                        1 => up[a].push(b),
                        2 => up[b].push(a),
                        _ => {}
                    }
                    rest /= 3;
                }
                most = most.max(workers(capacities, &up).unwrap_or(0));
            }
        }
        most
    }

    /// Returns the number of workers of one graph: the flow into common switches is limited by the minimum of all cuts,
    /// and aggregators' flows must pass.
    fn workers(capacities: &Capacities, up: &[Vec<usize>]) -> Option<u64> {
        let switches = capacities.switches();
        let aggregates = |switch: usize| capacities.inventory.switches[switch].aggregates;
        let used: Vec<usize> = (0..switches).filter(|&switch| !up[switch].is_empty()).collect();
        // Layers: the length of the longest path up, from 1; more rounds than switches indicate a loop.
        let mut layer = vec![0; switches];
        for _ in 0..=switches {
            for &switch in &used {
                let above = up[switch].iter().filter(|&&above| above < switches);
                layer[switch] = 1 + above.map(|&above| layer[above]).max().unwrap_or(0);
            }
        }
        let links_below = |switch: usize| used.iter().filter(|&&other| up[other].contains(&switch)).count() as u64;
        let mut free = vec![0; switches];
        for &switch in &used {
            let taken = up[switch].len() as u64 + links_below(switch);
            let dangling = up[switch].iter().any(|&above| above < switches && up[above].is_empty());
            let closed = up[switch].iter().any(|&above| capacities.flows(switch, above) == 0);
            if layer[switch] > capacities.inventory.layers || dangling || closed || taken > capacities.ports(switch) {
                return None;
            }
            if aggregates(switch) && (up[switch].len() != 1 || capacities.ports(switch) < 2) {
                return None;
            }
            free[switch] = capacities.ports(switch) - taken;
        }
        let commons: Vec<usize> = used.iter().copied().filter(|&switch| !aggregates(switch)).collect();
        let outputs = |common: usize| {
            used.iter().filter(|&&switch| aggregates(switch) && up[switch].contains(&common)).count() as u64
        };
        let (mut must, mut all) = (u64::MAX, u64::MAX);
        for cut in 0u32..1 << commons.len() {
            let inside = |switch: usize| {
                commons.iter().position(|&common| common == switch).is_some_and(|at| cut >> at & 1 == 1)
            };
            let (mut forced, mut every) = (0, 0);
            for &common in &commons {
                if inside(common) {
                    let out = up[common].iter().filter(|&&above| above == switches || !inside(above));
                    let out: u64 = out.map(|&above| capacities.flows(common, above)).sum();
                    (forced, every) = (forced + out, every + out);
                } else {
                    forced += outputs(common);
                    every += outputs(common) + free[common];
                }
            }
            (must, all) = (must.min(forced), all.min(every));
        }
        let into: u64 = commons.iter().map(|&common| outputs(common)).sum();
        let on_aggregators: u64 = used.iter().filter(|&&switch| aggregates(switch)).map(|&switch| free[switch]).sum();
        (must >= into).then(|| all - into + on_aggregators)
    }
}

/// Generates inventories of up to `most` switches with various ports, rates, slower links, a slower server, and few layers.
fn unequal(most: usize) -> impl Strategy<Value = Inventory> {
    let rate = || prop::sample::select(vec![10 * GBPS, 25 * GBPS, 40 * GBPS, 100 * GBPS]);
    let switch = (2u64..7, rate(), any::<bool>());
    let links = prop::collection::vec((0..=most, 0..=most, prop::sample::select(vec![0, 5 * GBPS, 10 * GBPS])), 0..3);
    (prop::collection::vec(switch, 1..=most), links, rate(), rate(), 1u64..5, 1usize..14).prop_map(
        |(mut found, links, server_bps, host_bps, layers, workers)| {
            found.sort_by_key(|&(_, _, aggregates)| !aggregates);
            let switch = |(number, (ports, rate_bps, aggregates)): (usize, (u64, u64, bool))| Switch {
                name: format!("s{number}"),
                ports,
                rate_bps,
                aggregates,
            };
            let switches: Vec<Switch> = found.into_iter().enumerate().map(switch).collect();
            let ends = switches.len();
            let links = links.into_iter().filter(|&(a, b, _)| a != b && a <= ends && b <= ends);
            let links: BTreeMap<_, _> = links.map(|(a, b, rate)| ((a.min(b), a.max(b)), rate)).collect();
            let hosts = (0..workers).map(|number| Host { name: format!("h{number}"), rate_bps: host_bps }).collect();
            Inventory { switches, hosts, server_bps, links, layers, device_ports: None }
        },
    )
}

/// Returns the highest rate by brute force.
fn highest(inventory: &Inventory) -> Option<u64> {
    let mut rates: Vec<u64> = inventory.switches.iter().map(|switch| switch.rate_bps).collect();
    rates.extend(inventory.links.values().chain([&inventory.server_bps, &inventory.hosts[0].rate_bps]));
    let workers = inventory.hosts.len() as u64;
    let mut all: Vec<u64> = rates.iter().flat_map(|rate| (1..=workers).map(move |flows| rate / flows)).collect();
    all.retain(|&rate| rate > 0 && rate <= inventory.hosts[0].rate_bps);
    all.sort_unstable();
    all.dedup();
    let fits = |&rate: &u64| brute::most(&Capacities::new(inventory, rate)) >= workers;
    let most = all.partition_point(fits);
    most.checked_sub(1).map(|last| all[last])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// With up to four switches the answer is proved and equals that of brute force.
    #[test]
    fn the_highest_rate_is_that_of_brute_force(inventory in unequal(4)) {
        match (wire_inventory(&inventory, &[], None), highest(&inventory)) {
            (Ok(wiring), Some(rate)) => {
                prop_assert_eq!(wiring.rate_bps, rate);
                prop_assert!(wiring.optimal && wiring.bound_bps == rate);
                prop_assert_eq!(validate_inventory(&wiring.plan, &inventory), Ok(()));
                prop_assert_eq!(wiring.plan.hosts().len(), inventory.hosts.len());
            }
            (Err(error), None) => prop_assert_eq!(error.exit_code(), 2, "{}", error),
            (Ok(wiring), None) => prop_assert!(false, "brute force finds none, and we {}", wiring.rate_bps),
            (Err(error), Some(rate)) => prop_assert!(false, "brute force finds {}, and we {}", rate, error),
        }
    }

    /// The bound is at least the result of brute force; the search finds that number and refutes one more.
    #[test]
    fn search_and_bound_agree_with_brute_force(inventory in unequal(4), flows in 1u64..5) {
        let capacities = Capacities::new(&inventory, inventory.hosts[0].rate_bps.min(40 * GBPS) / flows);
        let most = brute::most(&capacities);
        prop_assert!(upper(&capacities) >= most, "{} < {}", upper(&capacities), most);
        if most > 0 {
            let Answer::Found(graph) = search(&capacities, most) else { panic!("{most} fit") };
            prop_assert!(graph.workers(&capacities) >= Some(most));
        }
        prop_assert_eq!(search(&capacities, most + 1), Answer::Refuted);
    }

    /// A plan is refused for an inventory with one port, rate, layer or switch less.
    #[test]
    fn plans_of_more_than_there_is_are_refused(inventory in unequal(4), at in 0usize..100) {
        let Ok(wiring) = wire_inventory(&inventory, &[], None) else { return Ok(()) };
        let link = &wiring.plan.links[at % wiring.plan.links.len()];
        let name = wiring.plan.nodes[link.to].name.clone();
        let Some(number) = inventory.switches.iter().position(|switch| switch.name == name) else { return Ok(()) };
        let degree = wiring.plan.links.iter().filter(|link| [link.from, link.to].iter().any(|&end| wiring.plan.nodes[end].name == name));
        let degree = degree.count() as u64;
        let with = |change: &dyn Fn(&mut Switch)| {
            let mut less = inventory.clone();
            change(&mut less.switches[number]);
            validate_inventory(&wiring.plan, &less)
        };
        prop_assert_eq!(with(&|_| {}), Ok(()));
        prop_assert!(with(&|switch| switch.ports = degree - 1).is_err());
        prop_assert!(with(&|switch| switch.rate_bps = link.rate_bps - 1).is_err());
        prop_assert!(with(&|switch| switch.name.push('x')).is_err());
        prop_assert!(with(&|switch| switch.aggregates = !switch.aggregates).is_err());
        let mut less = inventory.clone();
        less.hosts.push(Host { name: "one more".into(), rate_bps: GBPS });
        prop_assert!(validate_inventory(&wiring.plan, &less).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// With equal switches the search agrees with the criterion whenever it completes.
    #[test]
    fn on_equal_switches_the_search_agrees_with_the_criterion((cluster, m) in arbitrary()) {
        prop_assume!(cluster.switches <= 6 && cluster.ports <= 7);
        let inventory = Inventory::of_cluster(&cluster, 1);
        let capacities = Capacities::new(&inventory, cluster.capacity_bps / m);
        let most = most_workers(&cluster, m).workers;
        prop_assert!(upper(&capacities) >= most);
        prop_assert!(!matches!(search(&capacities, most), Answer::Refuted), "{cluster:?} {m}: {most} fit");
        prop_assert!(!matches!(search(&capacities, most + 1), Answer::Found(_)), "{cluster:?} {m}: more than {most}");
    }
}

fn gpus(workers: usize, rate_bps: u64) -> Vec<Host> {
    (0..workers).map(|number| Host { name: format!("gpu{number}"), rate_bps }).collect()
}

/// The paper's cluster with other hosts: the criterion holds, hosts limit the rate, and links to them have their rates.
#[test]
fn slower_hosts_leave_the_criterion_as_it_is() {
    let paper = Inventory::of_cluster(&cluster(20, 4, 24, 5), 90);
    for (host, rate) in [(100, 50), (40, 40), (60, 50)] {
        let inventory = Inventory { hosts: gpus(90, host * GBPS), ..paper.clone() };
        let wiring = wire_inventory(&inventory, &[], None).unwrap();
        assert_eq!((wiring.rate_bps, wiring.optimal, wiring.proved), (rate * GBPS, true, true));
        let (hosts, switches): (Vec<_>, Vec<_>) =
            wiring.plan.links.iter().partition(|link| wiring.plan.nodes[link.from].role == PlanRole::Host);
        assert!(hosts.iter().all(|link| link.rate_bps == host * GBPS));
        assert!(switches.iter().all(|link| link.rate_bps == 100 * GBPS));
        let rates = wire_inventory(&inventory, &[30 * GBPS, 45 * GBPS, 70 * GBPS], None).unwrap();
        assert_eq!(rates.rate_bps / GBPS, if host == 40 { 30 } else { 45 });
    }
}

fn name(plan: &Plan, node: usize) -> &str {
    &plan.nodes[node].name
}

/// Twenty switches of three kinds: constructed, and proved optimal by the bound.
#[test]
fn the_papers_scale_with_unequal_switches() {
    let mut inventory = Inventory::of_cluster(&cluster(20, 4, 24, 5), 90);
    for (number, switch) in inventory.switches.iter_mut().enumerate() {
        (switch.ports, switch.rate_bps) = match number {
            0..4 => (32, 100 * GBPS),
            4..10 => (24, 100 * GBPS),
            _ => (16, 40 * GBPS),
        };
    }
    let wiring = wire_inventory(&inventory, &[], None).unwrap();
    assert_eq!((wiring.rate_bps, wiring.optimal), (100 * GBPS, true), "1 + 4 · 30 workers fit without common switches");
    inventory.hosts = gpus(130, 100 * GBPS);
    let wiring = wire_inventory(&inventory, &[], None).unwrap();
    assert_eq!((wiring.rate_bps, wiring.optimal), (50 * GBPS, true));
    let slow = |link: &&pktgen_core::plan::PlanLink| {
        [link.from, link.to].iter().any(|&end| name(&wiring.plan, end).starts_with("cs1"))
    };
    assert!(wiring.plan.links.iter().filter(slow).all(|link| link.rate_bps <= 40 * GBPS));
    inventory.server_bps = 25 * GBPS;
    assert_eq!(wire_inventory(&inventory, &[], None).unwrap().rate_bps, 25 * GBPS);
}

/// Two clusters at whose highest rates CBC finds a wiring, and proves that there is none at the next one.
#[test]
fn what_a_solver_finds_is_found_without_it() {
    // Ports, rate in Gbit/s; those that aggregate; workers; highest rate.
    let first = ([11, 16, 12, 6, 13, 21, 9, 4, 13, 15], [40, 40, 25, 25, 25, 40, 25, 100, 100, 25], 3, 66, 10);
    let second = ([9, 9, 13, 8, 10, 17, 23, 8, 0, 0], [100, 25, 100, 25, 100, 25, 25, 25, 0, 0], 2, 43, 10);
    for (ports, rates, aggregators, workers, highest) in [first, second] {
        let switches = ports.iter().filter(|&&ports| ports > 0).count();
        let equal = cluster(switches as u64, aggregators, 4, 5);
        let mut inventory = Inventory { hosts: gpus(workers, 100 * GBPS), ..Inventory::of_cluster(&equal, 1) };
        for (switch, (ports, rate)) in inventory.switches.iter_mut().zip(ports.into_iter().zip(rates)) {
            (switch.ports, switch.rate_bps) = (ports, rate * GBPS);
        }
        inventory.server_bps = 100 * GBPS;
        assert_eq!(wire_inventory(&inventory, &[], None).unwrap().rate_bps, highest * GBPS);
    }
}

/// The construction begins with a chain of switches: those that only pass flows on are left out, at the same rate.
#[test]
fn no_switch_is_used_that_a_neighbour_can_replace() {
    // Ports, rate in Gbit/s, whether it aggregates; workers, at this rate; switches in use.
    let chain = [(2, 100, true), (3, 25, true), (2, 100, true), (5, 25, false), (4, 100, false)];
    let pair = [(6, 50, true), (7, 50, false)];
    for (switches, workers, gbps, names) in [(&chain[..], 3, 25, ["cs4"]), (&pair[..], 3, 50, ["agg0"])] {
        let aggregators = switches.iter().filter(|(.., aggregates)| *aggregates).count() as u64;
        let equal = cluster(switches.len() as u64, aggregators, 4, 5);
        let mut inventory = Inventory { hosts: gpus(workers, gbps * GBPS), ..Inventory::of_cluster(&equal, 1) };
        for (switch, &(ports, rate, _)) in inventory.switches.iter_mut().zip(switches) {
            (switch.ports, switch.rate_bps) = (ports, rate * GBPS);
        }
        let wiring = wire_inventory(&inventory, &[], None).unwrap();
        assert_eq!((wiring.rate_bps, wiring.optimal, wiring.plan.links.len()), (gbps * GBPS, true, workers + 1));
        let nodes =
            wiring.plan.nodes.iter().filter(|node| node.role != PlanRole::Host && node.role != PlanRole::Server);
        assert_eq!(nodes.map(|node| node.name.as_str()).collect::<Vec<_>>(), names);
    }
}

/// A random cluster whose bound is not met for 45 workers: the wiring that is found stays where a solver fails.
#[test]
fn a_solver_that_fails_costs_no_wiring() {
    let switch = |(number, (ports, gbps, aggregates)): (usize, (u64, u64, bool))| Switch {
        name: format!("s{number}"),
        ports,
        rate_bps: gbps * GBPS,
        aggregates,
    };
    let sums = [(10, 25), (11, 100), (7, 100), (8, 40), (5, 25), (9, 100)].map(|(ports, gbps)| (ports, gbps, true));
    let plain = [(10, 40), (11, 25), (4, 25), (11, 100), (6, 40)].map(|(ports, gbps)| (ports, gbps, false));
    let inventory = Inventory {
        switches: sums.into_iter().chain(plain).enumerate().map(switch).collect(),
        hosts: gpus(45, 100 * GBPS),
        server_bps: 100 * GBPS,
        ..Inventory::of_cluster(&cluster(1, 1, 4, 2), 1)
    };
    let without = wire_inventory(&inventory, &[], None).unwrap();
    assert!(!without.optimal && without.solver_failure.is_none(), "{} of {}", without.rate_bps, without.bound_bps);
    let ask = SolverAsk { command: "false".into(), seconds: 1 };
    let wiring = wire_inventory(&inventory, &[], Some(&ask)).unwrap();
    let why = wiring.solver_failure.clone().unwrap();
    assert!(why.contains("\"false\" ended with exit status: 1 and wrote no answer"), "{why}");
    assert_eq!(Wiring { solver_failure: None, ..wiring }, without);
}

/// 400 switches of 200 kinds: an answer in seconds, which took more than five minutes.
#[test]
fn many_kinds_of_switches_take_no_longer_than_few() {
    let mut inventory =
        Inventory { hosts: gpus(3000, 100 * GBPS), ..Inventory::of_cluster(&cluster(400, 100, 4, 5), 1) };
    for (number, switch) in inventory.switches.iter_mut().enumerate() {
        (switch.ports, switch.rate_bps) = (4 + number as u64 % 21, [25, 40, 100][number % 3] * GBPS);
    }
    let wiring = wire_inventory(&inventory, &[], None).unwrap();
    assert!(wiring.rate_bps >= 10 * GBPS && wiring.rate_bps <= wiring.bound_bps, "{}", wiring.rate_bps);
}

#[test]
fn links_that_the_workers_do_not_need_are_left_out() {
    // With two links up, the common switch holds four workers; with one, two, and an aggregator one more.
    let mut inventory = Inventory::of_cluster(&cluster(7, 2, 7, 3), 12);
    inventory.switches[3..].iter_mut().for_each(|switch| switch.ports = 6);
    let wiring = wire_inventory(&inventory, &[], None).unwrap();
    assert_eq!((wiring.rate_bps, wiring.plan.links.len()), (50 * GBPS, 12 + 3));
}

#[test]
fn what_cannot_be_is_explained() {
    let fails = |inventory: &Inventory, rates: &[u64], parts: &[&str]| {
        let error = wire_inventory(inventory, rates, None).unwrap_err();
        let message = error.to_string();
        assert!(parts.iter().all(|part| message.contains(part)) && error.exit_code() == 2, "{message}");
    };
    let mut inventory = Inventory::of_cluster(&cluster(3, 1, 4, 3), 10);
    inventory.switches[2].ports = 6;
    fails(&inventory, &[], &["workers: no ports or links left for 10", "at most 9 fit"]);
    inventory.hosts.truncate(4);
    fails(&inventory, &[200 * GBPS], &["rates: none is from 1 bit/s"]);
    inventory.switches[1].name = "cs2".into();
    fails(&inventory, &[], &["\"cs2\" is taken"]);
}

#[test]
fn ports_of_the_optical_device_are_counted() {
    let paper = cluster(20, 4, 24, 5);
    let wiring = wire(&paper, 90, &[]).unwrap();
    let mut inventory = Inventory::of_cluster(&paper, 90);
    let ports = DevicePorts::count(&wiring.plan, &inventory).unwrap();
    assert_eq!((ports.used, ports.all), (2 * wiring.plan.links.len() as u64, 571));
    assert!(ports.remark().contains("1008") && ports.remark().contains("384"));
    inventory.device_ports = Some(ports.used);
    assert!(DevicePorts::count(&wiring.plan, &inventory).unwrap().remark().contains("stay uncabled"));
    inventory.device_ports = Some(ports.used - 1);
    let error = DevicePorts::count(&wiring.plan, &inventory).unwrap_err().to_string();
    assert!(error.starts_with("device_ports: the wiring takes") && error.contains("1008"), "{error}");
}

/// The program has the same ports and rates: CBC agrees with search and bound, and its solution is a wiring.
#[test]
fn the_papers_program_agrees() {
    use super::super::milp::{MilpForm, MilpQuestion, program};
    use super::super::solver::{DEFAULT, MilpReply, solve};
    let base = Inventory::of_cluster(&cluster(4, 2, 4, 3), 1);
    for (kind, flows) in [(0, 1), (0, 2), (1, 2), (2, 3), (3, 2), (3, 4), (4, 1), (4, 2)] {
        let mut inventory = base.clone();
        let ports = [[6, 4, 5, 3], [3, 3, 6, 6], [4, 5, 6, 2], [5, 3, 4, 7], [3, 3, 2, 3]][kind];
        let rates =
            [[100, 100, 40, 100], [100, 40, 100, 100], [40, 100, 100, 25], [100, 50, 100, 100], [100, 50, 40, 20]]
                [kind];
        for (switch, (ports, rate)) in inventory.switches.iter_mut().zip(ports.into_iter().zip(rates)) {
            (switch.ports, switch.rate_bps) = (ports, rate * GBPS);
        }
        inventory.links.insert((0, 3), 20 * GBPS);
        inventory.server_bps = [100, 50, 100, 100, 40][kind] * GBPS;
        let capacities = Capacities::new(&inventory, 40 * GBPS / flows);
        let most = brute::most(&capacities);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("atro.lp");
        let ask = |form, question| {
            std::fs::write(&file, program(&capacities, form, question)).unwrap();
            solve(DEFAULT, &file, 120).unwrap()
        };
        assert_eq!(ask(MilpForm::Counted, MilpQuestion::Most), MilpReply::Optimal(most as f64), "{kind} {flows}");
        assert_eq!(ask(MilpForm::Counted, MilpQuestion::Fits(most + 1)), MilpReply::Infeasible);
        // Individual workers take long if there are many.
        if most <= 6 {
            assert!(matches!(ask(MilpForm::Named, MilpQuestion::Fits(most)), MilpReply::Optimal(_)));
            assert_eq!(ask(MilpForm::Named, MilpQuestion::Fits(most + 1)), MilpReply::Infeasible);
        }
    }
}
