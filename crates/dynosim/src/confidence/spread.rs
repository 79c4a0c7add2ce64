//! How far repetitions of a figure are apart.

use serde::Serialize;

use super::student::t_95;

/// Mean, spread and extremes of a figure over repetitions, in the unit of the figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Repetitions that have the figure.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Sample standard deviation (divided by `count - 1`); `None` of a single repetition.
    pub std_dev: Option<f64>,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// 90 % confidence interval of the mean: `mean` plus or minus the 95 % quantile of Student's t with `count - 1`
    /// degrees of freedom times `std_dev` over the root of `count`. It takes repetitions for independent and about
    /// normally distributed. `None` of a single repetition, and if all are equal: then nothing was seen to vary, which
    /// is not the same as being certain.
    pub interval_90: Option<[f64; 2]>,
}

impl Spread {
    /// Of these values, in any order; those that are not finite do not count. `None` without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let count = values.len();
        let min = values.iter().copied().min_by(f64::total_cmp)?;
        let max = values.iter().copied().max_by(f64::total_cmp)?;
        if min >= max {
            return Some(Self {
                count,
                mean: min,
                std_dev: (count > 1).then_some(0.0),
                min,
                max,
                interval_90: None,
            });
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let std_dev = (squares / (count - 1) as f64).sqrt();
        let half_width = t_95(count - 1) * std_dev / (count as f64).sqrt();
        Some(Self {
            count,
            mean,
            std_dev: Some(std_dev),
            min,
            max,
            interval_90: Some([mean - half_width, mean + half_width]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_a_worked_example() {
        // Deviations -4, -2, 0, 2, 4: squares 40, variance 10; t of 4 degrees 2.131847, over the root of 5.
        let spread = Spread::of([14.0, 6.0, 10.0, 12.0, 8.0]).expect("there are values");
        let half_width = 2.131_847 * 10.0_f64.sqrt() / 5.0_f64.sqrt();
        assert_eq!((spread.count, spread.min, spread.max), (5, 6.0, 14.0));
        assert!((spread.mean - 10.0).abs() < 1e-12);
        assert!((spread.std_dev.expect("of several") - 10.0_f64.sqrt()).abs() < 1e-12);
        let [low, high] = spread.interval_90.expect("of several");
        assert!((low - (10.0 - half_width)).abs() < 1e-9 && (high - (10.0 + half_width)).abs() < 1e-9);
    }

    #[test]
    fn equal_values_have_no_interval() {
        let spread = Spread::of([0.1; 3]).expect("there are values");
        assert_eq!(
            (spread.mean, spread.std_dev, spread.interval_90),
            (0.1, Some(0.0), None)
        );
    }

    #[test]
    fn one_value_has_no_spread_and_none_is_nothing() {
        let spread = Spread::of([f64::NAN, 3.0, f64::INFINITY]).expect("there is one");
        assert_eq!(
            (spread.count, spread.mean, spread.std_dev, spread.interval_90),
            (1, 3.0, None, None)
        );
        assert_eq!(Spread::of([f64::NAN]), None);
    }

    /// Over many samples of a known distribution, about nine in ten intervals hold its mean.
    #[test]
    fn nine_in_ten_intervals_hold_the_true_mean() {
        // A linear congruential generator; sums of twelve uniform numbers are nearly normal, with mean 6.
        let mut state = 1_u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>();
        let samples = 4000;
        let holding = (0..samples)
            .filter(|_| {
                let spread = Spread::of((0..5).map(|_| normal())).expect("there are values");
                spread.interval_90.is_some_and(|[low, high]| low <= 6.0 && 6.0 <= high)
            })
            .count();
        let share = holding as f64 / f64::from(samples);
        // Four standard errors of a share of 0.9 in 4,000.
        assert!((share - 0.9).abs() < 0.019, "{share}");
    }
}
