//! How often each gap between two tokens of a request occurred, and what that amounts to.
//!
//! Gaps are whole nanoseconds, and every sum here is an integer: results do not depend on the order
//! in which gaps were counted, nor on whether they were counted one by one or in bulk.

use dynosim_spec::SimDuration;

use super::distribution::{Distribution, ranks};

/// Fractional bits of sums over rates.
const FRACTION_BITS: u32 = 40;

/// Buckets per power of two of the histogram that finds percentiles: 1024, so that few different
/// gaps share one.
const BUCKET_BITS: u32 = 10;

/// Slots for recent gaps, a power of two.
const RECENT: usize = 1024;

/// Pairs that are kept before equal gaps are merged.
const FEW_PAIRS: usize = 1 << 20;

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

    /// Counts many gaps that are unlikely to have occurred before.
    pub(crate) fn extend(&mut self, pairs: impl Iterator<Item = (SimDuration, u64)>) {
        self.pairs.extend(pairs);
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

    /// The gaps in milliseconds, and the rates that users see: 1000 over each gap that is not zero.
    pub(super) fn distributions(&mut self) -> (Distribution, Distribution) {
        let Self { recent, pairs, .. } = self;
        pairs.extend(recent.drain(..).filter(|&(_, times)| times > 0));
        let sums = Sums::of(pairs);
        let Some(all_ranks) = sums.histogram.ranks(sums.count, sums.zero_gaps) else {
            return <(Distribution, Distribution)>::default();
        };
        let Spread {
            gap_squares,
            rate_squares,
            gaps_at_ranks,
        } = Spread::of(pairs, &sums, &all_ranks);
        let [gaps, rates] = gaps_at_ranks;
        let variance = gap_squares as f64 / sums.count as f64 - sums.beyond_pivot() * sums.beyond_pivot();
        let gap_distribution = Distribution {
            mean: sums.total as f64 / sums.count as f64 / 1e6,
            std: variance.max(0.0).sqrt() / 1e6,
            ..Distribution::at_ranks(gaps.map(SimDuration::as_ms))
        };
        if sums.count == sums.zero_gaps {
            return (gap_distribution, Distribution::default());
        }
        let rate_distribution = Distribution {
            mean: sums.mean_rate(),
            std: (from_fixed(rate_squares) / (sums.count - sums.zero_gaps) as f64).sqrt(),
            ..Distribution::at_ranks(rates.map(rate))
        };
        (gap_distribution, rate_distribution)
    }
}

/// What a first look at all gaps gives.
struct Sums {
    count: u64,
    zero_gaps: u64,
    /// Sum of the gaps in nanoseconds.
    total: u128,
    /// Sum of the rates in fixed-point numbers.
    rate_total: u128,
    histogram: Histogram,
}

impl Sums {
    fn of(pairs: &[(SimDuration, u64)]) -> Self {
        let mut sums = Self {
            count: 0,
            zero_gaps: 0,
            total: 0,
            rate_total: 0,
            histogram: Histogram::default(),
        };
        for &(gap, times) in pairs {
            sums.count += times;
            sums.total += u128::from(gap.as_nanos()) * u128::from(times);
            sums.histogram.add(gap, times);
            if gap == SimDuration::ZERO {
                sums.zero_gaps += times;
            } else {
                sums.rate_total = sums.rate_total.saturating_add(weighted(rate(gap), times));
            }
        }
        sums
    }

    /// The mean gap, rounded down to whole nanoseconds: squares are taken of distances from it.
    fn pivot(&self) -> u64 {
        u64::try_from(self.total / u128::from(self.count)).unwrap_or(u64::MAX)
    }

    /// From the pivot to the mean itself.
    fn beyond_pivot(&self) -> f64 {
        (self.total - u128::from(self.pivot()) * u128::from(self.count)) as f64 / self.count as f64
    }

    fn mean_rate(&self) -> f64 {
        from_fixed(self.rate_total) / (self.count - self.zero_gaps) as f64
    }
}

/// What a second look gives.
struct Spread {
    /// Squared distances of the gaps from the pivot.
    gap_squares: u128,
    /// Squared distances of the rates from their mean, in fixed-point numbers.
    rate_squares: u128,
    /// Gaps at the ranks that were asked for.
    gaps_at_ranks: [[SimDuration; 7]; 2],
}

impl Spread {
    fn of(pairs: &[(SimDuration, u64)], sums: &Sums, all_ranks: &[[Rank; 7]; 2]) -> Self {
        let mut wanted = vec![false; sums.histogram.times.len()];
        for rank in all_ranks.as_flattened() {
            wanted[rank.bucket] = true;
        }
        let (pivot, mean_rate) = (sums.pivot(), sums.mean_rate());
        let (mut gap_squares, mut rate_squares) = (0_u128, 0_u128);
        let mut near_ranks = Vec::new();
        for &(gap, times) in pairs {
            let distance = u128::from(gap.as_nanos().abs_diff(pivot));
            gap_squares = gap_squares.saturating_add((distance * distance).saturating_mul(u128::from(times)));
            if gap > SimDuration::ZERO {
                let distance = rate(gap) - mean_rate;
                rate_squares = rate_squares.saturating_add(weighted(distance * distance, times));
            }
            if wanted[bucket(gap)] {
                near_ranks.push((gap, times));
            }
        }
        near_ranks.sort_unstable();
        let gaps_at_ranks = all_ranks.map(|ranks| ranks.map(|rank| rank.gap(&near_ranks)));
        Self {
            gap_squares,
            rate_squares,
            gaps_at_ranks,
        }
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
    1000.0 / gap.as_ms()
}

/// A value that occurs several times, in fixed-point numbers.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values are not negative, and the conversion saturates"
)]
fn weighted(value: f64, times: u64) -> u128 {
    let fixed = value * (1_u64 << FRACTION_BITS) as f64;
    if fixed < i64::MAX as f64 {
        // The conversion to 128 bits is a call into a library.
        return u128::from(fixed as u64) * u128::from(times);
    }
    (fixed as u128).saturating_mul(u128::from(times))
}

fn from_fixed(value: u128) -> f64 {
    value as f64 / (1_u64 << FRACTION_BITS) as f64
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
