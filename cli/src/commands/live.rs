//! Observation of real-time runs: on the terminal, by Prometheus, and by a warning if the device does not work as declared.
//!
//! Called with the progress ten times a second by commands that run experiments. Nothing here is on the packet path.

mod control;
mod prometheus;
mod screen;
mod stats;
mod table;

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;
use pktgen_core::printable::printable;
use pktgen_core::time::{MS, Time};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_realtime::driver::real_time::Progress;
use pktgen_realtime::live::{Glance, View};
use pktgen_realtime::run::Experiment;
use pktgen_realtime::steer::Steering;
use pktgen_realtime::transport::{Capabilities, Transport};

use crate::args::Looking;
use crate::ui::{Ui, live};
pub(crate) use control::VERSION as CONTROL_VERSION;
use control::{ControlServer, ControlSocket};
use prometheus::Exporter;
use screen::Screen;
pub(crate) use stats::RUN_ROWS;
use stats::StatsWriter;

/// Minimum interval of statistics.
const STATS_MIN: Time = 100 * MS;

/// Maximum number of clusters in a warning.
const SAID_MAX: usize = 5;

/// All observers of a run.
pub(crate) struct Live {
    view: Arc<View>,
    stop: Arc<AtomicBool>,
    screen: Option<Mutex<Screen>>,
    exporter: Option<Exporter>,
    stats: Option<Mutex<StatsWriter>>,
    steering: Option<Arc<Steering>>,
    control: Option<ControlServer>,
    said: Mutex<Said>,
}

/// The warnings that were printed about a run.
#[derive(Default)]
struct Said {
    /// Its run dir.
    dir: Option<Arc<Path>>,
    /// Clusters with a warning.
    clusters: BTreeSet<u16>,
    /// Whether it was reported that nothing is sent.
    refused: bool,
}

impl Said {
    /// Returns the new warnings: one per cluster of a run.
    fn news(&mut self, glance: &Glance) -> Vec<String> {
        if self.dir.as_deref() != Some(&*glance.dir) {
            *self = Said { dir: Some(glance.dir.clone()), ..Said::default() };
        }
        let mut news = Vec::new();
        if let Some(refused) = &glance.refused
            && !std::mem::replace(&mut self.refused, true)
        {
            news.push(format!("{}: {refused}", glance.name));
        }
        for warning in &glance.warnings {
            if self.clusters.len() > SAID_MAX || !self.clusters.insert(warning.cluster) {
                continue;
            }
            news.push(match self.clusters.len() {
                n if n > SAID_MAX => "and more clusters (--tui shows all)".to_owned(),
                _ => format!("{}: {warning}", glance.name),
            });
        }
        news
    }
}

impl Live {
    /// Creates the observers of runs according to the flags; `transports` plans the runs, if there are any flags, and
    /// returns their transports. `stop` ends the run, and `sends` is whether this process has the workers.
    pub(crate) fn new(
        flags: &Looking,
        transports: impl FnOnce() -> Result<Vec<&'static dyn Transport>>,
        sends: bool,
        stop: Arc<AtomicBool>,
        ui: &Ui,
    ) -> Result<Live> {
        // Before anything is opened, mistakes of the experiment, too.
        let transports = flags.first().map(|_| transports()).transpose()?.unwrap_or_default();
        let any = |can: fn(Capabilities) -> bool| transports.iter().any(|kind| can(kind.capabilities()));
        let (is_real_time, is_steerable) = (any(|can| can.real_time), any(|can| can.real_time && !can.own_time));
        refuse_unsupported(flags, is_real_time, is_steerable)?;
        if flags.tui && !std::io::stderr().is_terminal() {
            return Err(Error::config(
                "--tui: standard error is no terminal; leave --tui out, or use --metrics ADDRESS",
            ));
        }
        if let Some(address) = flags.metrics.filter(|address| !address.ip().to_canonical().is_loopback()) {
            ui.note(&format!(
                "warning: --metrics {address} is readable by everyone who reaches this host; 127.0.0.1:{} by this host only",
                address.port()
            ));
        }
        let every = match flags.stats {
            Some(every) if every.ps() < STATS_MIN => {
                return Err(Error::config(format!("--stats {every}: give at least 100ms, as 1s")));
            }
            every => every.map(Span::ps),
        };
        let on_output = flags.stats_to.as_ref().is_none_or(|path| path.as_os_str() == "-");
        if flags.tui && every.is_some() && on_output && std::io::stdout().is_terminal() {
            return Err(Error::config(
                "--stats: the screen of --tui is on this terminal; give --stats-to FILE.csv or FILE.jsonl",
            ));
        }
        if flags.hold && !flags.tui && flags.control.is_none() {
            return Err(Error::config("--hold: there is no way to start the run; add --control or --tui"));
        }
        let stats = every.map(|_| StatsWriter::open(flags.stats_to.as_deref())).transpose()?.map(Mutex::new);
        let view = Arc::new(View::with_intervals(every));
        let has_keys = flags.tui && sends && is_steerable;
        let (steering, control) = steer(flags, has_keys, &stop, &view, ui)?;
        let exporter = flags.metrics.map(Exporter::serve).transpose()?;
        let screen = flags.tui.then(Screen::open).transpose()?.map(Mutex::new);
        Ok(Live { view, stop, screen, exporter, stats, steering, control, said: Mutex::default() })
    }

    /// Returns the experiment with observation.
    pub(crate) fn watch(&self, experiment: Experiment) -> Experiment {
        let experiment = experiment.watched_by(self.view.clone());
        match &self.steering {
            Some(steering) => experiment.steered_by(steering.clone()),
            None => experiment,
        }
    }

    /// Ends observation. Returns the exit code.
    pub(crate) fn end(self, ui: &Ui) -> u8 {
        let Live { screen, exporter, stats, control, .. } = self;
        drop((screen, exporter, control));
        stats.map_or(0, |stats| stats.into_inner().unwrap_or_else(PoisonError::into_inner).end(ui))
    }

    /// Returns the bar, hidden if there is a screen.
    pub(crate) fn bar(&self, bar: ProgressBar) -> ProgressBar {
        if self.screen.is_some() { ProgressBar::hidden() } else { bar }
    }

    /// Prints a note unless it would be written over the screen.
    pub(crate) fn note(&self, text: &str, bar: &ProgressBar, ui: &Ui) {
        if self.screen.is_none() {
            bar.suspend(|| ui.note(text));
        }
    }

    /// Reports the progress; `before` is the prefix of the bar's text.
    pub(crate) fn tell(&self, before: &str, progress: &Progress, bar: &ProgressBar, ui: &Ui) {
        let glance = self.view.look(progress).map(Arc::new);
        if let Some(exporter) = &self.exporter {
            exporter.publish(glance.clone());
        }
        if let (Some(stats), Some(glance)) = (&self.stats, &glance) {
            let mut stats = stats.lock().unwrap_or_else(PoisonError::into_inner);
            match glance.interval {
                Some(_) => bar.suspend(|| stats.write(glance, ui)),
                None => stats.write(glance, ui),
            }
        }
        if let Some(screen) = &self.screen {
            screen.lock().unwrap_or_else(PoisonError::into_inner).show(
                glance.as_deref(),
                &self.stop,
                self.steering.as_deref(),
            );
            return;
        }
        let agreed = glance.as_ref().map_or(progress, |glance| &glance.progress);
        bar.set_message(format!("{}{}", printable(before), live(agreed)));
        if let Some(glance) = glance {
            self.warn(&glance, bar, ui);
        }
    }

    /// Warns of problems, once per cluster and run.
    fn warn(&self, glance: &Glance, bar: &ProgressBar, ui: &Ui) {
        let news = self.said.lock().unwrap_or_else(PoisonError::into_inner).news(glance);
        news.iter().for_each(|text| self.note(text, bar, ui));
    }
}

/// Refuses flags that no run supports: none is in real time, or none can be steered.
fn refuse_unsupported(flags: &Looking, is_real_time: bool, is_steerable: bool) -> Result<()> {
    let watches = [(flags.tui, "--tui"), (flags.metrics.is_some(), "--metrics"), (flags.stats.is_some(), "--stats")];
    if let Some((_, flag)) = watches.into_iter().find(|(given, _)| *given)
        && !is_real_time
    {
        return Err(Error::config(format!(
            "{flag}: not supported in virtual time; leave it out, or set transport.kind to a transport in real time \
             (pktgen list transports)"
        )));
    }
    let steers = [(flags.hold, "--hold"), (flags.control.is_some(), "--control")];
    if let Some((_, flag)) = steers.into_iter().find(|(given, _)| *given)
        && !is_steerable
    {
        return Err(Error::config(format!(
            "{flag}: not supported in virtual time and over files; leave it out, or set transport.kind to another \
             transport in real time (pktgen list transports)"
        )));
    }
    Ok(())
}

/// Returns the control of the runs by keys, if `has_keys`, and by the socket, if requested.
fn steer(
    flags: &Looking,
    has_keys: bool,
    stop: &Arc<AtomicBool>,
    view: &Arc<View>,
    ui: &Ui,
) -> Result<(Option<Arc<Steering>>, Option<ControlServer>)> {
    let Some(chosen) = &flags.control else {
        let steering = || Steering::new(stop.clone(), view.clone(), flags.hold, None, Box::new(|_, _| {}));
        return Ok((has_keys.then(|| Arc::new(steering())), None));
    };
    let socket = ControlSocket::bind(chosen.as_deref())?;
    let path = socket.path().to_owned();
    ui.note(&format!("control: {}", path.display()));
    let tell = Box::new(socket.events());
    let steering = Arc::new(Steering::new(stop.clone(), view.clone(), flags.hold, Some(path), tell));
    let server = socket.serve(steering.clone())?;
    Ok((Some(steering), Some(server)))
}

#[cfg(test)]
mod tests {
    use pktgen_core::time::SECOND;
    use pktgen_engine::target::program::Expected;
    use pktgen_realtime::live::{LiveTotals, Refused, Warning, WarningKind};

    use super::*;

    fn glance(dir: &str, clusters: std::ops::Range<u16>) -> Glance {
        let what = WarningKind::Silence;
        let warning = |cluster| Warning { cluster, what, sent: 100, packets: 0, length: SECOND };
        Glance {
            name: dir.to_owned(),
            dir: Arc::from(Path::new(dir)),
            progress: Progress::default(),
            expected: Expected::Single,
            clusters: Vec::new(),
            skipped: 0,
            warnings: clusters.map(warning).collect(),
            refused: Some(Refused { attempts: 9, length: SECOND }),
            totals: LiveTotals::default(),
            interval: None,
        }
    }

    #[test]
    fn every_run_has_its_own_warnings() {
        let mut said = Said::default();
        for dir in ["sweep/a", "sweep/b"] {
            let news = said.news(&glance(dir, 0..2));
            assert_eq!(news.len(), 3, "{news:?}");
            assert!(news.iter().all(|text| text.starts_with(dir)), "{news:?}");
            assert_eq!(said.news(&glance(dir, 0..2)), [""; 0]);
            // The first warning of a cluster is its only one, whatever the next one says.
            let mut other = glance(dir, 0..2);
            other.warnings.iter_mut().for_each(|warning| warning.what = WarningKind::NoAggregation);
            assert_eq!(said.news(&other), [""; 0]);
            // One more line than clusters are named.
            assert_eq!(said.news(&glance(dir, 0..20)).len(), SAID_MAX - 2 + 1);
            assert_eq!(said.news(&glance(dir, 0..40)), [""; 0]);
        }
    }
}
