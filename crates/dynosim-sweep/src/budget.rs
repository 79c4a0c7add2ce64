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

    /// Whether a candidate may use so many.
    pub(crate) fn holds(self, gpus: u64) -> bool {
        (u64::from(self.least)..=u64::from(self.most)).contains(&gpus)
    }
}
