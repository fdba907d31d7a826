//! The lanes of packets that arrived, as they are recorded: by rows, which belong to packets by their time.
//!
//! Called by analysis, and by replay, which checks the sums of a device without books.

/// Lanes by row.
#[derive(Debug, Clone, Default)]
pub struct LaneColumns {
    words: Vec<u32>,
    /// Where each row starts in `words`; one longer than the rows, or empty.
    starts: Vec<usize>,
}

impl LaneColumns {
    /// Returns rows that start at `starts`, which ends with the number of words.
    pub fn new(words: Vec<u32>, starts: Vec<usize>) -> Self {
        LaneColumns { words, starts }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Returns the lanes of a row; none if it does not exist.
    pub fn words_of(&self, row: usize) -> &[u32] {
        match (self.starts.get(row), self.starts.get(row + 1)) {
            (Some(from), Some(to)) => &self.words[*from..*to],
            _ => &[],
        }
    }

    /// Appends a row.
    pub fn push(&mut self, words: &[u32]) {
        if self.starts.is_empty() {
            self.starts.push(0);
        }
        self.words.extend_from_slice(words);
        self.starts.push(self.words.len());
    }

    /// Returns the lanes by row of `received`, none for packets without: those of a killed process did not all reach the disk, and
    /// after a merge they are missing between others. `own_ps` are the times of these rows; both streams are in the order of arrival.
    pub fn aligned(&self, own_ps: &[i64], received_ps: &[i64]) -> LaneColumns {
        let (mut at, mut found) = (0, LaneColumns::default());
        for t in received_ps {
            found.push(next_at(own_ps, &mut at, *t).map_or(&[][..], |row| self.words_of(row)));
        }
        found
    }
}

/// Returns the next row of this time, from row `at` on, which then follows it; `times` and the times of successive calls ascend.
pub fn next_at(times: &[i64], at: &mut usize, t: i64) -> Option<usize> {
    while times.get(*at).is_some_and(|own| *own < t) {
        *at += 1;
    }
    let row = times.get(*at).filter(|own| **own == t).map(|_| *at)?;
    *at += 1;
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_belong_to_the_packets_of_their_times() {
        let mut lanes = LaneColumns::default();
        lanes.push(&[1, 2]);
        lanes.push(&[3]);
        let found = lanes.aligned(&[10, 40], &[10, 20, 30, 40]);
        let rows: Vec<_> = (0..4).map(|row| found.words_of(row)).collect();
        assert_eq!(rows, [&[1, 2][..], &[], &[], &[3]]);
        let mut at = 0;
        let rows = [5, 10, 10, 30, 40, 50].map(|t| next_at(&[10, 10, 20, 40], &mut at, t));
        assert_eq!((rows, at), ([None, Some(0), Some(1), None, Some(3), None], 4));
        assert_eq!((found.rows(), LaneColumns::default().aligned(&[], &[]).rows()), (4, 0));
    }
}
