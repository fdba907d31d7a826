//! A folder that can be queried: its runs or captures, their tables, and the execution of statements over them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pktgen_capture::replay::is_tables;
use pktgen_capture::tables::TablesIndex;
use pktgen_core::record::digest::digests_of;
use pktgen_core::record::{
    BOOKS, Facts, ITERATIONS, Manifest, NAMES, RECEIVED, RESULTS, SENT, STATES, Verified, judge,
};
use pktgen_core::{Error, Result, quiet, record};
use pktgen_records::Note;
use pktgen_records::run::open_manifest;
use pktgen_report::run_dirs;
use pktgen_report::sweep::{in_parallel, read_sweep};
use polars::prelude::*;
use polars::sql::SQLContext;

use crate::exact::Functions;
use crate::grouped::in_batches;
use crate::memory::{Budget, LEAST, beside, size, watched};
use crate::nested;
use crate::output::QueryAnswer;
use crate::scan::{Fault, Scan};
use crate::source::{Part, Stream, check_streams};
use crate::statement::Statement;
use crate::tables::{QueryTable, of_captures, of_runs};

/// Options of queries.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Reads files without checking their digests.
    pub no_verify: bool,
    /// Maximum number of bytes that a query may hold in memory.
    pub memory: u64,
    /// Maximum growth of the process during a query: more than `memory` where other work runs beside it.
    pub process: u64,
}

struct Run {
    dir: PathBuf,
    name: String,
    labels: BTreeMap<String, String>,
    manifest: Manifest,
    text: String,
}

enum Content {
    Runs(Vec<Run>),
    /// Tables in `dir`, and the path that users know: the same, or a capture's.
    Capture {
        dir: PathBuf,
        known: PathBuf,
        index: Box<TablesIndex>,
    },
}

/// The tables in a folder.
pub struct Database {
    content: Content,
    tables: Vec<QueryTable>,
    options: Options,
    several: bool,
    unread: Vec<(PathBuf, Error)>,
}

impl Database {
    /// Opens a run dir, a sweep or a folder of tables of captures. Runs of a sweep that cannot be read are excluded and
    /// listed in [`unread`](Self::unread).
    pub fn open(path: &Path, options: Options) -> Result<Database> {
        check_memory(options)?;
        if is_tables(path) {
            return Database::of_capture(path, path, options);
        }
        let sweep = read_sweep(path, options.no_verify)?;
        // A single run has a sweep.json that names the folder itself.
        let several = sweep
            .as_ref()
            .is_some_and(|sweep| !matches!(sweep.runs.as_slice(), [one] if ["", "."].contains(&one.dir.as_str())));
        let planned = sweep.map(|sweep| sweep.runs).unwrap_or_default();
        let (mut runs, mut unread) = (Vec::new(), Vec::new());
        for (i, listed) in run_dirs(path, options.no_verify)?.into_iter().enumerate() {
            let opened = listed.check(options.no_verify).and_then(|()| open_manifest(&listed.dir));
            match opened {
                Ok((text, manifest)) => {
                    let mut labels = planned.get(i).map_or_else(|| manifest.labels.clone(), |run| run.labels.clone());
                    labels.remove("seed");
                    let name = match planned.get(i).map(|run| run.dir.as_str()) {
                        Some(name) if !["", "."].contains(&name) => name.to_owned(),
                        _ => name_of(&listed.dir),
                    };
                    runs.push(Run { dir: listed.dir, name, labels, manifest, text });
                }
                Err(error) => unread.push((listed.dir, error)),
            }
        }
        if runs.is_empty()
            && let Some((_, error)) = unread.pop()
        {
            return Err(error);
        }
        let mut axes: Vec<String> =
            runs.iter().flat_map(|run| run.labels.keys()).filter(|axis| *axis != "variant").cloned().collect();
        axes.sort_unstable();
        axes.dedup();
        let own = of_runs(&axes);
        let tables = if several { own.into_iter().map(QueryTable::of_sweep).collect() } else { own };
        Ok(Database { content: Content::Runs(runs), tables, options, several, unread })
    }

    /// Opens a folder of tables of captures; messages name it by `known`, the path of the capture if the folder is temporary.
    pub fn of_capture(dir: &Path, known: &Path, options: Options) -> Result<Database> {
        check_memory(options)?;
        let index = TablesIndex::read(dir)?;
        if !options.no_verify {
            index.verify(dir)?;
        }
        let content = Content::Capture { dir: dir.to_owned(), known: known.to_owned(), index: Box::new(index) };
        Ok(Database { content, tables: of_captures(), options, several: true, unread: Vec::new() })
    }

    /// Checks a statement over captures and its options before a capture is read.
    pub fn check_of_capture(sql: &str, options: Options) -> Result<()> {
        check_memory(options)?;
        Statement::parse(sql, &of_captures()).map(drop)
    }

    /// Returns its tables.
    pub fn tables(&self) -> &[QueryTable] {
        &self.tables
    }

    /// Returns the runs that cannot be read, with the errors.
    pub fn unread(&self) -> &[(PathBuf, Error)] {
        &self.unread
    }

    fn runs(&self) -> &[Run] {
        match &self.content {
            Content::Runs(runs) => runs,
            Content::Capture { .. } => &[],
        }
    }

    /// Returns notes for readers of answers, by run; whether a run is invalid is first.
    pub fn notes(&self) -> Vec<(PathBuf, Note)> {
        let of = |run: &Run| {
            let mut facts = Facts::of(&run.manifest);
            facts.incidents.notes.extend(self.verified(run).note());
            let validity = judge(&facts);
            let text = || format!("the run is invalid: {}", validity.why());
            let mut notes: Vec<Note> =
                (!validity.is_valid()).then(|| Note { note: "invalid", text: text() }).into_iter().collect();
            if run.manifest.records.starts_with("every:") {
                let text = format!(
                    "its tables of packets hold the recorded rows alone, since capture.records = \"{}\": what a query counts and \
                     sums is of these",
                    run.manifest.records
                );
                notes.push(Note { note: "records_not_full", text });
            }
            notes.extend(validity.notes.iter().map(|note| Note { note: note.code(), text: note.to_string() }));
            notes.into_iter().map(|note| (run.dir.clone(), note)).collect::<Vec<_>>()
        };
        let clocks = match &self.content {
            Content::Capture { known, index, .. } if !index.clocks.comparable() => {
                let text =
                    format!("times of senders and server do not count from one instant: {}", index.clocks.about());
                Some((known.clone(), Note { note: "clocks_not_comparable", text }))
            }
            Content::Capture { .. } | Content::Runs(_) => None,
        };
        self.runs().iter().flat_map(of).chain(clocks).collect()
    }

    fn verified(&self, run: &Run) -> Verified {
        match self.options.no_verify {
            true => Verified::Waived,
            false => digests_of(run.text.as_bytes(), &run.manifest.files),
        }
    }

    /// Executes `sql`.
    pub fn query(&self, sql: &str) -> Result<QueryAnswer> {
        self.execute(sql, false)
    }

    /// Returns the plan of `sql`, line by line.
    pub fn explain(&self, sql: &str) -> Result<QueryAnswer> {
        self.execute(sql, true)
    }

    /// Describes which table used by `sql` is missing, and why; `None` if all exist.
    pub(crate) fn lacking(&self, sql: &str) -> Result<Option<String>> {
        let statement = Statement::parse(sql, &self.tables)?;
        let named = self.tables.iter().filter(|table| statement.tables.contains(table.name));
        let mut lacking = named.flat_map(|table| self.runs().iter().filter_map(move |run| run.lacks(table)));
        Ok(lacking.next())
    }

    fn execute(&self, sql: &str, explains: bool) -> Result<QueryAnswer> {
        // Warnings about future versions of polars do not concern users. The setting is global to the process.
        polars_core::error::set_warning_function(|_, _| ());
        let statement = Statement::parse(sql, &self.tables)?;
        let explained = explains && !statement.explains;
        let budget = Arc::new(Budget::new(self.options.memory));
        let (fault, doing) = (Fault::default(), Arc::new(Mutex::new("reading".to_owned())));
        let mut scans = Vec::new();
        let named = self.tables.iter().filter(|table| statement.tables.contains(table.name));
        for table in named.clone() {
            let parts = self.parts(table)?;
            let (budget, fault, doing) = (budget.clone(), fault.clone(), doing.clone());
            scans.push(Scan { table: table.clone(), parts, budget, fault, doing });
        }
        let names: Vec<&str> = named.map(|table| table.name).collect();
        let verifies = !self.options.no_verify && !explained && !statement.explains;
        let job = move || {
            let plan = quiet::attempt(|| plan(scans, &statement, explained, &budget, &doing));
            let collect = |lazy: LazyFrame| quiet::attempt(|| lazy.collect()).unwrap_or_else(|| Err(gave_up()));
            (plan.unwrap_or_else(|| Err(gave_up())).and_then(collect), statement, fault)
        };
        let tables = self.tables.clone();
        let answer = move || {
            let (outcome, statement, fault) = job();
            let ours = fault.lock().unwrap_or_else(PoisonError::into_inner).take();
            match (ours, outcome) {
                (Some(ours), _) => Err(ours),
                (None, Ok(frame)) => QueryAnswer::of(frame),
                (None, Err(theirs)) => Err(statement.fault(&theirs, &tables)),
            }
        };
        // Checked concurrently with reading; the answer is used only if the files are unchanged.
        let check = || if verifies { self.check(&names) } else { Ok(()) };
        let (checked, answer) = beside(check, || watched(self.options.process, "the query", answer))?;
        checked.and(answer)
    }

    /// Checks the digests of the files of these tables.
    fn check(&self, names: &[&str]) -> Result<()> {
        let files: Vec<(&Run, &str)> =
            self.runs().iter().flat_map(|run| names.iter().map(move |name| (run, *name))).collect();
        let check = |(run, name): &(&Run, &str)| run.check(&[name]);
        in_parallel(&files, &check, &mut |_, _| {}).into_iter().collect()
    }

    /// Returns the parts of a table; if there are none, fails with a description of what a run must have.
    fn parts(&self, table: &QueryTable) -> Result<Vec<(Option<String>, Part)>> {
        match &self.content {
            Content::Capture { dir, known, index } => {
                let parts = parts_of(dir, index, table.name)?;
                if parts.is_empty() {
                    let why = match dir == known {
                        true => "the capture of that side was not given to pktgen analyze",
                        false => {
                            "a capture is that of the server; pktgen analyze --sent FILE --tables FOLDER makes tables of both sides"
                        }
                    };
                    let what = format!("it has no table `{}`: {why}", table.name);
                    return Err(Error::config(format!("{}: {what}", known.display())));
                }
                Ok(parts.into_iter().map(|part| (Some(index.run.clone()), part)).collect())
            }
            Content::Runs(runs) if table.name == "runs" => Ok(vec![(None, Part::Rows(self.rows(runs, table)?))]),
            Content::Runs(runs) => {
                let part =
                    |run: &Run| Ok((self.several.then(|| run.name.clone()), run.part(table, self.options.no_verify)?));
                runs.iter().map(part).collect()
            }
        }
    }

    /// Returns the rows of table `runs`.
    fn rows(&self, runs: &[Run], table: &QueryTable) -> Result<DataFrame> {
        let verdicts: Vec<_> = runs.iter().map(|run| judge(&Facts::of(&run.manifest))).collect();
        let cells = table.columns.iter().map(|column| {
            let name: PlSmallStr = column.name.as_str().into();
            let text = |cell: &dyn Fn(&Run) -> Option<String>| {
                Column::new(name.clone(), runs.iter().map(cell).collect::<Vec<_>>())
            };
            match column.name.as_str() {
                "run" => text(&|run| Some(run.name.clone())),
                "seed" => Column::new(name, runs.iter().map(|run| run.manifest.seed).collect::<Vec<_>>()),
                "valid" => Column::new(name, verdicts.iter().map(|verdict| verdict.is_valid()).collect::<Vec<_>>()),
                "notes" => {
                    let notes = verdicts.iter().map(|verdict| {
                        let why = (!verdict.is_valid()).then(|| verdict.why().to_string());
                        let all: Vec<String> =
                            why.into_iter().chain(verdict.notes.iter().map(ToString::to_string)).collect();
                        (!all.is_empty()).then(|| all.join("; "))
                    });
                    Column::new(name, notes.collect::<Vec<_>>())
                }
                "experiment" => text(&|run| Some(run.manifest.experiment.clone())),
                "records" => text(&|run| Some(run.manifest.records.clone())),
                axis => text(&|run| run.labels.get(axis).cloned()),
            }
        });
        DataFrame::new(runs.len(), cells.collect()).map_err(crate::source::broken)
    }
}

fn check_memory(options: Options) -> Result<()> {
    if options.memory < LEAST {
        return Err(Error::config(format!("--memory {}: at least {}", size(options.memory), size(LEAST))));
    }
    Ok(())
}

fn name_of(dir: &Path) -> String {
    let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    whole.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn gave_up() -> PolarsError {
    let what = "the query gave up inside polars: if a join, IN, INTERSECT or EXCEPT compares a UBIGINT (packets, digests, seeds) with a BIGINT, \
                write CAST(x AS UBIGINT) or CAST(x AS BIGINT) on one side; otherwise please report this";
    PolarsError::ComputeError(what.into())
}

/// Operations that copy or index all of their rows: the name, its form in plans, and the memory per byte of rows, in hundredths.
const OPERATIONS: [(&str, &str, u64); 5] = [
    ("ORDER BY", "SORT BY", 150),
    ("JOIN", "JOIN:", 150),
    ("OVER", ".over(", 150),
    ("GROUP BY", "AGGREGATE", 100),
    ("DISTINCT", "UNIQUE", 100),
];

/// Plans a statement over `scans` within its memory limit; with `explained`, returns the plan as rows of text.
fn plan(
    scans: Vec<Scan>,
    statement: &Statement,
    explained: bool,
    budget: &Budget,
    doing: &Mutex<String>,
) -> PolarsResult<LazyFrame> {
    let mut context = SQLContext::new().with_function_registry(Functions::all());
    let mut tables = Vec::new();
    for scan in scans {
        let name = scan.table.name;
        tables.push((name, scan.table.columns.len()));
        context.register(name, scan.lazy()?);
    }
    let lazy = nested::execute(&mut context, &statement.guarded)?;
    let (batched, gathers) = in_batches(lazy.logical_plan.clone())?;
    let lazy = if explained { lazy } else { LazyFrame::from(batched) };
    let text = lazy.describe_optimized_plan()?;
    let is_used = |name: &str| name != "DISTINCT" || statement.is_distinct();
    let found = OPERATIONS.iter().filter(|(name, mark, _)| is_used(name) && text.contains(mark));
    let found: Vec<_> = found.map(|(name, _, times)| (*name, *times)).collect();
    if !found.is_empty() {
        let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
        *doing.lock().unwrap_or_else(PoisonError::into_inner) = format!("{} over", names.join(", "));
    }
    budget.plan(&found);
    if explained {
        let mut lines = named_scans(&text, &tables);
        if gathers {
            lines.insert(0, "GATHERED BATCH BY BATCH: the innermost AGGREGATE or SELECT of aggregates".to_owned());
        }
        return Ok(DataFrame::new_infer_height(vec![Column::new("plan".into(), lines)])?.lazy());
    }
    Ok(lazy)
}

/// Returns the lines of a plan with names of tables. Polars does not print these; a table is identified by its number of columns.
fn named_scans(plan: &str, tables: &[(&str, usize)]) -> Vec<String> {
    let mut lines: Vec<String> = plan.lines().map(str::to_owned).collect();
    for at in 0..lines.len() {
        let columns = lines.get(at + 1).and_then(|line| line.split_once('/')?.1.strip_suffix(" COLUMNS")?.parse().ok());
        let known: Vec<&str> = tables
            .iter()
            .filter(|(_, own)| columns.is_none_or(|columns: usize| *own == columns))
            .map(|(name, _)| *name)
            .collect();
        lines[at] = lines[at].replace("Anonymous SCAN []", &format!("SCAN {}", known.join(" or ")));
    }
    lines
}

impl Run {
    /// Refuses changed and unlisted files of these tables. Fates and metrics check all files, and generation times those of names.
    fn check(&self, names: &[&str]) -> Result<()> {
        check_streams(&self.dir, &self.text, &self.manifest, names)
    }

    /// Whether its packets have no ids on the wire, so that their contents name them.
    fn is_headless(&self) -> bool {
        let is_noted = self.manifest.incidents.notes.contains(&record::Note::Headless {});
        is_noted || self.dir.join(format!("{NAMES}.parquet")).exists()
    }

    /// Describes why this run lacks a table; `None` if it has it.
    fn lacks(&self, table: &QueryTable) -> Option<String> {
        let (records, name) = (self.manifest.records.as_str(), table.name);
        let path = self.dir.join(format!("{name}.parquet"));
        let there = match name {
            "metrics" | "runs" => true,
            "fates" => records == "full",
            SENT | RECEIVED | BOOKS | RESULTS => records != "none" && path.exists(),
            ITERATIONS | STATES => path.exists(),
            _ => false,
        };
        let (needs, file) = (table.needs, format!("{name}.parquet"));
        // Without records, listed files are there, and empty.
        let what = || match !path.exists() && self.manifest.files.contains_key(&file) {
            true => format!("it has no table `{name}`: {file} is missing, and the manifest lists it; restore it"),
            false => format!("it has no table `{name}`, which needs {needs}; its capture.records is \"{records}\""),
        };
        (!there).then(what)
    }

    fn part(&self, table: &QueryTable, no_verify: bool) -> Result<Part> {
        let (dir, name) = (self.dir.clone(), table.name);
        if let Some(what) = self.lacks(table) {
            // The manifest lists the file of a table that existed.
            if !no_verify {
                self.check(&[name])?;
            }
            return Err(Error::config(format!("{}: {what}", dir.display())));
        }
        Ok(match name {
            "metrics" => Part::Metrics { dir, no_verify },
            "fates" => Part::Fates { dir, no_verify },
            _ => {
                let stream = Stream::new(dir.join(format!("{name}.parquet")), name);
                let is_named = name == RECEIVED && self.is_headless();
                Part::Stream(if is_named { stream.named_in(dir, no_verify) } else { stream })
            }
        })
    }
}

/// Returns the parts of a table of captures, by cluster and in order; none if the capture of that side was not analysed.
fn parts_of(dir: &Path, index: &TablesIndex, side: &str) -> Result<Vec<Part>> {
    let run = dir.join(side).join(format!("run={}", index.run));
    let (mut found, form) = (Vec::new(), index.form.name());
    if !run.exists() {
        return Ok(Vec::new());
    }
    for (cluster, folder) in numbered(&run, "cluster=", "")? {
        for (part, path) in numbered(&folder, "part-", &format!(".{form}"))? {
            found.push((cluster, part, path));
        }
    }
    found.sort();
    let formats = &index.formats;
    Ok(found.into_iter().map(|(cluster, _, path)| Part::Capture { path, cluster, formats: formats.clone() }).collect())
}

/// Returns the entries of `folder` whose names are `before`, a number, and `after`.
fn numbered(folder: &Path, before: &str, after: &str) -> Result<Vec<(i64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let path = entry.map_err(Error::io("read", folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = name.strip_prefix(before).and_then(|name| name.strip_suffix(after)?.parse().ok());
        found.extend(number.map(|number| (number, path)));
    }
    Ok(found)
}
