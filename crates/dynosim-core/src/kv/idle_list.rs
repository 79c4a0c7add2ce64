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
//! Runs lie in memory in the order of release. One whose blocks are asked for again is not even looked at: its
//! stretch no longer leads to it, by which the list knows when it is the oldest or when it is
//! [tidied](IdleList::tidy).

use std::collections::VecDeque;

use super::prefix_cache::StretchId;

/// A run of idle blocks `from..to` of one stretch, if that leads to it.
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

/// So many runs are not worth tidying.
const FEW_RUNS: usize = if cfg!(test) { 1 } else { 32 };

/// The stretches whose runs a list holds: each leads to its shallowest idle run.
pub(super) trait Stretches {
    /// [`RunId::NONE`] if nothing of it is idle.
    fn shallowest_idle(&self, stretch: StretchId) -> RunId;

    fn set_shallowest_idle(&mut self, stretch: StretchId, run: RunId);
}

/// All idle runs of one cache.
#[derive(Debug)]
pub(super) struct IdleList {
    runs: VecDeque<IdleRun>,
    /// Number of the oldest run.
    oldest: u32,
    /// Number of runs at which it is time to tidy.
    untidy_at: usize,
    /// Blocks of orphans that were released after the newest run.
    newest_orphans: u32,
    blocks: u64,
}

impl IdleList {
    pub(super) const fn new() -> Self {
        Self {
            runs: VecDeque::new(),
            oldest: 0,
            untidy_at: FEW_RUNS,
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

    /// Takes all blocks of a stretch out of the list, of which there are `blocks`; the stretch leads to no run
    /// any more.
    pub(super) fn reactivate_all(&mut self, blocks: u32) {
        self.blocks -= u64::from(blocks);
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
            shallowest = run.deeper;
        }
        RunId::NONE
    }

    /// Makes orphans of the runs of a stretch, of which `shallowest` is the shallowest. The stretch leads to
    /// no run any more.
    pub(super) fn orphan(&mut self, shallowest: RunId) {
        let mut next = shallowest;
        while let Some(index) = self.index(next) {
            let run = self.runs[index];
            match self.runs.get_mut(index + 1) {
                Some(newer) => newer.orphans_before += run.to - run.from,
                None => self.newest_orphans += run.to - run.from,
            }
            next = run.deeper;
        }
    }

    /// Takes up to `blocks` of the blocks that were released first; `None` if there are none at all.
    pub(super) fn evict(&mut self, blocks: u64, stretches: &mut impl Stretches) -> Option<Evicted> {
        let most = u32::try_from(blocks).unwrap_or(u32::MAX);
        while let Some(&run) = self.runs.front() {
            if run.orphans_before > 0 {
                let taken = most.min(run.orphans_before);
                self.runs[0].orphans_before -= taken;
                return Some(self.evicted(taken, None));
            }
            let id = RunId(self.oldest);
            let shallowest = stretches.shallowest_idle(run.stretch);
            let is_idle = self.leads_to(id, shallowest);
            let taken = if is_idle { most.min(run.to - run.from) } else { 0 };
            let depth = run.to - taken;
            if is_idle && run.from < depth {
                self.runs[0].to = depth;
            } else {
                self.runs.pop_front();
                self.oldest += 1;
                if shallowest == id {
                    stretches.set_shallowest_idle(run.stretch, RunId::NONE);
                }
            }
            if is_idle {
                return Some(self.evicted(taken, Some((run.stretch, depth))));
            }
        }
        let taken = most.min(self.newest_orphans);
        self.newest_orphans -= taken;
        (taken > 0).then(|| self.evicted(taken, None))
    }

    /// Whether it is time to [`tidy`](Self::tidy).
    pub(super) fn is_untidy(&self) -> bool {
        self.runs.len() >= self.untidy_at || self.oldest + self.len() > LAST_NUMBER
    }

    /// Forgets runs to which no stretch leads, and numbers the others anew.
    pub(super) fn tidy(&mut self, stretches: &mut impl Stretches) {
        let is_idle: Vec<bool> = (self.oldest..)
            .map(RunId)
            .zip(&self.runs)
            .map(|(id, run)| self.leads_to(id, stretches.shallowest_idle(run.stretch)))
            .collect();
        let mut numbers = Vec::with_capacity(self.runs.len());
        let mut kept = VecDeque::with_capacity(2 * is_idle.iter().filter(|&&is_idle| is_idle).count() + FEW_RUNS);
        let (mut next, mut orphans) = (0, 0);
        for ((old, run), is_idle) in (self.oldest..).map(RunId).zip(&self.runs).zip(is_idle) {
            orphans += run.orphans_before;
            numbers.push(RunId(next));
            if !is_idle {
                continue;
            }
            if stretches.shallowest_idle(run.stretch) == old {
                stretches.set_shallowest_idle(run.stretch, RunId(next));
            }
            next += 1;
            kept.push_back(IdleRun {
                deeper: self.index(run.deeper).map_or(RunId::NONE, |index| numbers[index]),
                orphans_before: std::mem::take(&mut orphans),
                ..*run
            });
        }
        self.newest_orphans += orphans;
        self.untidy_at = 2 * kept.len() + FEW_RUNS;
        self.runs = kept;
        self.oldest = 0;
    }

    /// Whether the way from the shallowest run of a stretch to ever deeper ones comes by this one.
    fn leads_to(&self, id: RunId, shallowest: RunId) -> bool {
        let mut at = shallowest;
        // Deeper runs are older and have lower numbers.
        while at != RunId::NONE && at.0 > id.0 {
            at = self.index(at).map_or(RunId::NONE, |index| self.runs[index].deeper);
        }
        at == id
    }

    fn len(&self) -> u32 {
        u32::try_from(self.runs.len()).expect("fewer runs than blocks")
    }

    /// Place of a run that has not been evicted.
    fn index(&self, id: RunId) -> Option<usize> {
        let index = id.0.checked_sub(self.oldest)? as usize;
        (index < self.runs.len()).then_some(index)
    }

    fn evicted(&mut self, blocks: u32, left: Option<(StretchId, u32)>) -> Evicted {
        self.blocks -= u64::from(blocks);
        Evicted {
            blocks: u64::from(blocks),
            left,
        }
    }
}

/// What one eviction took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evicted {
    pub(super) blocks: u64,
    /// From which stretch, and how many blocks of it are left; `None` if it took orphans.
    pub(super) left: Option<(StretchId, u32)>,
}
