//! Random streams of synthetic workloads, pinned so that equal specs give equal workloads everywhere.

use std::ops::RangeInclusive;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;

/// Seed of the group draws. It is fixed, so that changing the arrivals leaves the prompts alone.
const GROUP_SEED: u64 = 42;

/// Draws the prefix group of one session after the other, all groups equally likely.
#[derive(Debug)]
pub(crate) struct GroupDraws {
    rng: ChaCha12Rng,
    groups: usize,
}

impl GroupDraws {
    /// A stream over `groups` groups; `None` for zero.
    pub(crate) fn new(groups: u32) -> Option<Self> {
        let groups = usize::try_from(groups).ok().filter(|&groups| groups > 0)?;
        Some(Self {
            rng: ChaCha12Rng::seed_from_u64(GROUP_SEED),
            groups,
        })
    }

    /// The next group, below the number of groups.
    pub(crate) fn draw(&mut self) -> u64 {
        self.rng.random_range(0..self.groups) as u64
    }
}

/// Gaps between Poisson arrivals.
#[derive(Debug)]
pub(crate) struct PoissonGaps {
    rng: ChaCha12Rng,
    mean_ms: f64,
}

impl PoissonGaps {
    /// A stream for `per_second` arrivals per second.
    pub(crate) fn new(per_second: f64, seed: u64) -> Self {
        Self {
            rng: ChaCha12Rng::seed_from_u64(seed),
            mean_ms: 1000.0 / per_second,
        }
    }

    /// The next gap in milliseconds.
    pub(crate) fn draw_ms(&mut self) -> f64 {
        // 1 - u lies in (0, 1], where the logarithm is finite.
        let remaining = 1.0 - self.rng.random::<f64>();
        -self.mean_ms * remaining.ln()
    }
}

/// Draws lengths of prompts and outputs.
#[derive(Debug)]
pub(crate) struct LengthDraws {
    rng: ChaCha12Rng,
}

impl LengthDraws {
    /// The stream of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: ChaCha12Rng::seed_from_u64(seed),
        }
    }

    /// The next length within a range that is not empty, all equally likely.
    pub(crate) fn draw(&mut self, tokens: &RangeInclusive<u32>) -> u32 {
        self.rng.random_range(tokens.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_groups(groups: u32, expected: &[u64]) {
        let mut draws = GroupDraws::new(groups).expect("some groups");
        let sequence: Vec<u64> = expected.iter().map(|_| draws.draw()).collect();
        assert_eq!(sequence, expected, "{groups} groups");
    }

    #[test]
    fn group_sequences_are_pinned() {
        check_groups(1, &[0; 8]);
        check_groups(2, &[0, 1, 0, 1, 1, 1, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0]);
        check_groups(
            4,
            &[0, 2, 0, 2, 3, 2, 3, 1, 3, 0, 2, 1, 1, 2, 0, 3, 2, 0, 1, 0, 3, 3, 2, 2],
        );
        check_groups(
            8,
            &[
                1, 4, 1, 4, 6, 5, 7, 3, 7, 0, 4, 3, 2, 5, 1, 6, 5, 1, 3, 0, 6, 7, 4, 4, 6, 3, 5, 1, 6, 4, 6, 1,
            ],
        );
        check_groups(
            50,
            &[
                6, 26, 12, 27, 43, 31, 49, 20, 48, 1, 30, 20, 17, 36, 9, 42, 31, 6, 23, 0, 41, 46, 29, 25,
            ],
        );
        assert!(GroupDraws::new(0).is_none());
    }

    #[test]
    fn poisson_arrivals_are_pinned() {
        let expected = [
            0.0, 74.7725, 153.0195, 254.2075, 306.2786, 309.7732, 363.3802, 497.1018, 686.3161, 700.3895, 700.7152,
            969.7536,
        ];
        let mut gaps = PoissonGaps::new(10.0, 42);
        let mut arrival_ms = 0.0_f64;
        for expected_ms in expected {
            assert!(
                (arrival_ms - expected_ms).abs() < 5e-5,
                "{arrival_ms} instead of {expected_ms}"
            );
            arrival_ms += gaps.draw_ms();
        }
    }
}
