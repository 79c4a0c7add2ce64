//! A set of workers that hands out the lowest id first.

use dynosim_spec::WorkerId;

/// One bit per worker of a pool.
#[derive(Debug)]
pub(crate) struct WorkerSet {
    words: Vec<u64>,
}

impl WorkerSet {
    /// An empty set for workers with ids below `workers`.
    pub(crate) fn new(workers: u32) -> Self {
        Self {
            words: vec![0; workers.div_ceil(u64::BITS) as usize],
        }
    }

    pub(crate) fn insert(&mut self, worker: WorkerId) {
        self.words[worker.index() / 64] |= 1 << (worker.index() % 64);
    }

    /// Takes the lowest id.
    pub(crate) fn pop_first(&mut self) -> Option<WorkerId> {
        let (index, word) = (0_u32..).zip(&mut self.words).find(|(_, word)| **word != 0)?;
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        Some(WorkerId::new(index * u64::BITS + bit))
    }
}
