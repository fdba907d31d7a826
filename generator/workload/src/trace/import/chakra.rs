//! MLCommons Chakra execution traces: what ranks send, as times and sizes (docs/import.md).
//!
//! A file is what one rank does (`NAME.RANK.et`); nodes that sum over ranks or send to one become updates. There are no
//! gradients in it, and no rewards.

mod file;
mod protobuf;
mod times;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::sink::Sink;
use super::{GZIP, ImportOptions, Importer, Notes, counted, name_of, unpacked_name};
use crate::registry::Named;
use crate::time::{HORIZON, US};
use crate::wire::frame::{FRAME_MAX, HEAD};
use crate::wire::update::{FRAME_MIN, UPDATE_HEAD};
use crate::workload::Update;
use crate::{Error, Result};
use file::{COLLECTIVE, Node, RECEIVE, SEND};
use times::Times;

/// Collectives by their numbers in the schema. The first two sum over ranks at one place, as devices do.
const COLLECTIVES: [&str; 10] = [
    "all-reduce",
    "reduce",
    "all-gather",
    "gather",
    "scatter",
    "broadcast",
    "all-to-all",
    "reduce-scatter",
    "reduce-scatter-block",
    "barrier",
];
const SUMS: usize = 2;
/// Most frames of all messages: a trace has a row for each.
const FRAMES_MAX: u64 = 1 << 24;
/// Most messages, which are held until they are in order.
const MESSAGES_MAX: usize = 1 << 24;

/// The importer.
pub(crate) struct Chakra;

impl Named for Chakra {
    fn name(&self) -> &'static str {
        "chakra"
    }
    fn about(&self) -> &'static str {
        "MLCommons Chakra execution traces, one file per rank: all-reduce, reduce and send nodes, times and sizes only"
    }
}

impl Importer for Chakra {
    fn extensions(&self) -> &'static [&'static str] {
        &["et"]
    }

    fn unpacks(&self) -> &'static [&'static str] {
        &[GZIP]
    }

    fn several(&self) -> bool {
        true
    }

    fn flags(&self) -> &'static [&'static str] {
        &["--split", "--by-group"]
    }

    fn read(&self, inputs: &[PathBuf], options: &ImportOptions, sink: &mut Sink) -> Result<Notes> {
        let ranks = ranks(inputs)?;
        let mut all = Gathered::default();
        for (worker, (_, input)) in ranks.iter().enumerate() {
            all.rank(&file::nodes(input)?, worker as u32).map_err(|what| Error::data(input, what))?;
        }
        let mut notes = Notes::new();
        all.note(&mut notes);
        if ranks.iter().enumerate().any(|(worker, (rank, _))| u64::from(*rank) != worker as u64) {
            let said = ranks.iter().enumerate().map(|(worker, (rank, _))| format!("{worker} is rank {rank}"));
            notes.insert("workers".to_owned(), said.collect::<Vec<_>>().join(", "));
        }
        all.push(&ranks, options, sink, &mut notes)?;
        Ok(notes)
    }
}

/// Files by the rank that their names end with: `job.3.et` is rank 3's. One file alone needs none.
fn ranks(inputs: &[PathBuf]) -> Result<Vec<(u32, &Path)>> {
    let mut ranks = Vec::new();
    for input in inputs {
        let (name, _) = unpacked_name(input);
        let stem = name.strip_suffix(".et").unwrap_or(&name);
        let rank = stem.rsplit_once('.').map_or(stem, |(_, rank)| rank).parse::<u32>().ok();
        let rank = rank.or_else(|| (inputs.len() == 1).then_some(0)).ok_or_else(|| {
            Error::config(format!(
                "{}: its name does not say whose it is; name files as job.0.et, job.1.et",
                input.display()
            ))
        })?;
        ranks.push((rank, input.as_path()));
    }
    ranks.sort();
    if let Some(pair) = ranks.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let (rank, a, b) = (pair[0].0, pair[0].1.display(), pair[1].1.display());
        return Err(Error::config(format!("{a} and {b} are both of rank {rank}; give one file of each rank")));
    }
    Ok(ranks)
}

/// What a node sends.
struct Message {
    /// Microseconds, in the time of the file.
    start: u64,
    worker: u32,
    node: u64,
    at: u64,
    size: u64,
    group: Option<String>,
}

/// What all ranks send.
#[derive(Default)]
struct Gathered {
    messages: Vec<Message>,
    /// Times are recorded: of the first file, whose others must be alike.
    recorded: Option<bool>,
    /// The earliest time of all files.
    origin: Option<u64>,
    /// Messages with a time, and those whose time follows from what they wait for.
    stamped: u64,
    derived: u64,
    passed: BTreeMap<&'static str, u64>,
}

impl Gathered {
    /// Takes the messages of a rank.
    fn rank(&mut self, nodes: &[(u64, Node)], worker: u32) -> Result<(), String> {
        let mut times = Times::new(nodes)?;
        if *self.recorded.get_or_insert(times.recorded) != times.recorded {
            let which = if times.recorded {
                "it has start times, ranks before it have none"
            } else {
                "it has no start times, ranks before it have some"
            };
            return Err(format!("{which}: their clocks cannot be brought together; convert each alone"));
        }
        self.origin = Some(self.origin.map_or(times.origin, |origin| origin.min(times.origin)));
        let before = self.messages.len();
        for (place, (at, node)) in nodes.iter().enumerate() {
            let within = |what: String| format!("byte {at}: node {}: {what}", node.id);
            let Some(size) = self.size(node).map_err(within)? else { continue };
            if self.messages.len() >= MESSAGES_MAX {
                return Err(within(format!("there are more than {MESSAGES_MAX} messages; convert fewer ranks")));
            }
            let start = times.start(place)?;
            *(if node.start > 0 { &mut self.stamped } else { &mut self.derived }) += 1;
            let group = node.group.clone();
            self.messages.push(Message { start, worker, node: node.id, at: *at, size, group });
        }
        if self.messages.len() == before {
            return Err(format!(
                "none of its {} nodes is an all-reduce, a reduce or a send of some bytes",
                nodes.len()
            ));
        }
        Ok(())
    }

    /// How many bytes a node sends, if it is one that becomes updates.
    fn size(&mut self, node: &Node) -> Result<Option<u64>, String> {
        let kind = match (node.kind, node.comm_type) {
            (SEND | RECEIVE | COLLECTIVE, _) if node.on_host => "launched by the host",
            (SEND, _) => "send",
            (RECEIVE, _) => "receive",
            (COLLECTIVE, None) => {
                return Err("a collective without the attribute comm_type: what it does is not known".into());
            }
            (COLLECTIVE, Some(kind)) => {
                let name = usize::try_from(kind).ok().and_then(|kind| COLLECTIVES.get(kind));
                name.ok_or_else(|| format!("comm_type is {kind}; there are 0 to {}", COLLECTIVES.len() - 1))?
            }
            _ => return Ok(None),
        };
        let sends = kind == "send" || COLLECTIVES[..SUMS].contains(&kind);
        if sends {
            let size = node.comm_size.ok_or("no attribute comm_size: how much it sends is not known")?;
            let size = u64::try_from(size).map_err(|_| format!("comm_size is {size}; it must be 0 or more"))?;
            if size > 0 {
                return Ok(Some(size));
            }
        }
        *self.passed.entry(if sends { "empty" } else { kind }).or_insert(0) += 1;
        Ok(None)
    }

    fn note(&self, notes: &mut Notes) {
        let times = [("recorded", self.stamped), ("derived from what a node waits for", self.derived)];
        if let Some(said) = counted(times) {
            notes.insert("time".to_owned(), said);
        }
        if let Some(passed) = counted(self.passed.iter().map(|(what, n)| (*what, *n))) {
            notes.insert("passed_over".to_owned(), passed);
        }
        notes.insert("values".to_owned(), "left out: execution traces have none".to_owned());
    }

    /// Cuts messages into frames, in the order of time.
    fn push(
        mut self,
        ranks: &[(u32, &Path)],
        options: &ImportOptions,
        sink: &mut Sink,
        notes: &mut Notes,
    ) -> Result<()> {
        // Nodes of a rank at one time stay in the order of the file.
        self.messages.sort_by_key(|message| (message.start, message.worker));
        let input = |message: &Message| ranks[message.worker as usize].1;
        let within = |message: &Message, what: String| {
            Error::data(input(message), format!("byte {}: node {}: {what}", message.at, message.node))
        };
        let clusters =
            clusters(&self.messages, options.by_group, notes).map_err(|(message, what)| within(message, what))?;
        let room =
            options.split.map_or(FRAME_MAX, |split| (split as usize).clamp(FRAME_MIN, FRAME_MAX)) - HEAD - UPDATE_HEAD;
        let room = (room / 4 * 4) as u64;
        let mut frames = 0u64;
        for message in &self.messages {
            if options.split.is_none() && message.size > room {
                let (size, frames) = (message.size, message.size.div_ceil(room));
                let fix = format!("--split {FRAME_MAX}B makes {frames} of it");
                return Err(within(
                    message,
                    format!("comm_size is {size} bytes, and a frame has room for {room}; {fix}"),
                ));
            }
            frames = frames.saturating_add(message.size.div_ceil(room));
            if frames > FRAMES_MAX {
                let what = format!("with its {} bytes there are more than {FRAMES_MAX} frames", message.size);
                return Err(within(message, format!("{what}; {}", fewer_frames(options.split))));
            }
        }
        let mut next_seq = vec![0u32; ranks.len()];
        for message in &self.messages {
            let since = message.start - self.origin.unwrap_or(0).min(message.start);
            let t_gen = i64::try_from(since).ok().and_then(|us| us.checked_mul(US)).filter(|t| *t <= HORIZON);
            let t_gen = t_gen.ok_or_else(|| {
                within(message, format!("it begins {since} us after the first; at most {} us", HORIZON / US))
            })?;
            let mut left = message.size;
            while left > 0 {
                let part = left.min(room);
                left -= part;
                let bytes = (HEAD + UPDATE_HEAD) as u32 + part as u32;
                let seq = next_seq[message.worker as usize];
                next_seq[message.worker as usize] += 1;
                let cluster = message.group.as_ref().and_then(|group| clusters.get(group)).copied().unwrap_or(0);
                let bytes = bytes.max(FRAME_MIN as u32);
                let update =
                    Update { t_gen, cluster, worker: message.worker, seq, bytes, reward: None, iteration: None };
                sink.push(&update, &[], || format!("{}: node {}", name_of(input(message)), message.node))?;
            }
        }
        if self.messages.len() as u64 != frames {
            notes.insert(
                "frames".to_owned(),
                format!("{frames} of {} messages, all of one at its time", self.messages.len()),
            );
        }
        Ok(())
    }
}

/// How the user gets fewer frames.
fn fewer_frames(split: Option<u32>) -> String {
    match split {
        Some(split) if (split as usize) < FRAME_MAX => {
            format!("give a larger --split, to {FRAME_MAX}B, or fewer ranks, or cut the trace")
        }
        _ => "give fewer ranks, or cut the trace".to_owned(),
    }
}

/// Clusters by process groups, in the order of their names; none unless asked for.
fn clusters<'a>(
    messages: &'a [Message],
    by_group: bool,
    notes: &mut Notes,
) -> Result<BTreeMap<String, u16>, (&'a Message, String)> {
    if !by_group {
        return Ok(BTreeMap::new());
    }
    let mut groups = BTreeSet::new();
    let mut of_worker: BTreeMap<u32, &String> = BTreeMap::new();
    for message in messages {
        let group = message.group.as_ref();
        let group = group.ok_or_else(|| (message, "no attribute pg_name; leave out --by-group".to_owned()))?;
        let before = *of_worker.entry(message.worker).or_insert(group);
        if before != group {
            let what =
                format!("group \"{group}\", after \"{before}\": a worker is in one cluster; leave out --by-group");
            return Err((message, what));
        }
        groups.insert(group.clone());
        if groups.len() > usize::from(u16::MAX) {
            return Err((message, format!("more than {} groups; leave out --by-group", u16::MAX)));
        }
    }
    let clusters: BTreeMap<String, u16> = groups.into_iter().zip(0..u16::MAX).collect();
    let said: Vec<_> = clusters.iter().map(|(group, cluster)| format!("{cluster} is \"{group}\"")).collect();
    notes.insert("clusters".to_owned(), said.join(", "));
    Ok(clusters)
}
