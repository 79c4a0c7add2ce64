//! Resident blocks that nobody holds, in the order in which they may be evicted.
//!
//! Entries are runs of adjacent blocks of one stretch that were given back together. The list is
//! ordered by the time of release, the deeper part of a release first. Since a child block is
//! always given back before its parent, the oldest entry is always a leaf: plain release order
//! *is* leaf-first ("lineage") eviction.
//!
//! Tails of requests that have left are *orphans*: nobody asks for them again, so they are no runs; all that
//! matters is how many blocks of them there are between two runs.
//!
//! Runs lie in memory in the order of release. One that is asked for again stays as an empty one until it is
//! the oldest or until the list is [tidied](IdleList::tidy), so that its neighbours need not be touched.

use std::collections::VecDeque;

use super::prefix_cache::StretchId;

/// A run of idle blocks `from..to` of one stretch, empty if they are asked for again.
#[derive(Debug, Clone, Copy)]
struct IdleRun {
    stretch: StretchId,
    from: u32,
    to: u32,
    /// The next deeper run of the stretch, which is an older one or has been evicted.
    deeper: RunId,
    /// Blocks of orphans that were released after the run before this one.
    orphans_before: u32,
}

/// Number of a run, counted from the oldest to the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunId(u32);

impl RunId {
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// Numbers above this call for tidying, which begins again at 0.
const LAST_NUMBER: u32 = if cfg!(test) { 16 } else { u32::MAX / 2 };

/// So many empty runs are let be.
const FEW_EMPTY: usize = if cfg!(test) { 1 } else { 32 };

/// All idle runs of one cache.
#[derive(Debug)]
pub(super) struct IdleList {
    runs: VecDeque<IdleRun>,
    /// Number of the oldest run.
    oldest: u32,
    empty_runs: usize,
    /// Blocks of orphans that were released after the newest run.
    newest_orphans: u32,
    blocks: u64,
}

impl IdleList {
    pub(super) const fn new() -> Self {
        Self {
            runs: VecDeque::new(),
            oldest: 0,
            empty_runs: 0,
            newest_orphans: 0,
            blocks: 0,
        }
    }

    /// Idle blocks in all runs and orphans.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Adds the blocks `from..to` of a stretch whose shallowest idle run so far is `deeper`.
    pub(super) fn push(&mut self, stretch: StretchId, from: u32, to: u32, deeper: RunId) -> RunId {
        let id = RunId(self.oldest + self.len());
        self.runs.push_back(IdleRun {
            stretch,
            from,
            to,
            deeper,
            orphans_before: std::mem::take(&mut self.newest_orphans),
        });
        self.blocks += u64::from(to - from);
        id
    }

    /// Adds `blocks` blocks that nobody will ask for.
    pub(super) fn push_orphans(&mut self, blocks: u32) {
        self.newest_orphans += blocks;
        self.blocks += u64::from(blocks);
    }

    /// Takes the blocks above depth `to` out of the list, beginning with the shallowest run
    /// `first` of a stretch. Returns the stretch's new shallowest run.
    pub(super) fn reactivate(&mut self, first: RunId, to: u32) -> RunId {
        let mut shallowest = first;
        while let Some(index) = self.index(shallowest) {
            let run = &mut self.runs[index];
            let reactivated = run.to.min(to).saturating_sub(run.from);
            run.from += reactivated;
            self.blocks -= u64::from(reactivated);
            if run.from < run.to {
                return shallowest;
            }
            self.empty_runs += 1;
            shallowest = run.deeper;
        }
        RunId::NONE
    }

    /// Makes orphans of the runs of a stretch, of which `shallowest` is the shallowest.
    pub(super) fn orphan(&mut self, shallowest: RunId) {
        let mut next = shallowest;
        while let Some(index) = self.index(next) {
            let run = &mut self.runs[index];
            let blocks = run.to - run.from;
            (run.from, next) = (run.to, run.deeper);
            self.empty_runs += 1;
            match self.runs.get_mut(index + 1) {
                Some(newer) => newer.orphans_before += blocks,
                None => self.newest_orphans += blocks,
            }
        }
    }

    /// Takes up to `blocks` of the blocks that were released first; `None` if there are none at all.
    pub(super) fn evict(&mut self, blocks: u64) -> Option<Evicted> {
        let most = u32::try_from(blocks).unwrap_or(u32::MAX);
        while let Some(run) = self.runs.front_mut() {
            if run.orphans_before > 0 {
                let taken = most.min(run.orphans_before);
                run.orphans_before -= taken;
                return Some(self.evicted(taken, None));
            }
            let taken = most.min(run.to - run.from);
            run.to -= taken;
            let evicted = EvictedRun {
                stretch: run.stretch,
                id: RunId(self.oldest),
                depth: run.to,
                is_gone: run.from == run.to,
            };
            if evicted.is_gone {
                self.runs.pop_front();
                self.oldest += 1;
            }
            if taken > 0 {
                return Some(self.evicted(taken, Some(evicted)));
            }
            self.empty_runs -= 1;
        }
        let taken = most.min(self.newest_orphans);
        self.newest_orphans -= taken;
        (taken > 0).then(|| self.evicted(taken, None))
    }

    /// Whether it is time to [`tidy`](Self::tidy).
    pub(super) fn is_untidy(&self) -> bool {
        self.empty_runs > FEW_EMPTY + self.runs.len() / 2 || self.oldest + self.len() > LAST_NUMBER
    }

    /// Forgets empty runs. Calls `renumbered` with the stretch, the old and the new number of each other run.
    pub(super) fn tidy(&mut self, mut renumbered: impl FnMut(StretchId, RunId, RunId)) {
        let mut numbers = Vec::with_capacity(self.runs.len());
        let mut kept = VecDeque::with_capacity(self.runs.len() - self.empty_runs);
        let (mut next, mut orphans) = (0, 0);
        for (old, run) in (self.oldest..).map(RunId).zip(&self.runs) {
            orphans += run.orphans_before;
            if run.from == run.to {
                numbers.push(RunId::NONE);
                continue;
            }
            let new = RunId(next);
            numbers.push(new);
            renumbered(run.stretch, old, new);
            next += 1;
            kept.push_back(IdleRun {
                deeper: self.index(run.deeper).map_or(RunId::NONE, |index| numbers[index]),
                orphans_before: std::mem::take(&mut orphans),
                ..*run
            });
        }
        self.newest_orphans += orphans;
        self.runs = kept;
        self.oldest = 0;
        self.empty_runs = 0;
    }

    fn len(&self) -> u32 {
        u32::try_from(self.runs.len()).expect("fewer runs than blocks")
    }

    /// Place of a run that has not been evicted.
    fn index(&self, id: RunId) -> Option<usize> {
        let index = id.0.checked_sub(self.oldest)? as usize;
        (index < self.runs.len()).then_some(index)
    }

    fn evicted(&mut self, blocks: u32, run: Option<EvictedRun>) -> Evicted {
        self.blocks -= u64::from(blocks);
        Evicted {
            blocks: u64::from(blocks),
            run,
        }
    }
}

/// What one eviction took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evicted {
    pub(super) blocks: u64,
    /// Where from; `None` if it took orphans.
    pub(super) run: Option<EvictedRun>,
}

/// The run from which blocks were evicted.
#[derive(Debug, Clone, Copy)]
pub(super) struct EvictedRun {
    pub(super) stretch: StretchId,
    pub(super) id: RunId,
    /// Blocks of the stretch that are left.
    pub(super) depth: u32,
    /// Whether nothing of the run is left.
    pub(super) is_gone: bool,
}
