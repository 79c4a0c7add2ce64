//! Resident blocks that nobody holds, in the order in which they may be evicted.
//!
//! Entries are runs of adjacent blocks of one stretch that were given back together. The list is
//! ordered by the time of release, the deeper part of a release first. Since a child block is
//! always given back before its parent, the oldest entry is always a leaf: plain release order
//! *is* leaf-first ("lineage") eviction.
//!
//! Tails of requests that have left are *orphans*: nobody asks for them again, so all that matters is how many
//! blocks there are at a place in the order, and neighbouring orphans become one.

use super::prefix_cache::StretchId;

/// A run of idle blocks `from..to` of one stretch.
#[derive(Debug, Clone, Copy)]
struct IdleRun {
    /// [`StretchId::NONE`] for an orphan, whose depths mean nothing.
    stretch: StretchId,
    from: u32,
    to: u32,
    older: RunId,
    newer: RunId,
    /// Neighbours within the same stretch; a deeper run is always older.
    deeper: RunId,
    shallower: RunId,
}

impl IdleRun {
    fn is_orphan(&self) -> bool {
        self.stretch == StretchId::NONE
    }
}

/// Handle of a run in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunId(u32);

impl RunId {
    pub(super) const NONE: Self = Self(u32::MAX);

    fn get(self) -> Option<usize> {
        (self != Self::NONE).then_some(self.0 as usize)
    }
}

/// All idle runs of one cache.
#[derive(Debug)]
pub(super) struct IdleList {
    runs: Vec<IdleRun>,
    unused: Vec<RunId>,
    oldest: RunId,
    newest: RunId,
    blocks: u64,
}

impl IdleList {
    pub(super) fn new() -> Self {
        Self {
            runs: Vec::new(),
            unused: Vec::new(),
            oldest: RunId::NONE,
            newest: RunId::NONE,
            blocks: 0,
        }
    }

    /// Idle blocks in all runs.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Adds the blocks `from..to` of a stretch whose shallowest idle run so far is `deeper`.
    pub(super) fn push(&mut self, stretch: StretchId, from: u32, to: u32, deeper: RunId) -> RunId {
        let run = IdleRun {
            stretch,
            from,
            to,
            older: self.newest,
            newer: RunId::NONE,
            deeper,
            shallower: RunId::NONE,
        };
        let id = if let Some(id) = self.unused.pop() {
            self.runs[id.0 as usize] = run;
            id
        } else {
            self.runs.push(run);
            RunId(u32::try_from(self.runs.len() - 1).expect("fewer runs than blocks"))
        };
        match self.newest.get() {
            Some(newest) => self.runs[newest].newer = id,
            None => self.oldest = id,
        }
        self.newest = id;
        if let Some(deeper) = deeper.get() {
            self.runs[deeper].shallower = id;
        }
        self.blocks += u64::from(to - from);
        id
    }

    /// Adds `blocks` blocks that nobody will ask for.
    pub(super) fn push_orphan(&mut self, blocks: u32) {
        if blocks == 0 {
            return;
        }
        match self.newest.get() {
            Some(newest) if self.runs[newest].is_orphan() => {
                self.runs[newest].to += blocks;
                self.blocks += u64::from(blocks);
            }
            _ => {
                self.push(StretchId::NONE, 0, blocks, RunId::NONE);
            }
        }
    }

    /// Nobody will ask for the runs of a stretch any more, of which `shallowest` is the shallowest.
    pub(super) fn orphan(&mut self, shallowest: RunId) {
        let mut next = shallowest;
        while let Some(index) = next.get() {
            let run = &mut self.runs[index];
            next = run.deeper;
            run.stretch = StretchId::NONE;
            (run.deeper, run.shallower) = (RunId::NONE, RunId::NONE);
        }
    }

    /// Takes the blocks above depth `to` out of the list, beginning with the shallowest run
    /// `first` of a stretch. Returns the stretch's new shallowest run.
    pub(super) fn reactivate(&mut self, mut first: RunId, to: u32) -> RunId {
        while let Some(index) = first.get() {
            let run = self.runs[index];
            if run.from >= to {
                break;
            }
            if run.to > to {
                self.blocks -= u64::from(to - run.from);
                self.runs[index].from = to;
                break;
            }
            self.blocks -= u64::from(run.to - run.from);
            self.unlink(first);
            first = run.deeper;
        }
        first
    }

    /// Takes up to `blocks` of the oldest run: the stretch, its depth afterwards, how many blocks
    /// were taken, and whether the stretch has no idle run left.
    pub(super) fn evict(&mut self, blocks: u64) -> Option<Evicted> {
        let id = self.oldest;
        let run = &mut self.runs[id.get()?];
        let taken = blocks.min(u64::from(run.to - run.from));
        run.to -= u32::try_from(taken).expect("no more than the run has");
        self.blocks -= taken;
        let run = *run;
        let gone = run.from == run.to;
        if gone {
            self.unlink(id);
        }
        Some(Evicted {
            stretch: (!run.is_orphan()).then_some(run.stretch),
            depth: run.to,
            blocks: taken,
            last_run: gone && run.shallower == RunId::NONE,
        })
    }

    fn unlink(&mut self, id: RunId) {
        let run = self.runs[id.0 as usize];
        match run.older.get() {
            Some(older) => self.runs[older].newer = run.newer,
            None => self.oldest = run.newer,
        }
        match run.newer.get() {
            Some(newer) => self.runs[newer].older = run.older,
            None => self.newest = run.older,
        }
        if let Some(deeper) = run.deeper.get() {
            self.runs[deeper].shallower = run.shallower;
        }
        if let Some(shallower) = run.shallower.get() {
            self.runs[shallower].deeper = run.deeper;
        }
        self.unused.push(id);
        self.merge_orphans(run.older, run.newer);
    }

    /// Makes two neighbours one if both are orphans.
    fn merge_orphans(&mut self, older: RunId, newer: RunId) {
        let (Some(kept), Some(gone)) = (older.get(), newer.get()) else {
            return;
        };
        if self.runs[kept].is_orphan() && self.runs[gone].is_orphan() {
            let blocks = self.runs[gone].to - self.runs[gone].from;
            self.runs[kept].to += blocks;
            self.unlink(newer);
        }
    }
}

/// What one eviction took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evicted {
    /// `None` if nobody would have asked for the blocks.
    pub(super) stretch: Option<StretchId>,
    /// Blocks of the stretch that are left.
    pub(super) depth: u32,
    pub(super) blocks: u64,
    pub(super) last_run: bool,
}
