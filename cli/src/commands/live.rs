//! Looking on at a run in real time: on the terminal, by Prometheus, and by a word where the device does not do what it is there for.
//!
//! Called by the commands that run something, with how far it is, ten times a second. Nothing here is on the packet path.

mod prometheus;
mod screen;
mod stats;
mod table;

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;
use pktgen_core::printable::printable;
use pktgen_core::time::{MS, Time};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_realtime::driver::real_time::Progress;
use pktgen_realtime::live::{Glance, View};
use pktgen_realtime::run::Experiment;

use crate::args::Looking;
use crate::ui::{Ui, live};
use prometheus::Exporter;
use screen::Screen;
use stats::StatsWriter;

/// The shortest interval of statistics.
const STATS_MIN: Time = 100 * MS;

/// Clusters of which a run's warnings are said; of more it is only said that there are more.
const SAID_MAX: usize = 5;

/// Who looks on.
pub(crate) struct Live {
    view: Arc<View>,
    stop: Arc<AtomicBool>,
    screen: Option<Mutex<Screen>>,
    exporter: Option<Exporter>,
    stats: Option<Mutex<StatsWriter>>,
    /// Clusters that were warned of.
    said: Mutex<BTreeSet<u16>>,
    /// It was said that nothing leaves.
    refused: AtomicBool,
}

impl Live {
    /// As the flags say; `stop` is what ends the run.
    pub(crate) fn new(flags: &Looking, stop: Arc<AtomicBool>, ui: &Ui) -> Result<Live> {
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
        let stats = every.map(|_| StatsWriter::open(flags.stats_to.as_deref())).transpose()?.map(Mutex::new);
        let exporter = flags.metrics.map(Exporter::serve).transpose()?;
        let screen = flags.tui.then(Screen::open).transpose()?.map(Mutex::new);
        Ok(Live {
            view: Arc::new(View::with_intervals(every)),
            stop,
            screen,
            exporter,
            stats,
            said: Mutex::default(),
            refused: AtomicBool::new(false),
        })
    }

    /// The experiment, being looked at.
    pub(crate) fn watch(&self, experiment: Experiment) -> Result<Experiment> {
        if self.stats.is_some() && !experiment.is_real_time()? {
            return Err(Error::config(
                "--stats: these runs are in virtual time, which has no intervals to wait for; leave it out, or give transport.kind of a \
                 transport in real time (pktgen list transports)",
            ));
        }
        Ok(experiment.watched_by(self.view.clone()))
    }

    /// Ends looking on. Returns the exit code.
    pub(crate) fn end(self, ui: &Ui) -> u8 {
        let Live { screen, exporter, stats, .. } = self;
        drop((screen, exporter));
        stats.map_or(0, |stats| stats.into_inner().unwrap_or_else(PoisonError::into_inner).end(ui))
    }

    /// The bar, unless there is a screen in its place.
    pub(crate) fn bar(&self, bar: ProgressBar) -> ProgressBar {
        if self.screen.is_some() { ProgressBar::hidden() } else { bar }
    }

    /// A note, unless it would be written across the screen.
    pub(crate) fn note(&self, text: &str, bar: &ProgressBar, ui: &Ui) {
        if self.screen.is_none() {
            bar.suspend(|| ui.note(text));
        }
    }

    /// So far it is; `before` stands before the words of a bar.
    pub(crate) fn tell(&self, before: &str, progress: &Progress, bar: &ProgressBar, ui: &Ui) {
        let glance = self.view.look(progress);
        if let (Some(glance), Some(exporter)) = (&glance, &self.exporter) {
            exporter.publish(glance);
        }
        if let (Some(stats), Some(Glance { name, interval: Some(interval), .. })) = (&self.stats, &glance) {
            let mut stats = stats.lock().unwrap_or_else(PoisonError::into_inner);
            bar.suspend(|| stats.write(name, interval, ui));
        }
        if let Some(screen) = &self.screen {
            screen.lock().unwrap_or_else(PoisonError::into_inner).show(glance.as_ref(), &self.stop);
            return;
        }
        let agreed = glance.as_ref().map_or(progress, |glance| &glance.progress);
        bar.set_message(format!("{}{}", printable(before), live(agreed)));
        if let Some(glance) = glance {
            self.warn(&glance, bar, ui);
        }
    }

    /// Says what is wrong, once per cluster.
    fn warn(&self, glance: &Glance, bar: &ProgressBar, ui: &Ui) {
        if let Some(refused) = &glance.refused
            && !self.refused.swap(true, Ordering::Relaxed)
        {
            self.note(&format!("{}: {refused}", glance.name), bar, ui);
        }
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in &glance.warnings {
            if said.len() > SAID_MAX || !said.insert(warning.cluster) {
                continue;
            }
            match said.len() {
                n if n > SAID_MAX => self.note("and more clusters (--tui shows all)", bar, ui),
                _ => self.note(&format!("{}: {warning}", glance.name), bar, ui),
            }
        }
    }
}
