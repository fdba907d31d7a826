//! Tests of [`super`] on constructed sweeps, of their reports, and of speed.

use pktgen_core::config::Document;
use pktgen_core::record::{Note, digest::seal};
use pktgen_core::topology::{self, Population};
use pktgen_records::age::AgeOf;
use pktgen_records::testing::{small_run, write_sweep};

use super::*;
use crate::lead::Lead;
use crate::model::Model;
use crate::report::REPORTS;
use crate::summary::{WIDTH, summary, summary_table};

fn open(dir: &Path) -> SweepData {
    SweepData::open(dir, &mut |_, _| {}).unwrap()
}

fn sweep_of(seeds: u64) -> (tempfile::TempDir, SweepData) {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), seeds);
    let sweep = open(dir.path());
    (dir, sweep)
}

#[test]
fn points_have_medians_over_seeds_and_comparisons_are_paired() {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 5);
    let mut seen = Vec::new();
    let sweep = SweepData::open(dir.path(), &mut |done, all| seen.push((done, all))).unwrap();
    assert_eq!(seen, (1..=20).map(|done| (done, 20)).collect::<Vec<_>>());
    assert_eq!(sweep.points.len(), 4);
    let (fifo, olaf) = (&sweep.points[1], &sweep.points[3]);
    assert_eq!((fifo.labels["variant"].as_str(), olaf.labels["variant"].as_str()), ("fifo", "olaf"));
    assert_eq!((fifo.cells["loss"].median, olaf.cells["loss"].median), (0.5, 0.0));
    assert_eq!((fifo.cells["received"].median, olaf.cells["received"].median), (80.0, 80.0));
    assert_eq!(olaf.cells["merged"].median, 160.0);
    // The period of seed s at rate 40 is (20 + s)/2 us, so ages are proportional to it and seed 3 is the median.
    let seed_3 = sweep.runs.iter().find(|run| run.dir == "olaf-40-3").unwrap();
    assert_eq!(olaf.cells["aom_mean/cluster"].median, seed_3.scalars["aom_mean/cluster"]);
    assert!(olaf.cells["aom_mean/cluster"].spread().is_some());
    // Each seed is compared with its own baseline run, so the spread between seeds cancels.
    let base = sweep.runs.iter().find(|run| run.dir == "fifo-40-3").unwrap();
    let cut = 1.0 - seed_3.scalars["aom_mean/cluster"] / base.scalars["aom_mean/cluster"];
    assert!((seed_3.scalars["aom_cut/cluster"] - cut).abs() < 1e-12 && cut > 0.2, "{cut}");
    let cut = olaf.cells["aom_cut/cluster"].interval.unwrap();
    assert!(cut.hi - cut.lo < 0.01);
    assert!(base.scalars.get("aom_cut/cluster").is_none());
    assert_eq!(seed_3.scalars["received_ratio"], 1.0);
}

#[test]
fn the_model_puts_published_values_beside_ours() {
    let (_dir, sweep) = sweep_of(5);
    let model = Model::build(&sweep);
    assert!(model.verdict.valid && !model.verdict.worse);
    assert_eq!(model.axes, ["variant", "rate"]);
    let olaf_40 = &model.rows[3];
    let paper = olaf_40.cells[0].paper.as_ref().unwrap();
    assert_eq!((paper.value, paper.difference, paper.inside), (1000.0, Some(-920.0), Some(false)));
    let inside = |row: usize| model.rows[row].cells[1].paper.as_ref().unwrap().inside;
    assert_eq!((inside(3), inside(0), inside(2)), (Some(true), Some(true), Some(false)));
    // The row at rate 20 applies to both variants: FIFO agrees, Olaf does not.
    let all = model.disagreements.join("\n");
    for part in [
        "Table 9: received at rate=40, variant=olaf: paper 1000, ours 80",
        "Figure 9: loss at rate=20, variant=olaf: paper 50.0 %, ours 0.0 % [0.0, 0.0], −50.0 pp",
        "no_such_metric at rate=40, variant=olaf is published, but our runs have no such value",
        "Text: no run is at rate=99",
    ] {
        assert!(all.contains(part), "{part} is not in\n{all}");
    }
    assert_eq!(model.disagreements.len(), 4, "{all}");
    // At rate 40, received differs and loss agrees; at rate 20, FIFO agrees and Olaf does not.
    assert!(model.verdict.lines.iter().any(|line| line.contains("2 of 4 published values")), "{:?}", model.verdict);
    assert!(model.verdict.lines.iter().any(|line| line.contains("; better at all 2 points.")));
}

#[test]
fn of_few_seeds_no_report_claims_anything() {
    for seeds in 1..5 {
        let (_dir, sweep) = sweep_of(seeds);
        let model = Model::build(&sweep);
        assert!(
            !model.verdict.worse && model.outside == 0 && model.disagreements.len() == 2,
            "{:?}",
            model.disagreements
        );
        let few = pktgen_records::stats::too_few(seeds as usize);
        let all = model.verdict.lines.join("\n");
        assert!(all.contains(&format!("(medians); {few}.")) && all.contains(&format!("beside ours; {few}.")), "{all}");
        for report in REPORTS {
            let text = report.render(&model).unwrap().replace("&nbsp;", " ");
            for claim in ["better at", "worse at", "outside.", "95 % interval", "paper off", "undecided"] {
                assert!(!text.contains(claim), "{} of {seeds} seeds: {claim}", report.name());
            }
            assert!(text.contains(&few), "{}", report.name());
        }
        let chart = model.charts.iter().find(|chart| chart.picture == "paper").unwrap();
        assert!(chart.series.iter().all(|series| series.spans.is_empty()), "{}", chart.title);
    }
}

#[test]
fn runs_without_chance_are_compared_exactly() {
    let (dir, _) = sweep_of(1);
    for run in crate::run_dirs(dir.path(), false).unwrap() {
        let path = run.dir.join("manifest.json");
        let mut manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        manifest["uses_chance"] = false.into();
        std::fs::write(&path, manifest.to_string()).unwrap();
    }
    let sweep = SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
    let model = Model::build(&sweep);
    let all = model.verdict.lines.join("\n");
    assert!(all.contains("(exact); better at all 2 points.") && all.contains("2 of 4 published values"), "{all}");
    assert!(model.disagreements.iter().any(|line| line.contains("ours 80 (exact), −920")), "{:?}", model.disagreements);
    assert!(model.legend.starts_with("Exact; published values below ours. Exact: no random"), "{}", model.legend);
}

#[test]
fn every_report_says_verdict_validity_values_and_sources() {
    let (_dir, mut sweep) = sweep_of(2);
    sweep.runs[0].validity = invalid("its balance misses <3> updates");
    let model = Model::build(&sweep);
    assert!(!model.verdict.valid);
    assert_eq!(model.invalid.len(), 1);
    for report in REPORTS {
        let text = report.render(&model).unwrap();
        for part in [
            "INVALID: 1 of 8",
            "its balance misses",
            "Table 9",
            "burst of 125 packets",
            "a note",
            "aom\u{5c}_mean/cluster",
        ] {
            let plain = part.replace('\u{5c}', "");
            assert!(text.contains(part) || text.contains(&plain), "{}: {part}", report.name());
        }
        let (verdict, values) = (text.find("INVALID").unwrap(), text.find("Table 9").unwrap());
        assert!(verdict < values, "{}: the verdict comes first", report.name());
    }
}

#[test]
fn the_page_fetches_nothing_and_escapes() {
    let (_dir, sweep) = sweep_of(2);
    let html = REPORTS.iter().find(|report| report.name() == "html").unwrap();
    let model = Model::build(&sweep);
    let page = html.render(&model).unwrap();
    if let Some(path) = option_env!("PKTGEN_KEEP_REPORT") {
        std::fs::write(path, &page).unwrap();
    }
    let without_namespace = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for scheme in ["http://", "https://", "url(", "@import", "src=", "fetch(", "import(", "XMLHttpRequest", "eval("] {
        assert!(!without_namespace.contains(scheme), "{scheme}");
    }
    assert!(page.matches("href=").count() == page.matches("href=\"#").count(), "only places in the page");
    assert!(page.contains("FIFO &lt;against&gt; Olaf") && !page.contains("<against>"));
    let count = |picture: &str| model.charts.iter().filter(|chart| chart.picture == picture).count();
    // Two rates, with a second cluster for the first; only Olaf aggregates.
    assert_eq!((count("sawtooth"), count("aggregation"), count("clusters"), count("age_cdf")), (3, 1, 2, 4));
    assert_eq!((count("heat"), count("loss"), count("latency"), count("paper")), (2, 1, 2, 2));
    assert_eq!(page.matches("<figure").count(), model.charts.len());
    // One line per variant, also in the chart of the answer, or per rate where Olaf aggregates.
    assert_eq!(page.matches("<polyline").count(), 2 + 3 * 2 + 2 + 4 * 2 + 2 * 2);
    assert_eq!(page.matches("<figure data-zoom=").count(), 3 + 4 + 2);
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    assert!(place("id=\"summary\"") < place("id=\"paper\"") && place("id=\"paper\"") < place("id=\"plots\""));
    assert!(place("id=\"plots\"") < place("id=\"results\""));
    assert!(page.contains("Updates per received packet (CDF), olaf") && !page.contains("(CDF), fifo"));
}

#[test]
fn markdown_tables_have_as_many_cells_in_every_row() {
    let (_dir, sweep) = sweep_of(2);
    let markdown = REPORTS.iter().find(|report| report.name() == "markdown").unwrap();
    let text = markdown.render(&Model::build(&sweep)).unwrap();
    assert!(text.starts_with("# small\\|sweep\n"));
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 2 + 4);
    assert!(rows.iter().all(|row| cells(row) == 2 + 1 + 4 + 1), "{text}");
}

#[test]
fn the_terminal_table_fits_and_shows_both() {
    let (_dir, mut sweep) = sweep_of(2);
    let table = summary_table(&Model::build(&sweep));
    assert!(table.contains("80 (paper 1000)") && table.contains("loss [%]"), "{table}");
    let starts: Vec<_> = table.lines().map(|line| line.split("  ").find(|part| !part.is_empty()).unwrap()).collect();
    assert_eq!(starts, ["rate", "fifo", "20", "40", "olaf", "20", "40"], "{table}");
    assert!(table.contains("AoM cut, cluster [%]"), "{table}");
    // Many columns are put below each other; nothing is lost or too wide.
    sweep.manifest.report.metrics = sweep.units.keys().cloned().collect();
    let wide = summary_table(&Model::build(&sweep));
    assert!(wide.lines().all(|line| line.chars().count() <= WIDTH), "{wide}");
    for key in sweep.units.keys() {
        let title = pktgen_records::human::title(key);
        assert!(wide.contains(&title), "{title} is not in\n{wide}");
    }
}

#[test]
fn the_terminal_says_the_verdict_first_and_where_to_read_on() {
    let (_dir, mut sweep) = sweep_of(5);
    let text = summary(&Model::build(&sweep), "out/report.html");
    assert!(text.starts_with("Valid: all 20 runs"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    let (verdict, table) = (text.find("olaf against fifo").unwrap(), text.find("AoM cut, cluster").unwrap());
    assert!(verdict < table, "{text}");
    let last = "2 published values lie outside our intervals; 2 could not be compared: see out/report.html\n";
    assert!(text.ends_with(last), "{text}");
    sweep.runs[3].validity = invalid("its balance misses 3 updates");
    let text = summary(&Model::build(&sweep), "out/report.html");
    assert!(text.starts_with("INVALID: 1 of 20") && text.contains("balance misses 3 updates"), "{text}");
}

#[test]
fn axes_with_the_same_last_part_keep_their_names() {
    let (_dir, mut sweep) = sweep_of(1);
    for point in &mut sweep.points {
        point.labels.insert("schedule.period".into(), "1us".into());
        point.labels.insert("background.period".into(), "a long value of 2us".into());
    }
    let table = summary_table(&Model::build(&sweep));
    assert!(table.starts_with("  rate  background.period    schedule.period "), "{table}");
    assert!(table.contains("\n  20    a long value of 2us  1us "), "{table}");
    for point in &mut sweep.points {
        point.labels.retain(|axis, _| axis == "variant");
    }
    let table = summary_table(&Model::build(&sweep));
    assert!(table.starts_with("variant ") && table.contains("\nfifo "), "{table}");
    // Line ends and control characters of a name do not break its row.
    for point in &mut sweep.points {
        point.labels.insert("variant".into(), "a\n\u{7}b".into());
    }
    let table = summary_table(&Model::build(&sweep));
    assert!(table.contains("\na\\n\\u0007b "), "{table}");
}

#[test]
fn names_that_nothing_has_are_warned_about() {
    let (_dir, mut sweep) = sweep_of(1);
    let all = |sweep: &SweepData| Model::build(sweep).warnings.join("\n");
    let before = all(&sweep);
    assert!(before.starts_with("paper.rows of \"Table 9\": there is no metric \"no_such_metric\""), "{before}");
    assert_eq!(before.lines().count(), 1);
    let plan = &mut sweep.manifest.report;
    // The second has no value here, but is a valid key.
    plan.metrics = vec!["aom_mean/clutser".into(), "dropped/reward_low".into(), "received_ratio".into()];
    plan.baseline = Some("fifi".into());
    let after = all(&sweep);
    for part in [
        "report.metrics: there is no metric \"aom_mean/clutser\", did you mean \"aom_mean/cluster\"?",
        "report.baseline: no variant is called \"fifi\", did you mean \"fifo\"?; there are: fifo, olaf",
    ] {
        assert!(after.contains(part), "{part} is not in\n{after}");
    }
    assert_eq!(after.lines().count(), 3, "{after}");
    for report in REPORTS {
        let text = report.render(&Model::build(&sweep)).unwrap();
        assert!(text.contains("clutser") && text.contains("fifi"), "{}", report.name());
    }
    sweep.points.iter_mut().for_each(|point| drop(point.labels.remove("variant")));
    assert!(all(&sweep).contains("the sweep has no variants"));
}

#[test]
fn runs_of_a_point_with_different_configurations_have_a_caution() {
    let (_dir, mut sweep) = sweep_of(2);
    let config =
        |seed: u64, slots: u64| without_seed(&format!("name = \"a\"\nseed = {seed}\n\n[target]\nslots = {slots}\n"));
    sweep.runs.iter_mut().for_each(|run| run.config = config(run.seed, 8));
    let cautions = |sweep: &SweepData| -> Vec<String> {
        let lines = Model::build(sweep).verdict.lines;
        lines.into_iter().filter(|line| line.starts_with("Caution")).collect()
    };
    assert_eq!(cautions(&sweep), Vec::<String>::new());
    sweep.runs[1].config = config(2, 9);
    let found = cautions(&sweep);
    let wanted = "the runs at rate=20, variant=fifo have different configurations (target.slots: 8, 9)";
    assert!(found.len() == 1 && found[0].contains(wanted), "{found:?}");
    assert!(crate::cautions(&sweep).contains(&found[0]), "comparisons show it, too");
    // Of several points the first one is shown, and the others are counted.
    sweep.runs[3].config = config(2, 9);
    let found = cautions(&sweep);
    let wanted = "at rate=20, variant=fifo have different configurations (target.slots: 8, 9), as at 1 more point, so";
    assert!(found.len() == 1 && found[0].contains(wanted), "{found:?}");
    sweep.runs[5].config = config(2, 7);
    assert!(cautions(&sweep)[0].contains("(target.slots: 8, 9), as at 2 more points, so"), "{:?}", cautions(&sweep));
}

#[test]
fn how_ages_were_counted_is_noted_if_not_as_usual() {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 1);
    let options = Options { age_of: AgeOf::Oldest, ..Options::default() };
    let sweep = SweepData::open_with(dir.path(), options, &mut |_, _| {}).unwrap();
    assert!(Model::build(&sweep).notes.iter().any(|note| note.contains("--age oldest")));
    assert_eq!(Model::build(&open(dir.path())).notes, ["a note"]);
}

#[test]
fn a_sweep_names_its_run_dirs() {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 1);
    let dirs = run_dirs(dir.path(), false).unwrap();
    assert_eq!((dirs.len(), &dirs[0].dir), (4, &dir.path().join("fifo-20-1")));
    assert_eq!(run_dirs(&dirs[0].dir, false).unwrap()[0].dir, dirs[0].dir);
    let path = dir.path().join("sweep.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"version\":2", "\"version\":99")).unwrap();
    assert!(run_dirs(dir.path(), false).unwrap_err().to_string().contains("version 99 is newer"));
}

#[test]
fn runs_without_full_records_say_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let story = small_run(true, 1_000_000);
    let mut manifest = story.manifest();
    manifest.records = "none".into();
    story.write_with(dir.path(), &manifest);
    let model = Model::build(&open(dir.path()));
    assert!(model.verdict.valid);
    assert!(model.remarks[0].reasons[0].contains("capture.records = \"full\""), "{:?}", model.remarks);
}

#[test]
fn a_run_dir_is_a_sweep_of_one() {
    let dir = tempfile::tempdir().unwrap();
    small_run(true, 1_000_000).write(dir.path());
    let sweep = open(dir.path());
    assert_eq!((sweep.runs.len(), sweep.points.len()), (1, 1));
    let model = Model::build(&sweep);
    assert_eq!(model.title, "story");
    assert!(
        summary_table(&model).starts_with(' ') && summary_table(&model).contains("run"),
        "{}",
        summary_table(&model)
    );
    for report in REPORTS {
        assert!(!report.render(&model).unwrap().is_empty());
    }
}

#[test]
fn a_damaged_run_is_listed_and_does_not_spoil_the_others() {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 2);
    std::fs::remove_file(dir.path().join("olaf-40-2/received.parquet")).unwrap();
    let sweep = open(dir.path());
    let model = Model::build(&sweep);
    assert!(!model.verdict.valid);
    assert_eq!(model.invalid.len(), 1);
    assert!(model.invalid[0].run.contains("olaf-40-2") && model.invalid[0].reasons[0].contains("received.parquet"));
    assert_eq!(sweep.points[3].cells["received"].n, 1);
    // Charts of the first seed do not need it.
    assert!(sweep.runs.iter().all(|run| !run.undrawn));
}

#[test]
fn charts_of_the_first_seed_say_which_runs_they_lack() {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 2);
    std::fs::remove_file(dir.path().join("olaf-20-1/received.parquet")).unwrap();
    let charts = Model::build(&open(dir.path())).charts;
    let said = "1 run without readable records is not drawn: olaf, rate 20, seed 1.";
    for picture in ["sawtooth", "age_cdf", "latency"] {
        let mut own = charts.iter().filter(|chart| chart.picture == picture);
        assert!(own.any(|chart| chart.note.ends_with(said)), "{picture}");
    }
    let sawtooth = charts.iter().find(|chart| chart.picture == "sawtooth").unwrap();
    assert!(!sawtooth.title.contains("more variant"), "{}", sawtooth.title);
}

/// A picture of the first seed without any of its runs has no chart, and so no note of its own.
#[test]
fn pictures_without_charts_since_the_first_seed_cannot_be_read_are_named_once() {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 2);
    let damage = |run: &str| std::fs::remove_file(dir.path().join(run).join("received.parquet")).unwrap();
    let heat = |model: &Model| -> Vec<String> {
        let own = model.charts.iter().filter(|chart| chart.picture == "heat");
        own.map(|chart| chart.note.clone()).collect()
    };
    let model = Model::build(&open(dir.path()));
    assert!(heat(&model).len() == 2 && heat(&model).iter().all(|note| !note.contains("over time")));
    // Of one setting: the sawteeth of the other one name its runs, and the map over time is of the first.
    ["fifo-20-1", "olaf-20-1"].into_iter().for_each(damage);
    let model = Model::build(&open(dir.path()));
    let over_time = "No map over time is drawn: the runs of the first setting and seed have no readable records.";
    assert_eq!((heat(&model), &model.notes[..]), (vec![over_time.to_owned()], &["a note".to_owned()][..]));
    ["fifo-40-1", "olaf-40-1"].into_iter().for_each(damage);
    let mut sweep = open(dir.path());
    let model = Model::build(&sweep);
    let runs = "4 runs without readable records are not drawn: fifo, rate 20, seed 1; fifo, rate 40, seed 1; olaf, rate 20, seed 1; 1 more.";
    let pictures = "Pictures without charts for this reason: Age-of-Model over time; How ages are spread; Latency.";
    assert_eq!(model.notes, ["a note".to_owned(), format!("{runs} {pictures}")]);
    for report in REPORTS {
        assert_eq!(report.render(&model).unwrap().matches(pictures).count(), 1, "{}", report.name());
    }
    // Networks and lateness, where other seeds have them.
    sweep.runs[1].has_network = true;
    sweep.units.insert("late_by_host".to_owned(), "share".to_owned());
    let said = Model::build(&sweep).notes.remove(1);
    assert!(said.ends_with("spread; Latency; Lateness; Network and link loads."), "{said}");
}

/// No other note needs them.
#[test]
fn networks_are_looked_up_if_the_first_seed_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 2);
    let path = dir.path().join("fifo-40-2/manifest.json");
    let mut manifest: Manifest = read_json(&path, "a run dir").unwrap();
    manifest.config = "[topology]\nkind = \"bottleneck\"\nrate = \"1Gbps\"\n".to_owned();
    let workers = Population { cluster_of: manifest.clusters.clone(), moves: Vec::new() };
    let topology = topology::open(&mut Document::parse(&manifest.config, "test").unwrap(), &workers).unwrap();
    manifest.nodes = topology.nodes.iter().map(|node| node.name.clone()).collect();
    std::fs::write(&path, seal(&serde_json::to_string(&manifest).unwrap())).unwrap();
    let known = |sweep: &SweepData| -> Vec<String> {
        sweep.runs.iter().filter(|run| run.has_network).map(|run| run.dir.clone()).collect()
    };
    assert_eq!(known(&open(dir.path())), [""; 0]);
    for run in ["fifo-20-1", "olaf-20-1"] {
        std::fs::remove_file(dir.path().join(run).join("received.parquet")).unwrap();
    }
    assert_eq!(known(&open(dir.path())), ["fifo-40-2"]);
}

#[test]
fn records_that_contradict_the_counters_make_a_run_invalid() {
    let dir = tempfile::tempdir().unwrap();
    let story = small_run(false, 1_000_000);
    let mut manifest = story.manifest();
    manifest.balance.delivered_alone += 3;
    story.write_with(dir.path(), &manifest);
    let sweep = open(dir.path());
    assert!(!sweep.runs[0].validity.is_valid());
    assert!(sweep.runs[0].validity.why().contains("3 updates (balance_unknown)"), "{:?}", sweep.runs[0].validity);
}

#[test]
fn runs_of_which_the_same_is_said_share_a_note() {
    let (_dir, mut sweep) = sweep_of(2);
    for run in &mut sweep.runs[..5] {
        run.validity.notes = vec![Note::Told { said: "the queue was bound late".into() }];
    }
    sweep.runs[7].validity = invalid("");
    let model = Model::build(&sweep);
    assert_eq!((model.remarks.len(), model.invalid.len()), (1, 1));
    assert!(model.remarks[0].run.contains("fifo-20-1") && model.remarks[0].run.ends_with("and 4 more"));
    assert!(model.invalid[0].run.starts_with("olaf-40-2") && !model.invalid[0].reasons.is_empty());
}

#[test]
fn a_variant_that_is_worse_than_the_baseline_is_called_so() {
    let dir = tempfile::tempdir().unwrap();
    write_sweep(dir.path(), 5);
    let path = dir.path().join("sweep.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"baseline\":\"fifo\"", "\"baseline\":\"olaf\"")).unwrap();
    let model = Model::build(&open(dir.path()));
    assert!(model.verdict.worse && model.verdict.valid);
    assert!(
        model.verdict.lines.iter().any(|line| line.starts_with("fifo against olaf") && line.contains("worse at all 2"))
    );
    std::fs::write(&path, text.replace("\"baseline\":\"fifo\"", "\"baseline\":\"nobody\"")).unwrap();
    let model = Model::build(&open(dir.path()));
    assert!(!model.verdict.worse);
    assert!(model.verdict.lines.iter().any(|line| line.contains("no run could be paired")));
}

/// Ages on hosts whose clocks are apart differ only if they do so by more than that.
#[test]
fn what_clocks_that_are_apart_may_change_decides_nothing() {
    let (_dir, sweep) = sweep_of(5);
    let told = |ns: u64| {
        let mut sweep = sweep.clone();
        sweep.runs.iter_mut().for_each(|run| run.validity.notes.push(Note::ClocksWithin { ns }));
        baseline::compare(&mut sweep.runs, &mut sweep.units, "fifo", &mut Common::default());
        sweep.points = points(&sweep.runs);
        let against = Model::build(&sweep).verdict.lines.join("\n");
        let (cell, point) = (sweep.points[2].cells["aom_cut/cluster"], &sweep.points[2]);
        assert_eq!(sweep.of_valid(point, "aom_cut/cluster"), Some(cell));
        sweep.manifest.report.baseline = None;
        sweep.manifest.report.metrics = vec!["aom_mean/cluster".to_owned()];
        let lead = Lead::of(&sweep);
        (against, cell.interval.unwrap(), lead.answers[0].told.clone())
    };
    let (near, far) = (told(10), told(8_000));
    assert!(near.0.contains("; better at all 2 points.") && far.0.contains("; undecided at all 2 points."), "{far:?}");
    assert!(far.1.lo < 0.0 && 0.0 < near.1.lo && near.1.hi < far.1.hi, "{near:?} {far:?}");
    assert_eq!(near.2, "lowest at all 2 points");
    assert_eq!(far.2, "not told apart: the clocks of workers and server may be apart by 8.000 us");
}

#[test]
fn bad_sweeps_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let fails = |text: Option<&str>| {
        match text {
            Some(text) => std::fs::write(dir.path().join("sweep.json"), text).unwrap(),
            None => drop(std::fs::remove_file(dir.path().join("sweep.json"))),
        }
        SweepData::open(dir.path(), &mut |_, _| {}).unwrap_err().to_string()
    };
    assert!(fails(None).contains("neither sweep.json nor manifest.json, and no folder in it has"));
    assert!(fails(Some("{")).contains("not JSON"));
    assert!(fails(Some("{\"version\":1}")).contains("does not describe a sweep"));
    let text = r#"{"version":1,"experiment":"","about":"","axes":[],"runs":[],"report":{"metrics":[],"baseline":null,"fitted":[],"notes":[]},"paper":[]}"#;
    assert!(fails(Some(text)).contains("lists no runs"));
    assert!(fails(Some(&text.replace("\"version\":1", "\"version\":99"))).contains("version 99 is newer than 2"));
    let run = |digest: &str| format!("\"runs\":[{{\"dir\":\"gone\",\"labels\":{{}},\"seed\":1{digest}}}]");
    let gone = text.replace("\"runs\":[]", &run(""));
    assert!(fails(Some(&gone)).contains("gone: the run never began"), "{}", fails(Some(&gone)));
    // A sweep that has ended lists the digests of the manifests.
    let ended = text.replace("\"runs\":[]", &run(",\"manifest\":\"sha256:00\""));
    let ended = pktgen_core::record::digest::seal(&ended);
    let what = "gone/manifest.json: it is missing, and sweep.json lists it; restore it, or run the experiment again into another \
                folder (a sweep begun with --shard: with the same --shard";
    assert!(fails(Some(&ended)).contains(what), "{}", fails(Some(&ended)));
}

/// Runs of a script that loops over settings are one sweep, with an axis for the settings that differ.
#[test]
fn runs_in_the_folders_of_a_folder_are_a_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, seed: u64, overrides: &[&str]| {
        small_run(true, 1_000).write(&folder.path().join(name));
        let path = folder.path().join(name).join("manifest.json");
        let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        manifest["seed"] = seed.into();
        manifest["overrides"] = overrides.into();
        std::fs::write(&path, manifest.to_string()).unwrap();
    };
    run("a", 1, &["target.slots=4", "x=1", "sweep.seeds=1"]);
    run("b", 2, &["target.slots=4", "x=1", "sweep.seeds=2"]);
    run("c", 1, &["x=1"]);
    std::fs::create_dir(folder.path().join("notes")).unwrap();
    let sweep = open(folder.path());
    assert_eq!(sweep.manifest.axes, [("target.slots".to_owned(), vec!["4".to_owned(), "as written".to_owned()])]);
    assert_eq!(sweep.manifest.overrides, ["x=1"]);
    assert_eq!(sweep.points.iter().map(|point| point.runs.len()).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(run_dirs(folder.path(), false).unwrap().len(), 3);
    run("d", 1, &["x=1"]);
    let refused = |what: &str| {
        let why = SweepData::open(folder.path(), &mut |_, _| {}).unwrap_err().to_string();
        assert!(why.contains(what), "{why}");
    };
    refused("c and d are the same point with the same seed, 1");
    let path = folder.path().join("d/manifest.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    manifest["experiment"] = "another".into();
    std::fs::write(&path, manifest.to_string()).unwrap();
    refused("several experiments: a is of");
}

/// A sweep over a key, and one in which the key is overridden, are points of one axis.
#[test]
fn an_axis_keeps_its_values_beside_runs_that_override_it() {
    let folder = tempfile::tempdir().unwrap();
    let sweep_of = |name: &str, rates: &[&str], overrides: &[&str]| {
        let mut runs = Vec::new();
        for rate in rates {
            let labels: Labels = [("topology.rate".to_owned(), (*rate).to_owned())].into();
            small_run(true, 1_000).write_labelled(&folder.path().join(name).join(rate), &labels, 1);
            runs.push(serde_json::json!({ "dir": rate, "labels": labels, "seed": 1 }));
        }
        let sweep = serde_json::json!({
            "version": 2, "experiment": "story", "about": "", "overrides": overrides, "axes": [["topology.rate", rates]], "runs": runs,
            "report": { "metrics": ["received"], "baseline": null, "fitted": [], "notes": [] }, "paper": [],
        });
        std::fs::write(folder.path().join(name).join("sweep.json"), sweep.to_string()).unwrap();
    };
    sweep_of("one", &["40Gbps", "20Gbps"], &[]);
    sweep_of("two", &["10Gbps"], &["topology.rate=10Gbps"]);
    let sweep = open(folder.path());
    let rates = ["40Gbps", "20Gbps", "10Gbps"].map(str::to_owned).to_vec();
    assert_eq!(sweep.manifest.axes, [("topology.rate".to_owned(), rates)]);
    assert_eq!(sweep.points.len(), 3);
    // So are those of a sweep whose axis was set, and those of runs in which the key is that of the file.
    sweep_of("three", &["5Gbps"], &["sweep.axes.topology.rate=[\"5Gbps\"]"]);
    small_run(true, 1_000).write(&folder.path().join("zero"));
    let sweep = open(folder.path());
    let rates = ["40Gbps", "20Gbps", "5Gbps", "10Gbps", "as written"].map(str::to_owned).to_vec();
    assert_eq!(sweep.manifest.axes, [("topology.rate".to_owned(), rates)]);
    assert_eq!(sweep.points.len(), 5);
    std::fs::remove_dir_all(folder.path().join("zero")).unwrap();
    // One point has one spelling.
    sweep_of("three", &["20000Mbps"], &["sweep.axes.topology.rate=[\"20000Mbps\"]"]);
    let why = SweepData::open(folder.path(), &mut |_, _| {}).unwrap_err().to_string();
    assert!(why.contains("one/20Gbps and three/20000Mbps are the same point with the same seed, 1"), "{why}");
}

#[test]
fn runs_of_a_sweep_are_below_it() {
    let folder = tempfile::tempdir().unwrap();
    let (sweep, away) = (folder.path().join("sweep"), folder.path().join("away"));
    small_run(true, 1_000).write(&sweep.join("inside"));
    small_run(true, 1_000).write(&away);
    std::os::unix::fs::symlink(&away, sweep.join("link")).unwrap();
    let own = |run: &str| below(&sweep, &SweepRun { dir: run.into(), labels: Labels::new(), seed: 1, manifest: None });
    assert_eq!(own(".").unwrap().dir, sweep);
    assert_eq!(own("").unwrap().dir, sweep);
    assert_eq!(own("inside").unwrap().dir, sweep.join("inside"));
    let absolute = away.display().to_string();
    for run in ["..", "../away", "inside/../../away", &absolute, "link"] {
        let error = own(run).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(
            error.to_string().contains("leads out of the sweep's; the runs of a sweep are in its folder"),
            "{error}"
        );
    }
}

fn invalid(why: &str) -> Validity {
    Validity { faults: vec![Fault::Told { said: why.into() }], notes: Vec::new() }
}
