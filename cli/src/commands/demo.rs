//! `pktgen demo`: OLAF's Table 1 in seconds. The experiment is the one in configs/, built in.

use std::path::{Path, PathBuf};

use pktgen_core::config::Document;
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use pktgen_realtime::capture::{DEMO, hold};
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;
use pktgen_report::sweep::read_sweep;

use crate::args::{Demo, Looking};
use crate::commands::experiment::{command, execute};
use crate::ui::Ui;

const TABLE1: &str = include_str!("../../../configs/olaf/table1.toml");
pub(super) fn run(args: Demo, ui: &Ui) -> Result<u8> {
    let experiment = open(&args.seeds)?;
    let own = args.out.is_none();
    let out = args.out.unwrap_or_else(|| PathBuf::from("runs/demo"));
    if own {
        make_room(&out, &experiment.name)?;
    }
    // Created first: a killed demo leaves a folder that the next one may replace.
    if is_empty(&out)? {
        std::fs::create_dir_all(&out).map_err(Error::io("create folder", &out))?;
        let text = "`pktgen demo` made this folder and replaces it the next time; remove this file to keep it.\n";
        write_whole(&out.join(DEMO), text)?;
    }
    // Until the end: another demo does not replace it meanwhile.
    let _held = hold(&out)?;
    ui.note("27 workers in 9 clusters send reinforcement-learning updates at 60 Gbit/s through one device to a");
    ui.note("parameter server: once with a FIFO queue, once with OLAF's. Virtual time; real frames, real sums.");
    execute(experiment, &out, None, true, &Looking::default(), ui)
}

/// Opens the built-in experiment; only the seeds can be invalid.
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

/// Whether `out` is empty or does not exist.
fn is_empty(out: &Path) -> Result<bool> {
    match std::fs::read_dir(out) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(fault) if fault.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(fault) => Err(Error::io("read", out)(fault)),
    }
}

/// Removes `out` if a demo created it; anything else belongs to the user.
fn make_room(out: &Path, name: &str) -> Result<()> {
    if is_empty(out)? {
        return Ok(());
    }
    let begun = out.join("sweep.json").exists();
    let its = || matches!(read_sweep(out, true), Ok(Some(sweep)) if sweep.experiment == name);
    let ours = out.join(DEMO).is_file() && (!begun || its());
    if !ours {
        return Err(Error::config(format!(
            "{}: the folder is not empty and no demo made it (no {DEMO}, or another experiment), so it is kept; \
             choose another with --out, or remove it",
            out.display()
        )));
    }
    let _held = hold(out)?;
    std::fs::remove_dir_all(out).map_err(Error::io("replace", out))
}
