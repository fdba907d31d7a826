//! The one binary, `pktgen`: parses flags, calls the three libraries, prints.

mod args;
mod commands;
mod schemas;
mod ui;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

/// Where the C library's allocator takes one lock for all threads, another one is linked.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What the command line says. A negative number is a value, whose range the flag's own message names.
fn parse() -> clap::error::Result<args::Args> {
    let mut command = with_negative_numbers(args::Args::command());
    let mut found = command.try_get_matches_from_mut(std::env::args_os())?;
    args::Args::from_arg_matches_mut(&mut found).map_err(|told| told.format(&mut command))
}

fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command.allow_negative_numbers(true).mut_subcommands(with_negative_numbers)
}

fn main() -> ExitCode {
    pktgen_realtime::launch::keep();
    ui::outgrow_signal();
    let args = match parse() {
        Ok(args) => args,
        Err(told) => return ExitCode::from(ui::Ui::usage(&told)),
    };
    let ui = ui::Ui::new(&args.common);
    let code = commands::run(args.command, &ui).inspect(|code| ui.end(*code)).unwrap_or_else(|error| {
        ui.error(&error.to_string());
        error.exit_code()
    });
    ExitCode::from(ui.ended(code))
}
