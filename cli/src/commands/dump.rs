//! `pktgen dump`: runs in canonical form.

use std::io::Write;
use std::path::Path;

use pktgen_core::whole::WholeFile;
use pktgen_core::{Error, Result};
use pktgen_records::Options;
use pktgen_records::canonical::{Canonical, DumpPart};
use pktgen_report::run_dirs;

use crate::args::Dump;
use crate::commands::query::ANSWERS;
use crate::output::check_output;
use crate::ui::Ui;

/// Number of bytes written at once.
const CHUNK: usize = 1 << 16;

/// Prints every run that can be read and lists the others; returns 1 if there are others or a run is invalid, and their
/// error if no run can be read.
pub(super) fn run(args: &Dump, ui: &Ui) -> Result<u8> {
    let mut output = Output::create(args.out.as_deref(), ui)?;
    let (mut invalid, mut read, mut bad) = (false, false, Vec::new());
    for listed in run_dirs(&args.run, args.no_verify)? {
        if args.out.is_none() && ui.is_closed() {
            break;
        }
        let options = Options { no_verify: args.no_verify, user_metrics: ANSWERS, ..Options::default() };
        let run = listed.check(args.no_verify).and_then(|()| Canonical::open(&listed.dir, options));
        let dir = listed.dir.strip_prefix(&args.run).unwrap_or(&listed.dir).display().to_string();
        match run {
            Ok(run) => {
                read = true;
                invalid |= !run.valid;
                output.line(&format!("run\t{}", if dir.is_empty() { "." } else { &dir }))?;
                run.parts.iter().try_for_each(|part| output.part(part, args.digest))?;
            }
            Err(error) => bad.push((dir, error)),
        }
    }
    let last = if read { None } else { bad.pop() };
    bad.iter().for_each(|(dir, error)| ui.error(&format!("{dir} was not read: {error}")));
    if let Some((_, error)) = last {
        return Err(error);
    }
    output.finish()?;
    if invalid {
        ui.reason(&format!("{}: not all runs are valid; the lines say why", args.run.display()));
    }
    Ok(u8::from(invalid || !bad.is_empty()))
}

/// Text for a file, or for standard output without one.
struct Output<'a> {
    text: String,
    file: Option<(&'a Path, WholeFile)>,
    ui: &'a Ui,
}

impl<'a> Output<'a> {
    /// Begins the file `out`. If the output is dropped before [`finish`](Self::finish), nothing is left behind.
    fn create(out: Option<&'a Path>, ui: &'a Ui) -> Result<Self> {
        let begun = |path: &'a Path| -> Result<(&'a Path, WholeFile)> {
            check_output(path)?;
            Ok((path, WholeFile::create(path)?))
        };
        Ok(Output { text: String::new(), file: out.map(begun).transpose()?, ui })
    }

    fn part(&mut self, part: &DumpPart, digest: bool) -> Result<()> {
        if digest {
            return self.line(&format!("digest\t{}\t{}\t{}", part.name, part.lines.len(), part.digest()));
        }
        let head = std::iter::once(&part.head).filter(|head| !head.is_empty());
        head.chain(&part.lines).try_for_each(|line| self.line(line))
    }

    fn line(&mut self, line: &str) -> Result<()> {
        self.text.push_str(line);
        self.text.push('\n');
        if self.text.len() > CHUNK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        match &mut self.file {
            Some((path, file)) => file.write_all(self.text.as_bytes()).map_err(Error::io("write", path))?,
            // The printing function ends the line.
            None if !self.text.is_empty() => self.ui.result(self.text.trim_end_matches('\n')),
            None => {}
        }
        self.text.clear();
        Ok(())
    }

    /// Writes the rest, and gives a file its name.
    fn finish(mut self) -> Result<()> {
        self.flush()?;
        match self.file.take() {
            Some((_, file)) => file.finish().map(drop),
            None => Ok(()),
        }
    }
}
