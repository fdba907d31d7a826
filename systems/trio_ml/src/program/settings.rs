//! The keys of `[target]` for the program, and their limits.

use crate::format::{ELEMENTS_MAX, HEADER};
use pktgen_core::config::{Section, above_to, settings, spans};
use pktgen_core::time::{MS, SECOND, Time};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::HEAD;

use pktgen_engine::target::program::Place;

/// Maximum of a 12-bit field of Figure 17.
const FIELD_12: u16 = 4095;
/// Number of blocks in progress: windows have 4096 packets (§6.1) and up to 65,535 (§5), which `block_curr_cnt` of
/// Figure 17 counts with 16 bits. The 12 bits of the printed `block_cnt_max`, the default, suffice for neither.
const BLOCKS: u16 = FIELD_12;
const BLOCKS_MAX: u16 = 65_535;

settings! {
    /// What it reads from `[target]` whose defaults depend on others.
    pub(crate) keys Timeouts {
        /// Interval of each timer thread, in whole milliseconds up to 255ms (`block_exp` of Figure 17); a block that
        /// received nothing during an interval is given up.
        timeout: Span = "10ms" in spans(MS..=255 * MS);
        /// `timeout` of a device above other devices, in whole milliseconds.
        top_timeout: Span said "twice `timeout`, at most 255ms" in spans(MS..=255 * MS);
        /// Maximum number of gradients per block (Figure 17).
        block_grad_max: u16 said "what the largest frame holds" in 1..=ELEMENTS_MAX;
    }
}

settings! {
    /// The rest.
    pub(crate) struct Written {
        /// Maximum number of open blocks per job (Figure 17).
        block_cnt_max: u16 = BLOCKS in 1..=BLOCKS_MAX;
        /// Timer threads (§5, N).
        timers: u32 = 100 in 1..=10_000;
        /// Whether timers give up blocks (straggler mitigation).
        mitigation: bool = true;
        /// Whether packets for finished blocks are recognised and dropped.
        tombstones: bool = false;
        /// Interval of the slow timer (§5, "Advanced straggler mitigation").
        straggler_interval: Span = "1s" in spans(MS..=1000 * SECOND);
        /// Share of a job's aged blocks that a source must miss to count as a permanent straggler.
        straggler_misses: f64 = 0.9 in above_to(0.0, 1.0);
        /// Minimum number of aged blocks before a straggler counts as permanent.
        straggler_min: u32 = 10 in 1..=u32::from(u16::MAX);
        /// Whether permanent stragglers are removed from their job.
        remove_stragglers: bool = false;
    }
}

/// The configuration by the control plane.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Maximum number of a job's blocks in progress (Figure 17).
    pub block_cnt_max: u16,
    /// Maximum number of gradients of a block (Figure 17).
    pub block_grad_max: u16,
    /// Number of timer threads (§5, N).
    pub timers: u32,
    /// Interval of each timer thread, in milliseconds as in `block_exp` of Figure 17.
    pub timeout_ms: u8,
    /// The same for a device above other devices.
    pub top_timeout_ms: u8,
    /// Whether there are timers.
    pub mitigation: bool,
    /// Whether late packets are dropped.
    pub tombstones: bool,
    /// Interval of the slow timer (§5, "Advanced straggler mitigation").
    pub straggler_interval: Time,
    /// Share of a job's timed-out blocks that a permanent straggler must have missed.
    pub straggler_misses: f64,
    /// Minimum number of timed-out blocks before a straggler counts as permanent.
    pub straggler_min: u32,
    /// Whether permanent stragglers are removed from their job.
    pub remove_stragglers: bool,
}

impl Settings {
    /// Reads the settings for a device at `place`.
    pub fn read(section: &mut Section, place: &Place) -> Result<Self> {
        let room = (place.frame_bytes.saturating_sub(HEAD + HEADER) / 4).min(usize::from(FIELD_12)) as u16;
        if room == 0 {
            return Err(Error::config(format!(
                "{}: frames have at most {} bytes and {} are headers; no gradient fits",
                section.place("block_grad_max"),
                place.frame_bytes,
                HEAD + HEADER
            )));
        }
        let timeout_ms = Timeouts::timeout(section).and_then(|span| milliseconds(section, "timeout", span))?;
        let states_top = section.has("top_timeout");
        let twice = format!("{}ms", (2 * u16::from(timeout_ms)).min(255));
        let top_timeout = Timeouts::top_timeout(section, twice)?;
        let top_timeout_ms = milliseconds(section, "top_timeout", top_timeout)?;
        let on_top = place.jobs.iter().any(has_devices_below);
        if on_top && !states_top && 2 * u16::from(timeout_ms) > u16::from(u8::MAX) {
            return Err(Error::config(format!(
                "{}: {timeout_ms}ms: the device above waits twice as long, and block_exp holds 255 ms; use at most 127ms, or \
                 set target.top_timeout",
                section.place("timeout")
            )));
        }
        if on_top && top_timeout_ms < timeout_ms {
            return Err(Error::config(format!(
                "{}: {top_timeout_ms}ms is less than target.timeout = {timeout_ms}ms: the device on top would give up before those below \
                 can; use at least {timeout_ms}ms, or {}ms to wait until they have",
                section.place("top_timeout"),
                (2 * u16::from(timeout_ms)).min(255)
            )));
        }
        let written = Written::read(section)?;
        let block_grad_max = Timeouts::block_grad_max(section, room)?;
        section.within("block_grad_max", [&block_grad_max], &(1..=room), "")?;
        Ok(Settings {
            block_cnt_max: written.block_cnt_max,
            block_grad_max,
            timers: written.timers,
            timeout_ms,
            top_timeout_ms,
            mitigation: written.mitigation,
            tombstones: written.tombstones,
            straggler_interval: written.straggler_interval.ps(),
            straggler_misses: written.straggler_misses,
            straggler_min: written.straggler_min,
            remove_stragglers: written.remove_stragglers,
        })
    }
}

/// Whether this is the top device of a job with devices below.
pub(crate) fn has_devices_below(job: &pktgen_engine::groups::JobPlace) -> bool {
    job.own.is_none() && job.sources.iter().any(|source| source.worker.is_none())
}

/// Converts a time to `block_exp` (Figure 17): whole milliseconds in 8 bits.
fn milliseconds(section: &Section, key: &str, value: Span) -> Result<u8> {
    match u8::try_from(value.ps() / MS) {
        Ok(ms) if ms > 0 && value.ps() % MS == 0 => Ok(ms),
        _ => Err(Error::config(format!(
            "{}: {value} is not a whole number of milliseconds from 1ms to 255ms",
            section.place(key)
        ))),
    }
}
