//! The trees of SOAR's evaluation: complete binary trees, rates that grow towards the root, two kinds of load (§5).

use rand::RngExt;

use super::{Switch, Tree};
use crate::seed::{Seed, Stream};

/// Largest load of the power law (§5).
const LOAD_MAX: usize = 63;
/// Exponent of a power law over 1 to 63 with mean 5 (§5). Its variance is 78.7; the paper's 97.1 is that of a sample: [`Loads::PowerLawAsPrinted`].
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
    /// The first with mean and variance as printed.
    UniformAsPrinted,
    /// The second with mean and variance as printed.
    PowerLawAsPrinted,
}

/// What §5 prints of both: the mean.
const MEAN: u64 = 5;
/// A variance, and how far it may be off.
type Variance = (f64, f64);
/// 84 / 128: of 128 leaves 84 have 4 or 6.
const UNIFORM: Variance = (0.65625, 0.000_005);
/// One digit after the point.
const POWER_LAW: Variance = (97.1, 0.05);

impl Loads {
    /// By name.
    pub const ALL: [(&'static str, Loads); 4] = [
        ("uniform", Loads::Uniform),
        ("power_law", Loads::PowerLaw),
        ("uniform_as_printed", Loads::UniformAsPrinted),
        ("power_law_as_printed", Loads::PowerLawAsPrinted),
    ];

    /// Loads for the leaves of a tree, from the stream of workload `number`; nothing at inner switches. Says why if so many
    /// leaves cannot have what is printed.
    pub fn draw(self, tree: &Tree, seed: Seed, number: u64) -> Result<Vec<u64>, String> {
        let law = power_law();
        let (uniform, variance) = match self {
            Loads::Uniform => (true, None),
            Loads::PowerLaw => (false, None),
            Loads::UniformAsPrinted => (true, Some(UNIFORM)),
            Loads::PowerLawAsPrinted => (false, Some(POWER_LAW)),
        };
        // The printed samples begin as those of their law.
        let mut stream = seed.stream("soar.loads", number, u64::from(!uniform));
        let mut one = || if uniform { stream.random_range(4..=6) } else { draw(&law, &mut stream) };
        let leaves: Vec<_> = (0..tree.len() as u32).filter(|v| tree.children(*v).is_empty()).collect();
        let mut drawn: Vec<u64> = leaves.iter().map(|_| one()).collect();
        if let Some(variance) = variance {
            settle(&mut drawn, variance, &mut one, &mut seed.stream("soar.printed", number, u64::from(!uniform)))?;
        }
        let mut load = vec![0; tree.len()];
        leaves.iter().zip(drawn).for_each(|(leaf, drawn)| load[*leaf as usize] = drawn);
        Ok(load)
    }
}

/// Most draws before a sample is given up.
const DRAWS: u32 = 1_000_000;
/// How much further from what is printed a draw may lead, in squares: small steps away are needed to get there.
const HEAT: f64 = 4.0;

/// Draws loads anew, one or two at a time, until mean and variance are those printed: what is likely under the law stays likely.
fn settle(
    drawn: &mut [u64],
    (variance, off): Variance,
    one: &mut impl FnMut() -> u64,
    chance: &mut Stream,
) -> Result<(), String> {
    let n = drawn.len();
    let (squares, off) = (variance * n as f64, (off * n as f64).max(1.0));
    let apart = |drawn: &[u64]| {
        let by = |x: &u64| *x as f64 - MEAN as f64;
        let (sum, square) = drawn.iter().map(by).fold((0.0, 0.0), |(sum, square), x| (sum + x, square + x * x));
        10.0 * f64::abs(sum) + (f64::abs(square - squares) - off).max(0.0)
    };
    let mut now = apart(drawn);
    for _ in 0..DRAWS {
        if now == 0.0 {
            return Ok(());
        }
        let [i, j] = [(); 2].map(|()| chance.random_range(0..n));
        let (first, second) = (drawn[i], drawn[j]);
        drawn[i] = one();
        if chance.random::<bool>() {
            drawn[j] = one();
        }
        let then = apart(drawn);
        if then <= now || crate::seed::unit(chance) < ((now - then) / HEAT).exp() {
            now = then;
        } else {
            (drawn[j], drawn[i]) = (second, first);
        }
    }
    Err(format!(
        "no loads of {n} leaves with mean {MEAN} and variance {variance} were found; give more leaves, or loads without \"_as_printed\""
    ))
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
