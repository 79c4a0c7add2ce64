//! The block-granular pool of a vLLM-style worker: full blocks in the prefix cache, plus the
//! partly filled last blocks, which are never shared.

use dynosim_spec::{BlockSize, SegmentId};

use super::prefix_cache::{PrefixCache, PrefixHold};

/// Blocks that one request holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KvHold {
    prefix: PrefixHold,
    /// Whether it also holds a last block that is not registered as full.
    partial: bool,
    /// Leading blocks of the request that are full even where they are its last ones, held or not:
    /// those that its prompt fills, and those after which a block was opened.
    full: u32,
}

impl KvHold {
    fn blocks(&self) -> u32 {
        self.prefix.blocks() + u32::from(self.partial)
    }
}

/// A fixed number of blocks, each free, idle (cached, held by nobody) or active.
///
/// Invariant: active + idle + free = capacity.
#[derive(Debug)]
pub(crate) struct BlockPool {
    block_size: BlockSize,
    capacity: u64,
    cache: PrefixCache,
    partial_blocks: u64,
}

impl BlockPool {
    /// A pool of `capacity` free blocks.
    pub(crate) fn new(block_size: BlockSize, capacity: u32, cache: PrefixCache) -> Self {
        Self {
            block_size,
            capacity: u64::from(capacity),
            cache,
            partial_blocks: 0,
        }
    }

    /// A request with a prompt of `prompt_tokens` tokens that holds nothing yet.
    pub(crate) fn no_hold(&self, prompt_tokens: u32) -> KvHold {
        KvHold {
            prefix: PrefixHold::new(),
            partial: false,
            full: self.block_size.full_blocks(prompt_tokens),
        }
    }

    /// The full blocks.
    pub(crate) fn cache(&self) -> &PrefixCache {
        &self.cache
    }

    /// The full blocks, to publish their changes.
    pub(crate) fn cache_mut(&mut self) -> &mut PrefixCache {
        &mut self.cache
    }

    /// Blocks held by requests; a shared one counts once.
    pub(crate) fn active_blocks(&self) -> u64 {
        self.cache.held_blocks() + self.partial_blocks
    }

    /// Blocks that are free or can be evicted.
    pub(crate) fn available_blocks(&self) -> u64 {
        self.capacity - self.active_blocks()
    }

    /// Blocks that hold nothing.
    pub(crate) fn free_blocks(&self) -> u64 {
        self.available_blocks() - self.cache.idle_blocks()
    }

    /// Tokens for which a request holds blocks.
    pub(crate) fn held_tokens(&self, hold: &KvHold) -> u32 {
        hold.blocks().saturating_mul(self.block_size.tokens())
    }

    /// Leading full blocks of a sequence of `tokens` tokens that are resident.
    pub(crate) fn cached_blocks(&self, path: &[SegmentId], hold: &KvHold, tokens: u32) -> u32 {
        let resident = self.cache.resident_prefix(path, hold.prefix);
        resident.min(self.full_blocks(hold, tokens))
    }

    /// Blocks now held by nobody that a request needs in order to hold the first `target` tokens of a
    /// sequence of `tokens` tokens.
    pub(crate) fn blocks_needed(&self, path: &[SegmentId], hold: &KvHold, tokens: u32, target: u32) -> u64 {
        let wanted = self.block_size.blocks_for(target);
        if wanted <= hold.blocks() {
            return 0;
        }
        let full = wanted.min(self.full_blocks(hold, tokens));
        let growth = self.cache.growth(path, hold.prefix, full);
        let held_partial = u64::from(hold.partial);
        u64::from(growth.reactivated) + u64::from(growth.fresh) + u64::from(wanted - full) - held_partial
    }

    /// Lets a request hold blocks for the first `target` tokens of a sequence of `tokens` tokens,
    /// evicting idle blocks as needed. Returns the tokens for which it holds blocks: `target`, or
    /// whole blocks of as much as there was room for.
    ///
    /// A last block that was held in part is registered as full when the block after it is opened,
    /// not when it fills up; so it stays a partial one if its request loses it and takes it again.
    pub(crate) fn extend(&mut self, path: &[SegmentId], hold: &mut KvHold, tokens: u32, target: u32) -> u32 {
        let wanted = self.block_size.blocks_for(target);
        if wanted <= hold.blocks() {
            return target;
        }
        if hold.partial {
            self.promote(path, hold);
        }
        let full = wanted.min(self.full_blocks(hold, tokens));
        if u64::from(wanted - hold.blocks()) <= self.free_blocks() {
            // There is room for everything, found in the cache or not.
            self.cache.extend(path, &mut hold.prefix, full);
            hold.partial = wanted > full;
            self.partial_blocks += u64::from(hold.partial);
            return target;
        }
        let growth = self.cache.growth(path, hold.prefix, full);
        // Hold what is resident first, so that making room cannot evict it.
        self.cache.extend(path, &mut hold.prefix, full - growth.fresh);
        let fresh = u64::from(growth.fresh).min(self.available_blocks());
        self.make_room(fresh);
        let missing = growth.fresh - u32::try_from(fresh).expect("no more than was asked for");
        self.cache.extend(path, &mut hold.prefix, full - missing);
        if wanted > full && missing == 0 && self.available_blocks() > 0 {
            self.make_room(1);
            hold.partial = true;
            self.partial_blocks += 1;
        }
        if hold.blocks() == wanted {
            target
        } else {
            hold.blocks() * self.block_size.tokens()
        }
    }

    /// Gives back all blocks of a request, the last one first.
    pub(crate) fn release(&mut self, path: &[SegmentId], hold: &mut KvHold) {
        if hold.partial {
            hold.partial = false;
            self.partial_blocks -= 1;
        }
        self.cache.release(path, &mut hold.prefix);
    }

    /// Gives back all blocks of a request that never comes back.
    pub(crate) fn retire(&mut self, path: &[SegmentId], hold: KvHold) {
        self.partial_blocks -= u64::from(hold.partial);
        self.cache.retire(path, hold.prefix);
    }

    fn promote(&mut self, path: &[SegmentId], hold: &mut KvHold) {
        hold.partial = false;
        self.partial_blocks -= 1;
        let blocks = hold.prefix.blocks() + 1;
        self.cache.extend(path, &mut hold.prefix, blocks);
        hold.full = hold.full.max(blocks);
    }

    /// Blocks of a sequence of `tokens` tokens that are registered as full when they are held.
    fn full_blocks(&self, hold: &KvHold, tokens: u32) -> u32 {
        let all_but_last = self.block_size.blocks_for(tokens).saturating_sub(1);
        hold.full.max(all_but_last)
    }

    /// Evicts until `blocks` blocks are free.
    fn make_room(&mut self, blocks: u64) {
        self.cache.evict(blocks.saturating_sub(self.free_blocks()));
    }
}
