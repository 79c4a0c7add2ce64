//! What sending a request to a worker costs.

use dynosim_spec::{BlockSize, RouterSettings};

/// Weighs the prompt tokens a worker has to compute against the blocks its requests occupy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CostFunction {
    block_tokens: f64,
    /// The reciprocal of `block_tokens`, if multiplying by it gives exactly what dividing gives.
    blocks_per_token: Option<f64>,
    overlap_score_credit: f64,
    prefill_load_scale: f64,
    track_prefill_tokens: bool,
}

/// The loads of all workers, with those of the request, in the order of workers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loads<'a> {
    /// Prefill tokens booked, without those of the request.
    pub(crate) booked_tokens: &'a [f64],
    /// Prompt tokens of the request.
    pub(crate) input_tokens: u32,
    /// Blocks of the request's prompt that the worker holds in its cache.
    pub(crate) overlap_blocks: &'a [u32],
    /// Blocks that are active without the request.
    pub(crate) active_blocks: &'a [f64],
    /// Blocks that the request counts for, and how many of these are active already.
    pub(crate) request_blocks: f64,
    pub(crate) shared_blocks: &'a [u32],
}

impl CostFunction {
    /// The cost function of a router with these settings.
    pub(crate) fn new(settings: &RouterSettings, block_size: BlockSize) -> Self {
        let block_tokens = f64::from(block_size.tokens());
        Self {
            block_tokens,
            blocks_per_token: block_size.tokens().is_power_of_two().then_some(1.0 / block_tokens),
            overlap_score_credit: settings.overlap_score_credit,
            prefill_load_scale: settings.prefill_load_scale,
            track_prefill_tokens: settings.router_track_prefill_tokens,
        }
    }

    /// Writes the cost of each worker in blocks:
    /// `scale * max(0, prefill_tokens / block_size - credit * overlap_blocks) + active_blocks`,
    /// `prefill_tokens` and `active_blocks` being the worker's own and the request's together.
    ///
    /// Exact equality of costs decides ties, so the order of evaluation is part of the contract.
    pub(crate) fn costs(self, loads: Loads<'_>, costs: &mut [f64]) {
        match (self.track_prefill_tokens, self.blocks_per_token) {
            (false, _) => self.costs_by(loads, costs, |_| 0.0),
            (true, Some(blocks_per_token)) => self.costs_by(loads, costs, |tokens| tokens * blocks_per_token),
            (true, None) => self.costs_by(loads, costs, |tokens| tokens / self.block_tokens),
        }
    }

    fn costs_by(self, loads: Loads<'_>, costs: &mut [f64], blocks_of: impl Fn(f64) -> f64) {
        let input_tokens = f64::from(loads.input_tokens);
        let prefills = loads.booked_tokens.iter().zip(loads.overlap_blocks);
        let blocks = loads.active_blocks.iter().zip(loads.shared_blocks);
        for (cost, (prefill, blocks)) in costs.iter_mut().zip(prefills.zip(blocks)) {
            let ((&booked_tokens, &overlap_blocks), (&active_blocks, &shared_blocks)) = (prefill, blocks);
            let prefill_blocks = blocks_of(booked_tokens + input_tokens);
            // Blocks of one prompt; conversions of signed integers are single instructions.
            let overlap_blocks = f64::from(overlap_blocks.cast_signed());
            let uncached_blocks = prefill_blocks - self.overlap_score_credit * overlap_blocks;
            let uncached_blocks = if uncached_blocks > 0.0 { uncached_blocks } else { 0.0 };
            let active_blocks = active_blocks + (loads.request_blocks - f64::from(shared_blocks.cast_signed()));
            *cost = self.prefill_load_scale * uncached_blocks + active_blocks;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(settings: &RouterSettings, block_tokens: u32, load: (u32, u32, u32), expected: f64) {
        let block_size = BlockSize::new(block_tokens).expect("not zero");
        let (prefill_tokens, overlap_blocks, active_blocks) = load;
        for booked_tokens in 0..=prefill_tokens {
            let loads = Loads {
                booked_tokens: &[f64::from(booked_tokens)],
                input_tokens: prefill_tokens - booked_tokens,
                overlap_blocks: &[overlap_blocks],
                active_blocks: &[f64::from(active_blocks) + 2.0],
                request_blocks: 5.0,
                shared_blocks: &[7],
            };
            let mut cost = [f64::NAN];
            CostFunction::new(settings, block_size).costs(loads, &mut cost);
            assert_eq!(cost[0].to_bits(), expected.to_bits(), "{cost:?} is not {expected}");
        }
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
