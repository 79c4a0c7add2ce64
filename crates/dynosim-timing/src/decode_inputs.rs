//! What the price of a decode step is a function of, and a check that a model says so truly.

use crate::model::{Price, StepShape, TimingModel};

/// What [`TimingModel::decode`] looks at.
///
/// Steps that agree in what a variant names have exactly the same [`Price`](crate::Price), whatever else
/// differs, so that a simulator may ask once and use the answer for all of them. Naming less than the model
/// looks at gives wrong simulations without any error; [`check_decode_inputs`] finds such a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DecodeInputs {
    /// Anything in the step: every step is priced by itself. Always true, and slowest.
    #[default]
    WholeStep,
    /// Only [`StepShape::decode_seqs`] and [`StepShape::mean_context`].
    MeanContext,
    /// Only [`StepShape::decode_seqs`], [`StepShape::active_kv_tokens`] and [`StepShape::total_kv_tokens`].
    KvUsage,
}

impl DecodeInputs {
    /// Steps that cost the same as `step` if the claim holds.
    fn equal_steps(self, step: StepShape) -> Vec<StepShape> {
        let with_prefill = |step: StepShape| StepShape {
            prefill_seqs: step.prefill_seqs.wrapping_add(1),
            prefill_tokens: step.prefill_tokens / 2 + 1000,
            prefill_prefix_tokens: step.prefill_prefix_tokens / 4 + 100,
            ..step
        };
        let with_context = |decode_context_tokens| StepShape {
            decode_context_tokens,
            ..step
        };
        let (context, seqs) = (step.decode_context_tokens, u64::from(step.decode_seqs.max(1)));
        match self {
            // Even the whole step must price alike when asked again.
            Self::WholeStep => vec![step],
            Self::MeanContext => {
                let least = context - context % seqs;
                vec![
                    with_context(least),
                    with_context(least.saturating_add((seqs - 1) / 2)),
                    with_context(least.saturating_add(seqs - 1)),
                    step.with_kv_tokens(step.active_kv_tokens / 2, step.total_kv_tokens),
                    step.with_kv_tokens(step.active_kv_tokens, step.total_kv_tokens / 2 + 1000),
                    step.with_kv_tokens(0, 0),
                    with_prefill(step),
                ]
            }
            Self::KvUsage => vec![
                with_context(0),
                with_context(context / 2),
                with_context(context.saturating_add(1)),
                with_context(context.saturating_mul(2).max(1000)),
                with_prefill(step),
            ],
        }
    }
}

/// Checks, for tests, that `model` prices no decode step by more than
/// [`TimingModel::decode_depends_on`] says, each of `steps` against others that must cost exactly the same,
/// and that [`TimingModel::decode_over_contexts`] agrees.
///
/// ```
/// use dynosim_timing::{PolynomialTiming, StepShape, check_decode_inputs};
///
/// let batches = [1, 3, 64, 256];
/// let steps = batches.into_iter().flat_map(|seqs| {
///     [100, 5_000].map(|context| {
///         let tokens = u64::from(seqs) * context;
///         StepShape::decode(seqs, tokens).with_kv_tokens(tokens, 2_000_000)
///     })
/// });
/// check_decode_inputs(&PolynomialTiming, steps);
/// ```
///
/// # Panics
/// If two prices differ, naming the two steps.
#[track_caller]
pub fn check_decode_inputs(model: &dyn TimingModel, steps: impl IntoIterator<Item = StepShape>) {
    let inputs = model.decode_depends_on();
    for step in steps.into_iter().filter(|step| step.decode_seqs > 0) {
        let price = model.decode(&step);
        for other in inputs.equal_steps(step) {
            let found = model.decode(&other);
            assert!(
                found == price,
                "decode does not depend on {inputs:?} alone: {step:?} costs {price:?}, {other:?} costs {found:?}"
            );
        }
        if let (DecodeInputs::MeanContext, Some(context)) = (inputs, step.mean_context()) {
            check_contexts(model, step.decode_seqs, context);
        }
    }
}

/// [`TimingModel::decode_over_contexts`] gives what [`TimingModel::decode`] gives.
#[track_caller]
fn check_contexts(model: &dyn TimingModel, seqs: u32, first_context: u64) {
    let mut prices = [Price::ZERO; 4];
    model.decode_over_contexts(seqs, first_context, &mut prices);
    for (context, found) in (first_context..).zip(prices) {
        let tokens = context.saturating_mul(u64::from(seqs));
        let price = model.decode(&StepShape::decode(seqs, tokens));
        assert!(
            found == price,
            "{seqs} sequences of {context} tokens cost {price:?} by themselves and {found:?} among other contexts"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prices by `price`, and claims that only `inputs` matter.
    struct Claim {
        inputs: DecodeInputs,
        price: fn(&StepShape) -> f64,
    }

    impl std::fmt::Debug for Claim {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "a claim of {:?}", self.inputs)
        }
    }

    impl TimingModel for Claim {
        fn prefill(&self, _step: &StepShape) -> Price {
            Price::ZERO
        }

        fn decode(&self, step: &StepShape) -> Price {
            Price::known((self.price)(step))
        }

        fn decode_depends_on(&self) -> DecodeInputs {
            self.inputs
        }
    }

    #[track_caller]
    fn check(inputs: DecodeInputs, price: fn(&StepShape) -> f64) {
        let step = StepShape::decode(7, 705).with_kv_tokens(1024, 4096);
        check_decode_inputs(&Claim { inputs, price }, [step, StepShape::decode(1, 5)]);
    }

    #[test]
    fn true_claims_pass() {
        check(DecodeInputs::WholeStep, |step| {
            step.decode_context_tokens as f64 + step.total_kv_tokens as f64
        });
        check(DecodeInputs::MeanContext, |step| {
            f64::from(step.decode_seqs) * step.mean_context().unwrap_or_default() as f64
        });
        check(DecodeInputs::KvUsage, |step| {
            step.active_kv_tokens as f64 / step.total_kv_tokens.max(1) as f64
        });
    }

    #[test]
    #[should_panic(expected = "decode does not depend on MeanContext alone")]
    fn the_sum_of_contexts_is_not_their_mean() {
        check(DecodeInputs::MeanContext, |step| step.decode_context_tokens as f64);
    }

    #[test]
    #[should_panic(expected = "decode does not depend on MeanContext alone")]
    fn usage_is_not_a_mean_context() {
        check(DecodeInputs::MeanContext, |step| step.active_kv_tokens as f64);
    }

    #[test]
    #[should_panic(expected = "decode does not depend on KvUsage alone")]
    fn a_context_is_not_usage() {
        check(DecodeInputs::KvUsage, |step| step.decode_context_tokens as f64);
    }

    #[test]
    #[should_panic(expected = "decode does not depend on KvUsage alone")]
    fn prompts_are_not_usage() {
        check(DecodeInputs::KvUsage, |step| step.prefill_tokens as f64);
    }
}
