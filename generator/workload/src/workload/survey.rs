//! What must be known of traces before they are replayed, one after the other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::config::{FromValue, Value, settings};
use crate::record::NO_CLUSTER;
use crate::schedule::Pass;
use crate::time::{Time, too_late};
use crate::topology::Population;
use crate::trace::{Reader, Rules, frame_of};
use crate::wire::frame::FRAME_MAX;
use crate::wire::update::elements_in;
use crate::workload::Update;
use crate::{Error, Result};

/// `workload.trace`: a file, or a list of files.
#[derive(Debug, Clone)]
pub(super) struct Traces(pub(super) Vec<PathBuf>);

settings! {
    /// What is read from `[workload]` of traces.
    pub(super) keys Replayed {
        /// Trace files to replay instead of generated updates.
        trace: Option<Traces>;
    }
}

impl FromValue for Traces {
    fn takes() -> String {
        "a file, or a list of files".to_owned()
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        let path = |value: &Value| match value {
            Value::Text(path) => Ok(PathBuf::from(path)),
            other => Err(format!("{} is {}; it must be a file, as a text", other.to_toml(), other.kind())),
        };
        match value {
            Value::List(items) if items.is_empty() => Err("the list is empty; name at least one trace".to_owned()),
            Value::List(items) => items.iter().map(|item| path(&item.value)).collect::<Result<_, _>>().map(Traces),
            one => path(one).map(|path| Traces(vec![path])),
        }
    }
}

/// One file of a replay.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) path: PathBuf,
    /// Its first time.
    pub(super) first: Time,
    /// Where its first time comes to lie.
    pub(super) offset: Time,
}

impl Leg {
    /// Where a time of the file comes to lie, before it is scaled; none beyond the range of a [`Time`].
    pub(super) fn at(&self, t: Time) -> Option<Time> {
        t.checked_sub(self.first)?.checked_add(self.offset)
    }
}

/// All files of a replay. Times begin at 0; each file begins a mean gap of the one before after its last update.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) legs: Vec<Leg>,
    pub(super) population: Population,
    pub(super) pass: Pass,
    /// Bytes of the largest frame, and of the largest that is no background traffic; 0 if all are.
    pub(super) frame_max: u32,
    pub(super) update_max: u32,
    /// Gradients in all.
    pub(super) values: u64,
    /// The first update whose pairs are more gradients than a frame holds: what is wrong with it where keys are not sent.
    pub(super) beyond: Option<String>,
    /// Whether rewards are sent, and whether the updates so far have some, as [`Rules::rewarded`] says.
    sends_rewards: bool,
    rewarded: Option<Option<bool>>,
}

/// Bytes of an update's frame where keys are not sent: as recorded, more where its gradients need more.
pub(super) fn keyless_bytes(update: &Update, keys: usize, values: usize) -> u32 {
    let needed = if keys > 0 { frame_of(values) } else { 0 };
    update.bytes.max(needed.min(FRAME_MAX) as u32)
}

impl Survey {
    /// Reads all files and refuses them if one breaks a rule, or if they are not of the same workers. `place` is
    /// where they are named.
    pub(super) fn make(traces: &Traces, place: &str) -> Result<Self> {
        Survey::read_all(traces, place, true)
    }

    /// The same for packets of pairs, which have no rewards.
    pub(super) fn of_pairs(traces: &Traces, place: &str) -> Result<Self> {
        Survey::read_all(traces, place, false)
    }

    fn read_all(traces: &Traces, place: &str, sends_rewards: bool) -> Result<Self> {
        let mut survey = Survey {
            legs: Vec::new(),
            population: Population::default(),
            pass: Pass::default(),
            frame_max: 0,
            update_max: 0,
            values: 0,
            beyond: None,
            sends_rewards,
            rewarded: None,
        };
        let mut offset = Some(0);
        for path in &traces.0 {
            let (population, own) = survey.read(path)?;
            let all = &mut survey.pass;
            let leg = offset.map(|offset| Leg { path: path.clone(), first: own.first, offset });
            let Some((leg, last)) = leg.and_then(|leg| leg.at(own.last).map(|last| (leg, last))) else {
                let keys = "replay fewer or shorter traces";
                let what = format!("{place}: the last update of {}", path.display());
                return Err(Error::config(too_late(&what, all.last as f64 + own.last as f64, keys)));
            };
            match survey.legs.first() {
                None => survey.population = population,
                Some(begin) if population != survey.population => {
                    return Err(differ(place, (&begin.path, &survey.population), (path, &population)));
                }
                Some(_) => {}
            }
            offset = last.checked_add(own.gap());
            *all = Pass { count: all.count + own.count, bits: all.bits + own.bits, first: 0, last };
            survey.legs.push(leg);
        }
        Ok(survey)
    }
}

/// Two traces that cannot follow each other.
fn differ(place: &str, one: (&Path, &Population), other: (&Path, &Population)) -> Error {
    let say = |(path, population): (&Path, &Population)| {
        let own: Vec<u16> = population.cluster_of.iter().copied().filter(|c| *c != NO_CLUSTER).collect();
        format!(
            "{} has {} workers in {} clusters and {} senders of background traffic",
            path.display(),
            own.len(),
            own.iter().collect::<BTreeSet<_>>().len(),
            population.len() - own.len()
        )
    };
    let mut pairs = one.1.cluster_of.iter().zip(&other.1.cluster_of);
    let elsewhere = pairs.position(|(before, now)| before != now);
    let first = elsewhere.map_or(String::new(), |worker| format!(", and worker {worker} is not in the same cluster"));
    Error::config(format!(
        "{place}: {}, but {}{first}; traces that are replayed one after the other must have the same workers in the same \
         clusters; `pktgen trace scale` makes them alike",
        say(one),
        say(other)
    ))
}

impl Survey {
    /// Reads a whole trace and refuses it if it breaks a rule.
    fn read(&mut self, path: &Path) -> Result<(Population, Pass)> {
        let mut reader = Reader::open(path)?;
        let mut rules = Rules::after(self.rewarded);
        let mut pass = Pass::default();
        // `pktgen trace check` takes traces whose updates have rewards in part, which leave `Some(None)`.
        let refuse = |what: &str, rewarded: Option<Option<bool>>| match rewarded {
            Some(None) => Error::data(path, what),
            _ => Error::data(path, format!("{what}; `pktgen trace check` says more")),
        };
        while let Some(block) = reader.next_block()? {
            for (i, update) in block.updates.iter().enumerate() {
                let (keys, values) = (block.keys(i), block.values(i));
                rules.update(update, values);
                if self.sends_rewards {
                    rules.reward(update);
                }
                rules.pairs(update.bytes, keys, values);
                self.values += values.len() as u64;
                if !keys.is_empty() && values.len() > elements_in(FRAME_MAX) && self.beyond.is_none() {
                    let (count, row) = (values.len(), rules.rows() - 1);
                    self.beyond = Some(format!(
                        "{}: row {row}: {count} pairs; a frame without keys has at most {} gradients: workload.kind = \"sparse\" sends \
                         any number",
                        path.display(),
                        elements_in(FRAME_MAX)
                    ));
                }
                let bytes = keyless_bytes(update, keys.len(), values.len());
                pass.add(update.t_gen, bytes);
                self.frame_max = self.frame_max.max(bytes);
                if update.cluster != NO_CLUSTER {
                    self.update_max = self.update_max.max(bytes);
                }
            }
            if let Some(what) = rules.problems().first() {
                return Err(refuse(what, rules.rewarded()));
            }
        }
        self.rewarded = rules.rewarded();
        let (cluster_of, problems) = rules.finish();
        match problems.first() {
            Some(what) => Err(refuse(what, self.rewarded)),
            None => Ok((Population { cluster_of, moves: Vec::new() }, pass)),
        }
    }
}
