//! Floating-point sums on a switch that adds integers only (LIBRA §3.5, Figure 9): seven tables.
//!
//! `x + y = 2^(i + log2(1 + 2^(j − i)))` with `i = log2 x`, `j = log2 y`. Logarithms are whole numbers of steps, 1000 to
//! the octave (the keys of Figure 9), so every addition between two lookups is one of integers. A positive f32 is
//! `2^(e−127) · (m + Δm)` with `m = 1.b1…b11` and `Δm = 0.b12…b23 · 2⁻¹¹`, and `log2 p ≈ (e − 127) + log2 m +
//! 2^(log2 Δm − log2(m ln 2))` (equation 1): five small tables in place of one of 2³² entries.
//!
//! The paper adds two positive numbers. What it leaves open is our choice: docs/float.md has the reasons.
//! - The operand of larger magnitude comes first, so `z = j − i` is never positive, and the positive keys of the
//!   miTable, which are not needed then, hold `log2(1 − 2^z)` for operands of opposite signs: no further table.
//! - An entry of the final expTable has an exponent of 6 bits and a fraction of 10; see [`OFFSET`].
//! - A miss leaves the larger operand as it is: the smaller one is below 2⁻³² or 2⁻¹⁵ of the larger, or the sum is
//!   above 2¹⁷. A difference below 2⁻³² is 0. Infinities and what is not a number follow IEEE 754.
//!
//! How many steps are an octave is not printed: [`TableScale`] has two readings.
//!
//! Called by the study `float_sum`. [`Tables::add_by_seven`] is the definition, [`Tables::add`] the same from fewer
//! lookups, `reference` the same without tables, for tests.

pub mod integer;
pub mod precision;
#[cfg(test)]
mod reference;

#[cfg(test)]
mod tests;

/// Steps of logarithms to the octave (Figure 9: keys from −32000 for 2⁻³²).
pub const STEPS: i32 = 1000;

/// What the keys of the tables mean. Figure 9 prints keys, and not how many are an octave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableScale {
    /// Steps of logarithms to the octave.
    pub steps: i32,
    /// Exponents, as they stand in an f32, of numbers that have a logarithm.
    exponents: (u32, u32),
    /// Bits of fraction in an entry of the final expTable; the rest of its 16 bits is the exponent.
    fraction_bits: u32,
    /// Exponent of an entry of 0.
    below: u32,
}

impl TableScale {
    /// 1000 steps: 2⁻³² to 2³², entries of 6 bits of exponent and 10 of fraction.
    pub const FINE: TableScale = TableScale {
        steps: STEPS,
        exponents: (EXPONENTS.start, EXPONENTS.end),
        fraction_bits: FRACTION_BITS,
        below: 127 - 33,
    };
    /// 256 steps, so that a logarithm is a number of 8 + 8 bits: the same keys are 2⁻¹²⁵ to 2⁶⁶, which is "large enough to hold
    /// all possible numbers" (§5.5); entries have 8 bits of exponent and 8 of fraction.
    pub(crate) const WIDE: TableScale =
        TableScale { steps: 256, exponents: (127 - 125, 127 + 127), fraction_bits: 8, below: 0 };

    fn has_log(self, exponent: u32) -> bool {
        (self.exponents.0..self.exponents.1).contains(&exponent)
    }

    /// How far an entry is shifted to be an f32.
    fn shift(self) -> u32 {
        23 - self.fraction_bits
    }

    fn offset(self) -> u32 {
        self.below << self.fraction_bits
    }
}

/// The keys of the two expTables (Figure 9).
pub(crate) const EXP_KEYS: std::ops::RangeInclusive<i32> = -32_000..=17_000;
/// The keys of the miTable for `z` (Figure 9).
pub(crate) const MI_KEYS: std::ops::RangeInclusive<i32> = -15_000..=17_000;
/// Exponents, as they stand in an f32, of numbers that have a logarithm here: from 2⁻³² up to 2³², beyond which
/// no key has 16 bits.
pub const EXPONENTS: std::ops::Range<u32> = 127 - 32..127 + 32;

/// What an f32 has above an entry of the final expTable. An entry is an f32 without its sign and its lowest 13 bits,
/// less this: 2⁻³² is 1024, 2¹⁷ is 51 200, and 0 stays free for zero. So the switch makes a number by one
/// addition and one shift.
pub const OFFSET: u32 = (127 - 33) << FRACTION_BITS;
/// Bits of fraction in an entry.
const FRACTION_BITS: u32 = 10;
/// How far they are shifted.
pub const SHIFT: u32 = 23 - FRACTION_BITS;
/// No entry: a miss.
pub const MISS_EXP: u16 = u16::MAX;
/// No entry: a miss. It is also the logarithm of nothing.
pub const MISS: i16 = i16::MIN;
/// An entry of its own: operands of opposite signs that cannot be distinguished.
pub const NOTHING: i16 = MISS + 1;

const SIGN: u32 = 1 << 31;
/// The first magnitude that is no finite number.
pub const INFINITY: u32 = 0xff << 23;
/// Distance of two 16-bit keys from 0.
const HALF: i32 = 1 << 15;

/// The seven tables, and what is made of them.
#[derive(Debug, Clone)]
pub struct Tables {
    seven: Seven,
    merged: MergedTables,
}

/// What a switch holds. Sizes are those of the entries: 408.5 KiB.
#[derive(Debug, Clone)]
pub struct Seven {
    scale: TableScale,
    /// 8-bit epoTable: the exponent in steps; a miss for exponents that have no logarithm.
    epo: Box<[i16]>,
    /// 12-bit logTable: log2 m; the key is `1b1…b11`, so the lower half is never asked for.
    log_m: Box<[i16]>,
    /// 12-bit logTable: log2 Δm; the key is `b12…b23`.
    log_dm: Box<[i16]>,
    /// 12-bit logTable: log2(m ln 2); key as in `log_m`.
    log_mln2: Box<[i16]>,
    /// 16-bit expTable: 2^u octaves, in steps.
    exp_u: Box<[i16]>,
    /// 16-bit miTable: log2(1 + 2^z) for z from −15000 to 0; log2(1 − 2^−k) at key `k + 1`.
    mi: Box<[i16]>,
    /// 16-bit expTable: 2^t as the upper bits of an f32.
    exp_t: Box<[u16]>,
}

/// The same answers from four lookups, all in the first two caches. Public so that they can be made for several sums at
/// once, by instructions that not every processor has.
#[derive(Debug, Clone)]
pub struct MergedTables {
    /// By `b1…b11`: log2 m times 4096, and 4096 less the lowest Δm that makes it one step more, so that Δm added to it
    /// carries. See [`MergedTables::log`].
    pub logs: Box<[u32; 2048]>,
    /// `mi` by `k` for equal signs, then for opposite ones, each up to 15001 where the miss is.
    pub mi: Box<[i16; 2 * MI_HALF + PAD]>,
    /// `exp_t` for every sum of a logarithm and an entry of `mi`, so that no key needs to be clamped.
    pub exp_t: Box<[u16; EXP_ROOM + PAD]>,
}

/// Room for the keys of one sign in [`MergedTables::mi`].
pub const MI_HALF: usize = 1 << 14;
/// Room for the keys in [`MergedTables::exp_t`], half of them negative.
pub const EXP_ROOM: usize = 1 << 17;
/// Entries that no key has, so that four bytes can be read where the last one begins.
const PAD: usize = 1;
/// Bits of Δm.
pub const LOW_BITS: u32 = 12;

/// The nearest whole number that an entry can hold.
fn entry(value: f64) -> i16 {
    value.round().clamp(f64::from(NOTHING + 1), f64::from(i16::MAX)) as i16
}

/// The place of a key of 16 bits.
#[inline]
fn place(key: i32) -> usize {
    (key.clamp(-HALF, HALF - 1) + HALF) as usize
}

/// A table of 2¹⁶ entries by key.
fn by_key<T>(of: impl Fn(i32) -> T) -> Box<[T]> {
    (-HALF..HALF).map(of).collect()
}

impl Seven {
    /// Computes them.
    pub fn new(scale: TableScale) -> Self {
        let steps = f64::from(scale.steps);
        let m = |key: usize| key as f64 / 2048.0;
        let upper = |of: &dyn Fn(f64) -> f64| -> Box<[i16]> {
            (0..4096usize).map(|key| if key < 2048 { 0 } else { entry(steps * of(m(key))) }).collect()
        };
        let epo = |e: u32| if scale.has_log(e) { ((e as i32 - 127) * scale.steps) as i16 } else { MISS };
        let log_dm = |b: u32| if b == 0 { MISS } else { entry(steps * (f64::from(b).log2() - 23.0)) };
        Seven {
            scale,
            epo: (0..256).map(epo).collect(),
            log_m: upper(&f64::log2),
            log_dm: (0..4096).map(log_dm).collect(),
            log_mln2: upper(&|m| (m * std::f64::consts::LN_2).log2()),
            exp_u: by_key(|u| if u < *EXP_KEYS.start() { 0 } else { entry(steps * (f64::from(u) / steps).exp2()) }),
            mi: by_key(|key| mi_entry(key, scale)),
            exp_t: by_key(|key| exp_entry(key, scale)),
        }
    }

    /// What they take on a switch.
    pub fn bytes(&self) -> usize {
        let small = [&self.epo, &self.log_m, &self.log_dm, &self.log_mln2, &self.exp_u, &self.mi];
        small.iter().map(|table| size_of_val(&***table)).sum::<usize>() + size_of_val(&*self.exp_t)
    }

    /// The logarithm of a magnitude in steps; none beyond the exponents that have one.
    fn log(&self, magnitude: u32) -> Option<i32> {
        let epo = self.epo[(magnitude >> 23) as usize];
        let m = (magnitude >> 12 & 0x7ff | 0x800) as usize;
        let u = i32::from(self.log_dm[(magnitude & 0xfff) as usize]) - i32::from(self.log_mln2[m]);
        let correction = self.exp_u[place(u)];
        (epo != MISS).then(|| i32::from(epo) + i32::from(self.log_m[m]) + i32::from(correction))
    }

    /// `x + y` as a switch makes it, lookup by lookup.
    pub fn add(&self, x: f32, y: f32) -> f32 {
        let (large, small) = ordered(x, y);
        let (above, below) = (large & !SIGN, small & !SIGN);
        let opposite = (large ^ small) & SIGN != 0;
        if above >= INFINITY || (opposite && above == below) {
            return special(large, small);
        }
        let (Some(i), Some(j)) = (self.log(above), self.log(below)) else { return f32::from_bits(large) };
        // Rounding may put the smaller operand a step above the larger.
        let z = (j - i).min(0);
        let sigma = self.mi[place(if opposite { 1 - z } else { z })];
        if sigma <= NOTHING {
            return without(sigma, large);
        }
        let t = self.exp_t[place(i + i32::from(sigma))];
        made(t, large, self.scale)
    }
}

/// An entry of the miTable.
fn mi_entry(key: i32, scale: TableScale) -> i16 {
    let steps = f64::from(scale.steps);
    let value = match key {
        _ if !MI_KEYS.contains(&key) => return MISS,
        ..=0 => (1.0 + (f64::from(key) / steps).exp2()).log2(),
        // Operands that have the same logarithm: what is left of them is not known, and taken for nothing.
        1 => return NOTHING,
        // The smaller operand is as far away as where equal signs miss.
        _ if key - 1 > -MI_KEYS.start() => return MISS,
        _ => (1.0 - (f64::from(1 - key) / steps).exp2()).log2(),
    };
    entry(value * steps)
}

/// An entry of the final expTable.
fn exp_entry(key: i32, scale: TableScale) -> u16 {
    if key < *EXP_KEYS.start() {
        return 0;
    }
    if key > *EXP_KEYS.end() {
        return MISS_EXP;
    }
    let value = (f64::from(key) / f64::from(scale.steps)).exp2();
    // To the nearest: half of what is cut off is added, and may carry into the exponent, which is right.
    let bits = (value as f32).to_bits() + (1 << (scale.shift() - 1));
    ((bits >> scale.shift()) - scale.offset()) as u16
}

impl MergedTables {
    /// Made of the seven tables, not of what they were made of.
    fn new(seven: &Seven) -> Self {
        let one = 127 << 23;
        let log = |m: u32, dm: u32| seven.log(one | m << 12 | dm).unwrap_or(0);
        let logs = |m: u32| {
            let base = log(m, 0);
            // The correction is at most 0.7 steps, so it is 0 up to some Δm and 1 from there on.
            let (mut low, mut high) = (0, 1u32 << LOW_BITS);
            while low < high {
                let middle = (low + high) / 2;
                if log(m, middle) > base { high = middle } else { low = middle + 1 }
            }
            ((base << LOW_BITS) + (1 << LOW_BITS) - low as i32) as u32
        };
        let mut merged = MergedTables {
            logs: Box::new([0; 2048]),
            mi: Box::new([MISS; 2 * MI_HALF + PAD]),
            exp_t: Box::new([0; EXP_ROOM + PAD]),
        };
        (0..).zip(merged.logs.iter_mut()).for_each(|(m, to)| *to = logs(m));
        for k in 0..MI_HALF as i32 {
            merged.mi[k as usize] = seven.mi[place(-k)];
            merged.mi[MI_HALF + k as usize] = seven.mi[place(k + 1)];
        }
        (-2 * HALF..2 * HALF).zip(merged.exp_t.iter_mut()).for_each(|(t, to)| *to = seven.exp_t[place(t)]);
        merged
    }

    /// The logarithm of a magnitude whose exponent is among [`EXPONENTS`].
    #[inline(always)]
    fn log(&self, magnitude: u32) -> i32 {
        let entry = self.logs[(magnitude >> LOW_BITS & 0x7ff) as usize];
        let exponent = (magnitude >> 23) as i32 - 127;
        exponent * STEPS + ((entry + (magnitude & ((1 << LOW_BITS) - 1))) >> LOW_BITS) as i32
    }
}

impl Default for Tables {
    fn default() -> Self {
        Tables::new()
    }
}

impl Tables {
    /// Computes all tables.
    pub fn new() -> Self {
        let seven = Seven::new(TableScale::FINE);
        Tables { merged: MergedTables::new(&seven), seven }
    }

    /// What [`add`](Self::add) looks up.
    pub fn merged(&self) -> &MergedTables {
        &self.merged
    }

    /// What the seven tables take on a switch.
    pub fn bytes(&self) -> usize {
        self.seven.bytes()
    }

    /// `x + y` as a switch makes it, lookup by lookup.
    pub fn add_by_seven(&self, x: f32, y: f32) -> f32 {
        self.seven.add(x, y)
    }

    /// `x + y` as a switch makes it.
    #[inline]
    pub fn add(&self, x: f32, y: f32) -> f32 {
        let (large, small) = ordered(x, y);
        let (above, below) = (large & !SIGN, small & !SIGN);
        let opposite = (large ^ small) >> 31;
        // Without a branch on the sign, which is unpredictable.
        let known = (above < EXPONENTS.end << 23) & (below >= EXPONENTS.start << 23) & (large ^ small != SIGN);
        if !known {
            return unknown(large, small);
        }
        let i = self.merged.log(above);
        let k = (i - self.merged.log(below)).max(0) as usize;
        let sigma = self.merged.mi[(opposite as usize * MI_HALF) | k.min(MI_HALF - 1)];
        if sigma <= NOTHING {
            return without(sigma, large);
        }
        made(self.merged.exp_t[(i + i32::from(sigma) + 2 * HALF) as usize & (EXP_ROOM - 1)], large, TableScale::FINE)
    }
}

/// The bits of the operands, the larger magnitude first; of equal ones in any order, since both are alike or cancel.
#[inline(always)]
fn ordered(x: f32, y: f32) -> (u32, u32) {
    // With the sign at the low end, so that the order is that of whole numbers and takes no branch.
    let (x, y) = (x.to_bits().rotate_left(1), y.to_bits().rotate_left(1));
    (x.max(y).rotate_right(1), x.min(y).rotate_right(1))
}

/// A number from an entry of the final expTable, with the sign of `large`; `large` itself where there is no entry.
#[inline(always)]
fn made(entry: u16, large: u32, scale: TableScale) -> f32 {
    match entry {
        MISS_EXP => f32::from_bits(large),
        0 => 0.0,
        _ => f32::from_bits((u32::from(entry) + scale.offset()) << scale.shift() | large & SIGN),
    }
}

/// What a miss of the miTable leaves, and what operands that cancel.
#[cold]
fn without(sigma: i16, large: u32) -> f32 {
    if sigma == MISS { f32::from_bits(large) } else { 0.0 }
}

/// Operands beyond the exponents that have a logarithm, or that cancel.
#[cold]
fn unknown(large: u32, small: u32) -> f32 {
    let cancel = large ^ small == SIGN;
    if large & !SIGN >= INFINITY || cancel { special(large, small) } else { f32::from_bits(large) }
}

/// Equal magnitudes of opposite signs, infinities, and what is not a number, for which the exponent 255 is an entry of its
/// own.
fn special(large: u32, small: u32) -> f32 {
    match large & !SIGN {
        INFINITY if large ^ small == SIGN => f32::NAN,
        INFINITY => f32::from_bits(large),
        above if above > INFINITY => f32::NAN,
        _ => 0.0,
    }
}
