//! Reads tables back as events, and joins tables of shards.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use pktgen_core::arrow::array::{Array, AsArray, RecordBatch};
use pktgen_core::arrow::datatypes::{Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use pktgen_core::{Error, Result};
use pktgen_records::batches::Batches;
use pktgen_records::line::Measured;
use pktgen_wire::wire::Formats;
use pktgen_wire::wire::sight::Sight;

use super::input::early_within_ps;
use super::meter::{Meter, Totals};
use super::tables::{INDEX, TableForm, TablesIndex, columns, folders, kept, side_folder};
use super::{Event, MEMORY, Side, lines};

/// Whether `dir` is a folder of tables.
pub fn is_tables(dir: &Path) -> bool {
    dir.join(INDEX).is_file()
}

/// Returns the metrics of tables: those of the captures that were exported. Their rows are of some of `formats`. With
/// `no_verify`, parts are read without checking them against the index.
pub fn analyze_tables(dir: &Path, formats: Formats, forwards: bool, no_verify: bool) -> Result<Measured> {
    let index = TablesIndex::read(dir)?;
    if !no_verify {
        index.verify(dir)?;
    }
    let mut sources = Source::find(dir, &index, &Rc::new(Numbers::of(dir, &index, formats)?))?;
    let sides = Side::ALL.map(|side| index.inputs.iter().any(|input| input.side == side));
    let mut meter = Meter::new(formats, sides[Side::Sender as usize], MEMORY);
    meter.leave_order(index.clocks.is_unrelated());
    let of_server = index.inputs.iter().filter(|input| input.side == Side::Server);
    meter.allow_early(early_within_ps(&index.clocks, of_server.map(|input| input.tally.resolution_ps)));
    let mut heads: BinaryHeap<Reverse<(u64, usize)>> =
        sources.iter().enumerate().filter_map(|(i, source)| source.head(i)).collect();
    while let Some(Reverse((_, first))) = heads.pop() {
        let source = &mut sources[first];
        if let Some((_, event)) = source.next.take() {
            meter.add(&event)?;
        }
        source.advance()?;
        heads.extend(source.head(first));
    }
    meter.compare_sides();
    // The tables hold deliveries; the index holds the counts of other packets, and whose contributions they were.
    meter.totals.unsent_workers |= index.unsent_workers;
    meter.totals.elsewhere += index.elsewhere;
    meter.totals.silent_jobs.extend(index.silent_jobs.iter().cloned());
    meter.totals.kinds = Totals::kinds_of(formats, &index.kinds);
    meter.totals.background = index.background;
    let shard = index.shard.map(|(index, of)| format!("{index}/{of}"));
    let facts = lines::Facts { sides, forwards, shard, format: None, clocks: &index.clocks, inputs: &index.inputs };
    lines::measured(&facts, meter)
}

/// Maps the format numbers of tables to those of this process.
struct Numbers {
    formats: Formats,
    /// Indexed by the number in the tables.
    here: Vec<u8>,
}

impl Numbers {
    fn of(dir: &Path, index: &TablesIndex, formats: Formats) -> Result<Self> {
        let here = |name: &String| match formats.iter().position(|format| format.name() == name) {
            Some(here) => Ok(here as u8),
            None => Err(Error::data(
                &dir.join(INDEX),
                format!("it has rows of the format \"{name}\", which is not known here; a newer pktgen wrote them"),
            )),
        };
        Ok(Numbers { formats, here: index.formats.iter().map(here).collect::<Result<_>>()? })
    }
}

/// The parts of one cluster at one side, in order.
struct Source {
    numbers: Rc<Numbers>,
    side: Side,
    cluster: u16,
    parts: std::vec::IntoIter<PathBuf>,
    /// The part being read, and its next batch. It is closed after its last batch: most parts of many clusters have one.
    open: Option<(Batches, RecordBatch)>,
    rows: Vec<(u64, Event)>,
    at: usize,
    next: Option<(u64, Event)>,
}

impl Source {
    fn find(dir: &Path, index: &TablesIndex, numbers: &Rc<Numbers>) -> Result<Vec<Source>> {
        let mut sources = Vec::new();
        for side in Side::ALL {
            let run = dir.join(side_folder(side)).join(format!("run={}", index.run));
            for folder in folders(&run)? {
                let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let Some(cluster) = name.strip_prefix("cluster=").and_then(|n| n.parse().ok()) else {
                    return Err(Error::data(&folder, "a folder of tables has folders cluster=N only"));
                };
                let mut source = Source {
                    numbers: numbers.clone(),
                    side,
                    cluster,
                    parts: parts(&folder, index.form)?.into_iter(),
                    open: None,
                    rows: Vec::new(),
                    at: 0,
                    next: None,
                };
                source.advance()?;
                sources.push(source);
            }
        }
        Ok(sources)
    }

    /// Returns the number of the next event, with the position of this source among all.
    fn head(&self, at: usize) -> Option<Reverse<(u64, usize)>> {
        self.next.as_ref().map(|(number, _)| Reverse((*number, at)))
    }

    fn advance(&mut self) -> Result<()> {
        loop {
            if let Some(row) = self.rows.get(self.at) {
                self.at += 1;
                self.next = Some(*row);
                return Ok(());
            }
            let mut batches = match self.open.take() {
                Some((batches, batch)) => {
                    self.rows = self.read(batches.path(), &batch)?;
                    self.at = 0;
                    batches
                }
                None => match self.parts.next() {
                    Some(path) => Batches::open(&path)?,
                    None => {
                        self.next = None;
                        return Ok(());
                    }
                },
            };
            let ahead = batches.next_batch()?;
            self.open = ahead.map(|batch| (batches, batch));
        }
    }

    fn read(&self, path: &Path, batch: &RecordBatch) -> Result<Vec<(u64, Event)>> {
        let names = columns(self.side);
        let wrong = |i: usize| damaged(path, &format!("column \"{}\" is missing or of another type", names[i].name));
        let column = |i: usize| batch.column_by_name(names[i].name).ok_or_else(|| wrong(i));
        macro_rules! values {
            ($i:literal, $kind:ty) => {
                column($i)?.as_primitive_opt::<$kind>().ok_or_else(|| wrong($i))?
            };
        }
        let (event, t, generation) = (values!(0, UInt64Type), values!(1, Int64Type), values!(2, Int64Type));
        let (worker, seq, round) = (values!(3, UInt32Type), values!(4, UInt32Type), values!(5, UInt16Type));
        let (attempt, count, bytes) = (values!(6, UInt8Type), values!(7, UInt16Type), values!(8, UInt32Type));
        let (elements, format) = (values!(9, UInt16Type), values!(10, UInt8Type));
        // Tables of version 1 lack this column.
        let content = match batch.column_by_name(names[11].name) {
            Some(_) => Some(values!(11, UInt32Type)),
            None => None,
        };
        let Numbers { formats, here } = &*self.numbers;
        let row = |i: usize| {
            let number = format.value(i);
            let known = here.get(usize::from(number)).copied();
            let format = known.ok_or_else(|| damaged(path, &format!("no format has the number {number}")))?;
            let sight = Sight {
                what: kept(formats, self.side, format),
                cluster: self.cluster,
                worker: worker.is_valid(i).then(|| worker.value(i)),
                seq: seq.value(i),
                round: round.value(i),
                attempt: attempt.value(i),
                generation: generation.is_valid(i).then(|| generation.value(i)),
                count: count.value(i),
                elements: elements.value(i),
            };
            let content = content.map_or(0, |content| content.value(i));
            let event_of = Event { t: t.value(i), side: self.side, bytes: bytes.value(i), format, sight, content };
            Ok((event.value(i), event_of))
        };
        (0..batch.num_rows()).map(row).collect()
    }
}

/// Returns the number of sources of tables, and of those whose part is still open after their first events were read.
#[cfg(test)]
pub(super) fn open_parts(dir: &Path, formats: Formats) -> Result<(usize, usize)> {
    let index = TablesIndex::read(dir)?;
    let sources = Source::find(dir, &index, &Rc::new(Numbers::of(dir, &index, formats)?))?;
    Ok((sources.len(), sources.iter().filter(|source| source.open.is_some()).count()))
}

fn damaged(path: &Path, what: &str) -> Error {
    Error::data(path, format!("it is not a whole table of updates: {what}"))
}

/// Returns the parts in `dir` by number; none may be missing.
fn parts(dir: &Path, form: TableForm) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).map_err(Error::io("read", dir))?;
    let n = entries.filter(|entry| entry.is_ok()).count();
    let named: Vec<PathBuf> = (0..n).map(|part| dir.join(format!("part-{part}.{}", form.name()))).collect();
    match named.iter().find(|path| !path.is_file()) {
        Some(missing) => {
            Err(Error::data(missing, "it is missing although the folder has as many files; copy all of it"))
        }
        None => Ok(named),
    }
}

/// Joins tables of all shards of the same captures in `out`, which must be new or empty; `no_verify` accepts changed files.
pub fn merge_tables(shards: &[PathBuf], out: &Path, no_verify: bool) -> Result<TablesIndex> {
    let mut merged: Option<TablesIndex> = None;
    let mut there = BTreeSet::new();
    let mut of = 0;
    for dir in shards {
        let index = TablesIndex::read(dir)?;
        if !no_verify {
            index.verify(dir)?;
        }
        let Some((number, all)) = index.shard else {
            return Err(Error::data(dir, "it is of all clusters, not of a shard: there is nothing to join"));
        };
        if !there.insert(number) {
            return Err(Error::data(dir, format!("shard {number}/{all} was given twice")));
        }
        match &mut merged {
            None => {
                of = all;
                merged = Some(TablesIndex { shard: None, ..index });
            }
            Some(first) => {
                let same = all == of
                    && first.inputs == index.inputs
                    && (first.version, &first.formats) == (index.version, &index.formats)
                    && (first.form, &first.run, &first.clocks) == (index.form, &index.run, &index.clocks);
                if !same {
                    let what = format!(
                        "it is of other captures, another division or other clocks than {}",
                        shards[0].display()
                    );
                    return Err(Error::data(dir, what));
                }
                for (kind, n) in index.kinds {
                    *first.kinds.entry(kind).or_default() += n;
                }
                first.unsent_workers |= index.unsent_workers;
                first.elsewhere += index.elsewhere;
                first.silent_jobs.extend(index.silent_jobs);
                first.files.extend(index.files);
                first.background = [0, 1].map(|side| first.background[side] + index.background[side]);
            }
        }
    }
    let missing: Vec<String> = (1..=of).filter(|n| !there.contains(n)).map(|n| format!("{n}/{of}")).collect();
    let Some(merged) = merged.filter(|_| missing.is_empty()) else {
        return Err(Error::config(format!("shards are missing: {}", missing.join(", "))));
    };
    fs::create_dir_all(out).map_err(Error::io("create", out))?;
    if fs::read_dir(out).map_err(Error::io("read", out))?.next().is_some() {
        return Err(Error::config(format!("--out {}: the folder is not empty; name a new one", out.display())));
    }
    for dir in shards {
        for side in Side::ALL.map(side_folder) {
            let run = format!("{side}/run={}", merged.run);
            for folder in folders(&dir.join(&run))? {
                let to = out.join(&run).join(folder.file_name().unwrap_or_default());
                copy_folder(&folder, &to)?;
            }
        }
    }
    merged.write(out)?;
    Ok(merged)
}

/// Hard-links the files of a folder into a new one, or copies them.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        return Err(Error::data(from, format!("{} is there already: a cluster is in one shard only", to.display())));
    }
    fs::create_dir_all(to).map_err(Error::io("create", to))?;
    for entry in fs::read_dir(from).map_err(Error::io("read", from))? {
        let path = entry.map_err(Error::io("read", from))?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if fs::hard_link(&path, &target).is_err() {
            fs::copy(&path, &target).map_err(Error::io("copy", &path))?;
        }
    }
    Ok(())
}
