//! Sums of floats as integers, the baseline of LIBRA §5.5: scale, round, add, scale back.
//!
//! Scaling, rounding and SwitchML's factor are those of [`crate::dense::fixed`], which endpoints use; here are the sum
//! of two and what happens when it leaves 32 bits. Called by the study `float_sum`.

use crate::dense::fixed::{average, exponent_of, quantise, scale_of};

/// What an integer sum beyond 32 bits becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// The nearest limit: a saturating register.
    Saturate,
    /// What is left of it modulo 2³²: a plain register.
    Wrap,
}

/// What becomes of a scaled operand that is no whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// The nearest one, as endpoints here do.
    Nearest,
    /// The next one towards 0, as a conversion in C does.
    Truncate,
}

/// How floats become integers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Integer {
    /// The factor.
    pub scale: f32,
    /// How operands become whole numbers.
    pub rounding: Rounding,
    /// What a sum beyond 32 bits becomes.
    pub overflow: Overflow,
}

impl Integer {
    /// `x + y`. What a scaled operand has beyond 32 bits is clipped, as hosts do.
    pub fn add(&self, x: f32, y: f32) -> f32 {
        let mut numbers = [0; 2];
        match self.rounding {
            Rounding::Nearest => _ = quantise(&[x, y], self.scale, &mut numbers),
            Rounding::Truncate => numbers = [x, y].map(|x| (x * self.scale) as i32),
        }
        let [x, y] = numbers;
        let sum = match self.overflow {
            Overflow::Saturate => x.saturating_add(y),
            Overflow::Wrap => x.wrapping_add(y),
        };
        average(sum, f64::from(self.scale), 1)
    }
}

/// The factor that `workers` agree on from the largest exponent of all values, so that no sum leaves 32 bits.
pub fn negotiated(values: &[f32], workers: u32) -> f32 {
    scale_of(exponent_of(values), workers) as f32
}
