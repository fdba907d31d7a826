//! CSV with the columns of a trace, in any order, with a header line.
//!
//! Quotes, separators and line ends are as RFC 4180 has them. Times have their unit in the column's name.

mod quotes;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use csv::{ErrorKind, ReaderBuilder, StringRecord, Trim};

use quotes::Quotes;

use super::sink::Sink;
use super::{Altered, ImportOptions, Importer, Notes, frame_for};
use crate::registry::Named;
use crate::workload::Update;
use crate::{Error, Result};

/// Columns with a time, and how many digits their unit is above picoseconds.
const TIMES: [(&str, i32); 5] = [("t_ps", 0), ("t_ns", 3), ("t_us", 6), ("t_ms", 9), ("t_s", 12)];
/// The other columns; a list is in one cell, its numbers apart by spaces or semicolons.
const OTHERS: [&str; 8] = ["cluster", "worker", "seq", "bytes", "reward", "iteration", "values", "keys"];
/// Behind these, in this order, columns of other names, or without a name, are values, unless a column has all of them; a row has all
/// that are named, which tells of a line cut short, or however many if none is.
const WIDE: [&str; 5] = ["t_ps", "cluster", "worker", "seq", "reward"];
/// Digits of a time that are looked at; 2⁶³ picoseconds have 19.
const DIGITS: usize = 36;

/// The importer.
pub(crate) struct Csv;

impl Named for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }
    fn about(&self) -> &'static str {
        "CSV with a header: t_ps, t_ns, t_us, t_ms or t_s, cluster, worker; seq, bytes, reward, keys, values, iteration if known"
    }
}

impl Importer for Csv {
    fn extensions(&self) -> &'static [&'static str] {
        &["csv"]
    }

    fn read(&self, inputs: &[PathBuf], options: &ImportOptions, sink: &mut Sink) -> Result<Notes> {
        let mut notes = Notes::new();
        for input in inputs {
            rows(input, options.bytes, sink, &mut notes)?;
        }
        Ok(notes)
    }
}

fn rows(input: &Path, bytes: u32, sink: &mut Sink, notes: &mut Notes) -> Result<()> {
    let file = File::open(input).map_err(|e| Error::data(input, format!("cannot be read: {e}")))?;
    let mut reader = ReaderBuilder::new().flexible(true).trim(Trim::All).from_reader(Quotes::new(file));
    let header = reader.headers().cloned();
    let line = reader.get_mut().next_record();
    let header =
        header.map_err(|e| Error::data(input, format!("no header: {}", unreadable(&e, &format!("line {line}")))))?;
    let columns = Columns::of(&header).map_err(|what| Error::data(input, format!("line {line}: {what}")))?;
    let (mut next_seq, mut altered) = (HashMap::new(), Altered::default());
    let mut records = reader.records();
    for row in 0u64.. {
        let Some(record) = records.next() else { break };
        let line = records.reader_mut().get_mut().next_record();
        let record = record.map_err(|e| Error::data(input, unreadable(&e, &format!("line {line} (row {row})"))))?;
        let (update, keys, values) = columns
            .update(&record, bytes, (&mut next_seq, &altered))
            .map_err(|what| Error::data(input, format!("line {line} (row {row}): {what}")))?;
        let is_sized = columns.places[3].is_none_or(|place| record[place].is_empty());
        altered.sized += u64::from(is_sized && keys.is_empty() && values.is_empty());
        altered.see(update.bytes, keys.len(), values.len());
        sink.push_pairs(&update, &keys, &values, || format!("line {line}"))?;
    }
    if !columns.ignored.is_empty() {
        notes.insert("ignored_columns".to_owned(), columns.ignored.join(", "));
    }
    if !next_seq.is_empty() {
        notes.insert("seq".to_owned(), "counted per worker".to_owned());
    }
    altered.note(bytes, notes);
    if columns.unit > 0 {
        notes.insert("time".to_owned(), format!("{}, rounded to picoseconds", columns.names[columns.time]));
    }
    Ok(())
}

/// Returns why a record cannot be read. The reader's own count of lines is that of the record before.
fn unreadable(fault: &csv::Error, place: &str) -> String {
    match fault.kind() {
        ErrorKind::Utf8 { err, .. } => format!("{place}: {err}"),
        _ => fault.to_string(),
    }
}

/// Where the values of a row are.
enum Gradients {
    /// In one cell, if anywhere.
    Cell,
    /// In these columns, one each.
    Columns(Vec<usize>),
    /// In all cells behind those of the header.
    Rest,
}

/// Which column is what.
struct Columns {
    names: Vec<String>,
    time: usize,
    unit: i32,
    /// Of [`OTHERS`].
    places: [Option<usize>; OTHERS.len()],
    gradients: Gradients,
    ignored: Vec<String>,
}

impl Columns {
    fn of(header: &StringRecord) -> Result<Self, String> {
        let names: Vec<String> = header.iter().map(str::to_owned).collect();
        let mut known = TIMES.iter().map(|(name, _)| *name).chain(OTHERS);
        if let Some(twice) = known.find(|known| names.iter().filter(|name| name == known).count() > 1) {
            return Err(format!("the header has column \"{twice}\" twice; name it once"));
        }
        let at = |name: &str| names.iter().position(|other| other == name);
        let times: Vec<_> = TIMES.iter().filter_map(|(name, unit)| Some((at(name)?, *unit))).collect();
        let places = OTHERS.map(at);
        let [Some(_), Some(_), ..] = places else { return Err(lacking(&names)) };
        let [(time, unit)] = times[..] else {
            return Err(match &times[..] {
                [] => lacking(&names),
                _ => "the header has several columns of times; keep one of t_ps, t_ns, t_us, t_ms, t_s".into(),
            });
        };
        let known = |i: usize| i == time || places.contains(&Some(i));
        let strange: Vec<usize> = (0..names.len()).filter(|i| !known(*i)).collect();
        // Behind the five, values have columns of their own unless one cell has all.
        let five = names.len() >= WIDE.len() && WIDE.iter().zip(&names).all(|(want, name)| want == name);
        let [.., values, _] = places;
        let (gradients, ignored) = match five && values.is_none() {
            false => (Gradients::Cell, strange.iter().map(|i| names[*i].clone()).collect()),
            true if names.len() == WIDE.len() => (Gradients::Rest, Vec::new()),
            true => (Gradients::Columns(strange), Vec::new()),
        };
        Ok(Columns { time, unit, places, gradients, ignored, names })
    }

    /// The update of a row, its keys and its values.
    fn update(
        &self,
        record: &StringRecord,
        bytes: u32,
        (next_seq, altered): (&mut HashMap<u32, u32>, &Altered),
    ) -> Result<(Update, Vec<u64>, Vec<f32>), String> {
        // Values without names are as many as a row has.
        let (named, unnamed) = (self.names.len(), matches!(self.gradients, Gradients::Rest));
        if unnamed && record.len() < named {
            return Err(format!("{} columns; there must be at least {named}", record.len()));
        }
        if !unnamed && record.len() != named {
            return Err(format!("{} columns; the header has {named}", record.len()));
        }
        let [cluster, worker, seq, own, reward, iteration, values, keys] =
            self.places.map(|place| place.map_or("", |i| &record[i]));
        let keys: Vec<u64> = list(keys).map(|text| whole("keys", text, u64::MAX)).collect::<Result<_, _>>()?;
        let worker = whole("worker", worker, u32::MAX)?;
        let texts: Vec<&str> = match &self.gradients {
            Gradients::Cell => list(values).collect(),
            Gradients::Columns(places) => places.iter().map(|i| &record[*i]).collect(),
            Gradients::Rest => record.iter().skip(named).collect(),
        };
        let values: Vec<f32> = texts.into_iter().map(|text| real("values", text, altered)).collect::<Result<_, _>>()?;
        let seq = match self.places[2] {
            Some(_) => whole("seq", seq, u32::MAX)?,
            None => {
                let next = next_seq.entry(worker).or_insert(0u32);
                let seq = *next;
                *next = seq.checked_add(1).ok_or_else(|| format!("worker {worker} has too many updates"))?;
                seq
            }
        };
        let update = Update {
            t_gen: time(&self.names[self.time], &record[self.time], self.unit)?,
            cluster: whole("cluster", cluster, u16::MAX)?,
            worker,
            seq,
            bytes: match own {
                "" => frame_for(keys.len(), values.len(), bytes).map_err(|why| format!("column \"values\": {why}"))?,
                own => whole("bytes", own, u32::MAX)?,
            },
            reward: if reward.is_empty() { None } else { Some(real("reward", reward, altered)?) },
            iteration: if iteration.is_empty() { None } else { Some(whole("iteration", iteration, u32::MAX)?) },
        };
        Ok((update, keys, values))
    }
}

/// The numbers of a cell. Semicolons have a number on either side; spaces may be several.
fn list(cell: &str) -> impl Iterator<Item = &str> {
    let is_one = cell.contains(';');
    let places =
        cell.strip_suffix(';').unwrap_or(cell).split(';').map(str::trim).filter(move |text| is_one || !text.is_empty());
    places.flat_map(|text| {
        let empty = text.is_empty().then_some("");
        empty.into_iter().chain(text.split([' ', '\t']).filter(|text| !text.is_empty()))
    })
}

fn lacking(names: &[String]) -> String {
    format!(
        "the header is \"{}\"; it must have a time (t_ps, t_ns, t_us, t_ms or t_s), cluster and worker, and may have seq, \
         bytes, reward, keys, values and iteration, as {}",
        names.join(","),
        WIDE.join(",")
    )
}

/// A whole number from 0 to `most`.
fn whole<T: FromStr + std::fmt::Display>(column: &str, text: &str, most: T) -> Result<T, String> {
    text.parse().map_err(|_| format!("column \"{column}\": \"{text}\" is not a whole number from 0 to {most}"))
}

/// A number of 32 bits. It is rounded if no text of such a number is read as the same: neither the shortest, nor one of nine digits.
fn real(column: &str, text: &str, altered: &Altered) -> Result<f32, String> {
    let value: Option<f32> = text.parse().ok().filter(|value: &f32| value.is_finite());
    let value = value.ok_or_else(|| format!("column \"{column}\": \"{text}\" is not a finite number of 32 bits"))?;
    let written: Option<f64> = text.parse().ok();
    let same = |as_text: String| as_text.parse().ok() == written;
    let is_exact = written == Some(value.into()) || same(value.to_string()) || same(format!("{value:.8e}"));
    altered.rounded.set(altered.rounded.get() + u64::from(!is_exact));
    Ok(value)
}

/// A time in picoseconds: decimal digits, with a point and an exponent if need be, `unit` digits above picoseconds, without a
/// detour through floats, which would lose some.
fn time(column: &str, text: &str, unit: i32) -> Result<i64, String> {
    let wrong = |why: &str| {
        let range = format!("times are from 0 to {} ps", i64::MAX);
        Err(format!("column \"{column}\": \"{text}\" {why}; {range}, digits as 12, 12.5 or 1.25e1"))
    };
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()),
        None => (text, Some(0)),
    };
    let (before, after) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{before}{after}");
    let Some(exponent) = exponent.filter(|e| (-999..=999).contains(e)) else { return wrong("is not a time") };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) || digits.len() > 999 {
        return wrong("is not a time");
    }
    let digits = digits.trim_start_matches('0');
    // So many digits are before the point, in picoseconds; the rest is rounded.
    let places = digits.len() as i32 - after.len() as i32 + exponent + unit;
    if digits.is_empty() {
        return Ok(0);
    }
    if places > DIGITS as i32 {
        return wrong("is too late");
    }
    let kept = usize::try_from(places).unwrap_or(0).min(digits.len());
    let (whole, rest) = digits.split_at(kept);
    let rest = if places < 0 { "0" } else { rest };
    if unit == 0 && (places < 0 || rest.bytes().any(|b| b != b'0')) {
        return wrong("is finer than a picosecond");
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<i128>().map_err(|e| e.to_string())? };
    let scaled =
        whole * 10i128.pow((places - kept as i32).max(0) as u32) + i128::from(rest.as_bytes().first() >= Some(&b'5'));
    i64::try_from(scaled).or_else(|_| wrong("is too late"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_of_a_number_of_32_bits_is_rounded() {
        let rounded = |text: &str| {
            let altered = Altered::default();
            real("values", text, &altered).unwrap();
            altered.rounded.get() == 1
        };
        for text in ["0.1", "0.100000001", "1e-45", "16777216", "3.4028235e38", "-0", "0.333333343", "1.0000000"] {
            assert!(!rounded(text), "{text}");
        }
        for text in ["16777217", "1e-50", "0.100000003", "0.123456789012", "3.40282349e38"] {
            assert!(rounded(text), "{text}");
        }
    }

    #[test]
    fn times_are_exact_in_every_unit() {
        for (text, unit, ps) in [
            ("12", 0, 12),
            ("9223372036854775807", 0, i64::MAX),
            ("0.000", 0, 0),
            ("12.50", 3, 12_500),
            ("1e-6", 12, 1_000_000),
            ("0.1", 12, 100_000_000_000),
            ("1.25E2", 6, 125_000_000),
            ("0.0000000000005", 12, 1),
            ("0.0000000000004", 12, 0),
            ("1.0000000000006", 12, 1_000_000_000_001),
            ("1e-30", 12, 0),
            ("007", 3, 7_000),
            (".5", 3, 500),
            ("120e-1", 0, 12),
        ] {
            assert_eq!(time("t", text, unit), Ok(ps), "{text} with unit {unit}");
        }
        for (text, unit, why) in [
            ("", 0, "is not a time"),
            ("-1", 0, "is not a time"),
            ("1e", 0, "is not a time"),
            ("0x10", 0, "is not a time"),
            ("nan", 12, "is not a time"),
            ("1.5", 0, "finer than a picosecond"),
            ("1e-3", 0, "finer than a picosecond"),
            ("9223372036854775808", 0, "too late"),
            ("1e300", 0, "too late"),
            ("9300000", 12, "too late"),
            ("1e99999999999", 0, "is not a time"),
        ] {
            let message = time("t", text, unit).expect_err(text);
            assert!(message.contains(why) && message.contains("column \"t\""), "{text}: {message}");
        }
    }
}
