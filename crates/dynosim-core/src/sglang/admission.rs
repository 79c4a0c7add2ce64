//! Which waiting requests join the prefill batch of a pass, and with how many tokens.

use std::cmp::Reverse;

use dynosim_spec::{SchedulePolicy, SegmentId};

use super::engine::SglangEngine;
use super::sequence::Sequence;
use crate::engine::{PassContext, PoolSetup};

/// The longest queue that is sorted by cached prefix.
const LONGEST_SORTED_QUEUE: usize = 128;

/// A cached prefix of at most this many tokens counts as none; sharing at least this many with a
/// request ahead makes waiting for that one's prefix worthwhile.
const WORTHWHILE_PREFIX_TOKENS: u32 = 32;

/// Share of the output reserve at which a worker starts, and to which the share falls.
const FIRST_RESERVE_RATIO: f64 = 0.7;
const LEAST_RESERVE_RATIO: f64 = 0.14;
const RESERVE_DECAY_STEPS: f64 = 600.0;

/// How much of the running requests' outstanding output is reserved.
#[derive(Debug)]
pub(super) struct ReserveRatio {
    first: f64,
    current: f64,
}

impl ReserveRatio {
    pub(super) fn new(conservativeness: f64) -> Self {
        let first = FIRST_RESERVE_RATIO * conservativeness;
        Self { first, current: first }
    }

    /// Room ran out: reserve as much as at the start again.
    pub(super) fn reset(&mut self) {
        self.current = self.first;
    }

    pub(super) fn decay(&mut self) {
        let least = LEAST_RESERVE_RATIO * self.first;
        self.current = (self.current - (self.first - least) / RESERVE_DECAY_STEPS).max(least);
    }
}

/// The prompts computed in one pass.
#[derive(Debug, Default)]
pub(super) struct PrefillBatch {
    pub(super) seqs: u32,
    pub(super) tokens: u64,
    pub(super) prefix_tokens: u64,
}

/// What a prefill batch may still take.
struct Budget {
    /// Tokens up to the size of a chunk.
    chunk: u32,
    /// Tokens up to the size of a batch.
    prefill: u32,
    /// Tokens not reserved by anybody.
    free: f64,
}

impl SglangEngine {
    /// Moves waiting requests into the batch until a budget is used up. Finished prompts join the
    /// running requests; an unfinished one goes back to the front.
    pub(super) fn admit(&mut self, context: &mut PassContext<'_>) -> PrefillBatch {
        let config = &context.pool.config.sglang;
        let mut budget = Budget {
            chunk: config.chunked_prefill_size,
            prefill: config.max_prefill_tokens,
            free: self.unreserved_tokens(context.pool),
        };
        self.order_waiting(context.pool);
        let mut batch = PrefillBatch::default();
        let mut finished = Vec::new();
        while let Some(mut sequence) = self.unfinished.take().or_else(|| self.waiting.pop_front()) {
            let alone = self.running.is_empty() && batch.seqs == 0;
            let Some(tokens) = self.chunk_of(&sequence, &budget, alone, context.pool) else {
                self.put_back(sequence);
                break;
            };
            self.compute(&mut sequence, tokens, &mut budget, &mut batch, context);
            if sequence.materialised == sequence.length() {
                finished.push(sequence);
            } else {
                let path = context.pool.prompts.path(sequence.request);
                self.pages.insert(path, &mut sequence.hold, sequence.materialised);
                self.unfinished = Some(sequence);
                break;
            }
        }
        self.running.append(&mut finished);
        batch
    }

    /// Tokens that are neither in use nor reserved for the output of running requests.
    fn unreserved_tokens(&self, pool: &PoolSetup) -> f64 {
        let page_tokens = f64::from(pool.config.block_size.tokens());
        let clip = pool.config.sglang.clip_max_new_tokens;
        let outstanding: f64 = self
            .running
            .iter()
            .map(|sequence| f64::from(sequence.reserve(clip)))
            .sum();
        let slack_pages = self.running.len() as f64;
        (self.pages.available_pages() as f64 - slack_pages) * page_tokens - outstanding * self.reserve_ratio.current
    }

    /// Tokens that the next request would compute in this pass; `None` if it has to wait.
    fn chunk_of(&self, sequence: &Sequence, budget: &Budget, alone: bool, pool: &PoolSetup) -> Option<u32> {
        let config = &pool.config.sglang;
        let extend = sequence.length() - sequence.materialised;
        let wanted = f64::from(extend) + f64::from(sequence.reserve(config.clip_max_new_tokens));
        if wanted >= budget.free && !alone {
            return None;
        }
        let tokens = if extend <= config.chunked_prefill_size {
            let fits = extend <= budget.chunk && (alone || extend <= budget.prefill);
            fits.then_some(extend)?
        } else {
            let page_tokens = pool.config.block_size.tokens();
            let whole_pages = budget.chunk / page_tokens * page_tokens;
            (whole_pages > 0).then_some(whole_pages.min(extend))?
        };
        let path = pool.prompts.path(sequence.request);
        let cached = self.cached_tokens(sequence, path);
        let end = (sequence.materialised + tokens).max(cached);
        let needed = self.pages.pages_needed(path, &sequence.hold, cached, end);
        (needed <= self.pages.available_pages()).then_some(tokens)
    }

    fn compute(
        &mut self,
        sequence: &mut Sequence,
        tokens: u32,
        budget: &mut Budget,
        batch: &mut PrefillBatch,
        context: &mut PassContext<'_>,
    ) {
        let path = context.pool.prompts.path(sequence.request);
        let cached = self.cached_tokens(sequence, path);
        let prefix = cached.max(sequence.materialised);
        let end = (sequence.materialised + tokens).max(prefix);
        if sequence.materialised == 0 {
            self.pages.lock(path, &mut sequence.hold, cached);
        }
        self.pages.grow(&mut sequence.hold, end);
        context.admitted(sequence.request, prefix.min(sequence.input_tokens));
        sequence.materialised = end;
        let computed_prompt = end.min(sequence.input_tokens);
        if computed_prompt > sequence.furthest {
            sequence.furthest = computed_prompt;
            context.progressed = true;
        }
        batch.seqs += 1;
        batch.tokens += u64::from(end);
        batch.prefix_tokens += u64::from(prefix);
        budget.chunk = budget.chunk.saturating_sub(tokens);
        budget.prefill = budget.prefill.saturating_sub(tokens);
        let truncated = end < sequence.length();
        let clip = context.pool.config.sglang.clip_max_new_tokens;
        let reserve = if truncated { 0 } else { sequence.reserve(clip) };
        budget.free -= f64::from(end - prefix) + f64::from(reserve);
    }

    /// Tokens of a request that are in the cache; none once it has computed a chunk of its own.
    fn cached_tokens(&self, sequence: &Sequence, path: &[SegmentId]) -> u32 {
        if sequence.materialised > 0 {
            return 0;
        }
        self.pages.cached_tokens(path, &sequence.hold, sequence.length())
    }

    fn put_back(&mut self, sequence: Sequence) {
        if sequence.materialised > 0 {
            self.unfinished = Some(sequence);
        } else {
            self.waiting.push_front(sequence);
        }
    }

    /// Under the longest-prefix policy, sorts the queue: most cached tokens first, and behind
    /// everything else those that would find more if they let a similar request go first.
    fn order_waiting(&mut self, pool: &PoolSetup) {
        let queue = self.waiting.len();
        if pool.config.sglang.schedule_policy != SchedulePolicy::Lpm || !(2..=LONGEST_SORTED_QUEUE).contains(&queue) {
            return;
        }
        let keys: Vec<(bool, Reverse<u32>)> = (0..queue)
            .map(|at| {
                let cached = self.cached_tokens(&self.waiting[at], pool.prompts.path(self.waiting[at].request));
                let deferred = cached <= WORTHWHILE_PREFIX_TOKENS && self.shares_with_earlier(at, pool);
                (deferred, Reverse(cached))
            })
            .collect();
        let mut sorted: Vec<_> = keys.into_iter().zip(self.waiting.drain(..)).collect();
        sorted.sort_by_key(|&(key, _)| key);
        self.waiting.extend(sorted.into_iter().map(|(_, sequence)| sequence));
    }

    fn shares_with_earlier(&self, at: usize, pool: &PoolSetup) -> bool {
        let prompts = &pool.prompts;
        let path = prompts.path(self.waiting[at].request);
        self.waiting.iter().take(at).any(|earlier| {
            let common = path
                .iter()
                .zip(prompts.path(earlier.request))
                .take_while(|(a, b)| a == b);
            let blocks: u32 = common.map(|(&segment, _)| prompts.segment_blocks(segment)).sum();
            blocks * pool.config.block_size.tokens() >= WORTHWHILE_PREFIX_TOKENS
        })
    }
}
