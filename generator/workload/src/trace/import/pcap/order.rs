//! What was found in captures, in the order of time, with dense workers and numbers.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::{Found, Gathered, Sender, place};
use crate::time::HORIZON;
use crate::trace::import::Notes;
use crate::trace::import::sink::Sink;
use crate::wire::{Captured, update};
use crate::workload::Update;
use crate::{Error, Result};

/// Workers that are named in notes.
const NAMED: usize = 16;

/// Pushes all that was found, and notes what was derived.
pub(super) fn push(mut all: Gathered, inputs: &[PathBuf], sink: &mut Sink, notes: &mut Notes) -> Result<()> {
    let numbered = all.format.is_some_and(|format| format.facts().updates == Captured::Ours);
    let anchor_ps = all.origin.filter(|_| !numbered).map_or(0, |(origin, _)| origin);
    let workers = workers(&all.found, notes);
    all.found.sort_by_key(|found| (found.t, found.sender, found.seq, found.file, found.packet));
    let mut latest: HashMap<Sender, (u32, u32, usize)> = HashMap::new();
    let anew = if numbered { anew(&all.found) } else { HashSet::new() };
    let mut missing = 0u64;
    for (i, found) in all.found.iter().enumerate() {
        let refuse = |what: String| {
            let path: &Path = inputs.get(found.file).map_or(Path::new(""), |path| path);
            Error::data(path, format!("packet {}: {what}", found.packet))
        };
        let t = i64::try_from(found.t - anchor_ps).ok().filter(|t| (0..=HORIZON).contains(t));
        let t = t.ok_or_else(|| {
            refuse(format!("its time is {} ps from the begin; times are from 0 to {HORIZON} ps", found.t - anchor_ps))
        })?;
        // Numbers of an update before, if there was one: its own, the dense one, and where it is.
        let (before, seq) = match latest.get(&found.sender) {
            Some((before, seq, _)) => (Some(*before), seq + 1),
            None => (None, 0),
        };
        if numbered {
            let latest = latest.get(&found.sender).filter(|_| !anew.contains(&found.sender));
            if let Some((before, _, at)) = latest.filter(|(before, ..)| *before > found.seq) {
                return Err(refuse(format!(
                    "update {} of worker {} is generated after its update {before} ({}); its numbers or times are damaged",
                    found.seq,
                    found.sender.name(),
                    place(&all.found[*at], inputs)
                )));
            }
            let expected = before.map_or(0, |before| before.saturating_add(1));
            missing += if anew.contains(&found.sender) { 0 } else { u64::from(found.seq.saturating_sub(expected)) };
        }
        latest.insert(found.sender, (found.seq, seq, i));
        let update = Update {
            t_gen: t,
            cluster: found.cluster,
            worker: workers[&found.sender],
            seq,
            bytes: found.bytes,
            reward: found.reward,
            iteration: None,
        };
        sink.push(&update, &all.values[found.values.clone()], || place(found, inputs))?;
    }
    note(&all, numbered, missing, notes);
    if !anew.is_empty() {
        let mut names: Vec<Sender> = anew.into_iter().collect();
        names.sort_unstable();
        let named: Vec<_> = names.iter().take(NAMED).map(|sender| sender.name()).collect();
        let more = if names.len() > NAMED { format!(" and {} more", names.len() - NAMED) } else { String::new() };
        let text = format!(
            "numbers of {}{more} with several generation times: these workers began anew, or jobs share their numbers; which numbers \
             are missing of them is not known",
            named.join(", ")
        );
        notes.insert("anew".to_owned(), text);
    }
    Ok(())
}

/// Returns the senders with several updates of one number.
fn anew(found: &[Found]) -> HashSet<Sender> {
    let mut numbers = HashSet::new();
    found.iter().filter(|found| !numbers.insert((found.sender, found.seq))).map(|found| found.sender).collect()
}

/// What was derived, in words.
fn note(all: &Gathered, numbered: bool, missing: u64, notes: &mut Notes) {
    let mut say = |key: &str, words: String| notes.insert(key.to_owned(), words);
    if numbered {
        say("time", "of generation, as headers say".to_owned());
    } else {
        let is_noted = all.origin.is_some_and(|(_, noted)| noted);
        let from = if is_noted { "the start of the run" } else { "its earliest packet" };
        say("time", format!("of capture, from {from}"));
        say("seq", "counted per worker; copies are known only where packets say so".to_owned());
        say("cluster", "the job that packets name; 0 where they name none, or count tensors by it".to_owned());
    }
    if missing > 0 {
        say("seq", format!("made dense; {missing} numbers are not in the capture"));
    }
    if all.values.is_empty() {
        say("values", "left out: the packets have none as floats".to_owned());
    }
    if all.cut > 0 {
        say("values", format!("left out of {} updates whose packets were cut short", all.cut));
    }
    if all.grown > 0 {
        let least = format!("those of a trace, which have a header of ours and at least {} bytes", update::FRAME_MIN);
        say("bytes", format!("of {} updates {least}", all.grown));
    }
    if all.lanes > 0 {
        say("lanes", format!("the first values of {} updates are lanes (docs/provenance.md)", all.lanes));
    }
    if all.headless > 0 {
        say("time", format!("of generation, as headers say; of {} updates the arrival (docs/strict.md)", all.headless));
    }
}

/// Workers by their senders: dense from 0, in the order of number or address; job by job where jobs share numbers.
fn workers(found: &[Found], notes: &mut Notes) -> HashMap<Sender, u32> {
    let mut senders: Vec<Sender> = found.iter().map(|found| found.sender).collect();
    senders.sort_unstable();
    senders.dedup();
    let is_shared = senders.windows(2).any(|pair| pair[0].number == pair[1].number);
    if is_shared {
        senders.sort_unstable_by_key(|sender| (sender.job, sender.number));
    }
    let as_numbered = |(worker, sender): (usize, &Sender)| sender.number == worker as u64;
    if is_shared || !senders.iter().enumerate().all(as_numbered) {
        let name = |sender: &Sender| match sender.job.filter(|_| is_shared) {
            Some(job) => format!("{} of job {job}", sender.name()),
            None => sender.name(),
        };
        let pairs = senders.iter().enumerate().take(NAMED);
        let mut words: Vec<_> = pairs.map(|(i, sender)| format!("{i} is {}", name(sender))).collect();
        if senders.len() > NAMED {
            words.push(format!("and {} more in their order", senders.len() - NAMED));
        }
        notes.insert("workers".to_owned(), words.join(", "));
    }
    senders.into_iter().zip(0..).collect()
}
