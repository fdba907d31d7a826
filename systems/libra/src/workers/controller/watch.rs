//! Conclusions of a controller from heartbeats (LIBRA §3.6: "uses these statistics along with the response delay to
//! detect whether the switch is about to fail"). The paper gives no thresholds: these are our choice.

use std::collections::VecDeque;

use pktgen_core::config::{Section, settings, spans};
use pktgen_core::time::{NS, SECOND, Time};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};

/// Minimum number of packets for computing the share of lost ones.
const PACKETS: u64 = 100;
/// Number of heartbeats whose send times are remembered.
const BEATS: usize = 1024;

/// Thresholds for considering a switch about to fail, or dead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Settings {
    /// Interval of heartbeats, also the timeout of all other requests.
    pub(super) heartbeat: Time,
    timeout: Time,
    loss_max: f64,
    memory_max: f64,
    delay_max: Time,
}

settings! {
    /// What the controller of standby switches reads from `[endpoint]`.
    pub(crate) keys Beats {
        /// Interval of heartbeats; also the timeout of the controller's other requests.
        heartbeat: Span = "1ms" in spans(NS..=SECOND);
        /// Silence after which a switch is considered dead; at least `heartbeat`.
        heartbeat_timeout: Span said "three heartbeats, at most 1s" in spans(NS..=SECOND);
        /// Loss among the last 100 or more packets above which a switch is considered about to fail.
        loss_max: f64 = 0.01 in 0.0..=1.0;
        /// Share of memory in use above which a switch is considered about to fail.
        memory_max: f64 = 0.9 in 0.0..=1.0;
        /// Response delay above which a switch is considered about to fail.
        delay_max: Span = "500us" in spans(NS..=SECOND);
    }
}

impl Settings {
    pub(super) fn read(section: &mut Section) -> Result<Self> {
        let heartbeat = Beats::heartbeat(section)?.ps();
        let thrice = Span::from_ps((heartbeat * 3).min(SECOND)).to_string();
        let timeout = Beats::heartbeat_timeout(section, thrice)?.ps();
        if timeout < heartbeat {
            return Err(Error::config(format!(
                "{}: a switch that answers every heartbeat would be taken for dead; give endpoint.heartbeat or more",
                section.place("heartbeat_timeout")
            )));
        }
        Ok(Settings {
            heartbeat,
            timeout,
            loss_max: Beats::loss_max(section)?,
            memory_max: Beats::memory_max(section)?,
            delay_max: Beats::delay_max(section)?.ps(),
        })
    }
}

/// Assessment of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is healthy.
    Well,
    /// It is about to fail.
    Failing,
}

#[derive(Debug, Clone, Copy)]
struct Switch {
    heard: Time,
    ever: bool,
    verdict: Verdict,
    /// Numbers of packets and of lost ones at the last computation of the share.
    since: (u64, u64),
    /// Whether it was replaced.
    left: bool,
    /// Whether it was replaced without a request to it.
    gone: bool,
}

/// Assessments of all switches.
#[derive(Debug)]
pub(super) struct Watch {
    switches: Vec<Switch>,
    next: Time,
    beats: u64,
    /// Send times of the last heartbeats, the latest at the end.
    sent: VecDeque<Time>,
}

impl Watch {
    pub(super) fn new(switches: usize) -> Self {
        let one = Switch { heard: 0, ever: false, verdict: Verdict::Well, since: (0, 0), left: false, gone: false };
        Watch { switches: vec![one; switches], next: 0, beats: 0, sent: VecDeque::new() }
    }

    pub(super) fn next_beat(&self) -> Time {
        self.next
    }

    pub(super) fn beats(&self) -> u64 {
        self.beats
    }

    /// Records that a heartbeat is sent at `t`; returns its number.
    pub(super) fn beat(&mut self, t: Time, settings: &Settings) -> u32 {
        self.next = t.saturating_add(settings.heartbeat);
        self.beats += 1;
        if self.sent.len() == BEATS {
            self.sent.pop_front();
        }
        self.sent.push_back(t);
        self.beats as u32
    }

    /// Continues at `t` after a pause without heartbeats: silence counts from here.
    pub(super) fn resume(&mut self, t: Time) {
        self.next = self.next.max(t);
        self.switches.iter_mut().for_each(|switch| switch.heard = switch.heard.max(t));
    }

    pub(super) fn heard(&mut self, switch: usize, t: Time) {
        (self.switches[switch].heard, self.switches[switch].ever) = (t, true);
    }

    /// Assesses a switch that answered heartbeat number `beat` at `t` with these numbers of packets and lost ones, and its memory in use.
    pub(super) fn judge(
        &mut self,
        switch: usize,
        t: Time,
        beat: u32,
        (packets, dropped, memory_ppm): (u64, u64, u32),
        settings: &Settings,
    ) -> Verdict {
        let back = (self.beats as u32).wrapping_sub(beat) as usize;
        let sent = self.sent.len().checked_sub(back + 1).and_then(|at| self.sent.get(at));
        // A heartbeat that is no longer remembered was sent long ago.
        let slow = sent.is_none_or(|sent| t - sent > settings.delay_max);
        let own = &mut self.switches[switch];
        let full = f64::from(memory_ppm) > settings.memory_max * 1e6;
        let new = (packets.saturating_sub(own.since.0), dropped.saturating_sub(own.since.1));
        let mut lossy = false;
        if new.0 >= PACKETS {
            own.since = (packets, dropped);
            lossy = new.1 as f64 > settings.loss_max * new.0 as f64;
        }
        own.verdict = if slow || full || lossy { Verdict::Failing } else { Verdict::Well };
        own.verdict
    }

    /// Whether a switch has been silent for too long.
    pub(super) fn is_silent(&self, switch: usize, t: Time, settings: &Settings) -> bool {
        t - self.switches[switch].heard >= settings.timeout
    }

    /// Whether a switch can take over.
    pub(super) fn is_healthy(&self, switch: usize, t: Time, settings: &Settings) -> bool {
        let own = &self.switches[switch];
        own.ever && !own.left && own.verdict == Verdict::Well && !self.is_silent(switch, t, settings)
    }

    /// Records that another switch has taken over; `gone` if this one was not asked.
    pub(super) fn leaves(&mut self, switch: usize, gone: bool) {
        (self.switches[switch].left, self.switches[switch].gone) = (true, gone);
    }

    pub(super) fn is_gone(&self, switch: usize) -> bool {
        self.switches[switch].gone
    }

    /// Records that a switch knows of its replacement.
    pub(super) fn retired(&mut self, switch: usize) {
        self.switches[switch].gone = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_core::time::{MS, US};

    fn settings() -> Settings {
        Settings::read(&mut Section::of("endpoint", &[])).unwrap()
    }

    #[test]
    fn each_threshold_is_one() {
        let (settings, mut watch) = (settings(), Watch::new(2));
        let one = watch.beat(0, &settings);
        let mut judge = |t, beat, status| watch.judge(0, t, beat, status, &settings);
        assert_eq!(judge(500 * US, one, (99, 50, 900_000)), Verdict::Well, "too few packets to say");
        assert_eq!(judge(500 * US + 1, one, (99, 50, 900_000)), Verdict::Failing, "slow");
        assert_eq!(judge(US, one, (99, 0, 900_001)), Verdict::Failing, "full");
        assert_eq!(judge(US, one, (200, 2, 0)), Verdict::Well);
        assert_eq!(judge(US, one, (300, 4, 0)), Verdict::Failing, "2 of 100");
        assert_eq!(judge(US, one, (400, 5, 0)), Verdict::Well, "1 of 100");
        assert_eq!(judge(US, one + 7, (500, 5, 0)), Verdict::Failing, "an answer to nothing");
    }

    #[test]
    fn silence_counts_from_the_last_answer() {
        let (settings, mut watch) = (settings(), Watch::new(2));
        assert!(!watch.is_healthy(1, 0, &settings), "it has said nothing yet");
        watch.heard(1, MS);
        assert!(watch.is_healthy(1, 4 * MS - 1, &settings) && !watch.is_healthy(1, 4 * MS, &settings));
        assert!(watch.is_silent(1, 4 * MS, &settings));
        watch.leaves(1, true);
        watch.heard(1, 5 * MS);
        assert!(!watch.is_healthy(1, 5 * MS, &settings) && watch.is_gone(1));
        watch.retired(1);
        assert!(!watch.is_gone(1));
    }

    #[test]
    fn impossible_values_name_their_key() {
        for (key, value) in [("heartbeat", "0s"), ("heartbeat_timeout", "10us"), ("delay_max", "2s")] {
            let error = Settings::read(&mut Section::of("endpoint", &[(key, value.into())])).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
        let error = Settings::read(&mut Section::of("endpoint", &[("loss_max", 1.5.into())])).unwrap_err().to_string();
        assert!(error.contains("loss_max"), "{error}");
    }
}
