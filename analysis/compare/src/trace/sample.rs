//! The data of a trace that properties use: times and rewards by worker, values as a histogram, keys as counts. Values
//! are streamed; times and rewards take 12 bytes per update.

use std::collections::HashMap;
use std::path::Path;

use pktgen_core::quantile::nearest_rank;
use pktgen_core::record::NO_CLUSTER;
use pktgen_core::time::Time;
use pktgen_core::{Error, Result};
use pktgen_workload::trace::{self, Reader};

/// Bins per bit of magnitude.
const FINE: usize = 16;
/// Magnitudes of 32-bit floats: from 2⁻¹⁴⁹ to below 2¹²⁸.
const LOWEST: i32 = -149;
const BITS: usize = 277;

/// A worker of a trace.
#[derive(Debug, Clone, Default)]
pub struct Own {
    /// Its cluster.
    pub cluster: u16,
    /// Generation times of its updates.
    pub times: Vec<Time>,
    /// Their rewards; NaN if there is none.
    pub rewards: Vec<f32>,
}

impl Own {
    /// Returns its mean gap; `None` if it has fewer than two updates or all are simultaneous.
    pub(crate) fn mean_gap(&self) -> Option<f64> {
        let (first, last) = (self.times.first()?, self.times.last()?);
        (last > first).then(|| (last - first) as f64 / (self.times.len() - 1) as f64)
    }

    /// Returns its gaps relative to their mean; empty if there is no mean.
    pub fn gaps(&self) -> Vec<f64> {
        let Some(mean) = self.mean_gap() else { return Vec::new() };
        self.times.windows(2).map(|w| (w[1] - w[0]) as f64 / mean).collect()
    }
}

/// Distribution of the magnitudes of values.
#[derive(Debug, Clone)]
pub struct Magnitudes {
    /// Numbers that are zero.
    pub zeros: u64,
    /// All others.
    pub others: u64,
    /// Number of the others that are negative.
    pub negative: u64,
    bins: Vec<u64>,
}

impl Default for Magnitudes {
    fn default() -> Self {
        Magnitudes { zeros: 0, others: 0, negative: 0, bins: vec![0; BITS * FINE] }
    }
}

impl Magnitudes {
    fn add(&mut self, value: f32) {
        if value == 0.0 {
            self.zeros += 1;
            return;
        }
        self.others += 1;
        self.negative += u64::from(value < 0.0);
        let bits = (f64::from(value).abs().log2() - f64::from(LOWEST)) * FINE as f64;
        self.bins[(bits.max(0.0) as usize).min(BITS * FINE - 1)] += 1;
    }

    /// Returns the binary logarithm of the magnitude below which a share `q` of the nonzero numbers lies, with a
    /// resolution of 1/16; `None` without such numbers.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank = nearest_rank(q, self.others as usize) as u64;
        let mut below = 0;
        let bin = self.bins.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some((bin as f64 + 0.5) / FINE as f64 + f64::from(LOWEST))
    }
}

/// The data of a trace.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// Its workers, without background traffic.
    pub workers: Vec<Own>,
    /// Number of updates with gradients.
    pub with_values: usize,
    /// Distribution of its gradients.
    pub magnitudes: Magnitudes,
    /// Number of updates of each key.
    pub keys: HashMap<u64, u64>,
}

impl Sample {
    /// Reads a trace; fails if it violates a rule of traces.
    pub fn read(path: &Path) -> Result<Sample> {
        trace::check(path)?;
        let mut sample = Sample::default();
        let mut workers: HashMap<u32, Own> = HashMap::new();
        let mut reader = Reader::open(path)?;
        while let Some(block) = reader.next_block()? {
            for (i, update) in block.updates.iter().enumerate().filter(|(_, u)| u.cluster != NO_CLUSTER) {
                let own = workers.entry(update.worker).or_default();
                own.cluster = update.cluster;
                own.times.push(update.t_gen);
                own.rewards.push(update.reward.unwrap_or(f32::NAN));
                sample.with_values += usize::from(!block.values(i).is_empty());
                block.values(i).iter().for_each(|value| sample.magnitudes.add(*value));
                block.keys(i).iter().for_each(|key| *sample.keys.entry(*key).or_default() += 1);
            }
        }
        if workers.is_empty() {
            return Err(Error::data(path, "the trace has background traffic only; there is nothing to compare"));
        }
        let mut ids: Vec<_> = workers.into_iter().collect();
        ids.sort_unstable_by_key(|(id, _)| *id);
        sample.workers = ids.into_iter().map(|(_, own)| own).collect();
        Ok(sample)
    }

    /// Returns the number of updates of all workers.
    pub fn updates(&self) -> usize {
        self.workers.iter().map(|own| own.times.len()).sum()
    }

    /// Returns the gaps of each worker, relative to its mean.
    pub fn gaps(&self) -> Vec<Vec<f64>> {
        self.workers.iter().map(Own::gaps).filter(|gaps| !gaps.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magnitudes_have_quantiles() {
        let mut magnitudes = Magnitudes::default();
        for k in -20..20 {
            magnitudes.add(-(k as f32).exp2());
            magnitudes.add(0.0);
        }
        magnitudes.add(f32::from_bits(1));
        magnitudes.add(f32::MAX);
        assert_eq!((magnitudes.zeros, magnitudes.others, magnitudes.negative), (40, 42, 40));
        assert!((magnitudes.quantile(0.5).unwrap() - -0.5).abs() < 0.6);
        assert!((magnitudes.quantile(0.0).unwrap() - -149.0).abs() < 0.1);
        assert!((magnitudes.quantile(1.0).unwrap() - 128.0).abs() < 0.1);
        assert_eq!(Magnitudes::default().quantile(0.5), None);
    }

    #[test]
    fn gaps_are_relative() {
        let own = Own { times: vec![5, 6, 9], ..Own::default() };
        assert_eq!(own.gaps(), [0.5, 1.5]);
        assert!(Own { times: vec![5, 5], ..Own::default() }.gaps().is_empty());
        assert!(Own { times: vec![5], ..Own::default() }.gaps().is_empty());
    }
}
