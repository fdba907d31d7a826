//! The loads of SOAR's evaluation: two kinds, drawn or as published (SOAR §5).

use pktgen_core::seed::{Seed, Stream, unit};
use pktgen_core::tree::Tree;
use rand::RngExt;

/// Maximum load of the power law (§5).
const LOAD_MAX: usize = 63;
/// Exponent of a power law over 1 to 63 with mean 5 (§5). Its variance is 78.7; the paper's 97.1 is that of a sample:
/// [`Loads::PowerLawAsPrinted`].
const EXPONENT: f64 = 1.626_430_366_148_335_7;

/// Distribution of the leaves' loads (§5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loads {
    /// 4, 5 or 6.
    Uniform,
    /// 1 to 63, mean 5.
    PowerLaw,
    /// `Uniform` with mean and variance as published.
    UniformAsPrinted,
    /// `PowerLaw` with mean and variance as published.
    PowerLawAsPrinted,
}

/// The mean of both as published in §5.
const MEAN: u64 = 5;
/// A variance, and its tolerance.
type Variance = (f64, f64);
/// 84 / 128: 84 of 128 leaves have 4 or 6.
const UNIFORM: Variance = (0.65625, 0.000_005);
/// One published decimal.
const POWER_LAW: Variance = (97.1, 0.05);

impl Loads {
    /// All distributions with their names.
    pub const ALL: [(&'static str, Loads); 4] = [
        ("uniform", Loads::Uniform),
        ("power_law", Loads::PowerLaw),
        ("uniform_as_printed", Loads::UniformAsPrinted),
        ("power_law_as_printed", Loads::PowerLawAsPrinted),
    ];

    /// Draws loads for the leaves of a tree from the stream of workload `number`; inner switches have none. Fails if
    /// this number of leaves cannot have the published values.
    pub fn draw(self, tree: &Tree, seed: Seed, number: u64) -> Result<Vec<u64>, String> {
        let law = power_law();
        let (uniform, variance) = match self {
            Loads::Uniform => (true, None),
            Loads::PowerLaw => (false, None),
            Loads::UniformAsPrinted => (true, Some(UNIFORM)),
            Loads::PowerLawAsPrinted => (false, Some(POWER_LAW)),
        };
        // Samples with published values begin with a sample of the distribution.
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

/// Maximum number of draws before a sample is given up.
const DRAWS: u32 = 1_000_000;
/// How much a draw may increase the distance from the published values, in squares: small steps away are necessary to reach them.
const HEAT: f64 = 4.0;

/// Redraws one or two loads at a time until mean and variance equal the published ones; probable samples remain probable.
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
        if then <= now || unit(chance) < ((now - then) / HEAT).exp() {
            now = then;
        } else {
            (drawn[j], drawn[i]) = (second, first);
        }
    }
    Err(format!(
        "no loads of {n} leaves with mean {MEAN} and variance {variance} were found; give more leaves, or loads without \"_as_printed\""
    ))
}

/// Returns the cumulative distribution of the power law.
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
    let u = unit(stream);
    (law.partition_point(|share| *share <= u).min(LOAD_MAX - 1) + 1) as u64
}

#[cfg(test)]
mod tests {
    use pktgen_core::tree::make::{Rates, binary};

    use super::*;

    #[test]
    fn loads_are_those_of_the_paper() {
        let tree = binary(1 << 15, Rates::Constant).unwrap();
        for (loads, least, most, variance) in [(Loads::Uniform, 4, 6, 2.0 / 3.0), (Loads::PowerLaw, 1, 63, 78.73)] {
            let drawn: Vec<_> = loads.draw(&tree, Seed(1), 0).unwrap().split_off((1 << 14) - 1);
            assert_eq!(drawn.len(), 1 << 14);
            assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&least), Some(&most)));
            let of = |f: fn(f64) -> f64| drawn.iter().map(|x| f(*x as f64)).sum::<f64>() / drawn.len() as f64;
            let mean = of(|x| x);
            assert!((mean - 5.0).abs() < 0.25, "{mean}");
            let spread = of(|x| x * x) - mean * mean;
            assert!((spread / variance - 1.0).abs() < 0.1, "{spread}");
        }
    }

    #[test]
    fn samples_have_the_mean_and_the_variance_that_are_printed() {
        let tree = binary(256, Rates::Constant).unwrap();
        for seed in 0..20 {
            for (loads, squares) in [(Loads::UniformAsPrinted, 83..=85), (Loads::PowerLawAsPrinted, 12_422..=12_436)] {
                let drawn: Vec<_> = loads.draw(&tree, Seed(seed), 0).unwrap().split_off(127);
                assert_eq!((drawn.len(), drawn.iter().sum::<u64>()), (128, 640));
                let found: u64 = drawn.iter().map(|x| x.abs_diff(5).pow(2)).sum();
                assert!(squares.contains(&found), "{found}");
                assert!(drawn.iter().all(|x| (1..=63).contains(x)));
            }
        }
        let few = Loads::PowerLawAsPrinted.draw(&binary(4, Rates::Constant).unwrap(), Seed(1), 0).unwrap_err();
        assert!(few.contains("2 leaves") && few.contains("97.1"), "{few}");
    }
}
