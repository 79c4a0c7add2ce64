//! How many GPUs a candidate may use.

/// The least and the most GPUs of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) least: u32,
    pub(crate) most: u32,
}

impl Budget {
    /// Up to this many GPUs.
    #[cfg(test)]
    pub(crate) const fn up_to(most: u32) -> Self {
        Self { least: 1, most }
    }

    /// Budgets from this one down to the least, the largest first: one GPU less each time up to ten GPUs, a tenth less beyond.
    pub(crate) fn ladder(self) -> impl Iterator<Item = Self> {
        self.down(|most| (most - most.div_ceil(10)).min(most - 1))
    }

    /// Budgets from this one down to the least, each half of the one before.
    pub(crate) fn halves(self) -> impl Iterator<Item = Self> {
        self.down(|most| most / 2)
    }

    fn down(self, less: impl Fn(u32) -> u32) -> impl Iterator<Item = Self> {
        let least = self.least.max(1);
        let sizes = std::iter::successors(Some(self.most), move |&most| {
            Some(less(most)).filter(|&less| less >= least)
        });
        sizes.filter(|&most| most > 0).map(move |most| Self { most, ..self })
    }

    /// Whether a candidate may use so many.
    pub(crate) fn holds(self, gpus: u64) -> bool {
        (u64::from(self.least)..=u64::from(self.most)).contains(&gpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ladders_end_at_the_least() {
        let sizes =
            |least: u32, most: u32| -> Vec<u32> { Budget { least, most }.ladder().map(|budget| budget.most).collect() };
        assert_eq!(sizes(1, 5), [5, 4, 3, 2, 1]);
        assert_eq!(sizes(9, 24), [24, 21, 18, 16, 14, 12, 10, 9]);
        assert_eq!(sizes(3, 3), [3]);
        assert!(sizes(1, 65_536).len() < 100);
        let halves = Budget { least: 3, most: 16 }.halves();
        assert_eq!(halves.map(|budget| budget.most).collect::<Vec<_>>(), [16, 8, 4]);
        assert_eq!(Budget { least: 1, most: 1 }.halves().count(), 1);
    }
}
