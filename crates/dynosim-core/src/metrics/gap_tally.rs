//! How often each gap between two tokens of a request occurred, and what that amounts to.
//!
//! Gaps are whole nanoseconds, and every sum here is an integer: results do not depend on the order
//! in which gaps were counted, nor on whether they were counted one by one or in bulk.

use dynosim_spec::SimDuration;

use super::distribution::{Distribution, ranks};

/// Fractional bits of rates in fixed-point numbers.
const FRACTION_BITS: u32 = 32;

/// Buckets per power of two of the histogram that finds percentiles: 1024, so that few different
/// gaps share one.
const BUCKET_BITS: u32 = 10;

/// Slots for recent gaps, a power of two.
const RECENT: usize = 1024;

/// Pairs that are kept before equal gaps are merged.
const FEW_PAIRS: usize = 1 << 20;

/// Gaps that are counted where their lengths are known.
pub(crate) trait CountedGaps {
    /// Calls `found` with each gap and how often it occurred; equal gaps may come several times.
    fn for_each(&self, found: impl FnMut(SimDuration, u64));
}

/// Gaps with their counts.
#[derive(Debug)]
pub(crate) struct GapTally {
    /// Gaps and counts, each gap in the slot that its value leads to: batches share their gaps, and
    /// similar steps repeat them.
    recent: Vec<(SimDuration, u64)>,
    /// All others, equal gaps possibly several times.
    pairs: Vec<(SimDuration, u64)>,
    /// Number of pairs at which equal gaps are merged again.
    merge_at: usize,
}

impl Default for GapTally {
    fn default() -> Self {
        Self {
            recent: vec![(SimDuration::ZERO, 0); RECENT],
            pairs: Vec::new(),
            merge_at: FEW_PAIRS,
        }
    }
}

impl GapTally {
    /// Counts a gap.
    pub(crate) fn add(&mut self, gap: SimDuration, times: u64) {
        let mixed = gap.as_nanos().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - RECENT.ilog2());
        let slot = &mut self.recent[usize::try_from(mixed).expect("a slot") % RECENT];
        if slot.0 == gap {
            slot.1 += times;
            return;
        }
        let others = std::mem::replace(slot, (gap, times));
        if others.1 > 0 {
            self.pairs.push(others);
            if self.pairs.len() >= self.merge_at {
                self.merge();
            }
        }
    }

    fn merge(&mut self) {
        self.pairs.sort_unstable();
        self.pairs.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 += later.1;
            }
            same
        });
        self.merge_at = FEW_PAIRS.max(2 * self.pairs.len());
    }

    /// The gaps in milliseconds, and the rates that users see: 1000 over each gap that is not zero. Both
    /// are taken of the gaps here and of those counted `elsewhere`.
    pub(super) fn distributions(&self, elsewhere: &[&impl CountedGaps]) -> (Distribution, Distribution) {
        let for_each = |found: &mut dyn FnMut(SimDuration, u64)| {
            for &(gap, times) in self.recent.iter().chain(&self.pairs).filter(|&&(_, times)| times > 0) {
                found(gap, times);
            }
        };
        let mut sums = Sums::default();
        for_each(&mut |gap, times| sums.add(gap, times));
        for gaps in elsewhere {
            gaps.for_each(|gap, times| sums.add(gap, times));
        }
        let zero_gaps = sums.gaps.count - sums.rates.count;
        let Some(all_ranks) = sums.histogram.ranks(sums.gaps.count, zero_gaps) else {
            return <(Distribution, Distribution)>::default();
        };
        let mut found = NearRanks::new(&all_ranks, &sums.histogram);
        for_each(&mut |gap, times| found.look_at(gap, times));
        for gaps in elsewhere {
            gaps.for_each(|gap, times| found.look_at(gap, times));
        }
        let [gaps, rates] = found.gaps_at(&all_ranks);
        let gap_distribution = Distribution {
            mean: sums.gaps.mean() / 1e6,
            std: sums.gaps.std() / 1e6,
            ..Distribution::at_ranks(gaps.map(SimDuration::as_ms))
        };
        if sums.rates.count == 0 {
            return (gap_distribution, Distribution::default());
        }
        let unit = (1_u64 << FRACTION_BITS) as f64;
        let rate_distribution = Distribution {
            mean: sums.rates.mean() / unit,
            std: sums.rates.std() / unit,
            ..Distribution::at_ranks(rates.map(rate))
        };
        (gap_distribution, rate_distribution)
    }
}

/// What a first look at all gaps gives.
#[derive(Debug, Default)]
struct Sums {
    /// Of the gaps in nanoseconds.
    gaps: Moments,
    /// Of the rates in fixed-point numbers.
    rates: Moments,
    histogram: Histogram,
}

impl Sums {
    fn add(&mut self, gap: SimDuration, times: u64) {
        self.gaps.add(gap.as_nanos(), times);
        self.histogram.add(gap, times);
        if gap > SimDuration::ZERO {
            self.rates.add(fixed_rate(gap), times);
        }
    }
}

/// Exact sums over a sample of whole numbers.
///
/// The squares of gaps of three days or of ten million tokens per second, some hundred thousand of each, are
/// the first not to fit; then the spread comes out too small.
#[derive(Debug, Default)]
struct Moments {
    count: u64,
    sum: u128,
    squares: u128,
}

impl Moments {
    fn add(&mut self, value: u64, times: u64) {
        let weighted = u128::from(value) * u128::from(times);
        let squares = match u64::try_from(weighted) {
            Ok(weighted) => u128::from(weighted) * u128::from(value),
            Err(_) => weighted.saturating_mul(u128::from(value)),
        };
        self.count += times;
        self.sum += weighted;
        self.squares = self.squares.saturating_add(squares);
    }

    fn mean(&self) -> f64 {
        self.sum as f64 / self.count as f64
    }

    /// The standard deviation. Squares are taken of distances from a whole number next to the mean, so that
    /// nothing is lost where all values are large and alike.
    fn std(&self) -> f64 {
        let count = u128::from(self.count);
        let pivot = self.sum / count;
        let beyond = self.sum - pivot * count;
        // The sum of (value - pivot)^2.
        let squares = self
            .squares
            .saturating_sub(pivot.saturating_mul(self.sum))
            .saturating_sub(pivot.saturating_mul(beyond));
        let mean_beyond = beyond as f64 / self.count as f64;
        let variance = squares as f64 / self.count as f64 - mean_beyond * mean_beyond;
        variance.max(0.0).sqrt()
    }
}

/// Gaps in the buckets of ranks that are sought.
struct NearRanks {
    sought: Vec<bool>,
    gaps: Vec<(SimDuration, u64)>,
}

impl NearRanks {
    fn new(ranks: &[[Rank; 7]; 2], histogram: &Histogram) -> Self {
        let mut sought = vec![false; histogram.times.len()];
        for rank in ranks.as_flattened() {
            sought[rank.bucket] = true;
        }
        Self {
            sought,
            gaps: Vec::new(),
        }
    }

    fn look_at(&mut self, gap: SimDuration, times: u64) {
        if self.sought[bucket(gap)] {
            self.gaps.push((gap, times));
        }
    }

    fn gaps_at(mut self, ranks: &[[Rank; 7]; 2]) -> [[SimDuration; 7]; 2] {
        self.gaps.sort_unstable();
        ranks.map(|ranks| ranks.map(|rank| rank.gap(&self.gaps)))
    }
}

/// Gaps by bucket.
#[derive(Debug, Default)]
struct Histogram {
    times: Vec<u64>,
}

/// A place in the sorted sample.
#[derive(Debug, Clone, Copy)]
struct Rank {
    bucket: usize,
    /// Index within the bucket.
    within: u64,
}

impl Histogram {
    fn add(&mut self, gap: SimDuration, times: u64) {
        let bucket = bucket(gap);
        if self.times.len() <= bucket {
            self.times.resize(bucket + 1, 0);
        }
        self.times[bucket] += times;
    }

    /// Where the figures of the gaps and of the rates lie; `None` without gaps.
    fn ranks(&self, count: u64, zero_gaps: u64) -> Option<[[Rank; 7]; 2]> {
        if count == 0 {
            return None;
        }
        let mut sum = 0;
        let ends: Vec<u64> = self
            .times
            .iter()
            .map(|times| {
                sum += times;
                sum
            })
            .collect();
        let place = |rank: u64| {
            let bucket = ends.partition_point(|&end| end <= rank);
            let before = bucket.checked_sub(1).map_or(0, |previous| ends[previous]);
            Rank {
                bucket,
                within: rank - before,
            }
        };
        // The highest rates are the shortest gaps.
        let rates = ranks((count - zero_gaps).max(1)).map(|rank| place(count - 1 - rank));
        Some([ranks(count).map(place), rates])
    }
}

impl Rank {
    /// The gap of this rank, of all gaps in its bucket and possibly others, ascending.
    fn gap(self, gaps: &[(SimDuration, u64)]) -> SimDuration {
        let mut end = 0;
        let first = gaps.partition_point(|&(gap, _)| bucket(gap) < self.bucket);
        let found = gaps[first..].iter().find(|&&(_, times)| {
            end += times;
            end > self.within
        });
        found.map_or(SimDuration::ZERO, |&(gap, _)| gap)
    }
}

/// Index of a gap's bucket: ascending, and ever wider by the same ratio.
fn bucket(gap: SimDuration) -> usize {
    let nanos = gap.as_nanos();
    let octave = (u64::BITS - nanos.leading_zeros()).saturating_sub(BUCKET_BITS + 1);
    let within = nanos >> octave;
    usize::try_from((u64::from(octave) << BUCKET_BITS) + within).expect("fewer than 2^16 buckets")
}

/// Tokens per second of a user who gets one every `gap`.
fn rate(gap: SimDuration) -> f64 {
    1e9 / gap.as_nanos() as f64
}

/// The rate in fixed-point numbers, rounded; `gap` is not zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "1e9 in fixed-point numbers fits, and rates are not negative"
)]
fn fixed_rate(gap: SimDuration) -> u64 {
    const FIXED_SECOND: f64 = 1e9 * (1_u64 << FRACTION_BITS) as f64;
    (FIXED_SECOND / gap.as_nanos() as f64 + 0.5) as i64 as u64
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

    struct Elsewhere(Vec<(u64, u64)>);

    impl CountedGaps for Elsewhere {
        fn for_each(&self, mut found: impl FnMut(SimDuration, u64)) {
            for &(nanos, times) in &self.0 {
                found(SimDuration::from_nanos(nanos), times);
            }
        }
    }

    const NOWHERE: [&Elsewhere; 0] = [];

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
        let (gap, rate) = tally(&gaps).distributions(&NOWHERE);
        let all = gaps
            .iter()
            .flat_map(|&(nanos, times)| (0..times).map(move |_| nanos as f64 / 1e6));
        let mut rates: Vec<f64> = all.clone().filter(|&ms| ms > 0.0).map(|ms| 1000.0 / ms).collect();
        assert!(close(gap, Distribution::of(&mut all.collect::<Vec<f64>>())));
        assert!(close(rate, Distribution::of(&mut rates)));
    }

    #[test]
    fn the_place_and_order_of_counting_make_no_difference() {
        let gaps = tally(&[(3, 1), (5, 1), (3, 2), (1_000_000, 7)]);
        let one_by_one = gaps.distributions(&NOWHERE);
        let here = Elsewhere(vec![(1_000_000, 3), (3, 3)]);
        let there = Elsewhere(vec![(5, 1), (1_000_000, 4)]);
        assert_eq!(GapTally::default().distributions(&[&here, &there]), one_by_one);
        assert_eq!(tally(&there.0).distributions(&[&here]), one_by_one);
    }

    #[test]
    fn equal_gaps_have_no_spread() {
        for nanos in [1, 7_123_457, 1 << 45] {
            let (gap, rate) = tally(&[(nanos, 3), (nanos, 1 << 20)]).distributions(&NOWHERE);
            assert!(gap.std == 0.0 && rate.std == 0.0, "{nanos}: {gap:?}, {rate:?}");
        }
    }

    #[test]
    fn far_apart_gaps_do_not_overflow() {
        let extremes = [(1, 1 << 32), (u64::MAX, 1 << 32), (0, 1 << 32), (1 << 40, 1)];
        let (gap, rate) = tally(&extremes).distributions(&NOWHERE);
        assert!(gap.std.is_finite() && rate.std.is_finite() && gap.max > 1e13);
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
