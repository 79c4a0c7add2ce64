//! Nine figures that describe a sample.

use serde::Serialize;

/// Mean, extremes, percentiles and spread of a sample; all zero for an empty one.
///
/// Percentiles are nearest-rank: the value at index `(n - 1) p / 100`, rounded half up, of the
/// sorted sample. The standard deviation divides by `n`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Distribution {
    /// Arithmetic mean.
    pub mean: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// 50th percentile.
    pub median: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Population standard deviation.
    pub std: f64,
}

impl Distribution {
    /// Describes `values`, and changes their order.
    pub(crate) fn of(values: &mut [f64]) -> Self {
        let count = values.len() as f64;
        if values.is_empty() {
            return Self::default();
        }
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        // Ranks ascend, so each is looked for among the values that the one before left behind.
        let mut from = 0;
        let at_ranks = ranks(values.len() as u64).map(|rank| {
            let rank = usize::try_from(rank).expect("an index into the sample");
            let (_, &mut value, _) = values[from..].select_nth_unstable_by(rank - from, f64::total_cmp);
            from = rank;
            value
        });
        Self {
            mean,
            std: (squares / count).sqrt(),
            ..Self::at_ranks(at_ranks)
        }
    }

    /// Extremes and percentiles from the values at [`ranks`].
    pub(super) fn at_ranks([min, median, p75, p90, p95, p99, max]: [f64; 7]) -> Self {
        Self {
            min,
            max,
            median,
            p75,
            p90,
            p95,
            p99,
            ..Self::default()
        }
    }

    /// The nine figures with the prefixes of their report keys.
    pub fn figures(&self) -> [(&'static str, f64); 9] {
        [
            ("mean", self.mean),
            ("min", self.min),
            ("max", self.max),
            ("median", self.median),
            ("p75", self.p75),
            ("p90", self.p90),
            ("p95", self.p95),
            ("p99", self.p99),
            ("std", self.std),
        ]
    }
}

/// Ranks of the smallest value, the 50th, 75th, 90th, 95th and 99th percentile and the largest value
/// of a sorted sample of `count` values, at least 1.
pub(super) fn ranks(count: u64) -> [u64; 7] {
    [0, 50, 75, 90, 95, 99, 100].map(|percent| rank(count, percent))
}

/// Rank of a percentile, from 0 to 100, in a sorted sample of `count` values, at least 1.
pub(crate) fn rank(count: u64, percent: u64) -> u64 {
    ((count - 1) * percent + 50) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_rank_half_up() {
        let two = Distribution::of(&mut [2.0, 1.0]);
        assert_eq!(
            (two.median, two.max, two.p75),
            (2.0, 2.0, 2.0),
            "of two, the median is the larger"
        );
        let four = Distribution::of(&mut [4.0, 3.0, 2.0, 1.0]);
        assert_eq!((four.median, four.p90, four.min), (3.0, 4.0, 1.0));
        assert_eq!(Distribution::of(&mut []), Distribution::default());
    }
}
