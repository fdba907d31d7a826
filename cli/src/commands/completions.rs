//! `pktgen completions`: shell completions and man pages, generated from the flags' definitions for packages.

#[cfg(not(feature = "completions"))]
pub(super) fn run(_: &crate::args::Completions, _: &crate::ui::Ui) -> pktgen_core::Result<u8> {
    Err(pktgen_core::Error::config("this build has no completions; build pktgen with its feature completions"))
}

#[cfg(feature = "completions")]
pub(super) use here::run;

#[cfg(feature = "completions")]
mod here {
    use clap::{Command, CommandFactory};
    use clap_complete::{Shell, generate};
    use pktgen_core::whole::write_whole;
    use pktgen_core::{Error, Result};

    use crate::args::{Args, Completions, Form};
    use crate::ui::Ui;

    /// Writes the files and prints their paths.
    pub(in super::super) fn run(args: &Completions, ui: &Ui) -> Result<u8> {
        std::fs::create_dir_all(&args.out).map_err(Error::io("create", &args.out))?;
        for (name, text) in files(args.form)? {
            let path = args.out.join(name);
            write_whole(&path, text)?;
            ui.wrote(&path);
        }
        Ok(0)
    }

    /// Returns names and contents.
    fn files(form: Form) -> Result<Vec<(String, Vec<u8>)>> {
        let (shell, name) = match form {
            Form::Bash => (Shell::Bash, "pktgen.bash"),
            Form::Elvish => (Shell::Elvish, "pktgen.elv"),
            Form::Fish => (Shell::Fish, "pktgen.fish"),
            Form::Powershell => (Shell::PowerShell, "pktgen.ps1"),
            Form::Zsh => (Shell::Zsh, "_pktgen"),
            Form::Man => return pages(),
        };
        let mut text = Vec::new();
        generate(shell, &mut Args::command(), "pktgen", &mut text);
        Ok(vec![(name.to_owned(), text)])
    }

    /// Returns man pages of the program, of each command and of its subcommands.
    fn pages() -> Result<Vec<(String, Vec<u8>)>> {
        let mut all = Args::command().disable_help_subcommand(true);
        all.build();
        let mut pages = Vec::new();
        page(&all, &mut pages)?;
        Ok(pages)
    }

    fn page(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
        let man = clap_mangen::Man::new(command.clone());
        let (name, mut text) = (man.get_filename(), Vec::new());
        man.render(&mut text).map_err(Error::io("render", name.as_ref()))?;
        pages.push((name, text));
        command.get_subcommands().filter(|own| !own.is_hide_set()).try_for_each(|own| page(own, pages))
    }
}
