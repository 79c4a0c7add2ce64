//! How many tokens of KV cache fit beside weights and activations.

use dynosim_spec::Deployment;

use crate::error::TimingError;

/// Tokens of KV cache that fit on the GPUs of one worker.
///
/// # Errors
/// If the model's facts are unknown, or nothing is left after weights and activations.
pub fn estimate_kv_tokens(deployment: &Deployment) -> Result<u64, TimingError> {
    let _ = deployment;
    unimplemented!("written with the tables")
}
