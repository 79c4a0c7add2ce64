//! Decode prices by batch size, prepared at first use of each.

use std::ops::Range;
use std::sync::OnceLock;

use crate::model::Price;
use crate::operators::{AttentionOverContext, DenseShape, Kernels, Operators, total};
use crate::reading::Reading;

/// Batch sizes that are prepared once and kept; larger ones are prepared again for every price.
const KEPT_BATCHES: usize = 2048;

/// What a decode step costs at one batch size: everything but attention does not depend on the context.
#[derive(Debug)]
pub(crate) struct DecodeRow<A> {
    batch: u64,
    /// All operators with attention left out, added in the order of the pass.
    without_attention: Price,
    layers: f64,
    /// Attention in one layer.
    attention: A,
}

impl<A: AttentionOverContext> DecodeRow<A> {
    fn new<K: Kernels<DecodeAttention = A>>(shape: &DenseShape, kernels: &K, batch: u64) -> Self {
        Self {
            batch,
            without_attention: total(&shape.decode(kernels, batch, Reading::ZERO)),
            layers: f64::from(shape.layers),
            attention: kernels.decode_attention(batch),
        }
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
        shape.decode(kernels, self.batch, self.attention.at(kv_tokens))
    }
}

/// The rows of one model, shared by all threads that price with it.
#[derive(Debug)]
pub(crate) struct DecodeRows<A> {
    /// By batch size; boxed, because most are never used.
    kept: Box<[OnceLock<Box<DecodeRow<A>>>]>,
}

impl<A: AttentionOverContext> DecodeRows<A> {
    pub(crate) fn new() -> Self {
        Self {
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
        let row = || DecodeRow::new(shape, kernels, batch);
        match usize::try_from(batch).ok().and_then(|batch| self.kept.get(batch)) {
            Some(kept) => question(kept.get_or_init(|| Box::new(row()))),
            None => question(&row()),
        }
    }
}
