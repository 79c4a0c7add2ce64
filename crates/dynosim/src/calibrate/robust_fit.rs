//! A robust fit: the parameters that make residuals small, whatever a few of them do.
//!
//! What is minimised is the sum of Huber's loss of residuals over a scale, which grows with the square of small
//! residuals and linearly with large ones. The scale is that of the residuals themselves, by their median, and is found
//! in turn with the parameters. Steps are those of Levenberg and Marquardt with weights that follow from the
//! loss. Derivatives are differences over steps that the caller finds meaningful, because simulations are not smooth, and are kept up
//! to date by Broyden's rule between fresh ones, because simulations are not cheap. No random numbers.

use super::normal_equations::{Matrix, inverse_diagonal, solve};

/// Residuals within this many scales count by their square: 95 % efficiency for normal errors.
const HUBER_SCALES: f64 = 1.345;
/// The standard deviation of normal errors over their median absolute value.
const SIGMA_OVER_MEDIAN: f64 = 1.4826;
/// Steps shorter than this share of the difference step are no steps.
const SHORTEST_MOVE: f64 = 0.01;
/// Losses that differ by less than this share are equal.
const LEAST_GAIN: f64 = 1e-6;
const MOST_MOVES: usize = 60;
const MOST_SCALES: usize = 8;
const FIRST_DAMPING: f64 = 1e-3;
const MOST_DAMPING: f64 = 1e6;

/// A number to be found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Parameter {
    /// Where the search begins, within the bounds.
    pub(crate) start: f64,
    /// Lower bound.
    pub(crate) least: f64,
    /// Upper bound.
    pub(crate) most: f64,
    /// A change that is small, yet large enough to show in the residuals; above 0.
    pub(crate) step: f64,
}

/// What a fit found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fit {
    /// The parameters.
    pub(crate) values: Vec<f64>,
    /// Standard error of each; absent if it is at a bound, or does nothing.
    pub(crate) std_errors: Vec<Option<f64>>,
    /// Whether a parameter changes any residual.
    pub(crate) has_effect: Vec<bool>,
    /// How often residuals were computed.
    pub(crate) evaluations: usize,
    /// Whether the search came to rest.
    pub(crate) converged: bool,
}

/// Finds the parameters that make the residuals small.
///
/// `residuals` gives equally many for any parameters within the bounds. `least_scale`, above 0, is a residual that means
/// nothing: the scale never gets smaller.
///
/// # Errors
/// The first error of `residuals`.
pub(crate) fn robust_fit<E>(
    parameters: &[Parameter],
    least_scale: f64,
    residuals: impl FnMut(&[f64]) -> Result<Vec<f64>, E>,
) -> Result<Fit, E> {
    let mut search = Search {
        parameters,
        evaluations: 0,
        residuals,
    };
    let start = parameters
        .iter()
        .map(|parameter| parameter.start.clamp(parameter.least, parameter.most))
        .collect();
    let mut place = search.place(start)?;
    let mut slopes = search.slopes(&place)?;
    let mut converged = false;
    let mut scale = robust_scale(&place.residuals, least_scale);
    for _ in 0..MOST_SCALES {
        converged = search.descend(&mut place, &mut slopes, scale)?;
        let found = robust_scale(&place.residuals, least_scale);
        let settled = (found / scale - 1.0).abs() < 0.01;
        scale = found;
        if settled {
            break;
        }
    }
    Ok(Fit {
        std_errors: search.std_errors(&place, &slopes, scale),
        has_effect: slopes
            .iter()
            .map(|slope| slope.iter().any(|change| *change != 0.0))
            .collect(),
        values: place.values,
        evaluations: search.evaluations,
        converged,
    })
}

/// The standard deviation of errors that are normal but for a few: 1.4826 times their median absolute value, but at least
/// `least`.
pub(crate) fn robust_scale(residuals: &[f64], least: f64) -> f64 {
    let mut sizes: Vec<f64> = residuals.iter().map(|residual| residual.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let middle = sizes.len() / 2;
    let median = match sizes.len() {
        0 => 0.0,
        count if count % 2 == 1 => sizes[middle],
        _ => f64::midpoint(sizes[middle - 1], sizes[middle]),
    };
    (SIGMA_OVER_MEDIAN * median).max(least)
}

/// Parameters and what comes of them.
#[derive(Debug, Clone)]
struct Place {
    values: Vec<f64>,
    residuals: Vec<f64>,
}

impl Place {
    /// Sum of Huber's losses.
    fn loss(&self, scale: f64) -> f64 {
        let loss = |residual: &f64| {
            let size = residual.abs() / scale;
            if size <= HUBER_SCALES {
                0.5 * size * size
            } else {
                HUBER_SCALES * (size - 0.5 * HUBER_SCALES)
            }
        };
        self.residuals.iter().map(loss).sum()
    }

    /// Weights with which squares have the slope of the losses.
    fn weights(&self, scale: f64) -> Vec<f64> {
        let weight = |residual: &f64| (HUBER_SCALES * scale / residual.abs()).min(1.0);
        self.residuals.iter().map(weight).collect()
    }
}

/// For each parameter, the change of every residual over that of the parameter.
type Slopes = Vec<Vec<f64>>;

struct Search<'p, F> {
    parameters: &'p [Parameter],
    evaluations: usize,
    residuals: F,
}

impl<F> Search<'_, F> {
    fn place<E>(&mut self, values: Vec<f64>) -> Result<Place, E>
    where
        F: FnMut(&[f64]) -> Result<Vec<f64>, E>,
    {
        self.evaluations += 1;
        let residuals = (self.residuals)(&values)?;
        Ok(Place { values, residuals })
    }

    /// Differences over one step each, into the bounds.
    fn slopes<E>(&mut self, place: &Place) -> Result<Slopes, E>
    where
        F: FnMut(&[f64]) -> Result<Vec<f64>, E>,
    {
        let mut slopes = Vec::with_capacity(self.parameters.len());
        for (index, parameter) in self.parameters.iter().enumerate() {
            let value = place.values[index];
            let ahead = value + parameter.step;
            let moved = if ahead <= parameter.most {
                ahead
            } else {
                (value - parameter.step).max(parameter.least)
            };
            let mut values = place.values.clone();
            values[index] = moved;
            let there = self.place(values)?;
            let pairs = there.residuals.iter().zip(&place.residuals);
            slopes.push(pairs.map(|(there, here)| (there - here) / (moved - value)).collect());
        }
        Ok(slopes)
    }

    /// Goes downhill until no step helps; whether it came to rest.
    fn descend<E>(&mut self, place: &mut Place, slopes: &mut Slopes, scale: f64) -> Result<bool, E>
    where
        F: FnMut(&[f64]) -> Result<Vec<f64>, E>,
    {
        let mut damping = FIRST_DAMPING;
        let mut fresh = false;
        for _ in 0..MOST_MOVES {
            let Some(values) = self.proposal(place, slopes, scale, damping) else {
                if fresh {
                    return Ok(true);
                }
                *slopes = self.slopes(place)?;
                (fresh, damping) = (true, FIRST_DAMPING);
                continue;
            };
            let there = self.place(values)?;
            let gain = 1.0 - there.loss(scale) / place.loss(scale);
            if gain > LEAST_GAIN {
                update(slopes, place, &there);
                *place = there;
                (fresh, damping) = (false, (damping / 10.0).max(FIRST_DAMPING));
            } else if fresh {
                damping *= 10.0;
                if damping > MOST_DAMPING {
                    return Ok(true);
                }
            } else {
                *slopes = self.slopes(place)?;
                fresh = true;
            }
        }
        Ok(false)
    }

    /// Where to go next; `None` if that is here.
    fn proposal(&self, place: &Place, slopes: &Slopes, scale: f64, damping: f64) -> Option<Vec<f64>> {
        let weights = place.weights(scale);
        let downhill: Vec<f64> = slopes
            .iter()
            .map(|slope| -weighted_product(&weights, slope, &place.residuals))
            .collect();
        let free: Vec<usize> = (0..slopes.len())
            .filter(|&index| downhill[index] != 0.0 && self.is_free(index, place.values[index], downhill[index]))
            .collect();
        let mut matrix = curvature(slopes, &weights, &free);
        for (index, row) in matrix.iter_mut().enumerate() {
            row[index] *= 1.0 + damping;
        }
        let right: Vec<f64> = free.iter().map(|&index| downhill[index]).collect();
        let changes = solve(&matrix, &right)?;
        let mut values = place.values.clone();
        let mut moves = false;
        for (&index, change) in free.iter().zip(changes) {
            let parameter = &self.parameters[index];
            values[index] = (values[index] + change).clamp(parameter.least, parameter.most);
            moves |= (values[index] - place.values[index]).abs() > SHORTEST_MOVE * parameter.step;
        }
        moves.then_some(values)
    }

    /// Whether a parameter is not held by a bound in the direction downhill.
    fn is_free(&self, index: usize, value: f64, downhill: f64) -> bool {
        let parameter = &self.parameters[index];
        if downhill > 0.0 {
            value < parameter.most
        } else {
            value > parameter.least
        }
    }

    /// By the curvature of the loss, for parameters between their bounds.
    fn std_errors(&self, place: &Place, slopes: &Slopes, scale: f64) -> Vec<Option<f64>> {
        let inside: Vec<usize> = (0..slopes.len())
            .filter(|&index| {
                let parameter = &self.parameters[index];
                let value = place.values[index];
                value > parameter.least && value < parameter.most && slopes[index].iter().any(|change| *change != 0.0)
            })
            .collect();
        let mut errors = vec![None; slopes.len()];
        let matrix = curvature(slopes, &place.weights(scale), &inside);
        if let Some(diagonal) = inverse_diagonal(&matrix) {
            for (&index, variance) in inside.iter().zip(diagonal) {
                errors[index] = Some(scale * variance.sqrt());
            }
        }
        errors
    }
}

/// Sums of weighted products of the slopes of these parameters.
fn curvature(slopes: &Slopes, weights: &[f64], of: &[usize]) -> Matrix {
    of.iter()
        .map(|&i| {
            of.iter()
                .map(|&j| weighted_product(weights, &slopes[i], &slopes[j]))
                .collect()
        })
        .collect()
}

fn weighted_product(weights: &[f64], a: &[f64], b: &[f64]) -> f64 {
    let pairs = a.iter().zip(b);
    weights.iter().zip(pairs).map(|(weight, (a, b))| weight * a * b).sum()
}

/// Broyden's rule: the least change of the slopes after which they explain the step from one place to another.
fn update(slopes: &mut Slopes, from: &Place, to: &Place) {
    let steps: Vec<f64> = to.values.iter().zip(&from.values).map(|(to, from)| to - from).collect();
    let length: f64 = steps.iter().map(|step| step * step).sum();
    for residual in 0..from.residuals.len() {
        let expected: f64 = slopes
            .iter()
            .zip(&steps)
            .map(|(slope, step)| slope[residual] * step)
            .sum();
        let missed = to.residuals[residual] - from.residuals[residual] - expected;
        for (slope, step) in slopes.iter_mut().zip(&steps) {
            slope[residual] += missed * step / length;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    const LEAST_SCALE: f64 = 1e-6;

    fn from(start: f64) -> Parameter {
        Parameter {
            start,
            least: -100.0,
            most: 100.0,
            step: 0.01,
        }
    }

    fn fit(parameters: &[Parameter], residuals: impl Fn(&[f64]) -> Vec<f64>) -> Fit {
        let fit: Result<Fit, Infallible> = robust_fit(parameters, LEAST_SCALE, |values| Ok(residuals(values)));
        fit.expect("residuals do not fail")
    }

    #[track_caller]
    fn check(fit: &Fit, expected: &[f64], within: f64) {
        assert!(fit.converged, "{fit:?}");
        for (value, expected) in fit.values.iter().zip(expected) {
            assert!((value - expected).abs() < within, "{fit:?} instead of {expected:?}");
        }
    }

    #[test]
    fn a_line_is_found() {
        let line = |values: &[f64]| {
            (0..10)
                .map(|x| values[0] + values[1] * f64::from(x) - (3.0 - 0.5 * f64::from(x)))
                .collect()
        };
        check(&fit(&[from(0.0), from(0.0)], line), &[3.0, -0.5], 1e-3);
    }

    #[test]
    fn a_curved_valley_is_followed() {
        // Rosenbrock's function.
        let valley = |values: &[f64]| vec![10.0 * (values[1] - values[0] * values[0]), 1.0 - values[0]];
        let parameters = [from(-1.2), from(1.0)].map(|parameter| Parameter {
            step: 1e-4,
            ..parameter
        });
        check(&fit(&parameters, valley), &[1.0, 1.0], 1e-2);
    }

    #[test]
    fn outliers_hardly_count() {
        let measured = [1.01, 0.99, 1.02, 0.98, 1.0, 1.01, 0.99, 50.0];
        let fit = fit(&[from(0.0)], |values| measured.iter().map(|y| values[0] - y).collect());
        check(&fit, &[1.0], 0.02);
        let error = fit.std_errors[0].expect("it is between its bounds");
        assert!((0.001..0.05).contains(&error), "{error}");
    }

    #[test]
    fn bounds_hold() {
        let bounded = Parameter { most: 2.0, ..from(0.0) };
        let target = |values: &[f64]| vec![values[0] - 5.0, values[0] + values[1] - 6.0, values[1] - 4.0];
        let fit = fit(&[bounded, from(0.0)], target);
        check(&fit, &[2.0, 4.0], 1e-2);
        assert_eq!(fit.std_errors[0], None);
        assert!(fit.std_errors[1].is_some());
    }

    #[test]
    fn a_start_at_a_bound_is_left() {
        let at_bound = Parameter {
            least: 0.0,
            ..from(0.0)
        };
        check(&fit(&[at_bound], |values| vec![values[0] - 0.3]), &[0.3], 1e-3);
    }

    #[test]
    fn what_has_no_effect_stays_and_is_told() {
        let fit = fit(&[from(7.0), from(1.0)], |values| {
            vec![values[1] - 2.0, 2.0 * values[1] - 4.0]
        });
        check(&fit, &[7.0, 2.0], 1e-3);
        assert_eq!(fit.has_effect, [false, true]);
        assert_eq!(fit.std_errors[0], None);
    }

    #[test]
    fn small_jumps_do_not_stop_the_search() {
        // A function that is rounded, as discrete events round.
        let rounded = |values: &[f64]| -> Vec<f64> {
            let exact = (1..20).map(|x| (values[0] * f64::from(x)).exp().ln_1p() - (0.3 * f64::from(x)).exp().ln_1p());
            exact.map(|residual| (residual * 1e4).round() / 1e4).collect()
        };
        check(&fit(&[from(1.0)], rounded), &[0.3], 1e-3);
    }

    #[test]
    fn an_error_ends_the_search() {
        let mut calls = 0;
        let failing = robust_fit(&[from(0.0)], LEAST_SCALE, |values| {
            calls += 1;
            if calls > 2 {
                Err("enough")
            } else {
                Ok(vec![values[0] - 1.0])
            }
        });
        assert_eq!(failing, Err("enough"));
    }

    #[test]
    fn a_scale_is_that_of_most_residuals() {
        assert!((robust_scale(&[-1.0, 1.0, 2.0, -2.0, 100.0], 0.1) - 2.9652).abs() < 1e-12);
        assert!((robust_scale(&[1.0, -3.0], 0.1) - 2.9652).abs() < 1e-12);
        assert_eq!(robust_scale(&[], 0.1).to_bits(), 0.1_f64.to_bits());
    }

    proptest! {
        #[test]
        fn exact_linear_models_are_found(
            truth in prop::collection::vec(-5.0_f64..5.0, 3),
            start in prop::collection::vec(-5.0_f64..5.0, 3),
            rows in prop::collection::vec(prop::collection::vec(-1.0_f64..1.0, 3), 12),
        ) {
            // Well enough conditioned: every parameter has rows of its own.
            let row = |index: usize| -> Vec<f64> {
                (0..3).map(|column| rows[index][column] + if index % 3 == column { 3.0 } else { 0.0 }).collect()
            };
            let value = |values: &[f64], index: usize| -> f64 { row(index).iter().zip(values).map(|(a, x)| a * x).sum() };
            let parameters: Vec<Parameter> = start.iter().map(|&start| from(start)).collect();
            let found = fit(&parameters, |values| (0..12).map(|index| value(values, index) - value(&truth, index)).collect());
            prop_assert!(found.converged);
            for (found, truth) in found.values.iter().zip(&truth) {
                prop_assert!((found - truth).abs() < 1e-3, "{found} instead of {truth}");
            }
        }
    }
}
