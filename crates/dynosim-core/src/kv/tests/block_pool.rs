//! [`BlockPool`] against [`PlainBlocks`] and a count of partial blocks.

use dynosim_spec::BlockSize;
use proptest::prelude::*;

use super::plain_blocks::PlainBlocks;
use super::prompts::Prompts;
use crate::kv::{BlockPool, KvHold, PrefixCache};

#[derive(Debug, Clone)]
enum Action {
    /// A request takes blocks for so many tokens more, of those that it has.
    Extend { request: usize, tokens: u32 },
    /// A request all of whose tokens have their block generates one more.
    Generate { request: usize },
    /// A request gives all blocks back, and keeps its tokens.
    Release { request: usize },
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => (0_usize..6, 1_u32..9).prop_map(|(request, tokens)| Action::Extend { request, tokens }),
        4 => (0_usize..6).prop_map(|request| Action::Generate { request }),
        1 => (0_usize..6).prop_map(|request| Action::Release { request }),
    ]
}

proptest! {
    #[test]
    fn differential_equals_plain_blocks(
        prompts in Prompts::any(),
        capacity in 1_u32..24,
        actions in prop::collection::vec(action(), 0..80),
    ) {
        let mut twins = Twins::new(&prompts, capacity);
        for action in actions {
            twins.act(&action)?;
            twins.compare()?;
        }
    }

    #[test]
    fn without_reuse_the_pool_is_a_counter(
        prompts in Prompts::any(),
        capacity in 1_u32..24,
        actions in prop::collection::vec(action(), 0..80),
    ) {
        let block_size = prompts.segments.block_size();
        let mut pool = BlockPool::new(block_size, capacity, PrefixCache::without_reuse());
        let mut holds: Vec<KvHold> = (0..prompts.len())
            .map(|request| pool.no_hold(prompts.input_tokens(request)))
            .collect();
        let mut reached = vec![0; prompts.len()];
        for action in actions {
            let (Action::Extend { request, .. } | Action::Generate { request } | Action::Release { request }) = action;
            let request = request % prompts.len();
            let path = prompts.path(request);
            if let Action::Extend { tokens, .. } = action {
                let target = (reached[request] + tokens).min(prompts.input_tokens(request));
                let others: u32 = reached.iter().map(|&tokens| block_size.blocks_for(tokens)).sum();
                let most = (capacity - others + block_size.blocks_for(reached[request])) * block_size.tokens();
                let got = pool.extend(path, &mut holds[request], prompts.input_tokens(request), target);
                prop_assert_eq!(got, target.min(most));
                reached[request] = got;
            } else {
                pool.release(path, &mut holds[request]);
                reached[request] = 0;
            }
            let active: u32 = reached.iter().map(|&tokens| block_size.blocks_for(tokens)).sum();
            prop_assert_eq!(pool.active_blocks(), u64::from(active));
            prop_assert_eq!(pool.free_blocks(), u64::from(capacity - active));
            prop_assert_eq!(pool.cache().evictions(), 0);
        }
    }
}

/// The pool and its model, side by side.
struct Twins<'a> {
    prompts: &'a Prompts,
    block_size: BlockSize,
    capacity: u32,
    pool: BlockPool,
    holds: Vec<KvHold>,
    plain: PlainBlocks,
    requests: Vec<PlainRequest>,
}

/// A request in the model.
#[derive(Debug, Clone)]
struct PlainRequest {
    tokens: u32,
    reached: u32,
    /// Blocks held; the last one may be partial.
    held: u32,
    holds_partial: bool,
    /// Leading blocks that count as full.
    full: u32,
}

impl<'a> Twins<'a> {
    fn new(prompts: &'a Prompts, capacity: u32) -> Self {
        let block_size = prompts.segments.block_size();
        let pool = BlockPool::new(block_size, capacity, PrefixCache::for_prompts(&prompts.segments));
        let request = |request| PlainRequest {
            tokens: prompts.input_tokens(request),
            reached: 0,
            held: 0,
            holds_partial: false,
            full: block_size.full_blocks(prompts.input_tokens(request)),
        };
        Self {
            prompts,
            block_size,
            capacity,
            holds: (0..prompts.len())
                .map(|request| pool.no_hold(prompts.input_tokens(request)))
                .collect(),
            pool,
            plain: PlainBlocks::default(),
            requests: (0..prompts.len()).map(request).collect(),
        }
    }

    fn act(&mut self, action: &Action) -> Result<(), TestCaseError> {
        match *action {
            Action::Extend { request, tokens } => {
                let request = request % self.prompts.len();
                let target = (self.requests[request].reached + tokens).min(self.requests[request].tokens);
                self.extend(request, target)
            }
            Action::Generate { request } => {
                let request = request % self.prompts.len();
                let tokens = self.requests[request].tokens;
                if self.requests[request].reached < tokens || tokens > 30 {
                    return Ok(());
                }
                self.requests[request].tokens = tokens + 1;
                self.extend(request, tokens + 1)?;
                let generated = &mut self.requests[request];
                if generated.reached <= tokens {
                    // There was no block for it.
                    generated.tokens = tokens;
                }
                Ok(())
            }
            Action::Release { request } => {
                let request = request % self.prompts.len();
                self.pool.release(self.prompts.path(request), &mut self.holds[request]);
                let plain = &mut self.requests[request];
                let full_held = plain.held - u32::from(plain.holds_partial);
                for index in (0..full_held).rev() {
                    self.plain.release(self.prompts.blocks[request][index as usize]);
                }
                plain.held = 0;
                plain.holds_partial = false;
                plain.reached = 0;
                Ok(())
            }
        }
    }

    fn extend(&mut self, request: usize, target: u32) -> Result<(), TestCaseError> {
        let path = self.prompts.path(request);
        let tokens = self.requests[request].tokens;
        let needed = self.pool.blocks_needed(path, &self.holds[request], tokens, target);
        let fits = needed <= self.pool.available_blocks();
        let reached = self.pool.extend(path, &mut self.holds[request], tokens, target);
        prop_assert_eq!(
            reached == target,
            fits,
            "it fits if as many blocks as needed are available"
        );
        prop_assert_eq!(reached, self.plain_extend(request, target));
        prop_assert!(self.pool.held_tokens(&self.holds[request]) >= reached);
        self.requests[request].reached = reached;
        Ok(())
    }

    /// Takes blocks one by one.
    fn plain_extend(&mut self, request: usize, target: u32) -> u32 {
        let mut plain = self.requests[request].clone();
        let wanted = self.block_size.blocks_for(target);
        if wanted > plain.held && plain.holds_partial {
            // The next block is opened, so this one is full.
            plain.full = plain.full.max(plain.held);
            plain.holds_partial = false;
            self.plain.hold(self.prompts.blocks[request][plain.held as usize - 1]);
        }
        let full = plain.full.max(self.block_size.blocks_for(plain.tokens) - 1);
        self.requests[request] = plain;
        while self.requests[request].held < wanted {
            let index = self.requests[request].held;
            let block = (index < full).then(|| self.prompts.blocks[request][index as usize]);
            let resident = block.is_some_and(|block| self.plain.is_resident(block));
            if !resident && self.plain_free() == 0 && !self.plain.evict(&self.prompts.blocks) {
                return index * self.block_size.tokens();
            }
            match block {
                Some(block) => self.plain.hold(block),
                None => self.requests[request].holds_partial = true,
            }
            self.requests[request].held += 1;
        }
        target
    }

    fn plain_active(&self) -> u64 {
        let partial = self.requests.iter().filter(|request| request.holds_partial).count();
        self.plain.held() + partial as u64
    }

    fn plain_free(&self) -> u64 {
        u64::from(self.capacity) - self.plain_active() - self.plain.idle()
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.pool.active_blocks(), self.plain_active());
        prop_assert_eq!(self.pool.free_blocks(), self.plain_free());
        prop_assert_eq!(self.pool.available_blocks(), self.plain_free() + self.plain.idle());
        prop_assert_eq!(self.pool.cache().evictions(), self.plain.evictions);
        for (request, plain) in self.requests.iter().enumerate() {
            let full = plain.full.max(self.block_size.blocks_for(plain.tokens) - 1);
            let resident = self.plain.resident_prefix(&self.prompts.blocks[request]);
            let cached = self
                .pool
                .cached_blocks(self.prompts.path(request), &self.holds[request], plain.tokens);
            prop_assert_eq!(cached, resident.min(full));
        }
        Ok(())
    }
}
