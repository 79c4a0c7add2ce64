//! Decode prices by batch size, prepared at first use of each.

use std::ops::Range;
use std::sync::OnceLock;

use crate::graph_sizes::GraphSizes;
use crate::layer_mix::LayerMix;
use crate::model::Price;
use crate::operators::{AttentionOverContext, DenseShape, Kernels, Operators, total};
use crate::reading::Reading;

/// Batch sizes that are prepared once and kept; larger ones are prepared again for every price.
const KEPT_BATCHES: usize = 2048;

/// What a decode step costs at one batch size: everything but attention does not depend on the context.
#[derive(Debug)]
pub(crate) struct DecodeRow<A> {
    batch: u64,
    /// Tokens that the pass computes, padding included.
    tokens: u64,
    /// All operators with attention left out, added in the order of the pass.
    without_attention: Price,
    layers: f64,
    /// Attention in one layer.
    attention: LayerMix<A>,
}

impl<A: AttentionOverContext> DecodeRow<A> {
    fn new<K: Kernels<DecodeAttention = A>>(shape: &DenseShape, kernels: &K, batch: u64, padding: Padding) -> Self {
        let tokens = padding.sizes.padded(batch);
        let mut without_attention = total(&shape.decode(kernels, (batch, tokens), Reading::ZERO));
        without_attention.ms += padding.step_ms;
        Self {
            batch,
            tokens,
            without_attention,
            layers: f64::from(shape.layers),
            attention: kernels.decode_attention(batch),
        }
    }

    /// Attention in one layer.
    pub(crate) fn attention(&self) -> &LayerMix<A> {
        &self.attention
    }

    /// Price of a step whose sequences have `kv_tokens` tokens each, the new one included.
    pub(crate) fn price(&self, kv_tokens: u64) -> Price {
        self.with_attention(self.attention.at(kv_tokens))
    }

    /// Calls `found` with the prices of steps whose sequences have so many tokens each.
    pub(crate) fn prices(&self, kv_tokens: Range<u64>, mut found: impl FnMut(Price)) {
        self.attention
            .over(kv_tokens, |one_layer| found(self.with_attention(one_layer)));
    }

    /// Attention of all layers is added to the sum of everything else.
    fn with_attention(&self, one_layer: Reading) -> Price {
        let attention_ms = self.layers * one_layer.ms;
        let extrapolated_ms = if one_layer.extrapolated { attention_ms } else { 0.0 };
        Price {
            ms: self.without_attention.ms + attention_ms,
            extrapolated_ms: self.without_attention.extrapolated_ms + extrapolated_ms,
        }
    }

    /// The operators behind [`DecodeRow::price`].
    pub(crate) fn operators(&self, shape: &DenseShape, kernels: &impl Kernels, kv_tokens: u64) -> Operators {
        shape.decode(kernels, (self.batch, self.tokens), self.attention.at(kv_tokens))
    }
}

/// What steps that only generate cost beside their tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Padding {
    /// Sizes to which batches are padded.
    pub(crate) sizes: GraphSizes,
    /// Constant time of a step.
    pub(crate) step_ms: f64,
}

impl Padding {
    /// Nothing.
    pub(crate) const NONE: Self = Self {
        sizes: GraphSizes::NONE,
        step_ms: 0.0,
    };
}

/// The rows of one model, shared by all threads that price with it.
#[derive(Debug)]
pub(crate) struct DecodeRows<A> {
    padding: Padding,
    /// By batch size; boxed, because most are never used.
    kept: Box<[OnceLock<Box<DecodeRow<A>>>]>,
}

impl<A: AttentionOverContext> DecodeRows<A> {
    pub(crate) fn new(padding: Padding) -> Self {
        Self {
            padding,
            kept: (0..=KEPT_BATCHES).map(|_| OnceLock::new()).collect(),
        }
    }

    /// What `question` finds in the row of `batch`; `shape` and `kernels` are those of the one model that
    /// the rows belong to.
    pub(crate) fn ask<K: Kernels<DecodeAttention = A>, T>(
        &self,
        (shape, kernels): (&DenseShape, &K),
        batch: u64,
        question: impl FnOnce(&DecodeRow<A>) -> T,
    ) -> T {
        let row = || DecodeRow::new(shape, kernels, batch, self.padding);
        match usize::try_from(batch).ok().and_then(|batch| self.kept.get(batch)) {
            Some(kept) => question(kept.get_or_init(|| Box::new(row()))),
            None => question(&row()),
        }
    }
}
