//! Step times that tell the figures of a step apart and yet coincide all the time.

use dynosim::timing::{DecodeInputs, Price, StepShape, TimingModel};

/// Up to three milliseconds, scattered over what decoding is said to depend on. Some steps are free.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToyTiming(pub(crate) DecodeInputs);

impl TimingModel for ToyTiming {
    fn prefill(&self, step: &StepShape) -> Price {
        let figures = [
            u64::from(step.prefill_seqs),
            step.prefill_tokens,
            step.prefill_prefix_tokens,
        ];
        Price::known((scattered(&figures) % 4) as f64)
    }

    fn decode(&self, step: &StepShape) -> Price {
        let seqs = u64::from(step.decode_seqs);
        let figures = match self.0 {
            DecodeInputs::WholeStep => {
                let context = step.decode_context_tokens;
                scattered(&[seqs, context, step.active_kv_tokens, step.total_kv_tokens])
            }
            DecodeInputs::MeanContext => scattered(&[seqs, step.mean_context().unwrap_or_default()]),
            DecodeInputs::KvUsage => scattered(&[seqs, step.active_kv_tokens, step.total_kv_tokens]),
        };
        Price::known((figures % 4) as f64)
    }

    fn decode_depends_on(&self) -> DecodeInputs {
        self.0
    }
}

fn scattered(figures: &[u64]) -> u64 {
    figures.iter().fold(7, |mixed: u64, figure| {
        (mixed ^ figure).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    })
}
