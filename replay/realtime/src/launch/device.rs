//! A launched device, from its start to its end.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use pktgen_core::{Error, Result};
use pktgen_engine::clause::LONGER;

use super::keeper::OUTPUT_MAX;
use super::ready::{Readiness, await_ready};
use super::session::Launched;
use super::settings::Launch;
use crate::counters;
use crate::plan::Spec;
use crate::transport::TransportPlan;

/// Bytes of an Ethernet header, which the MTU excludes, and minimum MTU of cables.
const ETHERNET: usize = 14;
const MTU_MIN: u32 = 1500;

/// A launched device that is ready. It ends on drop.
pub struct LaunchedDevice {
    session: Launched,
    readiness: Readiness,
    cables: Vec<(String, String)>,
    /// Command that prints its counters, and their values when it became ready.
    counters: Vec<String>,
    counted: BTreeMap<String, u64>,
    /// What later readings showed.
    read: Mutex<Readings>,
}

/// Readings of counters, which only grow.
#[derive(Debug, Default)]
struct Readings {
    /// The largest value of each counter.
    largest: BTreeMap<String, u64>,
    /// Counters that decreased, with the values before and after.
    fell: BTreeMap<String, [u64; 2]>,
}

impl Readings {
    /// Records the values `now`. Returns their increase since the `first` reading, and the reason if some have none.
    fn add(
        &mut self,
        first: &BTreeMap<String, u64>,
        now: BTreeMap<String, u64>,
    ) -> (BTreeMap<String, u64>, Option<String>) {
        for (name, value) in &now {
            let Some(first) = first.get(name) else { continue };
            let largest = self.largest.entry(name.clone()).or_insert(*first);
            if *value < *largest {
                self.fell.entry(name.clone()).or_insert([*largest, *value]);
            }
            *largest = (*largest).max(*value);
        }
        let wrong = (!self.fell.is_empty()).then(|| {
            let fell: Vec<_> =
                self.fell.iter().map(|(name, [from, to])| format!("{name} from {from} to {to}")).collect();
            format!("{COUNTERS}: counters only grow, and these fell during the run: {}", fell.join(", "))
        });
        let fell = |name: &String| self.fell.contains_key(name);
        let grew = |(name, value): (String, u64)| Some((value.checked_sub(*first.get(&name)?)?, name));
        let grown = now.into_iter().filter(|(name, _)| !fell(name)).filter_map(grew);
        (grown.map(|(value, name)| (name, value)).collect(), wrong)
    }
}

/// Adds the device's counters to the reason why it is not ready: they show where frames ended.
fn with_counters(why: Error, launch: &Launch, session: &Launched) -> Error {
    let Error::Invalid(why) = why else { return why };
    if launch.counters.is_empty() || session.is_dead() {
        return Error::Invalid(why);
    }
    let counted = match session.run(COUNTERS, &launch.counters) {
        Ok(Ok(text)) => match parse(&text) {
            Ok(counts) if counts.is_empty() => return Error::Invalid(why),
            Ok(counts) => {
                let counts: Vec<_> = counts.iter().map(|(name, value)| format!("{name} {value}")).collect();
                format!("it counted: {}", counts.join(", "))
            }
            Err(wrong) => wrong,
        },
        Ok(Err(wrong)) => wrong,
        Err(wrong) => wrong.to_string(),
    };
    Error::Invalid(format!("{why}; {counted}"))
}

/// The key of the command that prints counters.
const COUNTERS: &str = "target.launch.counters";

/// Parses counters as printed by a command.
fn parse(text: &str) -> Result<BTreeMap<String, u64>, String> {
    // The excess was discarded.
    counters::parse(text.as_bytes()).map_err(|e| match text.len() >= OUTPUT_MAX {
        true => format!("{COUNTERS}: it printed more than {} KiB, the limit; print fewer counters", OUTPUT_MAX >> 10),
        false => format!("{COUNTERS}: what it printed is no JSON object of whole numbers: {e}"),
    })
}

impl LaunchedDevice {
    /// Starts the device of a run whose frames have at most `frame_bytes` in the process, and waits until it is ready.
    pub(crate) fn start(spec: &Spec, frame_bytes: usize) -> Result<Option<LaunchedDevice>> {
        let (Some(launch), Some(hardware)) = (&spec.launch, &spec.hardware) else { return Ok(None) };
        let transport: &TransportPlan = &spec.transport;
        let cables = launch.cables(transport)?;
        // Clauses of certificates send longer frames than the experiment.
        let mtu = (transport.wire_bytes(frame_bytes) + LONGER).saturating_sub(ETHERNET) as u32;
        let session = Launched::start(launch, &cables, mtu.max(MTU_MIN))?;
        if !launch.tables.is_empty()
            && let Err(why) = session.fill_tables(launch)?
        {
            return Err(Error::Invalid(format!("not ready: {why}")));
        }
        let addresses = hardware.profile.addressing.resolve(&spec.workers).map_err(Error::Config)?;
        let readiness = await_ready(launch, &session, (spec, frame_bytes), &addresses)
            .map_err(|why| with_counters(why, launch, &session))?;
        let counters = launch.counters.clone();
        let (counted, read) = (BTreeMap::new(), Mutex::default());
        let mut device = LaunchedDevice { session, readiness, cables, counters, counted, read };
        device.counted = device.count()?.map_err(|why| Error::Invalid(format!("not ready: {why}")))?;
        Ok(Some(device))
    }

    /// Returns its counters, or why they cannot be used; empty if no command prints them.
    fn count(&self) -> Result<Result<BTreeMap<String, u64>, String>> {
        if self.counters.is_empty() {
            return Ok(Ok(BTreeMap::new()));
        }
        let printed = self.session.run(COUNTERS, &self.counters)?;
        Ok(printed.and_then(|text| parse(&text)))
    }

    /// Returns its counters when it became ready.
    pub(crate) fn counted(&self) -> &BTreeMap<String, u64> {
        &self.counted
    }

    /// Returns what it has counted since then, and the reason if some of it cannot be used.
    pub(crate) fn counted_since(&self) -> (BTreeMap<String, u64>, Option<String>) {
        let now = match self.count() {
            Ok(Ok(now)) => now,
            Ok(Err(why)) => return (BTreeMap::new(), Some(why)),
            Err(why) => return (BTreeMap::new(), Some(why.to_string())),
        };
        self.read.lock().unwrap_or_else(PoisonError::into_inner).add(&self.counted, now)
    }

    /// Returns whether a command prints its counters.
    pub(crate) fn counts(&self) -> bool {
        !self.counters.is_empty()
    }

    /// Returns what it has counted since it became ready; `None` if unknown.
    pub(crate) fn grown(&self) -> Option<BTreeMap<String, u64>> {
        let (counts, wrong) = self.counted_since();
        (wrong.is_none() || !counts.is_empty()).then_some(counts)
    }

    /// Returns what it has counted since it became ready. Without a command for that, ends the device and takes the
    /// counters it prints as it ends. `None` if unknown.
    pub fn into_counts(self) -> Option<BTreeMap<String, u64>> {
        let counts = if self.counts() { self.grown() } else { self.session.stop_for_counts() };
        counts.filter(|counts| !counts.is_empty())
    }

    /// Returns why it is dead, if it is.
    pub fn death(&self) -> Option<String> {
        self.session.is_dead().then(|| self.session.obituary())
    }

    /// Returns whether it is dead.
    pub(crate) fn is_dead(&self) -> bool {
        self.session.is_dead()
    }

    /// Returns facts for the manifest.
    pub(crate) fn facts(&self) -> BTreeMap<String, String> {
        let Readiness { after, by, unasked } = &self.readiness;
        let mut facts = BTreeMap::from([
            ("device.ready".to_owned(), format!("{by}, {:.3} s after its start", after.as_secs_f64())),
            ("device.unasked_frames".to_owned(), unasked.to_string()),
        ]);
        if !self.cables.is_empty() {
            let cables: Vec<_> = self.cables.iter().map(|(here, there)| format!("{here} - {there}")).collect();
            facts.insert("device.cables".into(), cables.join(", "));
        }
        if !self.session.without.is_empty() {
            facts.insert("device.without".into(), self.session.without.join("; "));
        }
        facts
    }

    /// Ends it. Returns what was wrong with its end, if anything.
    pub(crate) fn stop(self) -> Result<Option<String>> {
        self.session.stop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_beyond_the_limit_is_named() {
        let long = format!("{{\"{}\": 1}}", "a".repeat(OUTPUT_MAX));
        assert!(parse(&long[..OUTPUT_MAX]).is_err_and(|why| why.contains("more than 64 KiB")));
        assert!(parse("{\"a\"").is_err_and(|why| why.contains("no JSON object")));
        assert_eq!(parse("{\"a\": 1}").map(|counts| counts["a"]), Ok(1));
    }

    #[test]
    fn a_counter_that_fell_between_two_readings_has_no_value_from_then_on() {
        let of = |all: &[(&str, u64)]| all.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect::<BTreeMap<_, _>>();
        let (first, mut read) = (of(&[("d", 10), ("packets", 5)]), Readings::default());
        let mut add = |d, packets| read.add(&first, of(&[("d", d), ("packets", packets), ("new", 1)]));
        assert_eq!(add(500, 5), (of(&[("d", 490), ("packets", 0)]), None));
        // Both are above the first reading, and the last one above all.
        for d in [300, 600] {
            let (grown, wrong) = add(d, 8);
            assert_eq!(grown, of(&[("packets", 3)]));
            assert!(wrong.is_some_and(|why| why.ends_with("d from 500 to 300")), "{d}");
        }
        assert!(Readings::default().add(&first, of(&[("d", 9)])).1.is_some_and(|why| why.ends_with("d from 10 to 9")));
    }
}
