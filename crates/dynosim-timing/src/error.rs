//! Why a timing model cannot be had.

use thiserror::Error;

/// Why a provider could not be bound to a deployment.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TimingError {
    /// Nothing is known about the model.
    #[error(
        "nothing is known about model `{model}`, so {purpose} is impossible; give a bundled name or the path of a config.json"
    )]
    UnknownModel {
        /// Name in the spec.
        model: String,
        /// What the facts were needed for.
        purpose: &'static str,
    },
    /// Weights and activations leave no memory for the KV cache.
    #[error(
        "no room for KV cache: {model} at tp {tp} on {system} needs {needed_bytes} bytes beside the cache, {available_bytes} may be used"
    )]
    NoKvRoom {
        /// Model.
        model: String,
        /// Tensor-parallel size.
        tp: u32,
        /// GPU system.
        system: String,
        /// Bytes for weights, activations and buffers.
        needed_bytes: u64,
        /// Bytes the engine may use.
        available_bytes: u64,
    },
    /// Whatever went wrong in a provider of the user's.
    #[error("timing provider failed: {0}")]
    Custom(#[source] Box<dyn std::error::Error + Send + Sync>),
}
