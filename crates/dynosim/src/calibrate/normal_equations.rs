//! Small systems of linear equations with a symmetric, positive definite matrix.

/// A symmetric matrix as rows.
pub(super) type Matrix = Vec<Vec<f64>>;

/// Solves `matrix x = right`; `None` if the matrix is not positive definite to working precision.
pub(super) fn solve(matrix: &Matrix, right: &[f64]) -> Option<Vec<f64>> {
    let lower = cholesky(matrix)?;
    let size = right.len();
    let mut x = right.to_vec();
    for row in 0..size {
        let known: f64 = (0..row).map(|column| lower[row][column] * x[column]).sum();
        x[row] = (x[row] - known) / lower[row][row];
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|column| lower[column][row] * x[column]).sum();
        x[row] = (x[row] - known) / lower[row][row];
    }
    Some(x)
}

/// Diagonal of the inverse; `None` as for [`solve`].
pub(super) fn inverse_diagonal(matrix: &Matrix) -> Option<Vec<f64>> {
    let unit = |at: usize| {
        (0..matrix.len())
            .map(|row| f64::from(u8::from(row == at)))
            .collect::<Vec<f64>>()
    };
    (0..matrix.len())
        .map(|at| solve(matrix, &unit(at)).map(|column| column[at]))
        .collect()
}

/// The lower triangle whose product with its transpose is the matrix.
fn cholesky(matrix: &Matrix) -> Option<Matrix> {
    /// Below this share of a diagonal element, what is left of it is rounding error.
    const LEAST_SHARE: f64 = 1e-13;
    let size = matrix.len();
    let mut lower = vec![vec![0.0; size]; size];
    for row in 0..size {
        for column in 0..=row {
            let known: f64 = (0..column).map(|k| lower[row][k] * lower[column][k]).sum();
            let rest = matrix[row][column] - known;
            if row > column {
                lower[row][column] = rest / lower[column][column];
            } else if rest > LEAST_SHARE * matrix[row][row] {
                lower[row][row] = rest.sqrt();
            } else {
                return None;
            }
        }
    }
    Some(lower)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_system_is_solved() {
        let matrix = vec![vec![4.0, 2.0], vec![2.0, 3.0]];
        let x = solve(&matrix, &[10.0, 9.0]).expect("it is positive definite");
        assert!((x[0] - 1.5).abs() < 1e-14 && (x[1] - 2.0).abs() < 1e-14, "{x:?}");
        let diagonal = inverse_diagonal(&matrix).expect("it is positive definite");
        assert!((diagonal[0] - 0.375).abs() < 1e-14 && (diagonal[1] - 0.5).abs() < 1e-14);
    }

    #[test]
    fn a_singular_system_has_no_solution() {
        assert_eq!(solve(&vec![vec![1.0, 1.0], vec![1.0, 1.0]], &[1.0, 1.0]), None);
        assert_eq!(solve(&vec![vec![0.0]], &[1.0]), None);
    }

    proptest! {
        #[test]
        fn solutions_fulfil_their_equations(
            rows in prop::collection::vec(prop::collection::vec(-2.0_f64..2.0, 4), 4),
            x in prop::collection::vec(-5.0_f64..5.0, 4),
        ) {
            // A product with its own transpose, and a little more on the diagonal.
            let element = |i: usize, j: usize| {
                let product: f64 = (0..4).map(|k| rows[i][k] * rows[j][k]).sum();
                product + if i == j { 0.1 } else { 0.0 }
            };
            let matrix: Matrix = (0..4).map(|i| (0..4).map(|j| element(i, j)).collect()).collect();
            let right: Vec<f64> = matrix.iter().map(|row| row.iter().zip(&x).map(|(a, b)| a * b).sum()).collect();
            let found = solve(&matrix, &right).expect("it is positive definite");
            for (found, expected) in found.iter().zip(&x) {
                prop_assert!((found - expected).abs() < 1e-8, "{found} instead of {expected}");
            }
        }
    }
}
