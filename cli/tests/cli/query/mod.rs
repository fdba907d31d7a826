//! `pktgen query`: the twenty questions of docs/query.md against loops over the decoded files, forms, refusals, and damage.
//!
//! `UPDATE_DOCS=1 cargo test --release --workspace --test cli query::` rewrites the questions' answers and the tables of docs/query.md.

mod answers;
mod metrics;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{pktgen, root, text};

/// The runs that the questions are about, as docs/query.md makes them.
const MAKING: [&str; 2] = [
    "replay configs/olaf/table2.toml --set sweep.seeds=1..2 --set workload.updates=20 --set capture.states=true --no-report --out olaf",
    "replay configs/trio/figure12.toml --set sweep.seeds=1 --set workload.iterations=3 --set workload.scale=0.001 \
     --set capture.records=full --set sweep.axes.workload.model=[\"resnet50\"] --no-report --out trio",
];

/// Returns a folder with the runs.
fn made() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::os::unix::fs::symlink(root().join("configs"), folder.path().join("configs")).expect("a link");
    for command in MAKING {
        let words: Vec<&str> = ["-q"].into_iter().chain(command.split_whitespace()).collect();
        let output = pktgen(folder.path(), &words);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    folder
}

struct Question {
    title: String,
    of: String,
    sql: String,
}

fn questions() -> Vec<Question> {
    let all = fs::read_to_string(root().join("analysis/query/questions.sql")).expect("questions");
    let parse = |block: &str| {
        let mut lines = block.lines();
        let mut head = || lines.next().and_then(|line| line.strip_prefix("-- ")).expect("a comment").to_owned();
        let (title, of) = (head(), head());
        Question { title, of, sql: lines.collect::<Vec<_>>().join("\n") }
    };
    all.trim_end().split("\n\n").map(parse).collect()
}

fn asked(folder: &Path, words: &[&str]) -> Output {
    pktgen(folder, &[&["-q", "query"], words].concat())
}

fn answered(folder: &Path, words: &[&str]) -> String {
    let output = asked(folder, words);
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn refused(folder: &Path, words: &[&str], code: i32) -> String {
    let output = asked(folder, words);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
    said
}

/// Returns the values of the rows of JSON lines, in column order.
fn rows(lines: &str) -> Vec<Vec<Value>> {
    let row = |line: &str| match serde_json::from_str(line).unwrap_or_else(|fault| panic!("{line}: {fault}")) {
        Value::Object(cells) => {
            let mut cells: Vec<_> = cells.into_iter().collect();
            cells.sort_by_key(|(name, _)| line.find(&format!("\"{name}\":")));
            cells.into_iter().map(|(_, cell)| cell).collect()
        }
        other => panic!("{other} is no row"),
    };
    lines.lines().map(row).collect()
}

/// Returns whether the values are equal, floats except for their last few bits.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours.as_f64(), theirs.as_f64()) {
        (Some(a), Some(b)) if ours.is_f64() || theirs.is_f64() => (a - b).abs() <= 1e-12 * a.abs().max(b.abs()),
        _ => ours == theirs,
    }
}

/// Returns `text` with the part between `<!-- NAME -->` and `<!-- end -->` replaced.
fn replaced(text: &str, name: &str, by: &str) -> String {
    let mark = format!("<!-- {name} -->\n");
    let (before, rest) = text.split_once(&mark).expect("the mark");
    let (_, after) = rest.split_once("<!-- end -->").expect("its end");
    format!("{before}{mark}\n{}\n\n<!-- end -->{after}", by.trim())
}

#[test]
fn twenty_questions_have_the_answers_that_loops_find() {
    let folder = made();
    let questions = questions();
    let mut page = String::new();
    for (at, question) in questions.iter().enumerate() {
        let Question { title, of, sql } = question;
        let got = rows(&answered(folder.path(), &[of, sql, "--json"]));
        let expected = answers::ANSWERS[at](&folder.path().join(of));
        assert!(!expected.is_empty(), "{title} has an answer");
        let equal = got.len() == expected.len()
            && got.iter().zip(&expected).all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)));
        assert!(equal, "{}. {title}\n{sql}\n{got:?}\nand by loops\n{expected:?}", at + 1);
        let shown = answered(folder.path(), &[of, sql]);
        let shown: Vec<&str> = shown.lines().collect();
        let (head, rest) = shown.split_at(shown.len().min(8));
        let more = if rest.is_empty() { String::new() } else { format!("\n… {} more rows", rest.len()) };
        page += &format!(
            "### {}. {title}\n\nOf `{of}`:\n\n```sql\n{sql}\n```\n\n```text\n{}{more}\n```\n\n",
            at + 1,
            head.join("\n")
        );
    }
    assert_eq!((questions.len(), answers::ANSWERS.len()), (20, 20));
    let path = root().join("docs/query.md");
    let old = fs::read_to_string(&path).expect("docs/query.md");
    let parts = [
        ("questions", page),
        ("tables", pktgen_query::tables::markdown()),
        ("metrics", pktgen_query::metrics::markdown()),
    ];
    let fresh = parts.iter().fold(old.clone(), |page, (name, part)| replaced(&page, name, part));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &fresh).expect("writable");
    } else {
        assert!(old == fresh, "docs/query.md is old; run with UPDATE_DOCS=1 and review the difference");
    }
    for command in MAKING {
        let words = command.replace("'", "");
        let missing = words.split_whitespace().find(|word| !old.contains(word));
        assert_eq!(missing, None, "docs/query.md says how the runs are made");
    }
    forms(folder.path());
    statements_and_their_limits(folder.path());
    damage_is_found(folder.path());
}

const RUN: &str = "olaf/Olaf_TC,seed=1";

fn forms(folder: &Path) {
    let lines = answered(
        folder,
        &[RUN, "SELECT packet, reward, heat FROM sent ORDER BY packet DESC LIMIT 1", "--format", "jsonl"],
    );
    assert_eq!(rows(&lines)[0].len(), 3);
    assert!(lines.contains("\"heat\":null") && lines.starts_with("{\"packet\":10"), "{lines}");
    let csv =
        answered(folder, &["olaf", "SELECT run, seed, variant FROM runs ORDER BY run LIMIT 1", "--format", "csv"]);
    assert_eq!(csv, "run,seed,variant\n\"FIFO,seed=1\",1,FIFO\n");
    for form in ["parquet", "arrow"] {
        let file = format!("answer.{}", if form == "arrow" { "arrows" } else { form });
        answered(folder, &[RUN, "SELECT worker, seq, reward FROM sent", "--format", form, "-o", &file]);
        let mut batches = pktgen_records::batches::Batches::open(&folder.join(&file)).expect("a table");
        let mut rows = 0;
        while let Some(batch) = batches.next_batch().expect("whole") {
            rows += batch.num_rows();
        }
        assert_eq!(rows, 2000, "{form}");
    }
    let sql = "SELECT COUNT(*) AS n FROM sent";
    for words in
        [&["--json", "query", RUN, sql, "--format", "csv"][..], &["query", RUN, sql, "--format", "csv", "--json"]]
    {
        let output = pktgen(folder, words);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{words:?}: {said}");
        assert!(said.contains("--format and --json: choose one"), "{words:?}: {said}");
    }
    // With a file, --format is its form, and notes are objects.
    let words = ["--json", "query", RUN, sql, "--format", "parquet", "-o", "noted.parquet", "--no-verify"];
    let output = pktgen(folder, &words);
    let said = text(&output.stderr);
    assert!(output.status.success() && output.stdout.is_empty(), "{said}");
    assert!(said.starts_with("{\"schema\":\"note/1\"") && said.contains("\"note\":\"not_verified\""), "{said}");
    assert!(pktgen_records::batches::Batches::open(&folder.join("noted.parquet")).is_ok());
    let plan = answered(folder, &[RUN, "SELECT seq FROM sent WHERE worker = 3", "--explain"]);
    assert!(
        plan.contains("SCAN sent") && plan.contains("PROJECT 2/14 COLUMNS") && plan.contains("SELECTION"),
        "{plan}"
    );
    let tables = answered(folder, &[RUN, "--tables", "--json"]);
    assert!(
        tables.lines().any(|line| line.contains("\"table\":\"fates\"") && line.contains("\"column\":\"aggregate\""))
    );
    // LIMIT applies before the outer selection, as written.
    let cut = "SELECT * FROM (SELECT seq FROM sent LIMIT 5) first WHERE seq > 15";
    assert_eq!(answered(folder, &[RUN, cut, "--json"]), "");
}

fn statements_and_their_limits(folder: &Path) {
    for (sql, says) in [
        (
            "SELECT wroker FROM sent",
            "SQL, line 1, column 8: there is no column \"wroker\" here, did you mean \"worker\"?",
        ),
        (
            "SELECT seq\nFROM sent WHERE workr = 1",
            "SQL, line 2, column 17: there is no column \"workr\" here, did you mean \"worker\"?",
        ),
        ("SELECT * FROM sended", "did you mean \"sent\"?"),
        (
            "SELECT medain(seq) FROM sent",
            "SQL, line 1, column 8: unsupported function 'medain', did you mean \"median\"?",
        ),
        (
            "SELECT a.seq, b.seq FROM sent a JOIN sent b ON a.packet = b.packet",
            "SQL, line 1, column 17: two columns of the answer have the name \"seq\": name them by AS (a.seq AS x, b.seq AS y)",
        ),
        (
            "SELECT a.seq AS x, b.seq AS y, COUNT(*) AS n FROM sent a JOIN sent b ON a.packet = b.packet GROUP BY a.seq, b.seq",
            "SQL, line 1, column 111: two columns of GROUP BY have the name \"seq\": name them by AS in the answer, and group by these names",
        ),
        (
            "SELECT seq AS x, worker AS x FROM sent",
            "SQL, line 1, column 28: two columns of the answer have the name \"x\"",
        ),
        ("SELECT * FROM results", "needs synchronous training"),
        ("SELECT 1; SELECT 2", "several statements"),
        ("DROP TABLE sent", "DROP is refused"),
        ("SELECT * FROM read_csv('/etc/passwd')", "is refused"),
        ("SELECT SUM(t_gen_ps * 1000000) FROM sent", "inexact"),
    ] {
        let said = refused(folder, &[RUN, sql], 2);
        assert!(said.contains(says) && !said.contains("alias("), "{sql}: {said}");
    }
    let grouped =
        "SELECT a.seq AS x, b.seq AS y, COUNT(*) AS n FROM sent a JOIN sent b ON a.packet = b.packet GROUP BY x, y";
    answered(folder, &[RUN, grouped]);
    // Chains of the maximum length of a statement.
    let (sums, ors) = ("1+".repeat(900), "seq = 1 OR ".repeat(450));
    answered(folder, &[RUN, &format!("SELECT MAX({sums}seq) AS m FROM sent")]);
    answered(folder, &[RUN, &format!("SELECT COUNT(*) AS n FROM sent WHERE {ors}seq = 2")]);
    let said = refused(
        folder,
        &[
            RUN,
            "SELECT a.seq FROM sent a JOIN sent b ON a.cluster = b.cluster JOIN sent c ON b.cluster = c.cluster",
            "--memory",
            "64MiB",
        ],
        2,
    );
    assert!(said.contains("--memory is 67 MB"), "{said}");
    let said = refused(folder, &[RUN, "SELECT COUNT(*) FROM sent", "--memory", "7bit"], 2);
    assert!(said.contains("--memory 7bit: not a whole number of bytes"), "{said}");
    answered(folder, &[RUN, "SELECT COUNT(*) FROM sent", "--memory", "1000000000bit"]);
}

fn damage_is_found(folder: &Path) {
    let file = folder.join(RUN).join("books.parquet");
    let whole = fs::read(&file).expect("readable");
    let sql = "SELECT COUNT(*) AS n FROM books WHERE action = 'dropped'";
    let mut changed = whole.clone();
    changed[100] ^= 1;
    fs::write(&file, &changed).expect("writable");
    assert!(refused(folder, &[RUN, sql], 1).contains("its content is not what was written"));
    // Streams that are not read are not verified.
    answered(folder, &[RUN, "SELECT COUNT(*) FROM sent"]);
    fs::write(&file, &whole[..whole.len() / 2]).expect("writable");
    assert!(refused(folder, &[RUN, sql, "--no-verify"], 2).contains("it is not a complete Parquet file"));
    fs::write(&file, &whole).expect("writable");
    fs::copy(folder.join(RUN).join("sent.parquet"), &file).expect("copied");
    assert!(refused(folder, &[RUN, sql, "--no-verify"], 2).contains("a column is missing"));
    fs::remove_file(&file).expect("removed");
    let missing = "books.parquet: it is missing, and the manifest lists it; restore it, or --no-verify";
    assert!(refused(folder, &[RUN, sql], 1).contains(missing));
    let missing = "it has no table `books`: books.parquet is missing, and the manifest lists it";
    assert!(refused(folder, &[RUN, sql, "--no-verify"], 2).contains(missing));
    // Without records the files are there, and empty.
    let words = ["-q", "replay", "olaf/table1", "--set", "workload.updates=20", "--set", "sweep.seeds=1", "--run"];
    let more = ["FIFO,rate=20Gbps,seed=1", "--set", "capture.records=none", "--no-report", "--out", "none"];
    assert!(pktgen(folder, &[&words[..], &more].concat()).status.success());
    let said = refused(folder, &["none", "SELECT COUNT(*) AS n FROM sent"], 2);
    assert!(said.contains("its capture.records is \"none\"") && !said.contains("restore"), "{said}");
    // A stream of another run; RUN is not synchronous.
    let other = folder.join(RUN).join("iterations.parquet");
    fs::write(&other, &whole).expect("writable");
    let sql_of_other = "SELECT COUNT(*) AS n FROM iterations";
    let said = refused(folder, &[RUN, sql_of_other], 1);
    assert!(said.contains("iterations.parquet: the manifest does not list it"), "{said}");
    answered(folder, &[RUN, "SELECT COUNT(*) FROM sent"]);
    fs::remove_file(&other).expect("removed");
    // Older manifests list no files.
    let manifest = folder.join(RUN).join("manifest.json");
    let listed = fs::read_to_string(&manifest).expect("readable");
    let mut bare: Value = serde_json::from_str(&listed).expect("JSON");
    bare.as_object_mut().expect("an object").remove("files");
    fs::write(&manifest, bare.to_string()).expect("writable");
    assert!(refused(folder, &[RUN, sql, "--no-verify"], 2).contains("capture.records = \"full\""));
    fs::write(&manifest, listed).expect("writable");
    fs::write(&file, &whole).expect("writable");
    let said = fs::read_to_string(&manifest).expect("readable");
    fs::write(&manifest, said.replace("\"valid\": true", "\"valid\": false")).expect("writable");
    let output = pktgen(folder, &["query", RUN, "SELECT COUNT(*) AS n FROM sent", "--no-verify", "--json"]);
    assert!(text(&output.stderr).contains("not_verified"), "{}", text(&output.stderr));
    fs::write(&manifest, said).expect("writable");
}

#[test]
fn captures_have_the_rows_of_their_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = root().join("configs/olaf/table2.toml").display().to_string();
    let set = ["sweep.seeds=1", "workload.updates=5", "capture.pcap=true"].map(|set| ["--set", set]).concat();
    let made = pktgen(folder.path(), &[&["-q", "replay", &config, "--no-report", "--out", "olaf"][..], &set].concat());
    assert!(made.status.success(), "{}", text(&made.stderr));
    let (run, capture) = ("olaf/Olaf,seed=1", "olaf/Olaf,seed=1/capture.pcapng");
    let sql =
        "SELECT cluster, COUNT(*) AS packets, SUM(count) AS updates FROM received GROUP BY cluster ORDER BY cluster";
    let own = answered(folder.path(), &[run, sql, "--json"]);
    assert_eq!(answered(folder.path(), &[capture, sql, "--json"]), own);
    for form in ["parquet", "arrow"] {
        let words = ["-q", "analyze", capture, "--tables", form, "--form", form];
        let tables = pktgen(folder.path(), &words);
        assert!(tables.status.success(), "{}", text(&tables.stderr));
        assert_eq!(answered(folder.path(), &[form, sql, "--json"]), own, "{form}");
        let formats =
            answered(folder.path(), &[form, "SELECT DISTINCT run, format, format_code FROM received", "--json"]);
        assert_eq!(formats, "{\"run\":\"capture\",\"format\":\"olaf\",\"format_code\":0}\n");
    }
    let before = fs::read(folder.path().join(capture)).expect("readable");
    fs::copy(folder.path().join(capture), folder.path().join("own.pcapng")).expect("copied");
    let said = refused(folder.path(), &["own.pcapng", sql, "-o", "own.pcapng"], 2);
    assert!(said.contains("own.pcapng: is an input, and would be lost"), "{said}");
    assert!(fs::read(folder.path().join("own.pcapng")).expect("readable") == before);
    assert!(refused(folder.path(), &["parquet", "SELECT * FROM sent"], 2).contains("the capture of that side"));
    assert!(
        refused(folder.path(), &[capture, "SELECT * FROM sent"], 2).contains(&format!("{capture}: it has no table"))
    );
    assert!(refused(folder.path(), &[capture, "SELECT * FROM books"], 2).contains("there is no table"));
}

#[test]
fn numbers_of_threads_outside_the_range_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = root().join("configs/olaf/table2.toml").display().to_string();
    let set = ["--set", "sweep.seeds=1", "--set", "workload.updates=5"];
    let made = pktgen(folder.path(), &[&["-q", "replay", &config, "--no-report", "--out", "olaf"][..], &set].concat());
    assert!(made.status.success(), "{}", text(&made.stderr));
    let queried = |threads: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
        command.args(["query", "olaf/Olaf,seed=1", "SELECT COUNT(*) FROM sent"]).current_dir(folder.path());
        let output = command.env("POLARS_MAX_THREADS", threads).output().expect("the binary runs");
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(queried("1").0, Some(0));
    for threads in ["0", "1025"] {
        let (code, said) = queried(threads);
        let start = format!("pktgen: POLARS_MAX_THREADS={threads}: a query needs");
        assert!(code == Some(2) && said.starts_with(&start), "{code:?}: {said}");
    }
}
