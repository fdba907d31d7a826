//! One seed, many named random streams.
//!
//! A stream is identified by a name and two numbers (a worker and a cluster, say), so adding a stream never shifts
//! another: results stay comparable when a feature is added or switched on. [`Draws`] are numbers identified by
//! coordinates, for code that cannot draw in a fixed order.
//!
//! Every random number originates here, and [`drawn`] counts them per thread, so that a run can report whether it used randomness.
//! Virtual time and studies have one thread each.

use std::cell::Cell;

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sha2::{Digest, Sha256};

/// The generator behind every stream.
pub type Stream = Xoshiro256PlusPlus;

thread_local! {
    static DRAWN: Cell<u64> = const { Cell::new(0) };
}

/// Returns how often this thread opened a stream, drew a number by coordinates or took [`Seed::bits`].
pub fn drawn() -> u64 {
    DRAWN.get()
}

#[inline]
fn draw() {
    DRAWN.set(DRAWN.get().wrapping_add(1));
}

/// The seed of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// The stream `name`, instance (`a`, `b`).
    pub fn stream(self, name: &str, a: u64, b: u64) -> Stream {
        draw();
        self.stream_of(name, a, b)
    }

    fn stream_of(self, name: &str, a: u64, b: u64) -> Stream {
        let mut hash = Sha256::new();
        hash.update(self.0.to_le_bytes());
        hash.update(a.to_le_bytes());
        hash.update(b.to_le_bytes());
        hash.update(name.as_bytes());
        Stream::from_seed(hash.finalize().into())
    }

    /// The coordinate-based draws `name`.
    pub fn draws(self, name: &str) -> Draws {
        Draws(self.stream_of(name, 0, 0).next_u64())
    }

    /// Returns the seed itself, for code that needs no stream.
    pub fn bits(self) -> u64 {
        draw();
        self.0
    }
}

/// Random numbers as a pure function of coordinates: endpoints that react to each other draw in any order, and repeatedly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draws(u64);

impl Draws {
    /// Uniform in [0, 1) at the coordinates (`a`, `b`, `c`).
    #[inline]
    pub fn unit(self, a: u32, b: u32, c: u32) -> f64 {
        draw();
        let place = mix(self.0 ^ (u64::from(a) << 32 | u64::from(b)));
        // An odd constant spreads neighbouring `c`; plus one, so that 0 is no special case.
        let bits = mix(place ^ (u64::from(c) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The finaliser of SplitMix64: a bijection with good mixing.
#[inline]
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Uniform in [0, 1).
#[inline]
pub fn unit(stream: &mut Stream) -> f64 {
    stream.random()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_the_upper_53_bits() {
        let (mut stream, mut bits) = (Seed(3).stream("test", 0, 0), Seed(3).stream("test", 0, 0));
        for _ in 0..1000 {
            assert_eq!(unit(&mut stream), (bits.next_u64() >> 11) as f64 / (1u64 << 53) as f64);
        }
    }

    #[test]
    fn streams_differ_by_name_number_and_seed_and_repeat() {
        let draw = |seed: u64, name: &str, a, b| Seed(seed).stream(name, a, b).next_u64();
        let all = [
            draw(1, "gap", 0, 0),
            draw(2, "gap", 0, 0),
            draw(1, "reward", 0, 0),
            draw(1, "gap", 1, 0),
            draw(1, "gap", 0, 1),
        ];
        for (i, x) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|y| x != y));
        }
        assert_eq!(draw(1, "gap", 0, 0), all[0]);
    }

    #[test]
    fn a_thread_knows_whether_it_drew() {
        let before = drawn();
        let draws = Seed(1).draws("x");
        assert_eq!(drawn(), before, "nothing was drawn yet");
        draws.unit(1, 2, 3);
        assert!(drawn() > before);
        let before = drawn();
        Seed(1).stream("x", 0, 0);
        assert!(drawn() > before);
    }

    #[test]
    fn draws_are_uniform_and_neighbours_are_independent() {
        let draws = Seed(3).draws("x");
        let all: Vec<f64> = (0..40u32)
            .flat_map(|a| (0..40u32).flat_map(move |b| (0..40u32).map(move |c| draws.unit(a, b, c))))
            .collect();
        assert!(all.iter().all(|u| (0.0..1.0).contains(u)));
        let n = all.len() as f64;
        let mean = all.iter().sum::<f64>() / n;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
        for decile in 0..10 {
            let count = all.iter().filter(|u| (**u * 10.0) as usize == decile).count() as f64;
            assert!((count / n - 0.1).abs() < 0.006, "{decile}: {count}");
        }
        // Steps of 1, 40 and 1600 are neighbours in c, b and a.
        for step in [1, 40, 1600] {
            let product = all.iter().zip(&all[step..]).map(|(x, y)| (x - 0.5) * (y - 0.5)).sum::<f64>();
            let correlation = product / (n - step as f64) * 12.0;
            assert!(correlation.abs() < 0.02, "{step}: {correlation}");
        }
        assert_ne!(draws.unit(1, 2, 3), Seed(3).draws("y").unit(1, 2, 3));
        assert_ne!(draws.unit(1, 2, 3), Seed(4).draws("x").unit(1, 2, 3));
        assert_eq!(draws.unit(1, 2, 3), Seed(3).draws("x").unit(1, 2, 3));
    }
}
