//! Parsing of the command line.

use clap::error::Result;
use clap::{Command, CommandFactory, FromArgMatches};

use super::Args;

/// Parses the command line. A negative number is a value; the flag's own message states its range.
pub(crate) fn parse() -> Result<Args> {
    let mut command = with_negative_numbers(Args::command());
    let mut found = command.try_get_matches_from_mut(std::env::args_os())?;
    Args::from_arg_matches_mut(&mut found).map_err(|told| told.format(&mut command))
}

fn with_negative_numbers(command: Command) -> Command {
    command.allow_negative_numbers(true).mut_subcommands(with_negative_numbers)
}
