//! What a router is built for.

use std::sync::Arc;

use dynosim_spec::{BlockSize, PromptSegments, WorkerRole};

/// The pool of equal workers that a router serves.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Part of a request's life that the pool serves.
    pub role: WorkerRole,
    /// Number of workers, at least 1; their ids are below it.
    pub workers: u32,
    /// Tokens per KV block.
    pub block_size: BlockSize,
    /// Token budget of a worker's step; `None` is unlimited.
    pub max_num_batched_tokens: Option<u32>,
    /// Shared segments of all prompts.
    pub prompts: Arc<PromptSegments>,
}
