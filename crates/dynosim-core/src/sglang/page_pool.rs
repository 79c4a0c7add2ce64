//! Pages of an SGLang-style worker: those of the radix cache, and those of requests that are not
//! in it yet.

use dynosim_spec::{BlockSize, SegmentId};

use crate::kv::{PrefixCache, PrefixHold};

/// Pages that one request holds: a locked prefix of the cache, then pages of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageHold {
    locked: PrefixHold,
    own: u32,
}

impl PageHold {
    pub(super) const fn new() -> Self {
        Self {
            locked: PrefixHold::new(),
            own: 0,
        }
    }

    fn pages(&self) -> u32 {
        self.locked.blocks() + self.own
    }
}

/// A fixed number of pages. Invariant: cached + own + free = capacity.
#[derive(Debug)]
pub(super) struct PagePool {
    page: BlockSize,
    capacity: u64,
    cache: PrefixCache,
    own: u64,
}

impl PagePool {
    pub(super) fn new(page: BlockSize, capacity: u32, cache: PrefixCache) -> Self {
        Self {
            page,
            capacity: u64::from(capacity),
            cache,
            own: 0,
        }
    }

    pub(super) fn cache(&self) -> &PrefixCache {
        &self.cache
    }

    pub(super) fn cache_mut(&mut self) -> &mut PrefixCache {
        &mut self.cache
    }

    /// Pages held by requests; a shared one counts once.
    pub(super) fn active_pages(&self) -> u64 {
        self.cache.held_blocks() + self.own
    }

    /// Pages that are free or can be evicted.
    pub(super) fn available_pages(&self) -> u64 {
        self.capacity - self.active_pages()
    }

    /// Leading tokens of a sequence of `tokens` tokens that are cached, in whole pages.
    pub(super) fn cached_tokens(&self, path: &[SegmentId], hold: &PageHold, tokens: u32) -> u32 {
        let pages = self.cache.resident_prefix(path, hold.locked);
        pages.min(self.page.full_blocks(tokens)) * self.page.tokens()
    }

    /// Pages now held by nobody that a request needs to hold `tokens` tokens, `cached` of them from the cache.
    pub(super) fn pages_needed(&self, path: &[SegmentId], hold: &PageHold, cached: u32, tokens: u32) -> u64 {
        let cached_pages = self.page.full_blocks(cached).max(hold.locked.blocks());
        let reactivated = self.cache.growth(path, hold.locked, cached_pages).reactivated;
        let held = cached_pages + hold.own;
        u64::from(reactivated) + u64::from(self.page.blocks_for(tokens).saturating_sub(held))
    }

    /// Locks the cached prefix of `tokens` tokens for a request that holds nothing.
    pub(super) fn lock(&mut self, path: &[SegmentId], hold: &mut PageHold, tokens: u32) {
        self.cache.extend(path, &mut hold.locked, self.page.full_blocks(tokens));
    }

    /// Gives a request pages of its own until it holds `tokens` tokens. The caller has checked that there is room.
    pub(super) fn grow(&mut self, hold: &mut PageHold, tokens: u32) {
        let more = self.page.blocks_for(tokens).saturating_sub(hold.pages());
        let free = self.capacity - self.active_pages() - self.cache.idle_blocks();
        self.cache.evict(u64::from(more).saturating_sub(free));
        hold.own += more;
        self.own += u64::from(more);
    }

    /// Puts the whole pages of a request's first `tokens` tokens into the cache. A page that is
    /// there already takes the place of the request's own.
    pub(super) fn insert(&mut self, path: &[SegmentId], hold: &mut PageHold, tokens: u32) {
        let pages = self.page.full_blocks(tokens).max(hold.locked.blocks());
        let moved = pages - hold.locked.blocks();
        hold.own -= moved;
        self.own -= u64::from(moved);
        self.cache.extend(path, &mut hold.locked, pages);
    }

    /// Gives back all pages of a request; what is cached stays until it is evicted.
    pub(super) fn release(&mut self, path: &[SegmentId], hold: &mut PageHold) {
        self.own -= u64::from(hold.own);
        hold.own = 0;
        self.cache.release(path, &mut hold.locked);
    }

    /// Gives back all pages of a request that never comes back.
    pub(super) fn retire(&mut self, path: &[SegmentId], hold: PageHold) {
        self.own -= u64::from(hold.own);
        self.cache.retire(path, hold.locked);
    }
}
