//! A list of numbers that may exceed memory: the excess goes to an unnamed temporary file.
//!
//! Called by [`crate::resolved`] and captures. Lists share a [`Spill`]; when all of them together hold too much,
//! [`NumberList::spill`] appends their contents to it.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use pktgen_core::{Error, Result};

use crate::over_time::{Segment, Segments};
use crate::quantile::Values;

/// Number of numbers read back at a time; even, so that pairs stay together.
const PART: usize = 1 << 14;

/// The file that lists spill into. It has no name, so nothing remains of it.
#[derive(Debug, Default)]
pub struct Spill {
    file: Option<File>,
    end: u64,
}

/// A shared [`Spill`].
pub type Shared = Arc<Mutex<Spill>>;

/// Returns its name in error messages.
fn place() -> std::path::PathBuf {
    std::env::temp_dir()
}

impl Spill {
    /// Appends numbers; returns their position.
    fn append(&mut self, values: &[i64]) -> Result<u64> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile().map_err(failed("make a temporary file in", &place()))?),
        };
        let begin = self.end;
        let mut bytes = Vec::with_capacity(PART * 8);
        for part in values.chunks(PART) {
            bytes.clear();
            bytes.extend(part.iter().flat_map(|value| value.to_le_bytes()));
            file.write_all(&bytes).map_err(failed("write a temporary file in", &place()))?;
            self.end += bytes.len() as u64;
        }
        Ok(begin)
    }

    fn read(&self, begin: u64, into: &mut Vec<i64>, n: usize) -> Result<()> {
        let mut bytes = vec![0; n * 8];
        if let Some(file) = &self.file {
            file.read_exact_at(&mut bytes, begin).map_err(failed("read a temporary file in", &place()))?;
        }
        into.clear();
        into.extend(bytes.as_chunks::<8>().0.iter().map(|value| i64::from_le_bytes(*value)));
        Ok(())
    }
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    Error::io(doing, path)
}

/// A list of numbers.
#[derive(Debug, Clone, Default)]
pub struct NumberList {
    held: Vec<i64>,
    spilled: Vec<(u64, usize)>,
    file: Option<Shared>,
}

impl NumberList {
    /// Appends a number.
    #[inline]
    pub fn push(&mut self, value: i64) {
        self.held.push(value);
    }

    /// Appends two numbers, which stay together.
    #[inline]
    pub fn push_pair(&mut self, pair: [i64; 2]) {
        self.held.extend_from_slice(&pair);
    }

    /// Returns how many numbers are in memory.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Moves the numbers in memory to the file; returns how many these were.
    pub fn spill(&mut self, file: &Shared) -> Result<usize> {
        let n = self.held.len();
        if n > 0 {
            let begin = file.lock().unwrap_or_else(PoisonError::into_inner).append(&self.held)?;
            self.spilled.push((begin, n));
            self.held = Vec::new();
            self.file = Some(file.clone());
        }
        Ok(n)
    }
}

impl Values for NumberList {
    fn len(&self) -> usize {
        self.spilled.iter().map(|(_, n)| n).sum::<usize>() + self.held.len()
    }

    fn scan(&self, each: &mut dyn FnMut(&[i64])) -> Result<()> {
        let mut part = Vec::new();
        for &(begin, n) in &self.spilled {
            let Some(file) = &self.file else { break };
            for from in (0..n).step_by(PART) {
                file.lock().unwrap_or_else(PoisonError::into_inner).read(
                    begin + from as u64 * 8,
                    &mut part,
                    PART.min(n - from),
                )?;
                each(&part);
            }
        }
        each(&self.held);
        Ok(())
    }
}

/// A list of pairs, as segments.
pub struct PairList<'a>(pub &'a NumberList);

impl Segments for PairList<'_> {
    fn len(&self) -> usize {
        self.0.len() / 2
    }

    fn scan(&self, each: &mut dyn FnMut(&[Segment])) -> Result<()> {
        // Pairs are never split: each part has an even length.
        self.0.scan(&mut |part| each(part.as_chunks::<2>().0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spilling_changes_nothing(steps in prop::collection::vec((prop::collection::vec(any::<i64>(), 0..50), any::<bool>(), 0usize..3), 0..20)) {
            let file = Shared::default();
            let mut columns = [NumberList::default(), NumberList::default(), NumberList::default()];
            let mut plain = [vec![], vec![], vec![]];
            for (values, spill, which) in steps {
                values.iter().for_each(|value| columns[which].push(*value));
                plain[which].extend(values);
                if spill {
                    columns[which].spill(&file).unwrap();
                }
            }
            for (column, plain) in columns.iter().zip(plain) {
                let mut back: Vec<i64> = Vec::new();
                column.scan(&mut |part| back.extend(part)).unwrap();
                prop_assert_eq!(column.len(), plain.len());
                prop_assert_eq!(back, plain);
            }
        }
    }

    #[test]
    fn long_lists_are_read_in_parts() {
        let file = Shared::default();
        let mut column = NumberList::default();
        (0..3 * PART as i64 + 5).for_each(|value| column.push(value));
        column.spill(&file).unwrap();
        (0..9).for_each(|value| column.push(value));
        let (mut sum, mut longest) = (0, 0);
        column
            .scan(&mut |part| {
                sum += part.iter().sum::<i64>();
                longest = longest.max(part.len());
            })
            .unwrap();
        let n = 3 * PART as i64 + 5;
        assert_eq!((sum, longest), (n * (n - 1) / 2 + 36, PART));
    }
}
