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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(settings: &RouterSettings, block_tokens: u32, load: (u64, u32, u64), expected: f64) {
        let block_size = BlockSize::new(block_tokens).expect("not zero");
        let (prefill_tokens, overlap_blocks, active_blocks) = load;
        let cost = CostFunction::new(settings, block_size).cost(prefill_tokens, overlap_blocks, active_blocks);
        assert_eq!(cost.to_bits(), expected.to_bits(), "{cost} is not {expected}");
    }

    fn weighing(overlap_score_credit: f64, prefill_load_scale: f64) -> RouterSettings {
        RouterSettings {
            overlap_score_credit,
            prefill_load_scale,
            ..RouterSettings::default()
        }
    }

    #[test]
    fn scale_comes_after_credit() {
        check(&weighing(1.0, 2.0), 16, (64, 2, 3), 7.0);
        check(&weighing(1.0, 2.0), 16, (64, 0, 0), 8.0);
        check(&weighing(0.5, 2.0), 4, (18, 4, 4), 9.0);
    }

    #[test]
    fn started_blocks_count_in_part() {
        check(&weighing(1.0, 1.0), 4, (3, 0, 0), 0.75);
        check(&weighing(1.0, 1.0), 6, (7, 0, 1), 7.0 / 6.0 + 1.0);
    }

    #[test]
    fn credit_never_turns_into_debt() {
        check(&weighing(2.0, 1.0), 4, (16, 3, 4), 4.0);
        let untracked = RouterSettings {
            router_track_prefill_tokens: false,
            ..weighing(1.0, 1.0)
        };
        check(&untracked, 4, (16, 4, 4), 4.0);
    }
}
