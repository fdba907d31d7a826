//! Maximum error of a sum of floats whose order of additions is unknown: the rule of verdicts and of diagnoses.

/// Unit roundoff of f32.
const U: f64 = 1.0 / (1u64 << 24) as f64;
/// Unit roundoff of f64, in which sums are recomputed.
const U64: f64 = 1.0 / (1u64 << 53) as f64;
/// Maximum error of an addition by tables, relative to the sizes of the summands (a test covers all exponents), and
/// absolute, since parts below 2⁻³² are omitted (docs/float.md).
const TABLES_OFF: (f64, f64) = (0.0025, 1.0 / (1u64 << 31) as f64);
/// Size from which additions by tables omit what does not fit: 2¹⁷.
const TABLES_MOST: f64 = (1 << 17) as f64;

/// Maximum error of an adder's sums.
#[derive(Debug, Clone, Copy)]
pub struct AdditionError {
    /// Error of one addition, relative to the sizes of the summands.
    share: f64,
    /// Absolute error of one addition.
    beside: f64,
    /// Size from which nothing is guaranteed.
    most: f64,
}

impl AdditionError {
    /// Additions of f32s are within γₙ₋₁ · Σ|x| of the exact sum of n numbers, where γₖ = k·u / (1 − k·u) and u = 2⁻²⁴
    /// (design §5), in any order.
    pub const F32: AdditionError = AdditionError { share: U, beside: 0.0, most: f32::MAX as f64 };
    /// Additions by the tables of a switch (LIBRA §3.5).
    pub const TABLES: AdditionError = AdditionError { share: TABLES_OFF.0, beside: TABLES_OFF.1, most: TABLES_MOST };

    /// Returns the maximum error of a sum of `members` numbers, relative to the sum of their sizes.
    pub fn share(&self, members: u32) -> f64 {
        let off = f64::from(members.saturating_sub(1)) * self.share;
        if off < 1.0 { off / (1.0 - off) + f64::from(members) * U64 } else { f64::INFINITY }
    }

    /// Returns whether `value` may be the sum of `members` numbers with exact sum `exact` and sum of sizes `size`.
    pub fn allows(&self, value: f64, exact: f64, size: f64, members: u32) -> bool {
        let beside = f64::from(members.saturating_sub(1)) * self.beside;
        let is_near = (value - exact).abs() <= self.share(members) * size + beside;
        is_near || value == exact || value.is_nan() && exact.is_nan() || self.is_open(size, members)
    }

    /// Returns whether nothing is guaranteed for a sum of `members` numbers with this sum of sizes: beyond f32's range any
    /// order may end in an infinity, and partial sums may be larger by the error of additions. A single number is not added.
    pub fn is_open(&self, size: f64, members: u32) -> bool {
        members > 1 && size * (1.0 + self.share(members)) >= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_beyond_the_range_are_open_and_others_are_bounded() {
        let (f32s, tables) = (AdditionError::F32, AdditionError::TABLES);
        let ulp = 2f64.powi(-23);
        assert!(f32s.allows(3.0 + ulp, 3.0, 3.0, 2) && !f32s.allows(3.0 + 4.0 * ulp, 3.0, 3.0, 2));
        assert!(f32s.allows(f64::INFINITY, 6e38, 6e38, 2) && f32s.is_open(6e38, 2));
        assert!(!f32s.allows(f64::INFINITY, 3e38, 3e38, 1) && !f32s.is_open(3e38, 1));
        assert!(f32s.allows(f64::NAN, f64::NAN, f64::NAN, 2) && !f32s.allows(f64::NAN, 1.0, 1.0, 2));
        assert!(tables.is_open(131_072.0, 2) && !tables.is_open(130_700.0, 2));
        // Partial sums of these may reach the end of the range.
        assert!(tables.is_open(131_071.0, 2) && tables.is_open(131_000.0, 4) && !tables.is_open(130_000.0, 4));
        let near = 3.402_822_803e38;
        assert!(f32s.allows(f64::INFINITY, near, near, 24) && !f32s.allows(f64::INFINITY, 3.4e38, 3.4e38, 24));
        assert!(tables.allows(1e6, 1e6, 1e6, 1) && !tables.allows(2e6, 1e6, 1e6, 1));
    }
}
