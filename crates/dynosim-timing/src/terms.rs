//! What the price of a step is made of, for reports.

use crate::model::{Price, PromptChunk, StepShape};

/// A step, or a part of one, that is priced as a whole.
#[derive(Debug, Clone, Copy)]
pub enum StepPart<'a> {
    /// Computing prompts.
    Prompts(&'a StepShape),
    /// Generating tokens.
    Decodes(&'a StepShape),
    /// Both in one pass.
    Fused(&'a StepShape, &'a [PromptChunk]),
}

/// One term of a price.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PriceTerm {
    /// Name of the term in reports.
    pub name: &'static str,
    /// Milliseconds.
    pub ms: f64,
}

impl PriceTerm {
    /// A term of this name.
    pub const fn new(name: &'static str, ms: f64) -> Self {
        Self { name, ms }
    }
}

impl StepPart<'_> {
    /// The name of the part as one term.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prompts(_) => "prompts",
            Self::Decodes(_) => "decodes",
            Self::Fused(..) => "fused",
        }
    }

    /// The price of the part by a model.
    pub(crate) fn price(self, model: &(impl crate::TimingModel + ?Sized)) -> Price {
        match self {
            Self::Prompts(step) => model.prefill(step),
            Self::Decodes(step) => model.decode(step),
            Self::Fused(step, prompts) => model.fused(step, prompts),
        }
    }
}
