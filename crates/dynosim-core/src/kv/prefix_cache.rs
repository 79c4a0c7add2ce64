//! Which full blocks are resident, who holds them, and which go first when room is needed.
//!
//! A request's full blocks are its shared segments (`PromptSegments`) followed by a private tail:
//! the rest of its prompt and what it has generated. Segments and tails are both *stretches*.

use std::sync::Arc;

use dynosim_spec::{PromptSegments, SegmentId};

use super::idle_list::{IdleList, RunId, Stretches};

/// Full blocks that one request holds, from its first block on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrefixHold {
    blocks: u32,
    /// The request's tail, from its first block there until it [retires](PrefixCache::retire).
    tail: StretchId,
}

impl PrefixHold {
    /// A request that holds nothing yet.
    pub(crate) const fn new() -> Self {
        Self {
            blocks: 0,
            tail: StretchId::NONE,
        }
    }

    fn tail(self) -> Option<StretchId> {
        (self.tail != StretchId::NONE).then_some(self.tail)
    }

    /// Blocks held.
    pub(crate) fn blocks(self) -> u32 {
        self.blocks
    }
}

/// What holding more blocks would take or has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Growth {
    /// Resident blocks that nobody held before.
    pub(crate) reactivated: u32,
    /// Blocks that were not resident.
    pub(crate) fresh: u32,
}

/// Index of a stretch: segments first, then slots for private tails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StretchId(u32);

impl StretchId {
    const NONE: Self = Self(u32::MAX);

    fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("stretches are counted by u32"))
    }

    const fn of_segment(segment: SegmentId) -> Self {
        Self(segment.get())
    }

    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// State of one stretch on this worker, kept small because there is one per worker and segment.
///
/// Invariant: held depth <= resident depth <= blocks of the segment. A tail has no end.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    resident: u32,
    /// Of a segment: requests that hold the whole of it. Of a tail: blocks that its request holds.
    holding: u32,
    shallowest_idle: RunId,
}

impl Stretch {
    const EMPTY: Self = Self {
        resident: 0,
        holding: 0,
        shallowest_idle: RunId::NONE,
    };
}

impl Stretches for Vec<Stretch> {
    fn shallowest_idle(&self, stretch: StretchId) -> RunId {
        self[stretch.index()].shallowest_idle
    }

    fn set_shallowest_idle(&mut self, stretch: StretchId, run: RunId) {
        self[stretch.index()].shallowest_idle = run;
    }
}

/// The full blocks of one worker's cache.
///
/// The cache does not limit itself: whoever adds blocks makes room first with [`evict`](Self::evict).
#[derive(Debug)]
pub(crate) struct PrefixCache {
    stretches: Vec<Stretch>,
    /// Depths of requests that hold a part of a segment: those in the middle of a prompt.
    partial_holders: Vec<(StretchId, u32)>,
    /// The segments, shared by all workers; `None` if released blocks are forgotten.
    prompts: Option<Arc<PromptSegments>>,
    segments: u32,
    unused_tails: Vec<StretchId>,
    idle: IdleList,
    resident: u64,
    evictions: u64,
    publish: bool,
    changed: Vec<SegmentId>,
}

impl PrefixCache {
    /// A cache for these prompts that keeps released blocks until they are evicted.
    pub(crate) fn for_prompts(prompts: &Arc<PromptSegments>) -> Self {
        let segments = prompts.segment_count();
        Self {
            stretches: vec![Stretch::EMPTY; segments],
            segments: u32::try_from(segments).expect("segments are indexed by u32"),
            prompts: Some(Arc::clone(prompts)),
            ..Self::without_reuse()
        }
    }

    /// A cache that forgets blocks as soon as nobody holds them, and so never finds any again.
    pub(crate) fn without_reuse() -> Self {
        Self {
            stretches: Vec::new(),
            partial_holders: Vec::new(),
            prompts: None,
            segments: 0,
            unused_tails: Vec::new(),
            idle: IdleList::new(),
            resident: 0,
            evictions: 0,
            publish: false,
            changed: Vec::new(),
        }
    }

    /// Remember which segments change, for [`take_changes`](Self::take_changes).
    pub(crate) fn publish_changes(&mut self) {
        self.publish = true;
    }

    /// Whether it remembers them.
    pub(crate) fn publishes_changes(&self) -> bool {
        self.publish
    }

    /// Calls `report` with each segment whose residency has changed since the last call, and its resident blocks.
    pub(crate) fn take_changes(&mut self, mut report: impl FnMut(SegmentId, u32)) {
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
        for segment in changed.drain(..) {
            report(segment, self.stretches[segment.index()].resident);
        }
        self.changed = changed;
    }

    /// Blocks that some request holds.
    pub(crate) fn held_blocks(&self) -> u64 {
        self.resident - self.idle.blocks()
    }

    /// Resident blocks that nobody holds.
    pub(crate) fn idle_blocks(&self) -> u64 {
        self.idle.blocks()
    }

    /// Resident blocks that will be found again when nobody holds them any more.
    pub(crate) fn blocks_kept(&self) -> u64 {
        if self.prompts.is_some() { self.resident } else { 0 }
    }

    /// Blocks evicted so far.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Leading blocks of a request that are resident, whether held or not.
    pub(crate) fn resident_prefix(&self, path: &[SegmentId], hold: PrefixHold) -> u32 {
        let mut blocks = 0;
        for &segment in self.usable(path) {
            let resident = self.stretches[segment.index()].resident;
            blocks += resident;
            if resident < self.segment_blocks(segment) {
                return blocks;
            }
        }
        blocks + hold.tail().map_or(0, |tail| self.stretches[tail.index()].resident)
    }

    /// What it would take for a request to hold its first `to` blocks.
    pub(crate) fn growth(&self, path: &[SegmentId], hold: PrefixHold, to: u32) -> Growth {
        let mut growth = Growth::default();
        if to <= hold.blocks {
            return growth;
        }
        let mut visit = |stretch: Option<StretchId>, from: u32, to: u32| {
            let state = |id: StretchId| (self.held(id), self.stretches[id.index()].resident);
            let (held, resident) = stretch.map_or((0, 0), state);
            growth.reactivated += to.min(resident).saturating_sub(from.max(held));
            growth.fresh += to.saturating_sub(from.max(resident));
        };
        if let Some(tail) = self.tail_in_use(hold) {
            let held = self.held(tail);
            visit(Some(tail), held, held + (to - hold.blocks));
            return growth;
        }
        let mut start = 0;
        for &segment in self.usable(path) {
            let end = start + self.segment_blocks(segment);
            if hold.blocks < end && start < to {
                visit(
                    Some(StretchId::of_segment(segment)),
                    hold.blocks.saturating_sub(start),
                    to.min(end) - start,
                );
            }
            start = end;
        }
        if start < to {
            visit(hold.tail(), hold.blocks.saturating_sub(start), to - start);
        }
        growth
    }

    /// Lets a request hold its first `to` blocks. Returns what that took; fresh blocks become resident.
    pub(crate) fn extend(&mut self, path: &[SegmentId], hold: &mut PrefixHold, to: u32) -> Growth {
        let mut growth = Growth::default();
        if to <= hold.blocks {
            return growth;
        }
        if let Some(tail) = self.tail_in_use(*hold) {
            let held = self.held(tail);
            self.grow(tail, held, held + (to - hold.blocks), &mut growth);
            hold.blocks = to;
            return growth;
        }
        let mut start = 0;
        for &segment in self.usable(path) {
            let id = StretchId::of_segment(segment);
            let end = start + self.segment_blocks(segment);
            if hold.blocks < end && start < to {
                self.grow(id, hold.blocks.saturating_sub(start), to.min(end) - start, &mut growth);
            }
            start = end;
        }
        if start < to {
            let tail = hold.tail().unwrap_or_else(|| self.new_tail());
            hold.tail = tail;
            self.grow(tail, hold.blocks.saturating_sub(start), to - start, &mut growth);
        }
        hold.blocks = to;
        growth
    }

    /// Gives back all blocks of a request, the last one first.
    pub(crate) fn release(&mut self, path: &[SegmentId], hold: &mut PrefixHold) {
        let shared_blocks = self.shared_blocks(path);
        if let Some(tail) = hold.tail().filter(|_| hold.blocks > shared_blocks) {
            self.shrink(tail, hold.blocks - shared_blocks);
        }
        self.release_shared(path, hold, shared_blocks);
    }

    /// Gives back all blocks of a request that never comes back. Nobody will look for its tail any more.
    pub(crate) fn retire(&mut self, path: &[SegmentId], mut hold: PrefixHold) {
        let shared_blocks = self.shared_blocks(path);
        if let Some(tail) = hold.tail() {
            let shallowest = &mut self.stretches[tail.index()].shallowest_idle;
            self.idle.orphan(std::mem::replace(shallowest, RunId::NONE));
            let held = hold.blocks.saturating_sub(shared_blocks);
            if self.prompts.is_some() {
                self.idle.push_orphans(held);
            } else {
                self.resident -= u64::from(held);
            }
            self.unused_tails.push(tail);
        }
        self.release_shared(path, &mut hold, shared_blocks);
    }

    /// Removes up to `blocks` idle blocks, the longest idle first. Returns how many there were.
    pub(crate) fn evict(&mut self, blocks: u64) -> u64 {
        let mut left = blocks;
        while left > 0 {
            let Some(evicted) = self.idle.evict(left, &mut self.stretches) else {
                break;
            };
            left -= evicted.blocks;
            if let Some((stretch, depth)) = evicted.left {
                self.stretches[stretch.index()].resident = depth;
                self.changed(stretch);
            }
        }
        let evicted = blocks - left;
        self.resident -= evicted;
        self.evictions += evicted;
        evicted
    }

    /// Blocks of the part of a request that it may share.
    fn shared_blocks(&self, path: &[SegmentId]) -> u32 {
        self.usable(path)
            .iter()
            .map(|&segment| self.segment_blocks(segment))
            .sum()
    }

    fn release_shared(&mut self, path: &[SegmentId], hold: &mut PrefixHold, shared_blocks: u32) {
        let mut end = shared_blocks;
        for &segment in self.usable(path).iter().rev() {
            let id = StretchId::of_segment(segment);
            let start = end - self.segment_blocks(segment);
            if hold.blocks > start {
                self.shrink(id, hold.blocks.min(end) - start);
            }
            end = start;
        }
        hold.blocks = 0;
    }

    fn usable<'p>(&self, path: &'p [SegmentId]) -> &'p [SegmentId] {
        if self.prompts.is_some() { path } else { &[] }
    }

    fn segment_blocks(&self, segment: SegmentId) -> u32 {
        let prompts = self.prompts.as_ref();
        prompts.map_or(0, |prompts| prompts.segment_blocks(segment))
    }

    fn is_tail(&self, id: StretchId) -> bool {
        id.0 >= self.segments
    }

    /// The deepest that anybody holds a stretch.
    fn held(&self, id: StretchId) -> u32 {
        let stretch = &self.stretches[id.index()];
        if self.is_tail(id) {
            stretch.holding
        } else if stretch.holding > 0 {
            // Held as a whole, and so resident as a whole.
            stretch.resident
        } else {
            let depths = self.partial_holders.iter().filter(|(holder, _)| *holder == id);
            depths.map(|&(_, depth)| depth).max().unwrap_or(0)
        }
    }

    /// The tail of a request that holds some of it, and so all that comes before.
    fn tail_in_use(&self, hold: PrefixHold) -> Option<StretchId> {
        hold.tail().filter(|&tail| self.held(tail) > 0)
    }

    fn new_tail(&mut self) -> StretchId {
        if let Some(id) = self.unused_tails.pop() {
            self.stretches[id.index()] = Stretch::EMPTY;
            return id;
        }
        self.stretches.push(Stretch::EMPTY);
        StretchId::new(self.stretches.len() - 1)
    }

    /// A request that held a stretch down to depth `old` now holds it down to depth `new`.
    fn replace_holder(&mut self, id: StretchId, old: u32, new: u32) {
        if self.is_tail(id) {
            self.stretches[id.index()].holding = new;
            return;
        }
        let whole = self.segment_blocks(SegmentId::new(id.0));
        let stretch = &mut self.stretches[id.index()];
        stretch.holding += u32::from(new == whole);
        stretch.holding -= u32::from(old == whole);
        let held_part = 0 < old && old < whole;
        let holds_part = 0 < new && new < whole;
        if !held_part && !holds_part {
            return;
        }
        if held_part {
            let at = self.partial_holders.iter().position(|&holder| holder == (id, old));
            self.partial_holders
                .swap_remove(at.expect("a holder is listed with its depth"));
        }
        if holds_part {
            self.partial_holders.push((id, new));
        }
    }

    /// One holder of a stretch goes from depth `from` to depth `to`.
    fn grow(&mut self, id: StretchId, from: u32, to: u32, growth: &mut Growth) {
        let (held, resident) = (self.held(id), self.stretches[id.index()].resident);
        self.replace_holder(id, from, to);
        let stretch = &mut self.stretches[id.index()];
        if to > held {
            growth.reactivated += to.min(resident) - held;
            stretch.shallowest_idle = if to < resident {
                self.idle.reactivate(stretch.shallowest_idle, to)
            } else {
                self.idle.reactivate_all(resident - held);
                RunId::NONE
            };
        }
        if to > resident {
            growth.fresh += to - resident;
            stretch.resident = to;
            self.resident += u64::from(to - resident);
            self.changed(id);
        }
    }

    /// One holder of a stretch lets go of depth `from`.
    fn shrink(&mut self, id: StretchId, from: u32) {
        let held = self.held(id);
        self.replace_holder(id, from, 0);
        let still_held = self.held(id);
        let stretch = &mut self.stretches[id.index()];
        if still_held < held {
            if self.prompts.is_some() {
                stretch.shallowest_idle = self.idle.push(id, still_held, held, stretch.shallowest_idle);
                if self.idle.is_untidy() {
                    self.idle.tidy(&mut self.stretches);
                }
            } else {
                self.resident -= u64::from(stretch.resident - still_held);
                stretch.resident = still_held;
            }
        }
    }

    fn changed(&mut self, id: StretchId) {
        if self.publish && id.0 < self.segments {
            self.changed.push(SegmentId::new(id.0));
        }
    }
}
