//! `pktgen demo`: OLAF's Table 1 in seconds. The experiment is the one in configs/, built in.

use std::path::{Path, PathBuf};

use pktgen_core::config::Document;
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;
use pktgen_report::sweep::read_sweep;

use crate::args::{Demo, Looking};
use crate::commands::experiment::{command, execute};
use crate::ui::Ui;

const TABLE1: &str = include_str!("../../../configs/olaf/table1.toml");
/// The file that says that a demo made the folder.
const MARKER: &str = "made-by-demo";

pub(super) fn run(args: Demo, ui: &Ui) -> Result<u8> {
    let experiment = open(&args.seeds)?;
    let own = args.out.is_none();
    let out = args.out.unwrap_or_else(|| PathBuf::from("runs/demo"));
    if own {
        make_room(&out, &experiment.name)?;
    }
    ui.note("27 workers in 9 clusters send reinforcement-learning updates at 60 Gbit/s through one device to a");
    ui.note("parameter server: once with a FIFO queue, once with OLAF's. Virtual time; real frames, real sums.");
    let fresh = !out.join("sweep.json").exists();
    let code = execute(experiment, &out, None, true, &Looking::default(), ui);
    // Also after a failure, so that the next demo may replace what this one began.
    if fresh && out.join("sweep.json").exists() {
        let marker = out.join(MARKER);
        let text = "`pktgen demo` made this folder and replaces it the next time; remove this file to keep it.\n";
        write_whole(&marker, text)?;
    }
    code
}

/// The built-in experiment; only the seeds can be wrong.
fn open(seeds: &str) -> Result<Experiment> {
    let wrong = |_| {
        Error::config(format!(
            "--seeds {seeds}: it is not a list of different seeds; write \"1..10\" (both ends) or \"3,5\""
        ))
    };
    let mut document = Document::parse(TABLE1, "configs/olaf/table1.toml")?;
    document.overlay(std::iter::empty(), &[format!("sweep.seeds=\"{seeds}\"")]).map_err(wrong)?;
    Ok(Experiment::open(all(), document).map_err(wrong)?.asked_by(command()))
}

/// Removes `out` if a demo made it; anything else is the user's.
fn make_room(out: &Path, name: &str) -> Result<()> {
    let empty = match std::fs::read_dir(out) {
        Ok(mut entries) => entries.next().is_none(),
        Err(fault) if fault.kind() == std::io::ErrorKind::NotFound => true,
        Err(fault) => return Err(Error::io("read", out)(fault)),
    };
    if empty {
        return Ok(());
    }
    let ours =
        out.join(MARKER).is_file() && matches!(read_sweep(out, true), Ok(Some(sweep)) if sweep.experiment == name);
    if !ours {
        return Err(Error::config(format!(
            "{}: the folder is not empty and no demo made it (no {MARKER}, or another experiment), so it is kept; \
             choose another with --out, or remove it",
            out.display()
        )));
    }
    std::fs::remove_dir_all(out).map_err(Error::io("replace", out))
}
