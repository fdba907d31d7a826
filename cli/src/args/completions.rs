//! Flags of `pktgen completions`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// See docs/install.md.
#[cfg_attr(not(feature = "completions"), allow(dead_code))]
#[derive(Debug, ClapArgs)]
pub(crate) struct Completions {
    /// Shell, or man: one page per command
    pub(crate) form: Form,
    /// Folder to write into
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) out: PathBuf,
}

/// What is written.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Form {
    Bash,
    Elvish,
    Fish,
    Man,
    Powershell,
    Zsh,
}
