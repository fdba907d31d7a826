//! The `pktgen` binary: parses flags, calls the libraries, prints.

mod args;
mod commands;
mod output;
mod schemas;
mod ui;

use std::process::ExitCode;

/// With musl, whose allocator uses one lock for all threads, another allocator is linked.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    pktgen_realtime::launch::keep();
    ui::outgrow_signal();
    let args = match args::parse() {
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
