//! Frames that a right router sends beside the results of a clause's blocks, and results that are long under way.

use pktgen_core::topology::Link;
use pktgen_core::units::Size;

use super::*;

fn clause_named(id: &str) -> &'static Clause {
    SUITE.numbered().map(|(_, clause)| clause).find(|clause| clause.id == id).unwrap()
}

/// Nothing tells when a router gives up an iteration that a later one of its block replaces.
#[test]
fn an_iteration_that_is_kept_until_it_ages_fails_no_later_clause() {
    for (seed, (on_cable, unicast)) in (0..20).flat_map(|seed| FORMS.map(|form| (seed, form))) {
        for later in [&["trio-ml-aged"][..], &["trio-ml-complete", "trio-ml-again", "trio-ml-older"]] {
            let mut router = Naive { keeps_old: true, on_cable, unicast, ..naive(Defect::None) };
            let mut memory = ProbeMemory::new();
            for id in ["trio-ml-newer"].iter().chain(later) {
                assert!(holds(clause_named(id), &mut router, &mut memory, seed), "{id} {seed} {on_cable} {unicast}");
            }
        }
    }
}

/// It is dropped or opens a record, whose partial result leaves when the next generation comes, when it would age, or never.
#[test]
fn what_a_router_does_with_a_late_contribution_fails_no_clause() {
    let ways = [(true, false, false), (false, true, false), (false, false, true), (false, false, false)];
    for (seed, (on_cable, unicast)) in (0..20).flat_map(|seed| FORMS.map(|form| (seed, form))) {
        for (drops_late, evicts, keeps_old) in ways {
            let mut router = Naive { drops_late, evicts, keeps_old, on_cable, unicast, ..naive(Defect::None) };
            let mut memory = ProbeMemory::new();
            for id in ["trio-ml-late", "trio-ml-newer", "trio-ml-aged", "trio-ml-complete"] {
                let what = (id, seed, on_cable, unicast, drops_late, evicts, keeps_old);
                assert!(holds(clause_named(id), &mut router, &mut memory, seed), "{what:?}");
            }
        }
    }
}

#[test]
fn a_block_that_ages_before_another_fails_no_clause() {
    let len = HEAD + HEADER + 4;
    let mut bytes = vec![0; len];
    Template::new((worker_ip(0), PORT), (SERVER_IP, PORT), len).emit(&mut bytes);
    let header = Header { block: 1 << 30, sources: 1, elements: 1, ..Header::default() };
    header.emit(&mut bytes[HEAD..]);
    for (seed, (on_cable, unicast)) in (0..20).flat_map(|seed| FORMS.map(|form| (seed, form))) {
        for id in ["trio-ml-aged", "trio-ml-partial-receivers", "trio-ml-after-aging", "trio-ml-late"] {
            let mut router = Naive { on_cable, unicast, ..naive(Defect::None) };
            router.frame_in(0, &bytes).unwrap();
            // It ages half a timeout into the clause.
            router.pass(TIMEOUT, &mut |_, _, _| ()).unwrap();
            let mut memory = ProbeMemory::new();
            assert!(holds(clause_named(id), &mut router, &mut memory, seed), "{id} {seed} {on_cable} {unicast}");
        }
    }
}

/// Packets that are refused touch a block, too.
#[test]
fn what_does_not_touch_a_block_is_found_with_two_workers() {
    let clause = clause_named("trio-ml-touched");
    let defects = [Defect::None, Defect::AgesFromOpening, Defect::CopiesTouchNot, Defect::StaleTouchNot];
    for (seed, workers) in (0..10).flat_map(|seed| [2, 3, WORKERS].map(|n| (seed, n))) {
        let few = ProbeGround { workers: Arc::new(Population::regular(1, workers as u32)), ..ground(true, false) };
        for (defect, period) in defects.into_iter().flat_map(|defect| [(defect, None), (defect, Some(TIMEOUT))]) {
            let mut router = Naive { workers, period, ..naive(defect) };
            let passes = holds_on(&few, clause, &mut router, &mut ProbeMemory::new(), seed);
            assert_eq!(passes, defect == Defect::None, "{defect:?} {seed} {workers} {period:?}");
        }
    }
}

/// Of a larger table some blocks would age before others have their contributions.
#[test]
fn a_table_that_is_not_full_in_time_is_not_tested() {
    let exempt = |timeout: &str, most: usize| {
        let keys = format!("[target]\ntimeout = \"{timeout}\"\nmitigation = true\nblock_cnt_max = {most}\n");
        let ground = ProbeGround { keys: Document::parse(&keys, "test").unwrap(), ..ground(true, false) };
        (clause_named("trio-ml-released").exempt)(&ground)
    };
    // Four contributions of 1 µs to each block, in an eighth of the timeout.
    for (timeout, most) in [("10ms", 256), ("1ms", 31)] {
        assert_eq!(exempt(timeout, most), None);
        let why = exempt(timeout, most + 1).unwrap_or_default();
        assert!(why.contains(&format!("{}; {most} or fewer", most + 1)), "{why}");
    }
}

/// Every repeat has a fresh router: what comes at once meets all timers just before their first visit.
#[test]
fn timers_that_are_late_are_found_on_fresh_routers() {
    for (period, passes) in [(TIMEOUT, true), (TIMEOUT * 3 / 2, false), (2 * TIMEOUT, false)] {
        for (id, seed) in ["trio-ml-aged", "trio-ml-partial"].into_iter().flat_map(|id| (0..10).map(move |n| (id, n))) {
            let is_right = |repeat| {
                let (mut router, mut memory) = (naive(Defect::None), ProbeMemory::new());
                router.period = Some(period);
                let (ground, clause) = (ground(true, false), clause_named(id));
                let mut probe =
                    ClauseProbe::new(&ground, &mut memory, &mut router, Seed(seed), (id, repeat, 0)).unwrap();
                match (clause.probe)(&mut probe) {
                    Ok(()) => true,
                    Err(ProbeStop::Breach(_)) => false,
                    Err(other) => panic!("{id}: {other:?}"),
                }
            };
            assert_eq!((0..15).all(is_right), passes, "{id}, seed {seed}, {} ms", period / MS);
        }
    }
}

#[test]
fn notices_of_stragglers_fail_no_clause() {
    for (seed, (on_cable, unicast)) in (0..5).flat_map(|seed| FORMS.map(|form| (seed, form))) {
        for clause in clauses(true) {
            let mut router = Naive { notifies: true, on_cable, unicast, ..naive(Defect::None) };
            let mut memory = ProbeMemory::new();
            for clause in [clause_named("trio-ml-aged"), clause] {
                assert!(holds(clause, &mut router, &mut memory, seed), "{} {seed} {on_cable} {unicast}", clause.id);
            }
        }
    }
}

/// Blocks are complete without a removed straggler: what looks like a breach then convicts no router.
#[test]
fn a_removed_straggler_leaves_clauses_undecided() {
    let keys = format!(
        "[target]\ntimeout = \"10ms\"\nmitigation = true\nremove_stragglers = true\n[workload]\nelements = {VALUES}\n\
         [endpoint]\nwindow = 32\n"
    );
    let ground = ProbeGround { keys: Document::parse(&keys, "test").unwrap(), ..ground(true, false) };
    for notifies in [true, false] {
        let mut router = Naive { notifies, ..naive(Defect::None) };
        let mut memory = ProbeMemory::new();
        assert!(holds_on(&ground, clause_named("trio-ml-aged"), &mut router, &mut memory, 1));
        router.defect = Defect::AlwaysDegraded;
        let clause = clause_named("trio-ml-counts");
        let mut probe = ClauseProbe::new(&ground, &mut memory, &mut router, Seed(1), (clause.id, 0, 0)).unwrap();
        match (clause.probe)(&mut probe) {
            Err(ProbeStop::Undecidable(why)) => assert!(notifies && why.contains("target.remove_stragglers"), "{why}"),
            Err(ProbeStop::Breach(_)) => assert!(!notifies),
            other => panic!("{notifies}: {other:?}"),
        }
    }
}

/// Results are observed at the ends of links: a router is judged by the times at which they leave it.
#[test]
fn the_time_on_links_is_not_the_time_of_a_router() {
    let link = Link {
        from: 0,
        to: 1,
        rate: "400Gbps".parse().unwrap(),
        delay: 2 * TIMEOUT,
        overhead: Size::from_bytes(0),
        slots: None,
    };
    let links = vec![link; usize::from(JOBS) * WORKERS];
    let ended = |defect: Defect, id: &str, seed: u64| {
        let ground = ProbeGround { links: links.clone(), ..ground(true, false) };
        let mut bench = Delayed { router: naive(defect), by: 2 * TIMEOUT, held: Vec::new() };
        let (clause, mut memory) = (clause_named(id), ProbeMemory::new());
        let mut probe = ClauseProbe::new(&ground, &mut memory, &mut bench, Seed(seed), (clause.id, 0, 0)).unwrap();
        (clause.probe)(&mut probe)
    };
    for seed in 0..10 {
        for id in ["trio-ml-aged", "trio-ml-partial", "trio-ml-partial-receivers"] {
            let ended = ended(Defect::None, id, seed);
            assert!(ended.is_ok(), "{id} {seed}: {ended:?}");
        }
        for (defect, id) in [
            (Defect::AgesEarly, "trio-ml-aged"),
            (Defect::AgesLate, "trio-ml-aged"),
            (Defect::NeverAges, "trio-ml-partial"),
        ] {
            let ended = ended(defect, id, seed);
            assert!(matches!(ended, Err(ProbeStop::Breach(_))), "{defect:?} {seed}: {ended:?}");
        }
    }
}

/// A correct or defective router to which every frame takes `by`; blocks age meanwhile.
struct Slow {
    router: Naive,
    by: Time,
}

impl ProbeWitness for Slow {}

impl ProbeBench for Slow {
    fn now(&mut self) -> Time {
        self.router.now
    }
    fn frame_in(&mut self, port: u16, bytes: &[u8]) -> Result<()> {
        let until = self.router.now + self.by;
        while self.router.age(until) {}
        self.router.now = until;
        self.router.frame_in(port, bytes)
    }
    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()> {
        self.router.pass(span, each)
    }
    fn settle(&mut self, each: EachFrame) -> Result<()> {
        self.router.settle(each)
    }
}

/// The contributions of four workers to 33 blocks take 1.9 timeouts, but each block waits for less than one.
#[test]
fn blocks_that_are_touched_in_time_are_told_apart_however_long_all_take() {
    let (ground, clause) = (ground(true, false), clause_named("trio-ml-blocks"));
    let ended = |defect: Defect, by: Time, seed: u64| {
        let (mut bench, mut memory) = (Slow { router: naive(defect), by }, ProbeMemory::new());
        let mut probe = ClauseProbe::new(&ground, &mut memory, &mut bench, Seed(seed), (clause.id, 0, 0)).unwrap();
        (clause.probe)(&mut probe)
    };
    for seed in 0..10 {
        let right = ended(Defect::None, 140 * US, seed);
        assert!(right.is_ok(), "{seed}: {right:?}");
        for defect in [Defect::Blocks16, Defect::BlocksTop, Defect::AgesFromOpening] {
            let wrong = ended(defect, 140 * US, seed);
            assert!(matches!(wrong, Err(ProbeStop::Breach(_))), "{defect:?} {seed}: {wrong:?}");
        }
        // Two rounds are longer than the timeout.
        let slow = ended(Defect::None, 160 * US, seed);
        assert!(matches!(slow, Err(ProbeStop::Undecidable(_))), "{seed}: {slow:?}");
    }
}
