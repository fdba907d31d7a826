use std::collections::BTreeMap;

use super::*;

fn place(rank: u32, of: u32) -> LaunchedRank {
    LaunchedRank { rank, of, launcher: "test", job: None }
}

fn crew(rank: u32, of: u32, roles: Option<&str>) -> Result<RankCrew> {
    RankCrew::new(place(rank, of), roles)
}

#[test]
fn the_last_rank_is_the_server_unless_somebody_says_what_each_is() {
    let role = |rank, roles| crew(rank, 4, roles).unwrap().role();
    assert_eq!([0, 1, 2].map(|rank| role(rank, None)), [Roles::WORKERS; 3]);
    assert_eq!(role(3, None), Roles::SERVER);
    let list = Some("workers, device,workers,server");
    assert_eq!(
        [0, 1, 2, 3].map(|rank| role(rank, list)),
        [Roles::WORKERS, Roles::DEVICE, Roles::WORKERS, Roles::SERVER]
    );
    let share = |rank| crew(rank, 4, list).unwrap().share().to_string();
    assert_eq!([0, 2].map(share), ["1/2", "2/2"], "senders count, not ranks");
    for (of, roles, part) in [
        (1, None, "none of the 1 ranks would be workers"),
        (2, Some("device,server"), "none of the 2 ranks"),
        (3, Some("workers,server"), "has 2 entries, and there are 3 ranks"),
        (3, Some("workers,server,server"), "2 ranks are server"),
        (3, Some("workers,device,device"), "2 ranks are device"),
        (2, Some("worker,server"), "\"worker\" is no role"),
        (2, Some(""), "\"\" is no role"),
    ] {
        let message = crew(0, of, roles).unwrap_err().to_string();
        assert!(message.contains(part), "{roles:?}: {message}");
    }
}

/// A manifest of a run that is about to start.
fn manifest(seed: u64, config: &str) -> Manifest {
    let json = serde_json::json!({
        "version": 1, "tool": "test", "experiment": "x", "labels": {}, "seed": seed, "state": "running",
        "anchor_unix_ns": 0, "created_unix_ns": 0, "trace_hash": "t", "config": config, "clocks": {}, "host": {},
        "nodes": [], "records": "full", "clusters": [], "balance": pktgen_core::record::Balance::default(),
        "balance_by_worker": [], "counters": pktgen_core::record::Counters::default(),
        "validity": { "valid": false, "reasons": [] },
    });
    serde_json::from_value(json).unwrap()
}

struct Group(tempfile::TempDir);

impl Group {
    fn new(of: u32) -> Group {
        let group = Group(tempfile::tempdir().unwrap());
        (0..of).for_each(|rank| std::fs::create_dir(group.0.path().join(format!("rank-{rank}"))).unwrap());
        group
    }

    fn meeting(&self, place: LaunchedRank, wait_ms: u64, at: Option<Instant>) -> Meeting {
        Meeting::new(RankCrew::new(place, None).unwrap(), self.0.path(), Duration::from_millis(wait_ms), at)
    }

    /// Starts these ranks, each a little later than the previous one, the first last; returns the start of each.
    fn meet(&self, ranks: Vec<(LaunchedRank, Manifest)>, wait_ms: u64) -> Vec<Result<clock::RunClock>> {
        std::thread::scope(|scope| {
            let come = |(i, (place, manifest)): (usize, (LaunchedRank, Manifest))| {
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(10 * i as u64));
                    self.meeting(place, wait_ms, None).begin(&manifest, &AtomicBool::new(false))
                })
            };
            let threads: Vec<_> = ranks.into_iter().rev().enumerate().map(come).collect();
            let mut starts: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            starts.reverse();
            starts
        })
    }
}

fn message<T>(result: &Result<T>) -> String {
    result.as_ref().err().map_or_else(String::new, ToString::to_string)
}

#[test]
fn all_begin_with_the_same_full_second() {
    let group = Group::new(3);
    let starts = group.meet((0..3).map(|rank| (place(rank, 3), manifest(1, "a"))).collect(), 20_000);
    let clocks: Vec<_> = starts.into_iter().map(Result::unwrap).collect();
    let anchor = (clocks[0].anchor_unix_ns(), clocks[0].anchor_monotonic_ns());
    assert!(clocks.iter().all(|clock| (clock.anchor_unix_ns(), clock.anchor_monotonic_ns()) == anchor));
    assert_eq!(anchor.0 % 1_000_000_000, 0);
    // The same folder again: earlier processes are not confused with new ones.
    let again = group.meeting(place(1, 3), 50, None).begin(&manifest(1, "a"), &AtomicBool::new(false));
    assert!(message(&again).contains("of an earlier run"), "{}", message(&again));
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    let group = Group::new(3);
    let starts = group.meet([0, 2].map(|rank| (place(rank, 4), manifest(1, "a"))).into(), 2000);
    for start in &starts {
        let said = message(start);
        assert!(said.contains("ranks 1, 3 are missing, of 4; ranks 0, 2 are ready"), "{said}");
        assert!(said.contains("--wait-ranks"), "{said}");
    }
    let stopped = group.meeting(place(1, 3), 60_000, None).begin(&manifest(1, "a"), &AtomicBool::new(true));
    assert!(message(&stopped).contains("interrupted while waiting"), "{}", message(&stopped));
}

/// A server ends with its workers; only a stop by the user is an interruption.
#[test]
fn workers_that_end_before_the_start_interrupt_no_server() {
    let group = Group::new(3);
    let begin = |meeting: Meeting| meeting.begin(&manifest(1, "a"), &AtomicBool::new(true)).unwrap_err();
    let server = || group.meeting(place(2, 3), 60_000, None);
    let ended = Manifest { state: RunState::Interrupted, ..manifest(1, "a") };
    crate::capture::write_manifest(&group.0.path().join("rank-0"), &ended).unwrap();
    assert!(begin(server()).to_string().contains("interrupted while waiting for the other ranks"), "a worker lives");
    crate::capture::write_manifest(&group.0.path().join("rank-1"), &ended).unwrap();
    let error = begin(server());
    assert_eq!(
        (error.to_string().as_str(), error.exit_code()),
        ("ranks 0, 1 ended before the start; their output has the reason", 2)
    );
    let left = server();
    left.left.store(true, Ordering::Relaxed);
    let error = begin(left);
    assert!(error.to_string().contains("interrupted while waiting") && error.exit_code() == 1, "{error}");
}

#[test]
fn ranks_of_one_start_have_its_token() {
    let group = Group::new(2);
    let shared = |rank: u32| {
        let place = LaunchedRank { job: Some("7".into()), ..place(rank, 2) };
        let meeting = group.meeting(place, 20_000, None);
        let clock = meeting.begin(&manifest(1, "a"), &AtomicBool::new(false)).unwrap();
        let facts: BTreeMap<String, String> = meeting.facts(&clock, clock::reading()).into_iter().collect();
        SHARED.map(|name| facts.get(name).cloned())
    };
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| shared(0));
        let second = shared(1);
        (first.join().unwrap(), second)
    });
    assert!(first[0].is_some() && first[1].as_deref() == Some("7") && first == second, "{first:?} {second:?}");
}

/// Its refusal is no reason to wait for a start as long as for a rank that is missing.
#[test]
fn a_first_rank_that_ended_before_the_start_is_named() {
    let group = Group::new(2);
    let ended = Manifest { state: RunState::Finished, ..manifest(1, "a") };
    crate::capture::write_manifest(&group.0.path().join("rank-0"), &ended).unwrap();
    let begun = group.meeting(place(1, 2), 3_600_000, None).begin(&manifest(1, "a"), &AtomicBool::new(false));
    assert_eq!(message(&begun), "rank 0 ended before the start; its output has the reason");
}

#[test]
fn ranks_of_different_runs_and_files_of_earlier_ones_are_refused() {
    let with_job = |rank, job: &str| LaunchedRank { job: Some(job.into()), ..place(rank, 2) };
    let with_profile = |hash: &str| Manifest { profile_hash: Some(hash.into()), ..manifest(1, "a") };
    let cases: [(LaunchedRank, Manifest, &str); 5] = [
        (place(1, 2), manifest(2, "a"), "rank 0 and rank 1 are not of one run: seed 1 and 2"),
        (place(1, 2), manifest(1, "b"), "configurations (beside"),
        (place(1, 2), with_profile("q"), "contents of target.profile with hashes none and q; run all ranks with"),
        (with_job(1, "7"), manifest(1, "a"), "of another job of the launcher"),
        (place(1, 3), manifest(1, "a"), "not of one run: roles workers,server and workers,workers,server"),
    ];
    for (other, its, part) in cases {
        let group = Group::new(2);
        let first = group.meet(vec![(place(0, 2), manifest(1, "a")), (other, its)], 2000).remove(0);
        assert!(message(&first).contains(part), "{part}: {}", message(&first));
    }
    let group = Group::new(2);
    let starts = group.meet(vec![(place(0, 2), with_profile("p")), (place(1, 2), with_profile("q"))], 2000);
    assert!(message(&starts[0]).contains("with hashes p and q"), "{}", message(&starts[0]));
    let group = Group::new(2);
    let both = vec![(place(0, 2), with_profile("p")), (place(1, 2), with_profile("p"))];
    assert!(group.meet(both, 20_000).iter().all(Result::is_ok));
    // Host-specific sections may differ.
    let group = Group::new(2);
    let own = "a\n[transport]\nkind = \"udp\"\n[x]\n";
    let both = vec![(place(0, 2), manifest(1, "a\n[x]\n")), (place(1, 2), manifest(1, own))];
    assert!(group.meet(both, 20_000).iter().all(Result::is_ok));
    // Files of an earlier run are older than the maximum wait.
    let group = Group::new(2);
    let earlier = group.meeting(place(1, 2), 30, None).begin(&manifest(1, "a"), &AtomicBool::new(false));
    assert!(message(&earlier).contains("rank 0 is missing, of 2; rank 1 is ready"), "{}", message(&earlier));
    let first = group.meeting(place(0, 2), 20, None).begin(&manifest(1, "a"), &AtomicBool::new(false));
    assert!(message(&first).contains("of an earlier run, or the clocks"), "{}", message(&first));
}

#[test]
fn an_instant_that_is_given_needs_nobody() {
    let group = Group::new(2);
    let begin = |at, stopped| {
        group.meeting(place(1, 2), 10, Some(Instant(at))).begin(&manifest(1, "a"), &AtomicBool::new(stopped))
    };
    let at = clock::unix_ns() + 2_500_000_000;
    assert_eq!(begin(at, false).unwrap().anchor_unix_ns(), at);
    // The wait ends when the run is to end.
    assert!(message(&begin(clock::unix_ns() + 3_600_000_000_000, true)).contains("waiting for --start-at"));
    let past = message(&begin(clock::unix_ns() - 2_000_000_000, false));
    assert!(
        past.contains("--start-at: by this host's clock that was ")
            && past.contains(" ms ago")
            && past.contains("a later instant"),
        "{past}"
    );
}

#[test]
fn who_is_gone_is_seen_and_who_is_elsewhere_is_not() {
    let own = crew(0, 2, None).unwrap().record();
    assert_eq!((own.share.as_deref(), lives(&own)), (Some("1/1"), Some(true)));
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let gone = Rank { pid: child.id(), ..own.clone() };
    child.wait().unwrap();
    assert_eq!(lives(&gone), Some(false));
    assert_eq!(lives(&Rank { boot_id: "another".into(), ..gone.clone() }), None);
    assert_eq!(lives(&Rank { pid_space: "another".into(), ..gone.clone() }), None);
    assert_eq!(lives(&Rank::default()), None);
    // Its run dir then counts as ended, regardless of its manifest.
    let group = Group::new(2);
    let dir = group.0.path().join("rank-0");
    assert!(!has_ended(&dir), "nothing is known of it");
    std::fs::create_dir_all(&dir).unwrap();
    assert_eq!(writes(&dir, &own), Some(false), "this process lives, and does not write there");
    let _held = crate::capture::hold(&dir).unwrap();
    assert_eq!(writes(&dir, &own), Some(true));
    for (rank, expected) in [(own.clone(), false), (gone, true), (Rank::default(), false)] {
        crate::capture::write_manifest(&dir, &Manifest { rank: Some(rank), ..manifest(1, "a") }).unwrap();
        assert_eq!(has_ended(&dir), expected);
    }
    let done = Manifest { state: RunState::Interrupted, labels: BTreeMap::new(), ..manifest(1, "a") };
    crate::capture::write_manifest(&dir, &done).unwrap();
    assert!(has_ended(&dir));
    let waited = group.meeting(place(0, 2), 30, None).wait_for_ends(&AtomicBool::new(false));
    assert!(message(&waited).contains("rank 1 has not ended after 30ms;"), "{}", message(&waited));
    let waited = group.meeting(place(0, 2), 600_000, None).wait_for_ends(&AtomicBool::new(true));
    let said = message(&waited);
    assert!(said.contains("rank 1 has not ended after ") && said.contains("s, interrupted;"), "{said}");
}
