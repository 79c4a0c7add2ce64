//! What the event loop asks of a worker's engine, and what all engines of a pool share.

use std::fmt::Debug;
use std::sync::Arc;

use dynosim_spec::{EngineConfig, PromptSegments, RequestId, SegmentId, SimDuration, SimTime, WorkerRole};
use dynosim_timing::{Price, StepShape, TimingModel};

use crate::error::SimError;
use crate::metrics::Recorder;
use crate::rules::EngineRules;

/// Everything that the workers of one pool have in common.
#[derive(Debug)]
pub(crate) struct PoolSetup {
    pub(crate) config: EngineConfig,
    pub(crate) num_gpu_blocks: u32,
    pub(crate) timing: Arc<dyn TimingModel>,
    pub(crate) rules: EngineRules,
    pub(crate) prompts: Arc<PromptSegments>,
}

/// Which way a price is sped up.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StepPart {
    Prefill,
    Decode,
}

impl PoolSetup {
    /// KV cache tokens that one worker has room for.
    pub(crate) fn kv_tokens(&self) -> u64 {
        u64::from(self.num_gpu_blocks) * u64::from(self.config.block_size.tokens())
    }

    /// Name of the pool in messages.
    pub(crate) fn name(&self) -> &'static str {
        match self.config.role {
            WorkerRole::Aggregated => "aggregated",
            WorkerRole::Prefill => "prefill",
            WorkerRole::Decode => "decode",
        }
    }

    /// Asks the timing model for one part of a step and turns the answer into simulated time.
    pub(crate) fn price(&self, part: StepPart, step: &StepShape) -> Result<(SimDuration, Price), SimError> {
        let (price, ratio) = match part {
            StepPart::Prefill => (self.timing.prefill(step), self.config.speedup_ratio),
            StepPart::Decode => {
                let ratio = self.config.speedup_ratio * self.config.decode_speedup_ratio;
                (self.timing.decode(step), ratio)
            }
        };
        let time = SimDuration::from_ms(price.ms).ok_or(SimError::BadPrice {
            ms: price.ms,
            step: *step,
        })?;
        Ok((time.sped_up(ratio), price))
    }
}

/// A request as an engine gets to see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incoming {
    pub(crate) request: RequestId,
    pub(crate) input_tokens: u32,
    /// Tokens to generate on this worker: one on a prefill worker.
    pub(crate) output_tokens: u32,
}

/// What the outside world learns when a pass ends, in the order in which it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The request has its first token, and more to come.
    FirstToken(RequestId),
    /// The request has its last token and has left the worker.
    Completed(RequestId),
}

/// What one pass came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass {
    pub(crate) duration: SimDuration,
    /// Whether a token was emitted or more of some prompt computed than ever before.
    pub(crate) progressed: bool,
}

/// The scheduler and KV cache of one worker.
///
/// A pass is computed completely when it starts; its signals are told when it ends.
pub(crate) trait Engine: Debug + Send {
    /// Puts a request into the waiting queue.
    fn enqueue(&mut self, incoming: Incoming);

    /// Whether any request is waiting or running.
    fn has_work(&self) -> bool;

    /// The request that a stuck worker is stuck on.
    fn head(&self) -> Option<RequestId>;

    /// Computes one pass that starts at `now` and appends what it will signal.
    fn pass(
        &mut self,
        now: SimTime,
        pool: &PoolSetup,
        recorder: &mut Recorder,
        signals: &mut Vec<Signal>,
    ) -> Result<Pass, SimError>;

    /// Reports each shared segment whose cached blocks have changed.
    fn take_cache_changes(&mut self, report: &mut dyn FnMut(SegmentId, u32));

    /// When others see cache changes of a pass: at its start, or only at its end.
    fn publishes_at_pass_start(&self) -> bool;

    /// Blocks held by requests, for checks.
    fn active_blocks(&self) -> u64;

    /// Blocks evicted so far.
    fn evictions(&self) -> u64;
}
