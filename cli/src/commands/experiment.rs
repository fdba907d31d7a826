//! Functions shared by commands that run an experiment: loading it, its folder, running it, and printing the results.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use pktgen_certify::CertifySettings;
use pktgen_core::config::{Document, UNNAMED, Unused};
use pktgen_core::record::{Note, RunState};
use pktgen_core::{Error, Result};
use pktgen_planning::STUDIES;
use pktgen_realtime::run::{Experiment, Finished};
use pktgen_records::Options;
use pktgen_registry::all;
use pktgen_wire::pcap::Reader;

use crate::args;
use crate::args::Looking;
use crate::commands::list::calibrate_keys;
use crate::commands::live::Live;
use crate::commands::query::{ANSWERS, check_metrics};
use crate::commands::{report, shipped};
use crate::schemas::ROLE;
use crate::ui::{Ui, stop_at_once, stop_flag};

/// Maximum length of an experiment's name in that of a folder.
const NAME_MAX: usize = 100;

/// Loads an experiment file, or else the built-in experiment with that name. One that cannot be read is an invalid
/// argument, not a failed run (design §6). Keys of sections that only some commands read are checked for all.
pub(super) fn load(experiment: &args::Experiment) -> Result<Document> {
    let document = read(experiment)?;
    document.check_keys("verify", &pktgen_verify::setup::KEYS)?;
    document.check_keys("certify", &CertifySettings::KEYS.iter().map(|key| key.name).collect::<Vec<_>>())?;
    document.check_keys("calibrate", &calibrate_keys())?;
    Ok(document)
}

/// Whether `path` is the file of a capture.
pub(super) fn is_capture_file(path: &Path) -> bool {
    path.is_file() && Reader::open(path).is_ok()
}

fn read(experiment: &args::Experiment) -> Result<Document> {
    let path = &experiment.experiment;
    if let (false, Some((name, text))) = (path.exists(), shipped::named(path)) {
        return Document::read(text, &name, &experiment.set);
    }
    Document::load(path, &experiment.set).map_err(|error| match error {
        Error::Io { source, .. } if source.kind() == ErrorKind::InvalidData && is_capture_file(path) => {
            Error::config(format!(
                "EXPERIMENT {0}: it is a capture and no experiment; analyze it: pktgen analyze {0}",
                path.display()
            ))
        }
        Error::Io { source, .. } if source.kind() == ErrorKind::InvalidData => {
            Error::config(format!("EXPERIMENT {}: it is not UTF-8 text; save it as UTF-8", path.display()))
        }
        Error::Io { source, .. } => Error::config(format!(
            "EXPERIMENT {}: it cannot be read: {source}{}; give the path of an experiment file (TOML), or a name of pktgen list configs",
            path.display(),
            shipped::near(path)
        )),
        other => other,
    })
}

/// Opens an experiment that may contain any study.
pub(super) fn open(document: Document) -> Result<Experiment> {
    let experiment = Experiment::open_with(all(), document, &STUDIES)?.asked_by(command());
    check_metrics(&experiment)?;
    Ok(experiment)
}

/// Returns the command line, which runs record.
pub(super) fn command() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Runs everything into `out`, prints the results, and writes reports. Returns the exit code.
pub(super) fn execute(
    experiment: Experiment,
    out: &Path,
    jobs: Option<usize>,
    report: bool,
    looking: &Looking,
    ui: &Ui,
) -> Result<u8> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let stop = stop_flag();
    let transports = || experiment.transports().map(<[_]>::to_vec);
    let looking = Live::new(looking, transports, true, stop.clone(), ui)?;
    let experiment = looking.watch(experiment);
    let bar = looking.bar(ui.bar("replaying", experiment.runs.len() as u64));
    let finished = experiment.execute(out, jobs.unwrap_or(cores), &stop, &|runs, progress| {
        bar.set_position(runs as u64);
        looking.tell("runs, ", &progress, &bar, ui);
    });
    bar.finish_and_clear();
    let written = looking.end(ui);
    say_unused(experiment.unused(), ui);
    let finished = finished?;
    say_roles(&finished, ui);
    let interrupted =
        finished.len() < experiment.runs.len() || finished.iter().any(|f| f.state == RunState::Interrupted);
    if interrupted {
        ui.reason(&format!(
            "interrupted after {} of {} runs; what is in {} is complete up to then",
            finished.iter().filter(|run| run.state != RunState::Interrupted).count(),
            experiment.runs.len(),
            out.display()
        ));
        return Ok(1);
    }
    let own = u8::from(!say_validity(&finished, ui)).max(written);
    ui.detail(&format!("{} runs in {}", finished.len(), out.display()));
    if report {
        let options = Options { studies: &STUDIES, user_metrics: ANSWERS, ..Options::default() };
        stop_at_once();
        return Ok(own.max(report::report(out, &[], options, ui)?));
    }
    ui.wrote(out);
    Ok(own)
}

/// Prints a note of keys that were written and that no run reads.
pub(super) fn say_unused(unused: &[Unused], ui: &Ui) {
    if !unused.is_empty() {
        let keys: Vec<_> = unused.iter().map(Unused::to_string).collect();
        let keys = keys.join(", ");
        ui.note(&format!("note: without effect, since nothing that was chosen reads it: {keys}"));
    }
}

/// Prints the traffic of each role in real-time runs.
pub(super) fn say_roles(finished: &[Finished], ui: &Ui) {
    for run in finished {
        let Some(summary) = &run.summary else { continue };
        let before = if finished.len() > 1 { format!("{}: ", run.dir.display()) } else { String::new() };
        summary.to_string().lines().for_each(|line| ui.note(&format!("{before}{line}")));
        for role in summary.roles.iter().filter(|_| ui.json()) {
            let mut line = serde_json::to_value(role).unwrap_or_default();
            line["run"] = run.dir.display().to_string().into();
            ui.object(&ROLE, &line.to_string());
        }
    }
}

/// Prints notes on runs for readers, and every invalid run.
pub(super) fn say_validity(finished: &[Finished], ui: &Ui) -> bool {
    let mut valid = true;
    let mut notes: Vec<(&Note, &Finished, usize)> = Vec::new();
    for (note, run) in finished.iter().flat_map(|run| run.validity.notes.iter().map(move |note| (note, run))) {
        match notes.iter_mut().find(|(known, ..)| known.code() == note.code()) {
            Some((.., more)) => *more += 1,
            None => notes.push((note, run, 0)),
        }
    }
    for (note, run, more) in notes {
        let more = if more > 0 { format!(" (and the like in {more} more)") } else { String::new() };
        ui.note(&format!("note: {}: {note}{more}", run.dir.display()));
    }
    for run in finished.iter().filter(|run| !run.validity.is_valid()) {
        valid = false;
        ui.error(&format!("invalid run {}: {}", run.dir.display(), run.validity.why()));
    }
    valid
}

/// The output folder of a command.
pub(super) struct OutFolder {
    path: PathBuf,
    /// Folders created here only for this run; removed if they stay empty.
    made: Vec<PathBuf>,
}

impl OutFolder {
    /// Returns the folder that the user specified, or `runs/NAME-N` with the next free number.
    pub(super) fn of(chosen: Option<PathBuf>, name: &str) -> Result<Self> {
        let Some(path) = chosen else { return OutFolder::free(name) };
        Ok(OutFolder { path, made: Vec::new() })
    }

    fn free(name: &str) -> Result<Self> {
        let base = Path::new("runs");
        let safe = |c: char| if c.is_ascii_alphanumeric() || "=,.-_".contains(c) { c } else { '_' };
        let name: String = name.trim_start_matches(['.', '/', '\\']).chars().take(NAME_MAX).map(safe).collect();
        let name = if name.is_empty() { UNNAMED } else { &name };
        let mut made = Vec::new();
        for n in 1..10_000 {
            match std::fs::create_dir(base) {
                Ok(()) => made.push(base.to_owned()),
                Err(_) if base.is_dir() => {}
                // It existed and is gone: another process removed it. A link to nothing stays, and is an error below.
                Err(e) if e.kind() == ErrorKind::AlreadyExists && !base.is_symlink() => {}
                Err(e) => return Err(Error::io("create folder", base)(e)),
            }
            let path = base.join(format!("{name}-{n}"));
            match std::fs::create_dir(&path) {
                // It belongs to another process, which may have just created it; or a failed one removed `runs`.
                Err(e) if [ErrorKind::AlreadyExists, ErrorKind::NotFound].contains(&e.kind()) => {}
                Err(e) => return Err(Error::io("create folder", &path)(e)),
                Ok(()) => {
                    made.push(path.clone());
                    return Ok(OutFolder { path, made });
                }
            }
        }
        Err(Error::config(format!("runs/{name}-1 to -9999 all exist; choose a folder with --out")))
    }
}

impl std::ops::Deref for OutFolder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Drop for OutFolder {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            // Only empty folders are removed.
            let _ = std::fs::remove_dir(folder);
        }
    }
}
