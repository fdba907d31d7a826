//! Points that fill a space evenly, however many are taken: the additive recurrence by the generalised golden ratio (Roberts 2018).

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    steps: Vec<f64>,
    at: Vec<f64>,
}

impl Sequence {
    /// In the unit cube of so many dimensions; another `shift` gives other points.
    pub(crate) fn new(dimensions: usize, shift: u32) -> Self {
        // The root above 1 of x^(d+1) = x + 1.
        let root = (0..64).fold(2.0f64, |x, _| (1.0 + x).powf(1.0 / (dimensions as f64 + 1.0)));
        let steps: Vec<f64> = (1..=dimensions).map(|i| root.powi(-(i as i32))).collect();
        let at = steps.iter().map(|step| (0.5 + step * f64::from(shift) * 1009.0).fract()).collect();
        Sequence { steps, at }
    }

    /// The next point.
    pub(crate) fn next_point(&mut self) -> Vec<f64> {
        self.at.iter_mut().zip(&self.steps).for_each(|(x, step)| *x = (*x + step).fract());
        self.at.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_cube_gets_its_share() {
        let mut sequence = Sequence::new(3, 1);
        let mut parts = [0; 8];
        for _ in 0..800 {
            let at = sequence.next_point();
            parts[at.iter().fold(0, |part, x| 2 * part + usize::from(*x >= 0.5))] += 1;
        }
        assert!(parts.iter().all(|count| (90..=110).contains(count)), "{parts:?}");
    }
}
