//! How often each gap between two tokens of a request occurred, and what that amounts to.
//!
//! Gaps are whole nanoseconds, and every sum here is an integer: results do not depend on the order
//! in which gaps were counted, nor on whether they were counted one by one or in bulk.

use dynosim_spec::SimDuration;
use rustc_hash::FxHashMap;

use super::distribution::Distribution;

/// Fractional bits of sums over rates.
const FRACTION_BITS: u32 = 40;

/// Buckets per power of two of the histogram that finds percentiles: 1024, so that few different
/// gaps share one.
const BUCKET_BITS: u32 = 10;

/// Gaps with their counts.
#[derive(Debug, Default)]
pub(crate) struct GapTally {
    /// The latest gap and its count, kept apart: the sequences of a batch share their gaps.
    latest: (SimDuration, u64),
    counts: FxHashMap<SimDuration, u64>,
    /// Gaps counted in bulk, each possibly several times.
    pairs: Vec<(SimDuration, u64)>,
}

impl GapTally {
    /// Counts a gap.
    pub(crate) fn add(&mut self, gap: SimDuration, times: u64) {
        if self.latest.0 != gap {
            self.flush();
            self.latest.0 = gap;
        }
        self.latest.1 += times;
    }

    /// Counts many gaps that are unlikely to have occurred before.
    pub(crate) fn extend(&mut self, pairs: impl Iterator<Item = (SimDuration, u64)>) {
        self.pairs.extend(pairs);
    }

    fn flush(&mut self) {
        let (gap, times) = std::mem::take(&mut self.latest);
        if times > 0 {
            *self.counts.entry(gap).or_default() += times;
        }
    }

    /// The gaps in milliseconds, and the rates that users see: 1000 over each gap that is not zero.
    pub(super) fn distributions(&mut self) -> (Distribution, Distribution) {
        self.flush();
        let Self { counts, pairs, .. } = self;
        pairs.extend(counts.drain());
        (gap_distribution(pairs), rate_distribution(pairs))
    }
}

fn gap_distribution(pairs: &[(SimDuration, u64)]) -> Distribution {
    let count: u64 = pairs.iter().map(|&(_, times)| times).sum();
    if count == 0 {
        return Distribution::default();
    }
    let total: u128 = pairs
        .iter()
        .map(|&(gap, times)| u128::from(gap.as_nanos()) * u128::from(times))
        .sum();
    // Distances from the mean, rounded down to a whole number, and from there to the mean itself.
    let pivot = u64::try_from(total / u128::from(count)).unwrap_or(u64::MAX);
    let squares = pairs.iter().fold(0_u128, |sum, &(gap, times)| {
        let distance = u128::from(gap.as_nanos().abs_diff(pivot));
        sum.saturating_add((distance * distance).saturating_mul(u128::from(times)))
    });
    let beyond_pivot = (total - u128::from(pivot) * u128::from(count)) as f64 / count as f64;
    let variance = squares as f64 / count as f64 - beyond_pivot * beyond_pivot;
    let ranks = Ranks::new(pairs, count);
    Distribution {
        mean: total as f64 / count as f64 / 1e6,
        std: variance.max(0.0).sqrt() / 1e6,
        ..Distribution::of_ranks(count, |rank| ranks.value(rank).as_ms())
    }
}

fn rate_distribution(pairs: &[(SimDuration, u64)]) -> Distribution {
    let zero_gaps: u64 = pairs
        .iter()
        .filter(|(gap, _)| gap.as_nanos() == 0)
        .map(|&(_, times)| times)
        .sum();
    let all: u64 = pairs.iter().map(|&(_, times)| times).sum();
    let count = all - zero_gaps;
    if count == 0 {
        return Distribution::default();
    }
    let rates = || {
        pairs
            .iter()
            .filter(|(gap, _)| gap.as_nanos() > 0)
            .map(|&(gap, times)| (rate(gap), times))
    };
    let total = rates().fold(0_u128, |sum, (rate, times)| sum.saturating_add(weighted(rate, times)));
    let mean = from_fixed(total) / count as f64;
    let squares = rates().fold(0_u128, |sum, (rate, times)| {
        let distance = rate - mean;
        sum.saturating_add(weighted(distance * distance, times))
    });
    let ranks = Ranks::new(pairs, all);
    Distribution {
        mean,
        std: (from_fixed(squares) / count as f64).sqrt(),
        // The highest rates are the shortest gaps.
        ..Distribution::of_ranks(count, |rank| rate(ranks.value(all - 1 - rank)))
    }
}

/// Tokens per second of a user who gets one every `gap`.
fn rate(gap: SimDuration) -> f64 {
    1000.0 / gap.as_ms()
}

/// A value that occurs several times, in fixed-point numbers.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values are not negative, and the conversion saturates"
)]
fn weighted(value: f64, times: u64) -> u128 {
    ((value * (1_u64 << FRACTION_BITS) as f64) as u128).saturating_mul(u128::from(times))
}

fn from_fixed(value: u128) -> f64 {
    value as f64 / (1_u64 << FRACTION_BITS) as f64
}

/// Finds the gaps at given ranks without sorting all of them.
struct Ranks<'a> {
    pairs: &'a [(SimDuration, u64)],
    /// Gaps in each bucket and all before it.
    ends: Vec<u64>,
}

impl<'a> Ranks<'a> {
    fn new(pairs: &'a [(SimDuration, u64)], count: u64) -> Self {
        let buckets = pairs
            .iter()
            .map(|&(gap, _)| bucket(gap))
            .max()
            .map_or(0, |last| last + 1);
        let mut ends = vec![0; buckets];
        for &(gap, times) in pairs {
            ends[bucket(gap)] += times;
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        debug_assert_eq!(sum, count, "every gap is in a bucket");
        Self { pairs, ends }
    }

    /// The gap at this index of the sorted sample.
    fn value(&self, rank: u64) -> SimDuration {
        let wanted = self.ends.partition_point(|&end| end <= rank);
        let before = wanted.checked_sub(1).map_or(0, |previous| self.ends[previous]);
        let mut inside: Vec<_> = self.pairs.iter().filter(|&&(gap, _)| bucket(gap) == wanted).collect();
        inside.sort_unstable();
        let mut end = before;
        inside
            .into_iter()
            .find(|&&(_, times)| {
                end += times;
                end > rank
            })
            .map_or(SimDuration::ZERO, |&(gap, _)| gap)
    }
}

/// Index of a gap's bucket: ascending, and ever wider by the same ratio.
fn bucket(gap: SimDuration) -> usize {
    let nanos = gap.as_nanos();
    let octave = (u64::BITS - nanos.leading_zeros()).saturating_sub(BUCKET_BITS + 1);
    let within = nanos >> octave;
    usize::try_from((u64::from(octave) << BUCKET_BITS) + within).expect("fewer than 2^16 buckets")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(gaps: &[(u64, u64)]) -> GapTally {
        let mut tally = GapTally::default();
        for &(nanos, times) in gaps {
            tally.add(SimDuration::from_nanos(nanos), times);
        }
        tally
    }

    fn close(a: Distribution, b: Distribution) -> bool {
        let pairs = a.figures().into_iter().zip(b.figures());
        pairs
            .into_iter()
            .all(|((_, a), (_, b))| (a - b).abs() <= 1e-12 + 1e-11 * b.abs())
    }

    #[test]
    fn agrees_with_the_whole_sample() {
        let gaps = [
            (5_000_000, 3),
            (7_123_457, 1),
            (0, 2),
            (5_000_001, 4),
            (900_000_000, 1),
            (12, 1),
        ];
        let (gap, rate) = tally(&gaps).distributions();
        let all = gaps
            .iter()
            .flat_map(|&(nanos, times)| (0..times).map(move |_| nanos as f64 / 1e6));
        assert!(close(gap, Distribution::of(all.clone().collect())));
        let rates = all.filter(|&ms| ms > 0.0).map(|ms| 1000.0 / ms).collect();
        assert!(close(rate, Distribution::of(rates)));
    }

    #[test]
    fn counting_in_bulk_makes_no_difference() {
        let one_by_one = tally(&[(3, 1), (5, 1), (3, 2), (1_000_000, 7)]).distributions();
        let mut bulk = GapTally::default();
        bulk.extend(
            [(1_000_000, 3), (3, 3), (5, 1), (1_000_000, 4)]
                .map(|(ns, n)| (SimDuration::from_nanos(ns), n))
                .into_iter(),
        );
        assert_eq!(bulk.distributions(), one_by_one);
    }

    #[test]
    fn buckets_ascend_and_stay_narrow() {
        let mut previous = 0;
        for nanos in (0..20_000).chain((20_000..u64::from(u32::MAX)).step_by(9_999_991)) {
            let bucket = bucket(SimDuration::from_nanos(nanos));
            assert!(bucket >= previous && bucket < 1 << 16);
            previous = bucket;
        }
        assert_ne!(
            bucket(SimDuration::from_nanos(1 << 30)),
            bucket(SimDuration::from_nanos((1 << 30) + (1 << 20)))
        );
    }
}
