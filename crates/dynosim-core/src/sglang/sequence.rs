//! A request on an SGLang-style worker.

use dynosim_spec::RequestId;

use super::page_pool::PageHold;
use crate::engine::Incoming;
use crate::metrics::TokenTrail;

/// Progress of one request.
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    pub(super) request: RequestId,
    pub(super) input_tokens: u32,
    pub(super) output_tokens: u32,
    pub(super) generated: u32,
    /// Tokens that have a slot in the pool.
    pub(super) materialised: u32,
    /// The most prompt tokens that were ever computed.
    pub(super) furthest: u32,
    pub(super) hold: PageHold,
    pub(super) tokens: TokenTrail,
}

impl Sequence {
    pub(super) fn new(incoming: Incoming) -> Self {
        Self {
            request: incoming.request,
            input_tokens: incoming.input_tokens,
            output_tokens: incoming.output_tokens,
            generated: 0,
            materialised: 0,
            furthest: 0,
            hold: PageHold::new(),
            tokens: TokenTrail::default(),
        }
    }

    /// Prompt and generated tokens so far.
    pub(super) fn length(&self) -> u32 {
        self.input_tokens + self.generated
    }

    /// Output tokens for which room is reserved.
    pub(super) fn reserve(&self, clip: u32) -> u32 {
        (self.output_tokens - self.generated).min(clip)
    }
}
