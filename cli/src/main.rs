//! The one binary, `pktgen`: parses flags, calls the three libraries, prints.

mod args;
mod commands;
mod ui;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let ui = ui::Ui::new(&args.common);
    match commands::run(args.command, &ui) {
        Ok(code) => {
            ui.end(code);
            ExitCode::from(code)
        }
        Err(error) => {
            ui.error(&error.to_string());
            ExitCode::from(error.exit_code())
        }
    }
}
