//! `pktgen demo`: OLAF's Table 1 in seconds. The experiment is the one in configs/, built in.

use std::path::PathBuf;

use pktgen_generator::config::Document;
use pktgen_generator::{Error, Result};
use pktgen_replay::run::Experiment;

use crate::args::Demo;
use crate::commands::replay::execute;
use crate::ui::Ui;

const TABLE1: &str = include_str!("../../../configs/olaf/table1.toml");

pub(super) fn run(args: Demo, ui: &Ui) -> Result<u8> {
    let mut document = Document::parse(TABLE1, "configs/olaf/table1.toml")?;
    document.overlay(std::iter::empty(), &[format!("sweep.seeds=\"{}\"", args.seeds)])?;
    let experiment = Experiment::open(document)?;
    let own = args.out.is_none();
    let out = args.out.unwrap_or_else(|| PathBuf::from("runs/demo"));
    // Only what a demo made is replaced; anything else is the user's.
    if own && out.join("sweep.json").exists() {
        std::fs::remove_dir_all(&out).map_err(Error::io("replace", &out))?;
    }
    ui.note("27 workers in 9 clusters send reinforcement-learning updates at 60 Gbit/s through one device to a");
    ui.note("parameter server: once with a FIFO queue, once with OLAF's. Virtual time; real frames, real sums.");
    execute(&experiment, &out, None, true, ui)
}
