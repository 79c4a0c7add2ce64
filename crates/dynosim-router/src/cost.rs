//! What sending a request to a worker costs.

use dynosim_spec::{BlockSize, RouterSettings};

/// Weighs the prompt tokens a worker has to compute against the blocks its requests occupy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CostFunction {
    block_tokens: f64,
    overlap_score_credit: f64,
    prefill_load_scale: f64,
    track_prefill_tokens: bool,
}

impl CostFunction {
    /// The cost function of a router with these settings.
    pub(crate) fn new(settings: &RouterSettings, block_size: BlockSize) -> Self {
        Self {
            block_tokens: f64::from(block_size.tokens()),
            overlap_score_credit: settings.overlap_score_credit,
            prefill_load_scale: settings.prefill_load_scale,
            track_prefill_tokens: settings.router_track_prefill_tokens,
        }
    }

    /// The cost in blocks: `scale * max(0, prefill_tokens / block_size - credit * overlap_blocks) + active_blocks`.
    ///
    /// `prefill_tokens` and `active_blocks` are the worker's own and the request's together,
    /// `overlap_blocks` is what the worker holds of the request's prompt.
    /// Exact equality of costs decides ties, so the order of evaluation is part of the contract.
    pub(crate) fn cost(self, prefill_tokens: u64, overlap_blocks: u32, active_blocks: u64) -> f64 {
        let prefill_blocks = if self.track_prefill_tokens {
            prefill_tokens as f64 / self.block_tokens
        } else {
            0.0
        };
        let uncached_blocks = (prefill_blocks - self.overlap_score_credit * f64::from(overlap_blocks)).max(0.0);
        self.prefill_load_scale * uncached_blocks + active_blocks as f64
    }
}
