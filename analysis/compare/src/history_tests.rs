//! Tests of [`super`]: written lines, recovery from damage, series, and days.

use std::fs;

use pktgen_records::testing::write_sweep;

use super::*;

fn entry(i: u64, value: f64) -> Entry {
    Entry {
        version: VERSION,
        run: format!("{i:032x}"),
        experiment: "x".into(),
        tool: format!("pktgen 0.1.{i}"),
        created_unix_ns: i * 86_400_000_000_000,
        valid: true,
        steered: 0,
        overrides: Vec::new(),
        units: [("aom_mean/cluster".to_owned(), "ns".to_owned())].into(),
        points: vec![Point {
            labels: [("rate".to_owned(), "20".to_owned())].into(),
            seeds: vec![1, 2, 3, 4, 5],
            settings: "a".into(),
            medians: [("aom_mean/cluster".to_owned(), value), ("loss".to_owned(), 0.5)].into(),
            lacking: BTreeMap::new(),
            clock_errors: BTreeMap::new(),
        }],
    }
}

fn page(series: &[Series]) -> String {
    super::page(series, &LeftOut::default())
}

fn text(series: &[Series]) -> String {
    super::text(series, &LeftOut::default())
}

/// The worst runs have no value to be in a series.
#[test]
fn runs_in_which_no_seed_has_a_value_are_counted() {
    let mut entries: Vec<Entry> = (1..=12).map(|i| entry(i, 1.0)).collect();
    let all =
        |entries: &[Entry]| History { entries: entries.to_vec(), ..History::default() }.series(&["loss".to_owned()]);
    // A metric that older runs did not have yet.
    entries[0].points[0].medians.remove("loss");
    assert!(page(&all(&entries)).contains("verdict fine"));
    for entry in &mut entries[10..] {
        entry.points[0].medians.remove("loss");
    }
    let series = all(&entries);
    assert!(text(&series).contains("2 runs more without any value"), "{}", text(&series));
    assert!(!page(&series).contains("verdict fine"));
}

#[test]
fn runs_without_drops_for_a_reason_have_none() {
    let reason = "dropped/queue_full";
    let series = |drops: fn(usize) -> Option<f64>| {
        let mut entries: Vec<Entry> = (1..=24).map(|i| entry(i, 1.0)).collect();
        for (i, entry) in entries.iter_mut().enumerate() {
            entry.points[0].medians.insert("dropped".to_owned(), drops(i).unwrap_or(0.0));
            if let Some(drops) = drops(i) {
                entry.points[0].medians.insert(reason.to_owned(), drops);
                entry.units.insert(reason.to_owned(), "updates".to_owned());
            }
        }
        History { entries, ..History::default() }.series(&[reason.to_owned()])
    };
    let begin: fn(usize) -> Option<f64> = |i| (i >= 12).then_some(500.0);
    let end: fn(usize) -> Option<f64> = |i| (i < 12).then_some(500.0);
    for drops in [begin, end] {
        let series = series(drops);
        let values: Vec<f64> = series[0].values.iter().map(|value| value.value).collect();
        assert_eq!(values, (0..24).map(|i| drops(i).unwrap_or(0.0)).collect::<Vec<_>>());
        assert_eq!((series.len(), series[0].without, series[0].unit.as_str()), (1, 0, "updates"));
        assert_eq!(series[0].changes.iter().map(|change| change.at).collect::<Vec<_>>(), [12]);
    }
}

/// A run that does not record drops has none to be in a series.
#[test]
fn runs_that_do_not_count_drops_are_without_reasons() {
    let mut entries: Vec<Entry> = (1..=3).map(|i| entry(i, 1.0)).collect();
    entries[0].points[0].medians.extend([("dropped".to_owned(), 3.0), ("dropped/queue_full".to_owned(), 3.0)]);
    entries[1].points[0].medians.insert("dropped".to_owned(), 0.0);
    let series = History { entries, ..History::default() }.series(&["dropped/queue_full".to_owned()]);
    assert_eq!((series[0].values.len(), series[0].without), (2, 1));
}

#[test]
fn a_value_below_zero_that_falls_has_a_falling_change() {
    let entries = (0..20).map(|i| entry(i, if i < 10 { -100.0 } else { -110.0 })).collect();
    let series = History { entries, ..History::default() }.series(&["aom_mean/cluster".to_owned()]);
    assert!(text(&series).contains("(−10.0 %)"), "{}", text(&series));
}

#[test]
fn two_values_are_shown_each_in_its_unit_unless_they_look_the_same() {
    assert_eq!(two("ns", 229.0, 1_000_231.0), ["229 ns", "1 ms"]);
    assert_eq!(two("", 1.4, 1.6), ["1.40", "1.60"]);
    assert_eq!(two("", 0.45, 0.45), ["0.450", "0.450"]);
    assert_eq!(two("ns", 1_234_500.0, 1_234_900.0), ["1.2345 ms", "1.2349 ms"]);
    assert_eq!(two("ns", 1e9, 1e9 + 1e-2), ["1.00000000000 s", "1.00000000001 s"]);
}

/// The space before the axis has eleven characters.
#[test]
fn labels_of_an_axis_are_short() {
    let labels = |unit: &str, value: f64| {
        let mut entries = vec![entry(1, value), entry(2, value)];
        entries.iter_mut().for_each(|entry| _ = entry.units.insert("aom_mean/cluster".to_owned(), unit.to_owned()));
        page(&History { entries, ..History::default() }.series(&["aom_mean/cluster".to_owned()]))
    };
    for (unit, value, label) in
        [("elements/s", 1e20, "5e10 G/s"), ("", 1e-9, "5e−10"), ("ns", 2.2e6, "1.5 ms"), ("share", 0.5, "20 %")]
    {
        let page = labels(unit, value);
        assert!(page.contains(&format!(">{label}</text>")), "{label}: {page}");
    }
}

#[test]
fn a_small_change_is_seen_in_its_sentence() {
    let entries = (0..10).map(|i| entry(i, if i < 5 { 1_234_567.0 } else { 1_234_890.0 })).collect();
    let series = History { entries, ..History::default() }.series(&["aom_mean/cluster".to_owned()]);
    let said = text(&series);
    assert!(said.contains("1.23457 ms → 1.23489 ms (+0.03 %)"), "{said}");
}

#[test]
fn values_of_different_units_are_different_series() {
    let mut entries = [entry(1, 1.0), entry(2, 1.0)].to_vec();
    for (entry, unit) in entries.iter_mut().zip(["ms", "us"]) {
        entry.units.insert("loss".to_owned(), unit.to_owned());
    }
    let series = History { entries, ..History::default() }.series(&["loss".to_owned()]);
    assert_eq!(series.iter().map(|one| (one.unit.as_str(), one.without)).collect::<Vec<_>>(), [("ms", 0), ("us", 0)]);
}

/// As in comparisons.
#[test]
fn a_point_in_two_spellings_is_one_series() {
    let mut entries: Vec<Entry> = (1..=3).map(|i| entry(i, i as f64)).collect();
    for (entry, rate) in entries.iter_mut().zip(["20Gbps", "20Gbps", "20000Mbps"]) {
        entry.points[0].labels.insert("rate".to_owned(), rate.to_owned());
    }
    entries[1].points[0].medians.remove("loss");
    let history = History { entries, ..History::default() };
    let series = history.series(&["aom_mean/cluster".to_owned()]);
    assert_eq!(series.len(), 1);
    assert_eq!(series[0].values.iter().map(|value| value.value).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
    assert_eq!(series[0].labels["rate"], "20000Mbps");
    let loss = history.series(&["loss".to_owned()]);
    assert_eq!((loss.len(), loss[0].values.len(), loss[0].without), (1, 2, 1));
}

#[test]
fn a_run_is_remembered_once() {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 2);
    let sweep = SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
    let file = dir.path().join("history.jsonl");
    let runs = || Runs::of(dir.path(), false).unwrap();
    let before = runs();
    let entry = Entry::of(dir.path(), runs(), &sweep).unwrap();
    assert_eq!(entry.points.len(), 4);
    assert_eq!((entry.points[0].seeds.as_slice(), entry.points[0].medians["loss"]), ([1, 2].as_slice(), 0.5));
    assert_eq!(entry.append(&file).unwrap(), (true, Vec::new()));
    assert_eq!(entry.append(&file).unwrap(), (false, Vec::new()));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.ends_with('\n') && text.lines().count() == 1);
    let back = &read(&file).unwrap().entries[0];
    assert_eq!((&back.run, &back.tool, &back.units), (&entry.run, &entry.tool, &entry.units));
    // Numbers parsed from text may differ in their last bit.
    for (a, b) in back.points.iter().zip(&entry.points) {
        assert_eq!((&a.labels, &a.seeds, a.medians.len()), (&b.labels, &b.seeds, b.medians.len()));
        assert!(a.medians.iter().all(|(key, value)| (value - b.medians[key]).abs() <= 1e-12 * value.abs()));
    }
    // Another run is another entry.
    let manifest = dir.path().join("fifo-20-1/manifest.json");
    let changed = fs::read_to_string(&manifest).unwrap().replacen("\"seed\":1", "\"seed\":9", 1);
    fs::write(&manifest, changed).unwrap();
    let refusal = Entry::of(dir.path(), before, &sweep).unwrap_err().to_string();
    assert!(refusal.contains("changed while they were analysed"), "{refusal}");
    let other = Entry::of(dir.path(), runs(), &sweep).unwrap();
    assert_ne!(other.run, entry.run);
    assert!(other.append(&file).unwrap().0);
    assert_eq!(read(&file).unwrap().entries.len(), 2);
    // A run that never began is named.
    let gone = fs::read(&manifest).unwrap();
    fs::remove_file(&manifest).unwrap();
    let refusal = Runs::of(dir.path(), false).unwrap_err().to_string();
    assert!(refusal.contains("the run never began") && refusal.contains("fifo-20-1"), "{refusal}");
    fs::write(&manifest, gone).unwrap();
    // A run that has not ended is refused.
    let running = fs::read_to_string(&manifest).unwrap().replacen("\"finished\"", "\"running\"", 1);
    fs::write(&manifest, running).unwrap();
    let refusal = Runs::of(dir.path(), false).unwrap_err().to_string();
    assert!(refusal.contains("a history keeps what has ended"), "{refusal}");
}

#[test]
fn torn_lines_are_reported_skipped_and_never_joined() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("history.jsonl");
    entry(1, 1.0).append(&file).unwrap();
    let whole = fs::read(&file).unwrap();
    // Killed while writing the second line, at any position.
    let second = serde_json::to_vec(&entry(2, 2.0)).unwrap();
    for cut in [1, second.len() / 2, second.len() - 1] {
        fs::write(&file, [&whole[..], &second[..cut]].concat()).unwrap();
        let history = read(&file).unwrap();
        assert_eq!((history.entries.len(), history.damaged.len()), (1, 1));
        assert!(history.damaged[0].contains("history.jsonl:2: skipped"), "{}", history.damaged[0]);
        let (written, damaged) = entry(3, 3.0).append(&file).unwrap();
        assert!(written && damaged.len() == 1);
        let history = read(&file).unwrap();
        assert_eq!((history.entries.len(), history.damaged.len()), (2, 1), "cut at {cut}");
        assert!(fs::read(&file).unwrap().starts_with(&whole), "nothing before is touched");
    }
    // Complete except for the line end: it is an entry, and the next one begins a new line.
    fs::write(&file, &second).unwrap();
    entry(3, 3.0).append(&file).unwrap();
    assert_eq!(read(&file).unwrap().entries.len(), 2);
    fs::write(&file, "{\"version\":1}\nrubbish\n\n\u{0}\n").unwrap();
    assert_eq!(read(&file).unwrap().damaged.len(), 3);
    let newer = Entry { version: 9, ..entry(4, 1.0) };
    fs::write(&file, serde_json::to_vec(&newer).unwrap()).unwrap();
    assert!(read(&file).unwrap().damaged[0].contains("version 9"));
}

/// Histories of two branches, joined.
#[test]
fn a_run_that_is_there_twice_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("history.jsonl");
    let line = |(i, value)| serde_json::to_string(&entry(i, value)).unwrap() + "\n";
    let lines: String = (0..).zip([100.0, 101.0, 99.0, 200.0, 202.0]).map(line).collect();
    fs::write(&file, format!("{lines}{lines}")).unwrap();
    let history = read(&file).unwrap();
    assert_eq!((history.entries.len(), history.damaged.len()), (5, 1));
    assert!(history.damaged[0].ends_with("history.jsonl: 5 lines are skipped: their runs are in the file already"));
    let said = text(&history.series(&["aom_mean/cluster".to_owned()]));
    assert!(said.contains("5 runs: too few to detect a change"), "{said}");
    fs::write(&file, format!("{lines}{}", line((0, 100.0)))).unwrap();
    assert!(read(&file).unwrap().damaged[0].contains("one line is skipped: its run is in the file already"));
}

#[test]
fn infinite_medians_are_left_out() {
    let of = |median: f64| Estimate { median, interval: None, n: 1, exact: false };
    let cells = [("a", 1.0), ("b", f64::INFINITY), ("c", f64::NAN)].map(|(key, median)| (key.to_owned(), of(median)));
    let cells = BTreeMap::from(cells);
    assert_eq!(finite_medians(&cells), BTreeMap::from([("a".to_owned(), 1.0)]));
}

#[test]
fn files_of_others_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("manifest.json");
    for text in ["{\n  \"version\": 1\n}\n", "a,b\n1,2\n", "\u{0}"] {
        fs::write(&file, text).unwrap();
        for fault in [read(&file).unwrap_err(), entry(1, 1.0).append(&file).unwrap_err()] {
            assert!(fault.exit_code() == 2 && fault.to_string().contains("it is no history"), "{fault}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    let spaced = serde_json::to_string(&entry(2, 2.0)).unwrap().replace(":", ": ");
    fs::write(&file, spaced).unwrap();
    assert_eq!(read(&file).unwrap().entries.len(), 1, "written again by another program");
    fs::write(&file, " \n").unwrap();
    assert!(entry(1, 1.0).append(&file).unwrap().0);
}

#[test]
fn series_are_by_date_and_say_where_they_changed() {
    let mut entries: Vec<Entry> =
        (0..30).map(|i| entry(i, if i < 18 { 100.0 } else { 110.0 } + (i * 7 % 5) as f64)).collect();
    entries.reverse();
    entries.push(Entry { valid: false, ..entry(40, 1e9) });
    let mut bytes = Vec::new();
    for entry in &entries {
        bytes.extend(serde_json::to_vec(entry).unwrap());
        bytes.push(b'\n');
    }
    let history = parse(&bytes, Path::new("h")).unwrap();
    assert_eq!((history.metrics(), history.invalid()), (vec!["aom_mean/cluster".to_owned(), "loss".to_owned()], 1));
    assert_eq!(history.series(&[]).len(), 2);
    let series = history.series(&["aom_mean/cluster".to_owned()]);
    assert_eq!((series.len(), series[0].values.len()), (1, 30));
    assert_eq!(series[0].values[3].day, "1970-01-04");
    assert_eq!(series[0].changes.iter().map(|change| change.at).collect::<Vec<_>>(), [18]);
    let text = text(&series);
    assert!(text.contains("x: AoM mean, cluster at rate 20 (30 runs)\n"), "{text}");
    assert!(text.contains("change at 1970-01-19 (pktgen 0.1.18): 102 ns → 112 ns (+9.8 %)"), "{text}");
    let page = page(&history.series(&[]));
    assert!(
        page.contains("1 of 2 series have a change") && page.matches("<polyline").count() == 2 && !page.contains("NaN")
    );
    assert!(!page.contains("verdict fine"), "a change may be for the worse");
}

/// As comparisons and reports of one sweep do.
#[test]
fn a_change_within_the_bound_of_clocks_is_told_and_is_none() {
    let key = "aom_mean/cluster";
    let shown = |error: f64| {
        let mut entries: Vec<Entry> =
            (0..30).map(|i| entry(i, if i < 18 { 100.0 } else { 110.0 } + (i * 7 % 5) as f64)).collect();
        // Lines of one clock, and of builds that did not record it, have no errors.
        for entry in entries.iter_mut().skip(18).filter(|_| error > 0.0) {
            entry.points[0].clock_errors.insert(key.to_owned(), error);
        }
        let lines: Vec<String> = entries.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
        assert!(!lines[0].contains("clock_errors") && lines[20].contains("clock_errors") == (error > 0.0));
        let history = parse(lines.join("\n").as_bytes(), Path::new("h")).unwrap();
        assert_eq!(history.damaged, Vec::<String>::new());
        let loss = history.series(&["loss".to_owned()]);
        assert!(loss[0].values.iter().all(|value| value.clock_error == 0.0), "no time is in it");
        history.series(&[key.to_owned()])
    };
    let at = |changes: &[Change]| changes.iter().map(|change| change.at).collect::<Vec<_>>();
    for (error, beyond, within) in [(0.0, vec![18], vec![]), (3.0, vec![18], vec![]), (12.0, vec![], vec![18])] {
        let series = shown(error);
        assert_eq!((at(&series[0].changes), at(&series[0].of_clocks)), (beyond, within), "{error}");
        let (text, page, json) = (text(&series), page(&series), serde_json::to_value(&series).unwrap());
        let said = "difference at 1970-01-19 (pktgen 0.1.18): 102 ns → 112 ns";
        assert_eq!(text.contains(said), error > 10.0, "{text}");
        assert_eq!(page.contains(": the clocks of workers and server may explain it"), error > 10.0, "{page}");
        let said = "0 of 1 series have a change; 1 has a difference that clocks may explain.";
        assert_eq!(page.contains(said), error > 10.0);
        assert!(!page.contains("verdict fine"), "nothing is known to be the same");
        assert_eq!(json[0]["of_clocks"].is_null(), error < 10.0, "{json}");
        assert_eq!(json[0]["values"][20]["clock_error"].as_f64(), (error > 0.0).then_some(error));
    }
}

#[test]
fn entries_have_the_bound_of_clocks_of_one_way_times() {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 2);
    let of = |bounds: [u64; 2]| {
        let mut sweep = SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
        let runs = sweep.points[0].runs.clone();
        for (run, ns) in runs.into_iter().zip(bounds).filter(|(_, ns)| *ns > 0) {
            sweep.runs[run].validity.notes.push(pktgen_core::record::Note::ClocksWithin { ns });
        }
        Entry::of(dir.path(), Runs::of(dir.path(), false).unwrap(), &sweep).unwrap().points
    };
    let points = of([3_000, 8_000]);
    assert!(points[0].medians.contains_key("aom_mean/cluster") && points[0].medians.contains_key("loss"));
    assert!((points[0].clock_errors["aom_mean/cluster"] - 8_000.0).abs() < 1e-6, "{:?}", points[0].clock_errors);
    assert!(!points[0].clock_errors.contains_key("loss"));
    assert!(points[1].clock_errors.is_empty() && of([0, 0])[0].clock_errors.is_empty());
}

/// As comparisons leave them out of pairs.
#[test]
fn entries_of_steered_runs_are_in_no_series_and_are_counted() {
    let mut entries: Vec<Entry> = (1..=3).map(|i| entry(i, 1.0)).collect();
    entries.push(Entry { steered: 1, ..entry(4, 9.0) });
    entries.push(Entry { steered: 1, valid: false, ..entry(5, 9.0) });
    let lines: Vec<String> = entries.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
    assert!(!lines[0].contains("steered") && lines[3].contains("\"steered\":1"), "{lines:?}");
    let history = parse(lines.join("\n").as_bytes(), Path::new("h")).unwrap();
    assert_eq!((history.invalid(), history.steered()), (1, 1));
    assert!(history.series(&[]).iter().all(|series| series.values.len() == 3));

    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 2);
    let mut sweep = SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
    sweep.runs[1].validity.notes.push(pktgen_core::record::Note::Steered { changes: 1 });
    let entry = Entry::of(dir.path(), Runs::of(dir.path(), false).unwrap(), &sweep).unwrap();
    assert_eq!((entry.valid, entry.steered), (true, 1));
}

/// Otherwise a page is fine while all recent runs are invalid.
#[test]
fn entries_that_are_left_out_are_in_every_form() {
    let mut entries: Vec<Entry> = (1..=20).map(|i| entry(i, 100.0)).collect();
    entries[4].valid = false;
    entries[5].steered = 1;
    let shown = |entries: &[Entry], more: &str| {
        let lines: Vec<String> = entries.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
        let history = parse(format!("{}\n{more}", lines.join("\n")).as_bytes(), Path::new("h.jsonl")).unwrap();
        let (series, left_out) = (history.series(&["loss".to_owned()]), history.left_out());
        let json = serde_json::to_value(&series).unwrap()[0].clone();
        (super::page(&series, &left_out), super::text(&series, &left_out), json)
    };
    // Later runs are valid.
    let (page, text, json) = shown(&entries, "");
    for form in [&page, &text] {
        assert!(form.contains("1 entry of invalid runs is left out") && form.contains("1 entry of steered"), "{form}");
        assert!(form.contains("1 run more invalid: not in the series") && !form.contains("newer than"), "{form}");
    }
    assert!(page.contains("verdict fine"), "{page}");
    assert!(json["invalid"] == 1 && json["steered"] == 1, "{json}");
    assert!(json.get("newest_invalid").is_none() && json.get("unread").is_none(), "{json}");
    // The newest are not.
    for entry in &mut entries[18..] {
        entry.valid = false;
    }
    let (page, text, json) = shown(&entries, "{\"version\":1,\"ru");
    for form in [&page, &text] {
        for said in [
            "h.jsonl:21: skipped",
            "3 entries of invalid runs are left out, 2 of them newer than all that are shown of a point",
            "3 runs more invalid: not in the series, 2 of them newer than all that are",
            "1 run more steered: not in the series",
        ] {
            assert!(form.contains(said), "{said} is not in\n{form}");
        }
    }
    assert!(page.contains("verdict open"), "{page}");
    assert!(json["invalid"] == 3 && json["newest_invalid"] == 2 && json["unread"] == 1, "{json}");
    // A point without any valid run has no series.
    let mut elsewhere: Vec<Entry> = (1..=20).map(|i| entry(i, 100.0)).collect();
    elsewhere[0].valid = false;
    elsewhere[0].points[0].labels.insert("rate".to_owned(), "40".to_owned());
    assert!(shown(&elsewhere, "").0.contains("verdict open"));
    elsewhere.iter_mut().for_each(|entry| entry.valid = false);
    let (page, text, _) = shown(&elsewhere, "");
    assert!(text.starts_with("no series\nwarning: 20 entries of invalid runs"), "{text}");
    assert!(page.contains("verdict open") && page.contains("20 entries of invalid runs"), "{page}");
}

#[test]
fn three_runs_show_no_change_and_say_that_they_cannot() {
    let mut entries: Vec<Entry> = (1..=3).map(|i| entry(i, 0.7581 + 0.0001 * i as f64)).collect();
    entries[1].overrides.push("target.slots=6".to_owned());
    entries[1].points[0].settings = "b".into();
    entries[2].points[0].seeds = (11..=20).collect();
    let units: BTreeMap<String, String> = [("loss".to_owned(), "share".to_owned())].into();
    for (i, entry) in entries.iter_mut().enumerate() {
        entry.units.extend(units.clone());
        entry.points[0].medians.insert("loss".into(), 0.7581 + 0.0001 * i as f64);
    }
    let history = History { entries, ..History::default() };
    let series = history.series(&["loss".to_owned()]);
    let (text, page) = (text(&series), page(&series));
    for said in [
        "3 runs: too few to detect a change (10 are needed)",
        "1 of 3 runs of other settings than the last (overrides: none; target.slots=6)",
        "2 of 3 runs of other seeds than the last",
    ] {
        assert!(text.contains(said) && page.contains(said), "{said} is not in\n{text}");
    }
    assert!(!page.contains("verdict fine") && page.contains("class=\"plot\""), "nothing was found to be fine");
    assert!(text.contains("(75.81 % to 75.83 %)"), "the ends of the line can be told apart: {text}");
}

#[test]
fn a_page_names_the_shortest_change_that_can_be_taken_back_and_found() {
    let shown = |runs: u64, by: f64| {
        let entries = (0..runs).map(|i| entry(i, 100.0 + by * (i % 2) as f64)).collect();
        let series = History { entries, ..History::default() }.series(&["aom_mean/cluster".to_owned()]);
        (page(&series), text(&series))
    };
    let few = "too few to detect a change that was taken back (16 are needed)";
    let (page, text) = shown(12, 1.0);
    assert!(page.contains(few) && text.contains(few) && !page.contains("verdict fine"), "{text}");
    assert!(page.contains("0 of 1 series have a change; 1 has too few runs to detect one that was taken back."));
    // Beside it, series that are too short for any change.
    let beside = |with_loss: std::ops::Range<usize>| {
        let mut entries: Vec<Entry> = (0..12).map(|i| entry(i, 100.0 + (i % 2) as f64)).collect();
        for (_, entry) in entries.iter_mut().enumerate().filter(|(i, _)| !with_loss.contains(i)) {
            entry.points[0].medians.remove("loss");
        }
        let metrics = ["aom_mean/cluster".to_owned(), "loss".to_owned()];
        self::page(&History { entries, ..History::default() }.series(&metrics))
    };
    let taken_back = "1 has too few runs to detect one that was taken back.";
    let both = format!("0 of 1 series have a change; 1 more has too few runs to detect one; {taken_back}");
    assert!(beside(7..12).contains(&both));
    assert!(beside(0..12).contains(&format!("0 of 2 series have a change; {taken_back}")));
    // Equal values have no such change.
    let (page, text) = shown(12, 0.0);
    assert!(page.contains("verdict fine") && !text.contains(few), "{text}");
    let (page, text) = shown(20, 1.0);
    assert!(page.contains("verdict fine") && !text.contains(few), "{text}");
    assert!(page.contains("one that was taken back 16 (of 20, it needs to last 5)."), "{page}");
}

#[test]
fn overrides_in_another_spelling_are_the_same() {
    let mut entries: Vec<Entry> = (1..=2).map(|i| entry(i, 100.0)).collect();
    for (entry, rate) in entries.iter_mut().zip(["40Gbps", "40000Mbps"]) {
        entry.overrides = vec![format!("topology.rate={rate}")];
    }
    let told = |entries: &[Entry]| text(&History { entries: entries.to_vec(), ..History::default() }.series(&[]));
    assert!(!told(&entries).contains("of other settings"), "{}", told(&entries));
    entries[1].overrides = vec!["topology.rate=40001Mbps".to_owned()];
    let wanted =
        "1 of 2 runs of other settings than the last (overrides: topology.rate=40Gbps; topology.rate=40.001Gbps)";
    assert!(told(&entries).contains(wanted), "{}", told(&entries));
}

#[test]
fn seeds_without_a_value_are_counted_and_named() {
    let estimate = |n| Estimate { median: 1.0, interval: None, n, exact: false };
    let cells: BTreeMap<String, Estimate> = [("goal".to_owned(), estimate(2)), ("loss".to_owned(), estimate(5))].into();
    assert_eq!(lacking(&cells, 5), [("goal".to_owned(), 3)].into());
    let mut entries: Vec<Entry> = (1..=3).map(|i| entry(i, 1.0)).collect();
    entries[1].points[0].lacking.insert("loss".to_owned(), 3);
    let bytes: Vec<u8> =
        entries.iter().flat_map(|one| [serde_json::to_vec(one).unwrap(), vec![b'\n']].concat()).collect();
    assert_eq!(bytes.windows(9).filter(|part| part == b"\"lacking\"").count(), 1, "only where seeds lack a value");
    let series = parse(&bytes, Path::new("h")).unwrap().series(&["loss".to_owned()]);
    assert_eq!(series[0].values.iter().map(|value| value.lacking).collect::<Vec<_>>(), [0, 3, 0]);
    let (text, page, json) = (text(&series), page(&series), serde_json::to_string(&series).unwrap());
    let said =
        "1 of 3 runs have seeds without a value, such as a goal that was missed: their medians are of the others";
    assert!(text.contains(said) && page.contains(said), "{said} is not in\n{text}");
    assert!(json.matches("\"lacking\":3").count() == 1 && json.matches("lacking").count() == 1, "{json}");
}

#[test]
fn days_and_sparklines() {
    for (seconds, text) in
        [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (951_868_800, "2000-03-01"), (1_798_761_599, "2026-12-31")]
    {
        assert_eq!(day(seconds * 1_000_000_000), text);
    }
    assert_eq!(sparkline(&[0.0, 1.0, 0.5]), "▁█▅");
    // One unit in the last place is rounding.
    let values = [449_218_750.0, 449_218_750.000_000_06, 449_218_750.0];
    assert!(values[1] > values[0] && sparkline(&values) == "▅▅▅", "{}", sparkline(&values));
    assert_eq!(two("", values[0], values[1]), two("", values[0], values[0]));
    assert_eq!((sparkline(&[2.0, 2.0]), sparkline(&[])), ("▅▅".to_owned(), String::new()));
}
