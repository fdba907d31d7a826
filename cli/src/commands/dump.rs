//! `pktgen dump`: runs in canonical form.

use pktgen_core::Result;
use pktgen_core::whole::write_whole;
use pktgen_records::Options;
use pktgen_records::canonical::{Canonical, DumpPart};
use pktgen_report::run_dirs;

use crate::args::Dump;
use crate::output::check_output;
use crate::ui::Ui;

/// Number of bytes printed at once.
const CHUNK: usize = 1 << 16;

/// Prints every run that can be read and lists the others; returns 1 if there are others or a run is invalid, and their
/// error if no run can be read.
pub(super) fn run(args: &Dump, ui: &Ui) -> Result<u8> {
    let mut output = Output { text: String::new(), ui: args.out.is_none().then_some(ui) };
    let (mut invalid, mut read, mut bad) = (false, false, Vec::new());
    for listed in run_dirs(&args.run, args.no_verify)? {
        let options = Options { no_verify: args.no_verify, ..Options::default() };
        let run = listed.check(args.no_verify).and_then(|()| Canonical::open(&listed.dir, options));
        let dir = listed.dir.strip_prefix(&args.run).unwrap_or(&listed.dir).display().to_string();
        match run {
            Ok(run) => {
                read = true;
                invalid |= !run.valid;
                output.line(&format!("run\t{}", if dir.is_empty() { "." } else { &dir }));
                run.parts.iter().for_each(|part| output.part(part, args.digest));
            }
            Err(error) => bad.push((dir, error)),
        }
    }
    let last = if read { None } else { bad.pop() };
    bad.iter().for_each(|(dir, error)| ui.error(&format!("{dir} was not read: {error}")));
    if let Some((_, error)) = last {
        return Err(error);
    }
    match &args.out {
        Some(path) => {
            check_output(path)?;
            write_whole(path, output.text).map(drop)?;
        }
        None => output.flush(),
    }
    if invalid {
        ui.reason(&format!("{}: not all runs are valid; the lines say why", args.run.display()));
    }
    Ok(u8::from(invalid || !bad.is_empty()))
}

/// Text for standard output, or for a file if there is no `ui`.
struct Output<'a> {
    text: String,
    ui: Option<&'a Ui>,
}

impl Output<'_> {
    fn part(&mut self, part: &DumpPart, digest: bool) {
        if digest {
            return self.line(&format!("digest\t{}\t{}\t{}", part.name, part.lines.len(), part.digest()));
        }
        std::iter::once(&part.head).filter(|head| !head.is_empty()).chain(&part.lines).for_each(|line| self.line(line));
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        if self.text.len() > CHUNK && self.ui.is_some() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if let Some(ui) = self.ui.filter(|_| !self.text.is_empty()) {
            // The printing function ends the line.
            ui.result(self.text.trim_end_matches('\n'));
            self.text.clear();
        }
    }
}
