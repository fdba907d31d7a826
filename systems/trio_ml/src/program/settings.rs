//! The keys of `[target]` that the program reads, and their limits.

use crate::format::HEADER;
use pktgen_core::config::Section;
use pktgen_core::time::{MS, SECOND, Time};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::HEAD;

use pktgen_engine::target::program::Place;

/// Keys besides those of the chip.
pub const KEYS: [&str; 11] = [
    "block_cnt_max",
    "block_grad_max",
    "timers",
    "timeout",
    "top_timeout",
    "mitigation",
    "tombstones",
    "straggler_interval",
    "straggler_misses",
    "straggler_min",
    "remove_stragglers",
];

/// Largest value of a 12-bit field of Figure 17.
const FIELD_12: u16 = 4095;
/// Blocks under way: windows have 4096 packets (§6.1) and up to 65,535 (§5), which `block_curr_cnt` of Figure 17 counts with 16 bits.
/// The 12 bits that `block_cnt_max` has in print, the default, hold neither.
const BLOCKS: u16 = FIELD_12;
const BLOCKS_MAX: u16 = 65_535;

/// What the control plane configures.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Blocks under way of a job at once (Figure 17).
    pub block_cnt_max: u16,
    /// Gradients of a block (Figure 17).
    pub block_grad_max: u16,
    /// Timer threads (§5, N).
    pub timers: u32,
    /// Interval of each, in milliseconds as in `block_exp` of Figure 17.
    pub timeout_ms: u8,
    /// The same on top of other devices.
    pub top_timeout_ms: u8,
    /// Are there timers?
    pub mitigation: bool,
    /// Are late packets dropped?
    pub tombstones: bool,
    /// Interval of the slow timer (§5, "Advanced straggler mitigation").
    pub straggler_interval: Time,
    /// Share of a job's aged blocks that a permanent straggler has missed.
    pub straggler_misses: f64,
    /// Aged blocks below which no straggler counts as permanent.
    pub straggler_min: u32,
    /// Are permanent stragglers taken out of their job?
    pub remove_stragglers: bool,
}

impl Settings {
    /// Reads them for a device at `place`.
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
        let timeout_ms = milliseconds(section, "timeout", 10)?;
        let top_timeout_ms = milliseconds(section, "top_timeout", 2 * u16::from(timeout_ms))?;
        let on_top = place.jobs.iter().any(has_devices_below);
        if on_top && 2 * u16::from(timeout_ms) > u16::from(u8::MAX) {
            return Err(Error::config(format!(
                "{}: {timeout_ms}ms: the device above waits twice as long, and block_exp holds 255 ms; use at most 127ms",
                section.place("timeout")
            )));
        }
        if on_top && top_timeout_ms < timeout_ms {
            return Err(Error::config(format!(
                "{}: {top_timeout_ms}ms is less than target.timeout = {timeout_ms}ms: the device on top would give up before those below \
                 can; use at least {timeout_ms}ms, or {}ms to wait until they have",
                section.place("top_timeout"),
                2 * u16::from(timeout_ms)
            )));
        }
        let straggler_interval: Span = section.get("straggler_interval", "1s")?;
        if !(MS..=1000 * SECOND).contains(&straggler_interval.ps()) {
            return Err(wrong(section, "straggler_interval", &straggler_interval, "from 1ms to 1000s"));
        }
        let straggler_misses: f64 = section.get("straggler_misses", 0.9)?;
        if !(straggler_misses > 0.0 && straggler_misses <= 1.0) {
            return Err(wrong(section, "straggler_misses", &straggler_misses, "above 0 and at most 1"));
        }
        Ok(Settings {
            block_cnt_max: number(section, "block_cnt_max", BLOCKS, BLOCKS_MAX)?,
            block_grad_max: number(section, "block_grad_max", room, room)?,
            timers: u32::from(number(section, "timers", 100, 10_000)?),
            timeout_ms,
            top_timeout_ms,
            mitigation: section.get("mitigation", true)?,
            tombstones: section.get("tombstones", false)?,
            straggler_interval: straggler_interval.ps(),
            straggler_misses,
            straggler_min: u32::from(number(section, "straggler_min", 10, u16::MAX)?),
            remove_stragglers: section.get("remove_stragglers", false)?,
        })
    }
}

/// Is this the top of a job with devices below?
pub(crate) fn has_devices_below(job: &pktgen_engine::groups::JobPlace) -> bool {
    job.own.is_none() && job.sources.iter().any(|source| source.worker.is_none())
}

fn wrong(section: &Section, key: &str, value: &dyn std::fmt::Display, range: &str) -> Error {
    Error::config(format!("{}: {value} is not {range}", section.place(key)))
}

fn number(section: &mut Section, key: &str, default: u16, most: u16) -> Result<u16> {
    let value: u16 = section.get(key, u32::from(default))?;
    if !(1..=most).contains(&value) {
        return Err(wrong(section, key, &value, &format!("from 1 to {most}")));
    }
    Ok(value)
}

/// A time as `block_exp` holds it (Figure 17): whole milliseconds in 8 bits. A default that does not fit is cut.
fn milliseconds(section: &mut Section, key: &str, default: u16) -> Result<u8> {
    let value: Span = section.get(key, format!("{}ms", default.min(255)).as_str())?;
    match u8::try_from(value.ps() / MS) {
        Ok(ms) if ms > 0 && value.ps() % MS == 0 => Ok(ms),
        _ => Err(wrong(section, key, &value, "a whole number of milliseconds from 1ms to 255ms")),
    }
}
