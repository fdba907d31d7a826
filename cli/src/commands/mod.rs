//! One file per command.

mod analyze;
mod capture;
mod demo;
mod list;
mod replay;
mod report;
mod trace;
mod verify;

use pktgen_generator::Result;

use crate::args::Command;
use crate::ui::Ui;

/// Runs a command; the result is the exit code.
pub(crate) fn run(command: Command, ui: &Ui) -> Result<u8> {
    match command {
        Command::Demo(args) => demo::run(args, ui),
        Command::Trace(args) => trace::run(args, ui),
        Command::Replay(args) => replay::run(args, ui),
        Command::Capture(args) => capture::run(args, ui),
        Command::Analyze(args) => analyze::run(args, ui),
        Command::Report(args) => report::run(args, ui),
        Command::Verify(args) => verify::run(args, ui),
        Command::List(args) => list::run(args, ui),
    }
}
