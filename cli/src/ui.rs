//! Output for users: results on stdout, everything else on stderr. Control characters in external names are escaped.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::Common;
use crate::schemas;
use pktgen_core::json_kind::JsonKind;
use pktgen_core::printable::printable;
use pktgen_realtime::clock::Stopwatch;
use pktgen_realtime::driver::real_time::{Progress, drop_privileges};

/// Maximum number of notes that --quiet holds back.
const HELD_MAX: usize = 20;

/// The terminal.
pub(crate) struct Ui {
    common: Common,
    /// The latest notes held back by --quiet.
    held: Mutex<VecDeque<String>>,
    /// Whether a result, an error or a reason was printed.
    said: AtomicBool,
    /// Why results could not be written, after a failure.
    unwritten: Mutex<Option<std::io::Error>>,
}

impl Ui {
    pub(crate) fn new(common: &Common) -> Self {
        Ui { common: *common, held: Mutex::default(), said: AtomicBool::new(false), unwritten: Mutex::new(None) }
    }

    /// Ends the command with this exit code. If it failed without output, prints the notes that were held back.
    pub(crate) fn end(&self, code: u8) {
        if code != 0 && !self.said.load(Ordering::Relaxed) {
            let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.iter().for_each(|text| to_stderr(text));
        }
    }

    pub(crate) fn json(&self) -> bool {
        self.common.json
    }

    /// Prints a result on stdout. A failed write ends the output and is an error of the program unless the reader closed the pipe.
    pub(crate) fn result(&self, text: &str) {
        self.said.store(true, Ordering::Relaxed);
        let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        if unwritten.is_none() {
            let mut out = std::io::stdout().lock();
            *unwritten = writeln!(out, "{}", printable(text)).and_then(|()| out.flush()).err();
        }
    }

    /// Whether results cannot be written any more: the reader closed the pipe, or a write failed.
    pub(crate) fn is_closed(&self) -> bool {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Prints a result as JSON, with its kind and version.
    pub(crate) fn object(&self, kind: &JsonKind, text: &str) {
        self.result(&kind.stamp(text));
    }

    /// Prints the path of a folder or file that was written.
    pub(crate) fn wrote(&self, path: &Path) {
        let path = path.display().to_string();
        match self.json() {
            true => self.object(&schemas::FOLDER, &serde_json::json!({ "path": path }).to_string()),
            false => self.result(&path),
        }
    }

    /// Returns the exit code of a program that would end with `code`: 1 instead of 0 if results could not be written, which is reported.
    pub(crate) fn ended(&self, code: u8) -> u8 {
        let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        code.max(unwritten.take().map_or(0, |fault| self.not_written(&fault)))
    }

    /// Returns the exit code for output that was not written.
    fn not_written(&self, fault: &std::io::Error) -> u8 {
        if fault.kind() == std::io::ErrorKind::BrokenPipe {
            return 0;
        }
        self.error(&format!("cannot write to standard output: {fault}"));
        1
    }

    /// Prints help, a version or an error in the arguments. Returns the exit code.
    pub(crate) fn usage(told: &clap::Error) -> u8 {
        let ui = Ui::new(&Common::default());
        let code = told.exit_code() as u8;
        let unprintable = |word: std::ffi::OsString| matches!(printable(&word.to_string_lossy()), Cow::Owned(_));
        if told.use_stderr() && std::env::args_os().any(unprintable) {
            // Without styles, which are control characters, too.
            to_stderr(told.render().to_string().trim_end());
            return code;
        }
        // Errors go to stderr, so a failure to print this one cannot be reported.
        match told.print() {
            Err(fault) if !told.use_stderr() => code.max(ui.not_written(&fault)),
            _ => code,
        }
    }

    /// Prints a note on stderr.
    pub(crate) fn note(&self, text: &str) {
        if !self.common.quiet {
            return to_stderr(text);
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() == HELD_MAX {
            held.pop_front();
        }
        held.push_back(text.to_owned());
    }

    /// Prints the reason for a nonzero exit code on stderr, even with --quiet.
    pub(crate) fn reason(&self, text: &str) {
        self.said.store(true, Ordering::Relaxed);
        to_stderr(text);
    }

    /// Prints a question on stderr and reads a line of standard input; `None` at its end.
    pub(crate) fn ask(&self, question: &str) -> pktgen_core::Result<Option<String>> {
        let _ = write!(std::io::stderr(), "{}", printable(question));
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        let read = read.map_err(pktgen_core::Error::io("read", Path::new("standard input")))?;
        Ok((read > 0).then_some(line))
    }

    /// Prints a detail on stderr with -v.
    pub(crate) fn detail(&self, text: &str) {
        if self.common.verbose > 0 {
            self.note(text);
        }
    }

    /// Prints an error on stderr, even with --quiet.
    pub(crate) fn error(&self, text: &str) {
        self.reason(&format!("pktgen: {text}"));
    }

    /// Returns a line on stderr for an activity without a known end.
    pub(crate) fn spinner(&self, what: &str) -> ProgressBar {
        if self.common.quiet {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{prefix:>10} {spinner} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(what.to_owned());
        bar
    }

    /// Returns a bar on stderr; it draws nothing with --quiet or if stderr is not a terminal.
    pub(crate) fn bar(&self, what: &str, total: u64) -> ProgressBar {
        if self.common.quiet {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(total);
        if let Ok(style) =
            ProgressStyle::with_template("{prefix:>10} [{bar:24}] {pos}/{len} {msg} {elapsed}, {eta} left")
        {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(what.to_owned());
        bar
    }
}

fn to_stderr(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", printable(text));
}

/// Progress of reading.
impl Ui {
    /// Returns a bar in bytes.
    pub(crate) fn bytes(&self, what: &str) -> ProgressBar {
        let bar = self.bar(what, 1);
        if let Ok(style) = ProgressStyle::with_template(
            "{prefix:>10} [{bar:24}] {bytes}/{total_bytes} {bytes_per_sec} {elapsed}, {eta} left",
        ) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar
    }
}

/// Describes the progress of a run: rate, lateness and losses only if there are any.
pub(crate) fn live(progress: &Progress) -> String {
    let mut text = format!("{} updates", progress.sent);
    if progress.t > 0 {
        let seconds = progress.t as f64 / 1e12;
        text += &format!(", {:.0}/s", (progress.sent - progress.sent_before) as f64 / seconds);
        text += &format!(", {} received, {} lost", progress.received, progress.lost);
        if progress.late_ns > 0 {
            text += &format!(", late <= {:.1} us", progress.late_ns as f64 / 1e3);
        }
    }
    text
}

/// Aligns rows in columns.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let widths: Vec<usize> = (0..N).map(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0)).collect();
    let line = |row: &[String; N]| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Returns the signals that request an end. SIGHUP (a closed terminal) is none if it is ignored, as under nohup.
fn stops() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hangup = (!is_ignored(&status, SIGHUP)).then_some(SIGHUP);
    [SIGINT, SIGTERM].into_iter().chain(hangup).collect()
}

/// Returns whether the process with this `/proc/PID/status` ignores a signal.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask & (1u64 << (signal - 1)) != 0
}

/// Signals of one kind within this time after the first one are one request: `timeout` and other launchers send theirs to the
/// process and to its group. So are SIGHUP and another one: systemd sends it after SIGTERM (SendSIGHUP).
const ONE_REQUEST: Duration = Duration::from_secs(1);

/// Returns a flag that Ctrl-C, SIGTERM or SIGHUP sets; a second request ends the program immediately.
pub(crate) fn stop_flag() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let watched = end_at_second_request().is_ok();
    for signal in stops() {
        // If they cannot be registered, Ctrl-C ends the program in the usual way.
        if !watched {
            // Any second signal then ends the program.
            let _ = signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone());
        }
        let _ = signal_hook::flag::register(signal, stop.clone());
    }
    stop
}

/// Starts a thread that ends the program at the second request.
fn end_at_second_request() -> std::io::Result<()> {
    let mut signals = Signals::new(stops())?;
    let watch = move || {
        let _ = drop_privileges(&[]);
        let mut first: Option<(i32, Stopwatch)> = None;
        for signal in signals.forever() {
            match first {
                None => first = Some((signal, Stopwatch::start())),
                Some((kind, since)) if is_same_request(kind, signal, since.elapsed()) => {}
                Some(_) => signal_hook::low_level::exit(130),
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).map(drop)
}

/// Whether a signal so long after the first one is of the same request.
fn is_same_request(first: i32, signal: i32, after: Duration) -> bool {
    (signal == first || [first, signal].contains(&SIGHUP)) && after < ONE_REQUEST
}

/// Makes the next Ctrl-C end the program immediately: what follows does not look at [`stop_flag`].
pub(crate) fn stop_at_once() {
    for signal in stops() {
        // If it cannot be registered, a second Ctrl-C ends the program.
        let _ = signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::new(AtomicBool::new(true)));
    }
}

/// Makes writes beyond the limit of a file's size (RLIMIT_FSIZE) fail, as on a full disk, instead of ending the program.
pub(crate) fn outgrow_signal() {
    // If it cannot be registered, the signal ends the program in the usual way.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

#[cfg(test)]
mod tests {
    use pktgen_core::time::SECOND;

    use super::*;

    #[test]
    fn copies_of_a_signal_are_one_request() {
        let at = Duration::from_millis;
        assert!(is_same_request(SIGTERM, SIGTERM, at(0)) && is_same_request(SIGINT, SIGINT, at(999)));
        assert!(!is_same_request(SIGTERM, SIGTERM, at(1000)) && !is_same_request(SIGINT, SIGTERM, at(0)));
        assert!(is_same_request(SIGTERM, SIGHUP, at(0)) && is_same_request(SIGHUP, SIGTERM, at(999)));
        assert!(!is_same_request(SIGHUP, SIGHUP, at(1000)) && !is_same_request(SIGHUP, SIGINT, at(1000)));
    }

    #[test]
    fn a_signal_that_the_process_was_started_without_is_ignored() {
        let status = |mask: &str| format!("Name:\tpktgen\nSigBlk:\t0001\nSigIgn:\t{mask}\nSigCgt:\t0001\n");
        for (mask, ignored) in [("0000000000000001", true), ("0000000000001001", true), ("0000000000001000", false)] {
            assert_eq!(is_ignored(&status(mask), SIGHUP), ignored, "{mask}");
        }
        assert!(is_ignored(&status("0000000000004000"), SIGTERM) && !is_ignored("", SIGHUP));
    }

    #[test]
    fn a_rate_is_that_of_the_run_under_way() {
        let progress = Progress { sent: 110_000, sent_before: 100_000, t: SECOND, ..Progress::default() };
        assert!(live(&progress).starts_with("110000 updates, 10000/s"), "{}", live(&progress));
    }
}
