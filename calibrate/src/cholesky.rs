//! The lower factor of a symmetric positive definite matrix.

/// `L` with `L Lᵀ` = the matrix; rows one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Cholesky {
    n: usize,
    rows: Vec<f64>,
}

impl Cholesky {
    /// Factors the `n` by `n` matrix; returns none if it is not positive definite.
    pub(crate) fn of(mut rows: Vec<f64>, n: usize) -> Option<Self> {
        for i in 0..n {
            for j in 0..=i {
                let (above, own) = rows.split_at_mut(i * n);
                let sum = own[j] - dot(&own[..j], if i == j { None } else { Some(&above[j * n..j * n + j]) });
                if i != j {
                    own[j] = sum / above[j * n + j];
                } else if sum > 0.0 {
                    own[i] = sum.sqrt();
                } else {
                    return None;
                }
            }
        }
        Some(Cholesky { n, rows })
    }

    /// Computes `L⁻¹ b`, in place.
    pub(crate) fn forward(&self, b: &mut [f64]) {
        for i in 0..self.n {
            let row = &self.rows[i * self.n..i * self.n + i];
            let sum = b[i] - dot(row, Some(&b[..i]));
            b[i] = sum / self.rows[i * self.n + i];
        }
    }

    /// Computes the matrix's inverse times `b`, in place.
    pub(crate) fn solve(&self, b: &mut [f64]) {
        self.forward(b);
        for i in (0..self.n).rev() {
            b[i] /= self.rows[i * self.n + i];
            let (before, after) = b.split_at_mut(i);
            let row = &self.rows[i * self.n..i * self.n + i];
            before.iter_mut().zip(row).for_each(|(b, l)| *b -= l * after[0]);
        }
    }

    /// Returns the logarithm of the matrix's determinant.
    pub(crate) fn log_determinant(&self) -> f64 {
        2.0 * (0..self.n).map(|i| self.rows[i * self.n + i].ln()).sum::<f64>()
    }

    /// Returns `bᵀ` times the matrix's inverse times `b`.
    pub(crate) fn quadratic(&self, b: &mut [f64]) -> f64 {
        self.forward(b);
        dot(b, None)
    }
}

/// Returns the sum of products of `a` and `b`, or of `a` with itself without `b`.
fn dot(a: &[f64], b: Option<&[f64]>) -> f64 {
    a.iter().zip(b.unwrap_or(a)).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_solves_and_knows_the_determinant() {
        let matrix = [4.0, 2.0, 0.6, 2.0, 5.0, 1.5, 0.6, 1.5, 3.8];
        let factor = Cholesky::of(matrix.to_vec(), 3).expect("positive definite");
        let wanted = [1.0, -2.0, 3.0];
        let mut b: Vec<f64> = matrix.chunks(3).map(|row| dot(row, Some(&wanted))).collect();
        let quadratic = dot(&b, Some(&wanted));
        assert!((factor.quadratic(&mut b.clone()) - quadratic).abs() < 1e-12);
        factor.solve(&mut b);
        assert!(b.iter().zip(wanted).all(|(b, w)| (b - w).abs() < 1e-12), "{b:?}");
        // By the first row's minors.
        let determinant: f64 =
            4.0 * (5.0 * 3.8 - 1.5 * 1.5) - 2.0 * (2.0 * 3.8 - 1.5 * 0.6) + 0.6 * (2.0 * 1.5 - 5.0 * 0.6);
        assert!((factor.log_determinant() - determinant.ln()).abs() < 1e-12);
        assert!(Cholesky::of(vec![1.0, 2.0, 2.0, 1.0], 2).is_none());
    }
}
