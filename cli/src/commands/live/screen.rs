//! Display of the run on the terminal.

use std::fs::File;
use std::io::{IsTerminal, Stderr, stderr, stdin};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pktgen_core::{Error, Result};
use pktgen_realtime::live::Glance;
use pktgen_realtime::steer::{SteerCommand, SteerState, Steering};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};
use ratatui::{Frame, Terminal};

use super::table::{COLUMNS, fitting, folded, known, row, totals};

/// Number of remembered rates: one every tenth of a second.
const REMEMBERED: usize = 600;
/// Height of the chart of rates, and minimum height of the table of clusters.
const CHART: u16 = 5;
const TABLE_MIN: u16 = 3;

/// Raw mode of the terminal at standard error; it is restored when this is dropped, if the terminal is still there.
struct RawMode;

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = disable_raw_mode();
        let _ = execute!(stderr(), LeaveAlternateScreen, Show);
    }
}

/// The display.
pub(super) struct Screen {
    _mode: RawMode,
    /// Never dropped: once the terminal is gone, that fails to show the cursor, and panics because it cannot say so.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stderr>>>,
    /// The terminal that keys are read from.
    keys: OwnedFd,
    /// The first cluster that is shown.
    top: usize,
    /// Whether clusters are sorted by age, oldest first, instead of by number.
    by_age: bool,
    /// Why the last key did nothing.
    refused: Option<String>,
    /// Number of updates sent so far, and between the last displays.
    sent: u64,
    rates: Vec<u64>,
}

impl Screen {
    /// Takes over the terminal at standard error.
    pub(super) fn open() -> Result<Screen> {
        let fails = |e: std::io::Error| Error::Host(format!("--tui: cannot draw on this terminal: {e}"));
        enable_raw_mode().map_err(fails)?;
        let mode = RawMode;
        execute!(stderr(), EnterAlternateScreen).map_err(fails)?;
        let keys = keys().map_err(fails)?;
        let terminal = ManuallyDrop::new(Terminal::new(CrosstermBackend::new(stderr())).map_err(fails)?);
        Ok(Screen { _mode: mode, terminal, keys, top: 0, by_age: false, refused: None, sent: 0, rates: Vec::new() })
    }

    /// Returns whether the terminal is still there. After a hangup, its descriptors are no terminal any more.
    fn is_open(&self) -> bool {
        self.keys.is_terminal() && stderr().is_terminal()
    }

    /// Draws, and handles pressed keys; nothing once the terminal is gone, which does not end a run by itself.
    pub(super) fn show(&mut self, glance: Option<&Glance>, stop: &AtomicBool, steering: Option<&Steering>) {
        let clusters = glance.map_or(0, |glance| glance.clusters.len());
        // `poll` does not return after a hangup: it reads the end of its input again and again.
        while self.is_open() && event::poll(Duration::ZERO).unwrap_or(false) {
            let Ok(Event::Key(key)) = event::read() else { continue };
            match code_of(&key) {
                KeyCode::Char('q') => stop.store(true, Ordering::Relaxed),
                KeyCode::Char('a') => self.by_age = !self.by_age,
                KeyCode::Down | KeyCode::Char('j') => self.top = (self.top + 1).min(clusters.saturating_sub(1)),
                KeyCode::Up | KeyCode::Char('k') => self.top = self.top.saturating_sub(1),
                KeyCode::Char(key) => self.steer(key, steering),
                _ => {}
            }
        }
        if let Some(glance) = glance {
            self.remember(glance.progress.sent);
        }
        if !self.is_open() {
            return;
        }
        let Screen { terminal, top, by_age, rates, refused, .. } = self;
        let steered = steering.map(Steering::state).map_or_else(String::new, |state| steered(&state));
        let state = if stop.load(Ordering::Relaxed) { "   ending" } else { &steered };
        let _ = terminal.draw(|frame| {
            draw(frame, glance, (top, *by_age), rates, state, refused.as_deref(), steering.is_some());
        });
    }

    /// Executes the control command of a key.
    fn steer(&mut self, key: char, steering: Option<&Steering>) {
        let Some(steering) = steering else { return };
        let command = match key {
            ' ' | 'p' if steering.state().held => SteerCommand::Resume,
            ' ' | 'p' => SteerCommand::Pause,
            's' => SteerCommand::Resume,
            '+' => SteerCommand::Factor(1.1),
            '-' => SteerCommand::Factor(1.0 / 1.1),
            '*' => SteerCommand::Factor(2.0),
            '/' => SteerCommand::Factor(0.5),
            'r' => SteerCommand::Reset,
            _ => return,
        };
        self.refused = steering.apply(command).err();
    }

    fn remember(&mut self, sent: u64) {
        if self.rates.len() == REMEMBERED {
            self.rates.remove(0);
        }
        self.rates.push(sent.saturating_sub(self.sent));
        self.sent = sent;
    }
}

/// Opens the terminal that crossterm reads keys from: standard input, or else the controlling terminal.
fn keys() -> std::io::Result<OwnedFd> {
    let input = stdin();
    if input.is_terminal() { input.as_fd().try_clone_to_owned() } else { File::open("/dev/tty").map(OwnedFd::from) }
}

/// Returns the code of a pressed key; none for keys with Ctrl or Alt, which are other keys. Ctrl-C is `q`.
fn code_of(key: &KeyEvent) -> KeyCode {
    // In this mode the terminal sends no signals.
    if key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL && key.kind == KeyEventKind::Press {
        return KeyCode::Char('q');
    }
    let is_plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    if key.kind == KeyEventKind::Press && is_plain { key.code } else { KeyCode::Null }
}

/// Describes the control state after the run's name; empty if it is not controlled.
fn steered(state: &SteerState) -> String {
    match (state.held, state.speed) {
        (true, _) => "   paused".to_owned(),
        (false, Some(speed)) if speed != 1.0 => format!("   {speed:.3} times its schedule"),
        (false, None) => state.pps.map_or_else(String::new, |pps| format!("   at most {pps:.0} packets/s")),
        _ => String::new(),
    }
}

/// Draws a run; `top` is at most its last cluster, since an earlier run of a sweep may have had more. With `steers` the
/// foot has the keys that steer it.
fn draw(
    frame: &mut Frame,
    glance: Option<&Glance>,
    (top, by_age): (&mut usize, bool),
    rates: &[u64],
    state: &str,
    key: Option<&str>,
    steers: bool,
) {
    let area = frame.area();
    let Some(glance) = glance else {
        return frame.render_widget(Paragraph::new("pktgen   waiting for a run in real time"), area);
    };
    let lines = |text: &str, style: Style| -> Vec<Line<'static>> {
        folded(text, area.width).into_iter().map(|line| Line::styled(line, style)).collect()
    };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut above = lines(&format!("pktgen   {}{state}", glance.name), bold);
    above.extend(totals(glance).iter().flat_map(|text| lines(text, Style::new())));
    let refused = glance.refused.iter().map(ToString::to_string);
    let warnings = glance.warnings.iter().take(3).map(ToString::to_string);
    let said = key.map(str::to_owned).into_iter().chain(refused).chain(warnings);
    let mut below: Vec<Line> = said.flat_map(|text| lines(&text, Style::new().fg(Color::Red))).collect();
    let steers = if steers { "space pause   +/- rate by 10 %   *// by 2   r reset   " } else { "" };
    below.extend(lines(&format!("q end   {steers}a oldest first   up/down scroll"), Style::new()));
    // On a low screen the chart is left out first, then the end of the foot.
    let head = above.len() as u16;
    let rest = area.height.saturating_sub(head + TABLE_MIN);
    let foot = rest.min(below.len() as u16);
    let chart = if rest - foot < CHART { 0 } else { CHART };
    let [head, chart, foot] = [head, chart, foot].map(Constraint::Length);
    let [head, chart, table, foot] = Layout::vertical([head, chart, Constraint::Min(0), foot]).areas(area);
    frame.render_widget(Paragraph::new(above), head);
    frame.render_widget(Paragraph::new(below), foot);
    let border = Block::bordered().title("updates sent, each tenth of a second");
    // A sparkline that does not fit lacks its last values.
    let shown = &rates[rates.len().saturating_sub(usize::from(border.inner(chart).width))..];
    frame.render_widget(Sparkline::default().data(shown).block(border), chart);
    *top = (*top).min(glance.clusters.len().saturating_sub(1));
    frame.render_widget(clusters(glance, *top, by_age, table.width), table);
}

/// Returns the table of clusters from `top` on, with the columns that fit into `wide` characters.
fn clusters(glance: &Glance, top: usize, by_age: bool, wide: u16) -> Table<'static> {
    let mut seen = glance.clusters.clone();
    if by_age {
        seen.sort_by_key(|seen| std::cmp::Reverse(seen.age));
    }
    let warned = |id: u16| glance.warnings.iter().any(|warning| warning.cluster == id);
    let knows = known(glance);
    let seen = &seen[top.min(seen.len())..];
    let cells: Vec<_> = seen.iter().map(|seen| row(seen, glance.expected, knows)).collect();
    let columns = fitting(&cells, wide);
    let rows = seen.iter().zip(&cells).map(|(seen, cells)| {
        let style = if warned(seen.id) { Style::new().fg(Color::Red) } else { Style::new() };
        Row::new(columns.iter().map(|(column, _)| cells[*column].clone())).style(style)
    });
    let head = Row::new(columns.iter().map(|(column, _)| COLUMNS[*column]));
    let widths = columns.iter().map(|(_, width)| Constraint::Length(*width));
    Table::new(rows, widths).header(head.style(Style::new().add_modifier(Modifier::UNDERLINED)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use pktgen_engine::target::program::Expected;
    use pktgen_realtime::driver::real_time::Progress;
    use pktgen_realtime::live::{ClusterStats, ClusterTotals, LiveTotals};
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Buffer;

    use super::*;

    /// Returns a run with eight clusters.
    fn glance() -> Glance {
        let none = ClusterTotals::default();
        let seen = |id| ClusterStats { id, totals: none, last: none, age: None, age_mean_ps: None };
        Glance {
            name: "x".to_owned(),
            dir: Arc::from(Path::new("x")),
            progress: Progress::default(),
            expected: Expected::Single,
            clusters: (0..8).map(seen).collect(),
            skipped: 0,
            warnings: Vec::new(),
            refused: None,
            totals: LiveTotals::default(),
            interval: None,
        }
    }

    /// Draws that run on so many columns.
    fn drawn(columns: u16, top: &mut usize, rates: &[u64], steers: bool) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(columns, 20)).expect("a terminal");
        let glance = glance();
        terminal.draw(|frame| draw(frame, Some(&glance), (top, false), rates, "", None, steers)).expect("it draws");
        terminal.backend().buffer().clone()
    }

    /// Numbers of usual rates, the number of deliveries that were not looked at, and messages are there as a whole.
    #[test]
    fn narrow_screens_cut_no_number_and_no_message() {
        let mut glance = glance();
        let last = ClusterTotals { sent: 39_200, packets: 39_150, updates: 39_150, bytes: 10_022_400 };
        for seen in &mut glance.clusters {
            (seen.totals, seen.last, seen.age, seen.age_mean_ps) = (last, last, Some(206_000_000), Some(1.5e9));
        }
        (glance.totals.sent, glance.skipped) = (Some(392_000), 12_345);
        let said = "nothing arrives at cluster 7, of 100 updates that were sent: see whether the device forwards";
        let text = |(columns, rows): (u16, u16), said: Option<&str>| -> Vec<String> {
            let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a terminal");
            terminal.draw(|frame| draw(frame, Some(&glance), (&mut 0, false), &[], "", said, true)).expect("it draws");
            let screen = terminal.backend().buffer();
            let line = |y: u16| (0..columns).map(|x| screen[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
            (0..rows).map(line).collect()
        };
        for size in [(80, 24), (40, 10)] {
            let lines = text(size, None);
            for part in ["not looked at in time 12345", "sent 392.0k", "received 313.2k packets, 641 Mbit/s"] {
                assert!(lines.iter().any(|line| line.contains(part)), "{part}: {lines:?}");
            }
            let at = lines.iter().position(|line| line.starts_with("cluster")).expect("a table");
            let (head, row) = (&lines[at], &lines[at + 1]);
            let wanted = if size.0 == 80 { ("mean age", "1.50 ms") } else { ("age", "206 µs") };
            assert!(head.ends_with(wanted.0) && row.ends_with(wanted.1) && row.contains("39.2k"), "{lines:?}");
        }
        let lines = text((40, 24), Some(said));
        let from = lines.iter().position(|line| line.starts_with("nothing arrives")).expect("the message");
        assert_eq!(lines[from..from + 3].join(" "), said);
        assert!(lines[23].ends_with("up/down scroll"), "{lines:?}");
    }

    #[test]
    fn keys_with_ctrl_or_alt_are_other_keys() {
        let code = |key, with| code_of(&KeyEvent::new(KeyCode::Char(key), with));
        for key in ['q', 'p', 's', ' ', '+', '-', '*', '/', 'r', 'a', 'j', 'k'] {
            assert_eq!(code(key, KeyModifiers::NONE), KeyCode::Char(key));
            // `+` and `*` are typed with Shift.
            assert_eq!(code(key, KeyModifiers::SHIFT), KeyCode::Char(key));
            for with in [KeyModifiers::CONTROL, KeyModifiers::ALT, KeyModifiers::CONTROL | KeyModifiers::ALT] {
                assert_eq!(code(key, with), KeyCode::Null, "{with:?} {key:?}");
            }
        }
        assert_eq!(code('c', KeyModifiers::CONTROL), KeyCode::Char('q'));
        assert_eq!(code('c', KeyModifiers::ALT), KeyCode::Null);
        let released = KeyEvent { kind: KeyEventKind::Release, ..KeyEvent::from(KeyCode::Char('q')) };
        assert_eq!(code_of(&released), KeyCode::Null);
    }

    #[test]
    fn the_foot_has_the_keys_that_do_something() {
        let foot = |steers| {
            let screen = drawn(100, &mut 0, &[], steers);
            (0..100u16).map(|x| screen[(x, 19u16)].symbol()).collect::<String>()
        };
        assert!(foot(true).starts_with("q end   space pause   +/- rate by 10 %"), "{}", foot(true));
        assert_eq!(foot(false).trim_end(), "q end   a oldest first   up/down scroll");
    }

    #[test]
    fn the_newest_rates_are_drawn() {
        let rates = [&[0u64; 98][..], &[9, 9]].concat();
        let screen = drawn(100, &mut 0, &rates, true);
        let bars: Vec<_> = (95..100u16).map(|x| screen[(x, 4u16)].symbol()).collect();
        assert_eq!(bars, [" ", " ", "█", "█", "│"]);
    }

    #[test]
    fn a_run_with_fewer_clusters_than_the_one_before_is_shown() {
        let mut top = 40;
        let screen = drawn(100, &mut top, &[], true);
        // Below the column headings.
        assert_eq!((screen[(0u16, 9u16)].symbol(), top), ("7", 7));
    }
}
