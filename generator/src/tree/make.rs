//! The trees of SOAR's evaluation: complete binary trees, rates that grow towards the root, two kinds of load (§5).

use rand::RngExt;

use super::{Switch, Tree};
use crate::seed::{Seed, Stream};

/// Largest load of the power law (§5).
const LOAD_MAX: usize = 63;
/// Exponent of a power law over 1 to 63 with mean 5 (§5). Its variance is 78.7; the paper's 97.1 is that of a sample.
const EXPONENT: f64 = 1.626_430_366_148_335_7;

/// How rates grow from the leaves, whose links have rate 1, towards the root (§5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rates {
    /// They do not.
    Constant,
    /// By 1 each level.
    Linear,
    /// Twofold each level.
    Exponential,
}

impl Rates {
    /// By name.
    pub const ALL: [(&'static str, Rates); 3] =
        [("constant", Rates::Constant), ("linear", Rates::Linear), ("exponential", Rates::Exponential)];

    fn at(self, above_leaves: u32) -> f64 {
        match self {
            Rates::Constant => 1.0,
            Rates::Linear => f64::from(above_leaves) + 1.0,
            Rates::Exponential => f64::from(above_leaves).exp2(),
        }
    }
}

/// Which loads leaves have (§5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loads {
    /// 4, 5 or 6.
    Uniform,
    /// 1 to 63, mean 5.
    PowerLaw,
}

impl Loads {
    /// By name.
    pub const ALL: [(&'static str, Loads); 2] = [("uniform", Loads::Uniform), ("power_law", Loads::PowerLaw)];

    /// Loads for the leaves of a tree, from the stream of workload `number`; nothing at inner switches.
    pub fn draw(self, tree: &Tree, seed: Seed, number: u64) -> Vec<u64> {
        let mut stream = seed.stream("soar.loads", number, self as u64);
        let mut load = vec![0; tree.len()];
        let law = power_law();
        for v in (0..tree.len() as u32).filter(|v| tree.children(*v).is_empty()) {
            load[v as usize] = match self {
                Loads::Uniform => stream.random_range(4..=6),
                Loads::PowerLaw => draw(&law, &mut stream),
            };
        }
        load
    }
}

/// How many shares of a power law are at or below each load.
fn power_law() -> [f64; LOAD_MAX] {
    let mut sum = 0.0;
    let mut law = [0.0; LOAD_MAX];
    for (i, share) in law.iter_mut().enumerate() {
        sum += ((i + 1) as f64).powf(-EXPONENT);
        *share = sum;
    }
    law.map(|share| share / sum)
}

fn draw(law: &[f64; LOAD_MAX], stream: &mut Stream) -> u64 {
    let u = crate::seed::unit(stream);
    (law.partition_point(|share| *share <= u).min(LOAD_MAX - 1) + 1) as u64
}

/// BT(n) without loads: a complete binary tree of `n − 1` switches and the destination (§5). Node 0 is the root, the
/// children of `i` are `2i + 1` and `2i + 2`. None if there is no such tree.
pub fn binary(n: u32, rates: Rates) -> Option<Tree> {
    if n < 2 || !n.is_power_of_two() {
        return None;
    }
    let height = n.ilog2() - 1;
    let switch = |i: u32| Switch {
        id: i.into(),
        parent: i.checked_sub(1).map(|below| (below / 2).into()),
        rate: rates.at(height - (i + 1).ilog2()),
        load: 0,
        available: true,
    };
    Tree::new(&(0..n - 1).map(switch).collect::<Vec<_>>()).ok()
}
