//! The reference's polynomial, without any model facts.

use std::sync::Arc;

use dynosim_spec::Deployment;

use crate::decode_inputs::DecodeInputs;
use crate::error::TimingError;
use crate::model::{Price, StepShape, TimingModel, TimingProvider};

/// Shortest decode step, in milliseconds, that the built-in models return; the reference's simulator has this floor.
pub(crate) const DECODE_FLOOR_MS: f64 = 1.0;

/// Step times from two quadratics, the same for every model and GPU.
///
/// With `x` new prompt tokens a prompt costs `4.209989e-7 x^2 + 1.518344e-2 x + 16.50142` ms; with
/// the share `p` of the KV cache in use a decode step costs `-25.74 p^2 + 54.01 p + 5.74` ms, at
/// least 1 ms. Source: default timing of the simulator in ai-dynamo 1.2.1.
#[derive(Debug, Clone, Copy, Default)]
pub struct PolynomialTiming;

impl TimingModel for PolynomialTiming {
    fn prefill(&self, step: &StepShape) -> Price {
        let (tokens, prefix) = step.mean_prefill().unwrap_or_default();
        let x = (u64::from(step.prefill_seqs) * tokens.saturating_sub(prefix)) as f64;
        Price::known((4.209_989e-7 * (x * x) + 1.518_344e-2 * x + 16.501_42).max(0.0))
    }

    fn decode(&self, step: &StepShape) -> Price {
        let share = step.active_kv_tokens as f64 / step.total_kv_tokens.max(1) as f64;
        Price::known((-25.74 * (share * share) + 54.01 * share + 5.74).max(DECODE_FLOOR_MS))
    }

    fn decode_depends_on(&self) -> DecodeInputs {
        DecodeInputs::KvUsage
    }
}

impl TimingProvider for PolynomialTiming {
    fn bind(&self, _deployment: &Deployment) -> Result<Arc<dyn TimingModel>, TimingError> {
        Ok(Arc::new(*self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_match_the_worked_examples() {
        let prefill = |tokens| PolynomialTiming.prefill(&StepShape::prefill(1, tokens, 0)).ms;
        assert!((prefill(100) - 18.023_974).abs() < 1e-6);
        assert!((prefill(1000) - 32.105_859).abs() < 1e-6);
        let step = StepShape {
            active_kv_tokens: 2 * 64,
            total_kv_tokens: 16_384 * 64,
            ..StepShape::decode(1, 100)
        };
        assert!((PolynomialTiming.decode(&step).ms - 5.746_593).abs() < 1e-6);
    }
}
