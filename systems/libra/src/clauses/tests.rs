//! Tests of the clauses with a simple switch: every clause passes with the correct one and detects its defects.

use std::collections::BTreeSet;
use std::sync::Arc;

use pktgen_core::Result;
use pktgen_core::config::Document;
use pktgen_core::seed::Seed;
use pktgen_core::time::{MS, SECOND, Time, US};
use pktgen_core::topology::{Link, Population};
use pktgen_core::units::Size;

use super::SUITE;
use super::naive::{Defect, HOT, JOBS, Naive, PLANTED, SERVER, WORKERS, naive, naive_on};
use pktgen_engine::clause::{
    Clause, ClauseProbe, EachFrame, ProbeBench, ProbeGround, ProbeMemory, ProbeResult, ProbeStop, ProbeWitness,
};
use pktgen_wire::wire::frame::HEAD;

/// Returns the ground of a switch with a port for every worker.
fn ground(more: &str) -> ProbeGround {
    let text = format!(
        "[target]\nadd = \"exact\"\nresult_timeout = \"1ms\"\nrepeat_writes = \"strict\"\n[workload]\niterations = 1000\n\
         [endpoint]\nwindow = 128\nregisters = 28\n{more}"
    );
    let workers = Population::regular(JOBS.into(), WORKERS as u32);
    ProbeGround {
        port_of: (0..workers.len() as u16).collect(),
        workers: Arc::new(workers),
        server: Some(SERVER),
        late: 100 * MS,
        output: None,
        links: Vec::new(),
        patience: 0,
        frame_bytes: 1500,
        hot: Some(HOT),
        keys: Document::parse(&text, "test").unwrap(),
    }
}

/// Returns the ground of this switch, which may have one cable for all workers.
fn ground_of(switch: &Naive) -> ProbeGround {
    let ground = ground("");
    if !switch.on_cables {
        return ground;
    }
    ProbeGround { port_of: vec![0; ground.workers.len()], server: Some(1), ..ground }
}

/// Runs all repeats of a clause on one switch that was used by clauses before; returns whether it holds.
fn holds(clause: &Clause, switch: &mut Naive, memory: &mut ProbeMemory, seed: u64) -> bool {
    let ground = ground_of(switch);
    assert_eq!((clause.exempt)(&ground), None, "{}", clause.id);
    (0..clause.repeats).all(|repeat| {
        let mut probe = ClauseProbe::new(&ground, memory, switch, Seed(seed), (clause.id, repeat, 0)).unwrap();
        match (clause.probe)(&mut probe) {
            Ok(()) => true,
            Err(ProbeStop::Breach(_)) => false,
            Err(other) => panic!("{}: {other:?}", clause.id),
        }
    })
}

fn clauses() -> impl Iterator<Item = &'static Clause> {
    SUITE.numbered().map(|(_, clause)| clause)
}

#[test]
fn a_whole_switch_passes_every_clause_although_it_was_used_before() {
    for (seed, (on_cables, unicast)) in (0..20).flat_map(|seed| FORMS.map(|form| (seed, form))) {
        let mut switch = naive_on(on_cables, unicast, Defect::None);
        let mut memory = ProbeMemory::new();
        for clause in clauses() {
            let what = (clause.id, on_cables, unicast);
            assert!(holds(clause, &mut switch, &mut memory, seed), "{what:?}");
        }
        assert!(switch.kept.is_empty(), "all results were acknowledged");
    }
}

/// A port or a cable for the workers; results to the group or to each.
const FORMS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

#[test]
fn every_defect_is_found_by_the_clauses_that_name_it() {
    let mut misses = Vec::new();
    for (defect, ids) in PLANTED {
        for id in *ids {
            let Some(clause) = clauses().find(|clause| clause.id == *id) else {
                misses.push(format!("no clause {id}"));
                continue;
            };
            // On a cable a copy for the group is one for all, and none of them can be left out.
            for on_cables in [false, true] {
                let switch = || naive_on(on_cables, on_cables, *defect);
                let missed =
                    (0..10).filter(|seed| holds(clause, &mut switch(), &mut ProbeMemory::new(), *seed)).count();
                if missed > 0 {
                    misses.push(format!("{defect:?}, cables {on_cables}: missed by {id} with {missed} of 10 seeds"));
                }
            }
        }
    }
    assert!(misses.is_empty(), "{misses:#?}");
}

#[test]
fn every_clause_finds_a_defect() {
    let found: BTreeSet<_> = PLANTED.iter().flat_map(|(_, ids)| *ids).copied().collect();
    let without: Vec<_> = clauses().map(|clause| clause.id).filter(|id| !found.contains(id)).collect();
    assert!(without.is_empty(), "no defect fails {without:?}");
}

/// A probe that was aborted leaves an iteration unfinished: the next one begins after ending it.
#[test]
fn an_iteration_that_was_left_under_way_is_ended_first() {
    let ground = ground("");
    let (mut switch, mut memory) = (naive(Defect::None), ProbeMemory::new());
    let mut probe = ClauseProbe::new(&ground, &mut memory, &mut switch, Seed(1), ("left", 0, 0)).unwrap();
    let left = super::switch::with_switch(&mut probe, |switch| {
        switch.push_all()?;
        switch.end(1)?;
        Err(ProbeStop::Undecidable("on purpose".into()))
    });
    assert!(matches!(left, Err(ProbeStop::Undecidable(_))));
    for clause in clauses() {
        assert!(holds(clause, &mut switch, &mut memory, 1), "{}", clause.id);
    }
}

/// A switch behind a bench that loses a frame.
struct Losing {
    switch: Naive,
    /// The number of frames until one does not reach the switch, which the bench does not report.
    swallows: Option<u32>,
    /// Whether the next result of the second job is reported as lost.
    loses_result: bool,
    lost: u64,
}

impl Losing {
    fn watch(&mut self, each: EachFrame, act: impl FnOnce(&mut Naive, EachFrame) -> Result<()>) -> Result<()> {
        let mut is_result = false;
        act(&mut self.switch, &mut |t, port, bytes| {
            is_result |= bytes[HEAD] >> 5 == 3 && bytes[HEAD + 1] == 1;
            each(t, port, bytes);
        })?;
        if is_result && std::mem::take(&mut self.loses_result) {
            self.lost += 1;
        }
        Ok(())
    }
}

impl ProbeWitness for Losing {}

impl ProbeBench for Losing {
    fn now(&mut self) -> Time {
        self.switch.now()
    }
    fn frame_in(&mut self, port: u16, bytes: &[u8]) -> Result<()> {
        let left = self.swallows.map(|left| left.wrapping_sub(1));
        self.swallows = left.filter(|left| *left > 0);
        if left == Some(0) { Ok(()) } else { self.switch.frame_in(port, bytes) }
    }
    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()> {
        self.watch(each, |switch, each| switch.pass(span, each))
    }
    fn settle(&mut self, each: EachFrame) -> Result<()> {
        self.watch(each, |switch, each| switch.settle(each))
    }
    fn lost(&mut self) -> Result<u64> {
        Ok(self.lost)
    }
}

#[test]
fn registers_behind_those_of_the_hot_parameters_fail_no_clause() {
    for (seed, (on_cables, unicast)) in (0..10).flat_map(|seed| FORMS.map(|form| (seed, form))) {
        let mut switch = naive_on(on_cables, unicast, Defect::None);
        switch.registers = 1 << 16;
        let mut memory = ProbeMemory::new();
        for clause in clauses() {
            assert!(holds(clause, &mut switch, &mut memory, seed), "{} {seed} {on_cables} {unicast}", clause.id);
        }
    }
}

/// A switch that adds resent pushes late, in a pause of which it seems silent.
struct Slow {
    switch: Naive,
    held: Vec<(Time, u16, Vec<u8>)>,
}

impl ProbeWitness for Slow {}

impl ProbeBench for Slow {
    fn now(&mut self) -> Time {
        self.switch.now()
    }
    fn frame_in(&mut self, port: u16, bytes: &[u8]) -> Result<()> {
        if bytes[HEAD] >> 5 == 0 && bytes[HEAD] & 15 > 0 {
            let due = self.switch.now() + 30 * MS;
            self.held.push((due, port, bytes.to_vec()));
            return Ok(());
        }
        self.switch.frame_in(port, bytes)
    }
    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()> {
        let until = self.switch.now() + span;
        let held = std::mem::take(&mut self.held).into_iter();
        let (due, later): (Vec<_>, Vec<_>) = held.partition(|(t, ..)| *t <= until);
        self.held = later;
        for (t, port, bytes) in due {
            let before = (t - self.switch.now()).max(0);
            self.switch.pass(before, each)?;
            self.switch.frame_in(port, &bytes)?;
        }
        let left = (until - self.switch.now()).max(0);
        self.switch.pass(left, each)
    }
    fn settle(&mut self, each: EachFrame) -> Result<()> {
        self.switch.settle(each)
    }
}

#[test]
fn a_switch_that_adds_late_fails_no_clause_within_patience() {
    for (seed, id) in (0..10).flat_map(|seed| ["libra-opener", "libra-resent", "libra-kept"].map(|id| (seed, id))) {
        let mut bench = Slow { switch: naive_on(true, true, Defect::None), held: Vec::new() };
        let ground = ProbeGround { patience: SECOND, ..ground_of(&bench.switch) };
        let clause = clauses().find(|clause| clause.id == id).expect("a clause");
        let mut memory = ProbeMemory::new();
        for repeat in 0..clause.repeats {
            let mut probe = ClauseProbe::new(&ground, &mut memory, &mut bench, Seed(seed), (id, repeat, 0)).unwrap();
            let ended = (clause.probe)(&mut probe);
            assert!(ended.is_ok(), "{id} {seed}: {ended:?}");
        }
        assert!(bench.held.is_empty());
    }
}

/// Runs the first repeat of a clause on a bench.
fn first_repeat(id: &str, bench: &mut dyn ProbeBench, memory: &mut ProbeMemory, seed: u64) -> ProbeResult<()> {
    let ground = ground("");
    let clause = clauses().find(|clause| clause.id == id).expect("a clause");
    let mut probe = ClauseProbe::new(&ground, memory, bench, Seed(seed), (id, 0, 0))?;
    (clause.probe)(&mut probe)
}

#[test]
fn a_second_job_that_was_left_under_way_is_ended_first() {
    for seed in 0..10 {
        let mut bench = Losing { switch: naive(Defect::None), swallows: None, loses_result: true, lost: 0 };
        let mut memory = ProbeMemory::new();
        let ended = first_repeat("libra-jobs", &mut bench, &mut memory, seed);
        assert!(matches!(ended, Err(ProbeStop::Undecidable(_))), "{ended:?}");
        for clause in ["libra-jobs", "libra-numbers"].into_iter().chain(clauses().map(|clause| clause.id)) {
            let ended = first_repeat(clause, &mut bench, &mut memory, seed);
            assert!(ended.is_ok(), "{clause}: {ended:?}");
        }
    }
}

/// A device keeps a window of numbers from the lowest missing one on.
#[test]
fn a_lost_push_fails_no_later_clause() {
    for seed in 0..20 {
        let mut switch = naive(Defect::None);
        switch.window = Some(128);
        let mut bench = Losing { switch, swallows: Some(3), loses_result: false, lost: 0 };
        let mut memory = ProbeMemory::new();
        let ended = first_repeat("libra-ack", &mut bench, &mut memory, seed);
        assert!(matches!(ended, Err(ProbeStop::Breach(_))), "{ended:?}");
        for clause in ["libra-window", "libra-reordered", "libra-numbers", "libra-reordered", "libra-sum"] {
            let ended = first_repeat(clause, &mut bench, &mut memory, seed);
            assert!(ended.is_ok(), "{clause}: {ended:?}");
        }
    }
}

#[test]
fn a_lost_end_fails_no_later_clause() {
    for (seed, n) in (0..10).flat_map(|seed| (1..40).map(move |n| (seed, n))) {
        let mut bench = Losing { switch: naive(Defect::None), swallows: Some(n), loses_result: false, lost: 0 };
        let mut memory = ProbeMemory::new();
        if matches!(first_repeat("libra-sum", &mut bench, &mut memory, seed), Err(ProbeStop::Breach(_))) {
            for clause in ["libra-complete", "libra-numbers", "libra-sum"] {
                let ended = first_repeat(clause, &mut bench, &mut memory, seed);
                assert!(ended.is_ok(), "{seed}, {n}, {clause}: {ended:?}");
            }
        }
    }
}

#[test]
fn links_on_which_clauses_would_miss_results_are_refused() {
    let refused = |delay: Time, rate: &str, more: &str| {
        let link = |rate: &str| {
            let (rate, overhead) = (rate.parse().unwrap(), Size::from_bytes(24));
            Link { from: 0, to: 1, rate, delay, overhead, slots: None }
        };
        let mut links = vec![link(rate); usize::from(SERVER) + 1];
        // No result goes to the server.
        links[usize::from(SERVER)] = link("1kbps");
        (SUITE.refuses)(&ProbeGround { links, ..ground(more) })
    };
    // An ack of 72 bytes and four results of 216, in 625 µs.
    assert_eq!((refused(624 * US, "100Gbps", ""), refused(0, "12Mbps", "")), (None, None));
    assert_eq!((SUITE.refuses)(&ground("")), None, "frames are observed at the device");
    assert_eq!(refused(MS, "100Gbps", "mode = \"async\"\n"), None, "no clause applies");
    for (delay, rate, parts) in [
        (625 * US, "100Gbps", ["target.result_timeout = 1ms", "take 626us", "raise target.result_timeout to 3.126ms"]),
        (0, "11.9Mbps", ["target.result_timeout = 1ms", "for 625us", "raise target.result_timeout to 3.147ms"]),
        // Above the maximum of the setting.
        (201 * MS, "100Gbps", ["target.result_timeout = 1ms", "take 201.001ms", "of the timeout; lower"]),
    ] {
        let why = refused(delay, rate, "").expect("refused");
        assert!(parts.iter().all(|part| why.contains(part)), "{why}");
    }
}

#[test]
fn what_clauses_do_not_apply_to_is_said() {
    let exempt = |id: &str, more: &str| {
        let ground = ground(more);
        clauses().find(|clause| clause.id == id).and_then(|clause| (clause.exempt)(&ground))
    };
    assert!(exempt("libra-sum", "mode = \"async\"").is_some_and(|why| why.contains("asynchronous")));
    assert_eq!(exempt("libra-sum", ""), None);
    assert!(exempt("libra-sum", "[topology]\nservers = 2\n").is_some_and(|why| why.contains("servers")));
    assert_eq!(super::switch::room(&ground("layout = \"random\"\n")), 1);
    // Without registers for all parameters that clauses push.
    for (hot, applies) in [(40, false), (65, false), (66, true)] {
        let ground = ProbeGround { hot: Some(hot), ..ground("") };
        for clause in clauses() {
            let why = (clause.exempt)(&ground);
            assert_eq!(why.is_none(), applies, "{}: {why:?}", clause.id);
            assert!(why.is_none_or(|why| why.starts_with(&format!("{hot} hot parameters"))), "{}", clause.id);
        }
    }
    assert_eq!(exempt("libra-copied", ""), None);
}
