use super::super::lanes::{Ask, Detail, Merge, Number};
use super::super::load::CarriedBits;
use super::*;

fn facts() -> Facts {
    Facts { real_time: true, arrived: 4, balance: Balance { sent: 5, ..Balance::default() }, ..Facts::default() }
}

fn layout(detail: Detail) -> Layout {
    let ask = Ask { detail, merge: Merge::Sum, window: 64 };
    Layout::plan((Number::F32, false), ask, 3, 64).expect("a layout")
}

fn codes(facts: &Facts) -> (Vec<&'static str>, Vec<&'static str>) {
    let verdict = judge(facts);
    (verdict.faults.iter().map(Fault::code).collect(), verdict.notes.iter().map(Note::code).collect())
}

fn of_black_box(change: impl FnOnce(&mut Facts, &mut Unseen)) -> (Vec<&'static str>, Vec<&'static str>) {
    let (mut facts, mut unseen) = (facts(), Unseen { merges: true, ..Unseen::default() });
    change(&mut facts, &mut unseen);
    codes(&Facts { unseen: Some(unseen), ..facts })
}

#[test]
fn a_run_without_faults_is_valid() {
    assert!(judge(&facts()).is_valid());
    assert_eq!(codes(&facts()), (vec![], vec![]));
}

#[test]
fn each_fact_against_a_run_is_one_fault() {
    let with = |change: &dyn Fn(&mut Facts)| {
        let mut facts = facts();
        change(&mut facts);
        codes(&facts).0
    };
    assert_eq!(with(&|facts| facts.balance.unknown = 1), ["balance_open"]);
    assert_eq!(with(&|facts| facts.strangers = 1), ["balance_open"]);
    assert_eq!(with(&|facts| facts.sums_wrong = 2), ["wrong_sums"]);
    assert_eq!(with(&|facts| facts.interrupted = true), ["interrupted"]);
    // Nobody interrupted a run of which a rank was killed.
    let killed = Fault::InPart { part: "rank 1".into(), fault: Box::new(Fault::Killed {}) };
    let of_rank = |facts: &mut Facts| {
        facts.interrupted = true;
        facts.incidents.faults.push(killed.clone());
    };
    assert_eq!(with(&of_rank), ["in_part"]);
    assert_eq!(with(&|facts| facts.balance.in_flight = 3), ["vanished"]);
    let stays = |change: &dyn Fn(&mut Facts)| {
        with(&|facts| {
            facts.balance.in_flight = 3;
            change(facts);
        })
    };
    assert!(stays(&|facts| facts.real_time = false).is_empty(), "virtual time may be cut off");
    assert!(stays(&|facts| facts.part = true).is_empty(), "a part has no account");
    assert_eq!(stays(&|facts| facts.interrupted = true), ["interrupted"]);
    let lost = Fault::FramesLost { end: "server".into(), out: 0, before_read: 3 };
    let of_part = Fault::InPart { part: "server part".into(), fault: Box::new(lost) };
    assert_eq!(stays(&|facts| facts.incidents.faults.push(of_part.clone())), ["vanished_lost", "in_part"]);
    assert_eq!(with(&|facts| facts.incidents.faults.push(Fault::Leaked { frames: 1 })), ["leaked"]);
}

#[test]
fn a_device_without_books_is_judged_by_what_arrived() {
    assert_eq!(of_black_box(|_, _| {}), (vec![], vec!["no_books"]));
    assert_eq!(of_black_box(|_, unseen| unseen.merges = false), (vec![], vec!["lost"]));
    assert_eq!(of_black_box(|facts, _| facts.arrived = 0).0, ["nothing_received"]);
    assert!(of_black_box(|facts, _| (facts.arrived, facts.balance.sent) = (0, 0)).0.is_empty());
    let killed = |only_senders: bool, delivered: u64| {
        of_black_box(|facts, _| {
            (facts.arrived, facts.balance.delivered_alone) = (0, delivered);
            facts.incidents.only_senders_killed = only_senders;
            let fault = Box::new(Fault::Killed {});
            facts.incidents.faults.push(Fault::InPart { part: "rank 2".into(), fault });
        })
    };
    // The counters of the server are missing.
    assert_eq!(killed(false, 4), (vec!["in_part"], vec!["no_books"]), "rows are left");
    assert_eq!(killed(false, 0), (vec!["in_part"], vec![]), "what did not arrive has no number");
    for delivered in [0, 4] {
        let found = (vec!["nothing_received", "in_part"], vec!["no_books"]);
        assert_eq!(killed(true, delivered), found, "the counters are complete");
    }
    assert_eq!(of_black_box(|_, unseen| unseen.damaged = 1).0, ["damaged"]);
    // Copies with unexplained lanes are no sums that were checked.
    let copies =
        of_black_box(|_, unseen| (unseen.duplicates, unseen.unchecked, unseen.lanes_contradict) = (50, 50, 50));
    assert!(copies.1.contains(&"sums_not_checked"), "{copies:?}");
    // Lanes that name members do not prove more of them, and sums of integers are checked without.
    let advises = |family: Family, lanes: Option<Layout>| {
        let unseen = Unseen { merges: true, unchecked: 7, ..Unseen::default() };
        let verdict = judge(&Facts { family: Some(family), lanes, unseen: Some(unseen), ..facts() });
        let note = verdict.notes.iter().find(|note| note.code() == "sums_not_checked").expect("the note").to_string();
        assert!(note.starts_with("7 sums were not checked"), "{note}");
        note.contains("format.lanes")
    };
    let [which, who] = [Detail::Which, Detail::Who].map(|detail| Some(layout(detail)));
    assert_eq!([None, who, which].map(|lanes| advises(Family::Updates, lanes)), [true, true, false]);
    assert_eq!([None, who, which].map(|lanes| advises(Family::Results, lanes)), [false; 3]);
    // Nor need they be a fault of the device.
    let text = Note::LanesContradict { packets: 50 }.to_string();
    assert!(text.contains("format.lanes_merge") && text.contains("format.lanes_window"), "{text}");
    let counts = of_black_box(|_, unseen| (unseen.miscounted, unseen.overcounted) = (9, 4));
    assert_eq!(counts, (vec![], vec!["no_books", "counts_wrong"]));
    // A device may leave the number in packets at 1.
    let open = [0, 4].map(|more| Note::CountsWrong { packets: 9, more }.leaves_open().is_some());
    assert_eq!(open, [false, true]);
    let all = of_black_box(|facts, unseen| {
        (unseen.unchecked, unseen.duplicates, facts.unmatched) = (1, 2, 3);
        (unseen.checked_by_lanes, unseen.smallest_error) = (7, Some("1e-9".into()));
        facts.balance.in_flight = 4;
    });
    assert_eq!(all.1, ["no_books", "sums_not_checked", "sums_checked_by_lanes", "duplicates", "unmatched"]);
    assert!(all.0.is_empty(), "what a device holds is unaccounted for, not vanished");
    assert!(of_black_box(|facts, _| (facts.part, facts.arrived) = (true, 0)).0.is_empty(), "half of a run");
}

#[test]
fn a_device_that_never_goes_on_without_a_late_worker_is_doubted() {
    let told = |waited_ms: u64, timeout_ms: Option<i64>| {
        let notes = of_black_box(|facts, _| {
            (facts.waited_ns, facts.timeout_ps) = (waited_ms * 1_000_000, timeout_ms.map(|ms| ms * 1_000_000_000));
        });
        notes.1.contains(&"nothing_aged")
    };
    assert_eq!(
        [(31, Some(10)), (30, Some(10)), (500, None), (0, Some(10))].map(|(a, b)| told(a, b)),
        [true, false, false, false]
    );
}

/// Load of a link of 20 Mbit/s during one second, with Mbit offered and arrived.
fn loaded(offered: u64, arrived: u64, merges: bool) -> Option<DeviceLoad> {
    let carried = |mbit: u64| CarriedBits { bits: mbit * 1_000_000, ps: 1_000_000_000_000 };
    Some(DeviceLoad { link_bps: 20_000_000, offered: carried(offered), arrived: carried(arrived), merges })
}

#[test]
fn what_is_said_of_a_device_and_does_not_hold_is_told_first() {
    let told = |load: Option<DeviceLoad>, merged: u64| {
        of_black_box(|facts, unseen| (facts.balance.delivered_merged, unseen.load) = (merged, load)).1[0]
    };
    assert_eq!(told(loaded(40, 40, true), 0), "above_link");
    assert_eq!(told(loaded(40, 40, true), 1), "above_link");
    assert_eq!(told(loaded(40, 40, false), 0), "above_link");
    assert_eq!(told(loaded(40, 20, true), 0), "nothing_merged");
    assert_eq!(told(loaded(40, 20, true), 1), "no_books");
    assert_eq!(told(loaded(40, 20, false), 0), "no_books");
    assert_eq!(told(loaded(20, 20, true), 0), "no_books");
    let acks = |seen: u64, elsewhere: u64| {
        of_black_box(|_, unseen| {
            unseen.acks =
                Some(AckCopies { acks: 3, expected: 9, seen, elsewhere, group: true, ..AckCopies::default() });
        })
        .1[0]
    };
    assert_eq!((acks(9, 0), acks(3, 0), acks(9, 1)), ("no_books", "acks_missing", "acks_missing"));
    let caution = |seen: u64, elsewhere: u64, forwards: bool| {
        Note::AcksMissing { acks: 3, expected: 9, seen, elsewhere, group: true, forwards, at_device: false }.is_doubt()
    };
    assert!(caution(3, 0, false) && caution(2, 0, true) && caution(5, 1, true), "something else was measured");
    assert!(!caution(3, 0, true), "a forwarder passes each to one worker");
    let hidden = |lanes: bool| {
        of_black_box(|facts, _| {
            facts.lanes = lanes.then(|| layout(Detail::Which));
            facts.incidents.notes.push(Note::Headless {});
        })
        .1
    };
    assert_eq!((hidden(false)[0], hidden(true)[0]), ("members_hidden", "no_books"));
}

#[test]
fn findings_come_back_from_files_as_they_were() {
    let of_part = Fault::InPart { part: "w".into(), fault: Box::new(Fault::WrongSums { packets: 3 }) };
    let verdict = Validity {
        faults: vec![of_part, Fault::Interrupted {}],
        notes: vec![Note::FarCore { core: 1, interface: "eth0".into(), node: 1, cores: vec![2, 3] }],
    };
    let json = serde_json::to_value(&verdict).unwrap();
    assert_eq!(json["valid"], false);
    assert_eq!(
        (&json["faults"][1]["code"], &json["faults"][1]["text"]),
        (&"interrupted".into(), &"the run was interrupted".into())
    );
    assert_eq!(json["faults"][0]["text"], "w: 3 packets carried a wrong sum");
    assert_eq!(serde_json::from_value::<Validity>(json).unwrap(), verdict);
    let valid = serde_json::to_value(Validity::default()).unwrap();
    assert_eq!(
        (&valid["valid"], serde_json::from_value(valid.clone()).ok()),
        (&true.into(), Some(Validity::default()))
    );
}

#[test]
fn the_page_of_verdicts_lists_every_code_once() {
    let page = include_str!("../../../../docs/verdicts.md");
    for (code, about) in Fault::CODES.iter().chain(Note::CODES) {
        assert!(!about.trim().is_empty(), "{code}");
        let rows = page.lines().filter(|line| line.starts_with(&format!("| `{code}` |"))).count();
        let has = |all: &[(&str, &str)]| usize::from(all.iter().any(|(other, _)| other == code));
        let kinds = has(Fault::CODES) + has(Note::CODES);
        assert_eq!(rows, kinds, "{code}");
    }
}

#[test]
fn sentences_of_older_files_keep_their_meaning() {
    let read = |text: &str| serde_json::from_str::<Validity>(text).unwrap();
    let old = read(r#"{"valid":false,"reasons":["it leaks","note: a queue was bound late"]}"#);
    assert_eq!((old.why(), old.notes[0].to_string()), ("it leaks".to_owned(), "a queue was bound late".to_owned()));
    assert!(read(r#"{"valid":true,"reasons":["note: x"]}"#).is_valid());
    assert!(!read(r#"{"valid":false,"reasons":[]}"#).is_valid(), "it says so, without a reason");
    let again = serde_json::from_str::<Validity>(&serde_json::to_string(&old).unwrap());
    assert_eq!(again.unwrap(), old, "and are written as findings");
}

/// In lockstep acknowledgements are counted where they reach the device: links before it may lose some.
#[test]
fn missing_acknowledgements_are_of_those_that_were_counted() {
    let old = r#"{"code":"acks_missing","acks":3,"expected":9,"seen":3,"elsewhere":0,"group":true,"forwards":false}"#;
    let sent = serde_json::from_str::<Note>(old).unwrap();
    assert!(sent.to_string().starts_with("acknowledgements: the server sent 3, workers should have had 9 "), "{sent}");
    // How many copies each should have had is not known then.
    let none: Note = serde_json::from_str(&old.replace(r#""seen":3"#, r#""seen":0"#)).unwrap();
    assert!(none.to_string().starts_with("acknowledgements: the server sent 3, and none came to a worker"), "{none}");
    let Note::AcksMissing { acks, expected, seen, elsewhere, group, forwards, at_device: false } = sent else {
        panic!("{sent:?}")
    };
    let came = Note::AcksMissing { acks, expected, seen, elsewhere, group, forwards, at_device: true };
    assert!(came.to_string().starts_with("acknowledgements: 3 reached the device, workers "), "{came}");
    let again = serde_json::from_str::<Note>(&serde_json::to_string(&came).unwrap());
    assert_eq!(again.unwrap(), came);
}

#[test]
fn a_capture_names_all_that_it_lost() {
    let lost = Fault::CaptureLost { kernel: 3, writer: 4, longest_away_ps: 2_500_000_000 };
    let text = lost.to_string();
    assert!(text.starts_with("7 frames were lost: 3 in the kernel"), "{text}");
    // After a pause that is less than the time between two polls.
    assert!(text.ends_with("; the ring had to buffer frames for up to 2.5 ms"), "{text}");
}
