//! One file per command.

mod analyze;
mod calibrate;
mod capture;
mod captured;
mod certify;
mod compare;
mod completions;
mod control;
mod demo;
mod device;
mod diagnose;
mod dissector;
mod doctor;
mod dry_run;
mod dump;
mod experiment;
mod explain;
mod find_rate;
mod history;
mod init;
mod list;
mod live;
mod merge;
mod part;
mod place;
mod plots;
mod query;
mod ranks;
mod replay;
mod report;
mod rfc2544;
mod serve;
mod shard;
mod shipped;
mod target;
mod tempo;
mod trace;
mod tune;
mod verify;
mod wrong;

use pktgen_core::Result;

use crate::args::Command;
use crate::ui::Ui;

/// Runs a command; returns the exit code.
pub(crate) fn run(command: Command, ui: &Ui) -> Result<u8> {
    match command {
        Command::Demo(args) => demo::run(args, ui),
        Command::Trace(args) => trace::run(args, ui),
        Command::Replay(args) => replay::run(args, ui),
        Command::Target(args) => target::run(args, ui),
        Command::Capture(args) => capture::run(args, ui),
        Command::Control(args) => control::run(&args, ui),
        Command::Serve(args) => serve::run(&args, ui),
        Command::Merge(args) => merge::run(&args, ui),
        Command::Analyze(args) => analyze::run(*args, ui),
        Command::Query(args) => query::run(&args, ui),
        Command::Dump(args) => dump::run(&args, ui),
        Command::Report(args) => report::run(args, ui),
        Command::History(args) => history::run(args, ui),
        Command::Place(args) => place::run(args, ui),
        Command::Verify(args) => verify::run(args, ui),
        Command::Certify(args) => certify::run(args, ui),
        Command::Calibrate(args) => calibrate::run(args, ui),
        Command::Init(args) => init::run(args, ui),
        Command::Diagnose(args) => diagnose::run(args, ui),
        Command::Doctor(args) => doctor::run(args, ui),
        Command::Tune(args) => tune::run(args, ui),
        Command::Device(args) => device::run(args, ui),
        Command::Dissector(args) => dissector::run(&args, ui),
        Command::List(args) => list::run(args, ui),
        Command::Explain(args) => explain::run(args, ui),
        Command::Completions(args) => completions::run(&args, ui),
    }
}
