//! `[verify]`: clusters, their arrivals, the device, the objective, in whole ticks of 1 µs.
//!
//! Read by [`super::aom_fairness`]. With whole ticks, every model of the solver is a trace that can be replayed.

use pktgen_core::config::{FromValue, Section, Value};
use pktgen_core::time::{HORIZON, US};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{FRAME_MAX, HEAD};
use pktgen_wire::wire::update::{ACK_HEAD, FRAME_MIN};
use pktgen_workload::control::SendingRule;

/// A time or duration in ticks of 1 µs.
pub type Ticks = i64;

/// Maximum time: an hour; sums over all updates are far below 64 bits.
const TICKS_MAX: Ticks = 3_600_000_000;
/// Maximum numbers of clusters and of updates per cluster: beyond, no solver succeeds.
const CLUSTERS_MAX: usize = 64;
const UPDATES_MAX: u32 = 1000;
/// Length of an acknowledgement without a model, in bits.
const ACK_BITS: i64 = (HEAD + ACK_HEAD) as i64 * 8;

/// Generation times of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Update k at phase + k · period + x, with any x in `0..=jitter`.
    Periodic {
        /// Period.
        period: Ticks,
        /// Phase; `None` for any in `0..period`.
        phase: Option<Ticks>,
        /// Jitter.
        jitter: Ticks,
    },
    /// The first at any time in `0..=gap_max`, each gap anywhere in `gap_min..=gap_max`.
    Free {
        /// Minimum gap.
        gap_min: Ticks,
        /// Maximum gap.
        gap_max: Ticks,
    },
}

impl Arrivals {
    /// Returns the earliest and latest generation of update `k`.
    pub fn window(&self, k: usize) -> (Ticks, Ticks) {
        let k = k as Ticks;
        match *self {
            Arrivals::Periodic { period, phase, jitter } => {
                let (first, last) = phase.map_or((0, period - 1), |p| (p, p));
                (first + k * period, last + k * period + jitter)
            }
            Arrivals::Free { gap_min, gap_max } => (k * gap_min, (k + 1) * gap_max),
        }
    }

    /// Returns the minimum time between two updates.
    pub(crate) fn least_gap(&self) -> Ticks {
        match *self {
            Arrivals::Periodic { period, jitter, .. } => period - jitter,
            Arrivals::Free { gap_min, .. } => gap_min,
        }
    }

    /// Returns the minimum and maximum duration of `gaps` gaps in this many separate stretches.
    pub fn stretch(&self, gaps: usize, stretches: Ticks) -> (Ticks, Ticks) {
        let gaps = gaps as Ticks;
        match *self {
            Arrivals::Periodic { period, jitter, .. } => {
                (gaps * period - stretches * jitter, gaps * period + stretches * jitter)
            }
            Arrivals::Free { gap_min, gap_max } => (gaps * gap_min, gaps * gap_max),
        }
    }

    /// Returns the duration that rates refer to: the period or the minimum gap.
    pub fn base(&self) -> Ticks {
        match *self {
            Arrivals::Periodic { period, .. } => period,
            Arrivals::Free { gap_min, .. } => gap_min,
        }
    }

    /// Returns the arrivals with all durations scaled by `to / from`, rounded down.
    pub fn scaled(&self, to: Ticks, from: Ticks) -> Arrivals {
        let scale = |x: Ticks| (i128::from(x) * i128::from(to) / i128::from(from)) as Ticks;
        match *self {
            Arrivals::Periodic { period, phase, jitter } => {
                Arrivals::Periodic { period: scale(period), phase: phase.map(scale), jitter: scale(jitter) }
            }
            Arrivals::Free { gap_min, gap_max } => Arrivals::Free { gap_min: scale(gap_min), gap_max: scale(gap_max) },
        }
    }
}

/// A cluster: one flow (§12.3), one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cluster {
    /// Number of updates that it generates.
    pub updates: usize,
    /// Their generation times.
    pub arrivals: Arrivals,
}

/// One configuration and one objective.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The clusters.
    pub clusters: Vec<Cluster>,
    /// p/C: transmission time of one update at the device.
    pub service: Ticks,
    /// Transmission time of one update on a worker's link.
    pub access: Ticks,
    /// Transmission time of an ACK on a link.
    pub ack: Ticks,
    /// Propagation delay of each link.
    pub delay: Ticks,
    /// Qmax.
    pub slots: u32,
    /// Whether the update in transmission holds its slot.
    pub hold_slot: bool,
    /// A cluster is active if it had an arrival this recently; `None`: any arrival.
    pub window: Option<Ticks>,
    /// Transmission control (§5).
    pub rule: SendingRule,
    /// Its slope as written.
    pub slope: Value,
    /// ε.
    pub epsilon: Ticks,
    /// Number of behaviours to try before the solver.
    pub candidates: u32,
}

impl Setup {
    /// Returns the time from generation to arrival at the device.
    pub(crate) fn inbound(&self) -> Ticks {
        self.access + self.delay
    }

    /// Returns the time from the start of a transmission to the delivery.
    pub fn outbound(&self) -> Ticks {
        self.service + self.delay
    }

    /// Returns the time from the delivery until the ACK is stamped, and from there until the workers receive it.
    pub(crate) fn ack_hop(&self) -> Ticks {
        self.ack + self.delay
    }

    /// An arrival is dropped if an update ahead of it starts later than this after the arrival: then all slots are
    /// taken. The starts of waiting updates are one service time apart.
    pub(crate) fn full_after(&self) -> Ticks {
        (Ticks::from(self.slots) - if self.hold_slot { 2 } else { 1 }) * self.service
    }

    /// Returns the minimum age of an ACK with `active` clusters at which a worker must send, in ticks.
    pub fn certain_from(&self, active: u16) -> Option<Ticks> {
        self.rule.certain_from(active, self.slots).map(|age| (age + US - 1) / US)
    }

    /// Refuses a setup that cannot be replayed, with the key. `place` returns a key's position in the file.
    pub fn check(&self, place: &dyn Fn(&str) -> String) -> Result<()> {
        let fail = |key: &str, what: String| Err(Error::config(format!("{}: {what}", place(key))));
        for (key, value) in [("service", self.service), ("access", self.access), ("ack", self.ack)] {
            if value < 1 {
                return fail(key, format!("{value}us is below 1us, one tick"));
            }
        }
        if self.window == Some(0) {
            return fail(
                "active_window",
                "a window of 0 holds no arrival; leave it out for one without end".to_owned(),
            );
        }
        if self.ack > self.service {
            return fail("ack", format!("{}us is above service, {}us: ACKs would queue", self.ack, self.service));
        }
        if ACK_BITS * US % self.ack != 0 {
            return fail(
                "ack",
                format!("no whole rate sends {ACK_BITS} bit in {}us; choose 1us, 2us, 5us, 8us ...", self.ack),
            );
        }
        for (v, cluster) in self.clusters.iter().enumerate() {
            let key = if matches!(cluster.arrivals, Arrivals::Free { .. }) { "gap_min" } else { "period" };
            if let Arrivals::Free { gap_min, gap_max } = cluster.arrivals
                && gap_min > gap_max
            {
                return fail(key, format!("cluster {v}: {gap_min}us is above gap_max, {gap_max}us"));
            }
            // All clusters' updates may wait before the last one.
            let waits =
                (self.clusters.len() as Ticks + 1) * self.service + self.inbound() + self.delay + 2 * self.ack_hop();
            let last = cluster.arrivals.window(cluster.updates.saturating_sub(1)).1;
            if last.saturating_add(waits) > HORIZON / US {
                let most = HORIZON / US;
                return fail(
                    key,
                    format!("cluster {v}: its last update comes at up to {last}us; a replay lasts {most}us at most"),
                );
            }
            let least = cluster.arrivals.least_gap();
            if least < self.access {
                return fail(
                    key,
                    format!(
                        "cluster {v}: updates may follow each other after {least}us, but the worker's link takes {}us (access)",
                        self.access
                    ),
                );
            }
        }
        if self.frame_bytes().is_none() {
            return fail(
                "service",
                format!(
                    "no frame of {FRAME_MIN} to {FRAME_MAX} bytes takes exactly {}us at the device and {}us at its worker at whole rates; choose rounder times",
                    self.service, self.access
                ),
            );
        }
        Ok(())
    }

    /// Returns the smallest frame that takes exactly `service` and `access` at rates of whole bits per second.
    pub fn frame_bytes(&self) -> Option<usize> {
        let exact = |bits: i64, ticks: Ticks| bits * US % ticks == 0;
        (FRAME_MIN..=FRAME_MAX).find(|bytes| {
            let bits = *bytes as i64 * 8;
            exact(bits, self.service) && exact(bits, self.access)
        })
    }
}

/// One value for all, or a list.
struct Several<T>(Vec<T>);

impl<T: FromValue> FromValue for Several<T> {
    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::List(items) if items.is_empty() => Err("the list is empty; write one value or more".into()),
            Value::List(items) => {
                items.iter().map(|item| T::from_value(&item.value)).collect::<Result<_, _>>().map(Several)
            }
            one => T::from_value(one).map(|value| Several(vec![value])),
        }
    }
}

/// A time in whole ticks.
#[derive(Clone, Copy)]
struct Tick(Ticks);

impl FromValue for Tick {
    fn from_value(value: &Value) -> Result<Self, String> {
        let span = Span::from_value(value)?;
        match (span.ps() % US, span.ps() / US) {
            (0, ticks) if ticks <= TICKS_MAX => Ok(Tick(ticks)),
            (0, _) => Err(format!("{span} is above 1h")),
            _ => Err(format!("{span} is not a whole number of microseconds, the verifier's tick")),
        }
    }
}

/// A phase: a time, or any.
#[derive(Clone, Copy)]
struct Phase(Option<Ticks>);

impl FromValue for Phase {
    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) if text == "free" => Ok(Phase(None)),
            other => Tick::from_value(other)
                .map(|tick| Phase(Some(tick.0)))
                .map_err(|why| format!("{why}; a phase is a time or \"free\"")),
        }
    }
}

/// `slope` as in §5, or a number per second; stored as written for the experiment of a witness.
struct Slope(Value);

impl FromValue for Slope {
    fn from_value(value: &Value) -> Result<Self, String> {
        let known = matches!(value, Value::Text(text) if text == "1/delta_t" || text == "delta_t");
        let number = f64::from_value(value).is_ok_and(|x| x >= 0.0);
        if known || number {
            return Ok(Slope(value.clone()));
        }
        Err(format!(
            "{} is no slope; write \"1/delta_t\", \"delta_t\" or a number per second from 0 on",
            value.to_toml()
        ))
    }
}

/// The keys of `[verify]`.
pub const KEYS: [&str; 20] = [
    "clusters",
    "updates",
    "arrivals",
    "period",
    "phase",
    "jitter",
    "gap_min",
    "gap_max",
    "service",
    "access",
    "ack",
    "delay",
    "slot_in_transmission",
    "active_window",
    "delta_t",
    "slope",
    "slots",
    "epsilon",
    "candidates",
    "rate_cluster",
];

/// Reads `[verify]`: one setup for each of `slots` and each of `epsilon`.
pub fn read(section: &mut Section) -> Result<Vec<Setup>> {
    let clusters = read_clusters(section)?;
    let tick = |section: &mut Section, key: &str, default: &str| section.get::<Tick>(key, default).map(|t| t.0);
    let service = tick(section, "service", "2ms")?;
    let access = tick(section, "access", "1us")?;
    let ack = tick(section, "ack", "1us")?;
    let delay = tick(section, "delay", "0us")?;
    let hold_slot = section.get("slot_in_transmission", true)?;
    let window = section.get_opt::<Tick>("active_window")?.map(|t| t.0);
    let threshold: Span = section.get("delta_t", "400ms")?;
    if threshold.ps() <= 0 {
        return Err(Error::config(format!("{}: {threshold} is not above 0", section.place("delta_t"))));
    }
    let Slope(slope) = section.get("slope", "1/delta_t")?;
    let rule = match &slope {
        Value::Text(text) if text == "delta_t" => SendingRule::fair(threshold.ps()),
        Value::Text(_) => SendingRule::urgent(threshold.ps()),
        number => SendingRule { threshold: threshold.ps(), slope: f64::from_value(number).unwrap_or_default() },
    };
    let Several(slots) = section.get::<Several<u32>>("slots", 2i64)?;
    let Several(epsilons) = section.get::<Several<Tick>>("epsilon", "100us")?;
    let candidates = section.get("candidates", 400u32)?;
    if let Some(bad) = slots.iter().find(|s| !(1..=1 << 20).contains(*s)) {
        return Err(Error::config(format!("{}: {bad} slots; a queue has 1 to {}", section.place("slots"), 1 << 20)));
    }
    let twice = |ticks: &[Ticks]| ticks.iter().enumerate().any(|(at, value)| ticks[..at].contains(value));
    let lists = [
        ("slots", slots.iter().map(|slots| Ticks::from(*slots)).collect::<Vec<_>>()),
        ("epsilon", epsilons.iter().map(|epsilon| epsilon.0).collect()),
    ];
    if let Some((key, _)) = lists.iter().find(|(_, values)| twice(values)) {
        return Err(Error::config(format!(
            "{}: a value is there twice; each combination is one case",
            section.place(key)
        )));
    }
    let mut setups = Vec::new();
    for &slots in &slots {
        for &Tick(epsilon) in &epsilons {
            let (clusters, slope) = (clusters.clone(), slope.clone());
            let setup = Setup {
                clusters,
                service,
                access,
                ack,
                delay,
                slots,
                hold_slot,
                window,
                rule,
                slope,
                epsilon,
                candidates,
            };
            setup.check(&|key| section.place(key))?;
            setups.push(setup);
        }
    }
    Ok(setups)
}

fn read_clusters(section: &mut Section) -> Result<Vec<Cluster>> {
    let count: u32 = section.get("clusters", 2u32)?;
    let count = count as usize;
    if !(2..=CLUSTERS_MAX).contains(&count) {
        return Err(Error::config(format!("{}: {count} clusters; 2 to {CLUSTERS_MAX}", section.place("clusters"))));
    }
    let updates = read_each::<u32>(section, "updates", 12i64, count)?;
    if let Some(bad) = updates.iter().find(|n| !(2..=UPDATES_MAX).contains(*n)) {
        return Err(Error::config(format!(
            "{}: {bad} updates; 2 to {UPDATES_MAX} (the first delivery of a first update has no peak)",
            section.place("updates")
        )));
    }
    let kind: String = section.get("arrivals", "periodic")?;
    let mut clusters = Vec::new();
    match kind.as_str() {
        "periodic" => {
            let periods = read_each::<Tick>(section, "period", "100ms", count)?;
            let phases = read_each::<Phase>(section, "phase", "free", count)?;
            let jitters = read_each::<Tick>(section, "jitter", "0us", count)?;
            for v in 0..count {
                let (period, phase, jitter) = (periods[v].0, phases[v].0, jitters[v].0);
                let arrivals = Arrivals::Periodic { period, phase, jitter };
                clusters.push(Cluster { updates: updates[v] as usize, arrivals });
            }
        }
        "free" => {
            let (least, most) = (
                read_each::<Tick>(section, "gap_min", "100ms", count)?,
                read_each::<Tick>(section, "gap_max", "200ms", count)?,
            );
            for v in 0..count {
                let arrivals = Arrivals::Free { gap_min: least[v].0, gap_max: most[v].0 };
                clusters.push(Cluster { updates: updates[v] as usize, arrivals });
            }
        }
        other => {
            return Err(Error::config(format!(
                "{}: there are no \"{other}\" arrivals; there are: periodic, free",
                section.place("arrivals")
            )));
        }
    }
    ["period", "phase", "jitter", "gap_min", "gap_max"].iter().for_each(|key| section.allow_elsewhere(key));
    Ok(clusters)
}

/// Reads one value per cluster; a single one applies to all.
fn read_each<T: FromValue + Copy>(
    section: &mut Section,
    key: &str,
    default: impl Into<Value>,
    count: usize,
) -> Result<Vec<T>> {
    let Several(values) = section.get::<Several<T>>(key, default)?;
    match values.len() {
        1 => Ok(vec![values[0]; count]),
        n if n == count => Ok(values),
        n => Err(Error::config(format!(
            "{}: {n} values for {count} clusters; write one, or one per cluster",
            section.place(key)
        ))),
    }
}
