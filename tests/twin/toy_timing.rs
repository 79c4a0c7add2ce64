//! Step times that tell every figure of a step apart and yet coincide all the time.

use std::sync::Arc;

use dynosim::spec::Deployment;
use dynosim::timing::{Price, StepShape, TimingError, TimingModel, TimingProvider};

/// Whole milliseconds from 0 to 3, scattered over the figures of the step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToyTiming;

impl TimingProvider for ToyTiming {
    fn bind(&self, _deployment: &Deployment) -> Result<Arc<dyn TimingModel>, TimingError> {
        Ok(Arc::new(*self))
    }
}

impl TimingModel for ToyTiming {
    fn prefill(&self, step: &StepShape) -> Price {
        scattered(&[
            u64::from(step.prefill_seqs),
            step.prefill_tokens,
            step.prefill_prefix_tokens,
        ])
    }

    fn decode(&self, step: &StepShape) -> Price {
        scattered(&[
            u64::from(step.decode_seqs),
            step.decode_context_tokens,
            step.active_kv_tokens,
            step.total_kv_tokens,
        ])
    }
}

fn scattered(figures: &[u64]) -> Price {
    let mixed = figures.iter().fold(7_u64, |mixed, figure| {
        (mixed ^ figure).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    });
    Price::known((mixed % 4) as f64)
}
