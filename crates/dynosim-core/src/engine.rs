//! What the event loop asks of a worker's engine, and what all engines of a pool share.

use std::fmt::Debug;
use std::sync::Arc;

use dynosim_spec::{EngineConfig, PromptSegments, RequestId, SegmentId, SimTime, WorkerRole};
use dynosim_timing::{StepPart, TimingModel};

use crate::decode_pages::DecodePages;
use crate::error::SimError;
use crate::metrics::{PoolTally, Recorder};
use crate::prefill_times::PrefillTimes;
use crate::prices::StepTime;
use crate::rejection::Room;
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

impl PoolSetup {
    /// What decides whether a request can ever run.
    pub(crate) fn room(&self) -> Room<'_> {
        Room {
            config: &self.config,
            num_gpu_blocks: self.num_gpu_blocks,
            rules: self.rules,
        }
    }

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

/// What a pass works with.
pub(crate) struct PassContext<'a> {
    pub(crate) now: SimTime,
    pub(crate) pool: &'a PoolSetup,
    pub(crate) pages: &'a mut DecodePages,
    pub(crate) prefill_times: &'a mut PrefillTimes,
    pub(crate) recorder: &'a mut Recorder,
    pub(crate) tally: &'a mut PoolTally,
    /// What the pass will tell when it ends.
    pub(crate) signals: &'a mut Vec<Signal>,
    /// Whether runs of decode steps may be computed at once.
    pub(crate) stepping: Stepping,
    /// Whether a token was emitted or more of some prompt computed than ever before.
    pub(crate) progressed: bool,
}

impl PassContext<'_> {
    /// Notes that a step, or a part of one, was priced.
    pub(crate) fn priced(&mut self, time: StepTime, part: StepPart<'_>) {
        self.tally.priced(time);
        if let Some(breakdown) = &mut self.recorder.breakdown {
            breakdown.add(time, &self.pool.timing.terms(part));
        }
    }

    /// A request that waited is part of this pass, with `reused_tokens` of its prompt found cached.
    pub(crate) fn admitted(&mut self, request: RequestId, reused_tokens: u32) {
        self.tally.admitted(request, self.now, reused_tokens, self.recorder);
    }

    /// A request has lost its blocks.
    pub(crate) fn preempted(&mut self, request: RequestId) {
        self.tally.preempted(request, self.recorder);
    }
}

/// How decode steps are computed. Results are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stepping {
    /// As many at once as possible.
    #[default]
    Bulk,
    /// One after the other: the reference for [`Stepping::Bulk`].
    Single,
}

/// What holds of a step of a run that starts just now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// It has not started: workers start passes only after everything else that happens at an instant.
    Ahead,
    /// It has started: workers have had their turn at this instant, and something happened after all.
    Passed,
}

/// When a pass, or a run of passes computed at once, ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PassTimes {
    pub(crate) last_step_start: SimTime,
    pub(crate) end: SimTime,
    /// When its first step starts in which cached blocks are evicted, if that is not at its own start.
    pub(crate) first_eviction: Option<SimTime>,
}

/// What a worker holds during a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WorkerUsage {
    /// Requests in its batch.
    pub(crate) running: u32,
    /// KV blocks that they hold.
    pub(crate) held_blocks: u64,
    /// Cached blocks that nobody holds.
    pub(crate) idle_blocks: u64,
}

/// The scheduler and KV cache of one worker.
///
/// A pass is computed completely when it starts; its signals are told when it ends. An engine may
/// compute a run of passes at once if nothing but tokens comes of them. Then it must be able to end
/// the run early, at the end of any of its steps.
pub(crate) trait Engine: Debug + Send {
    /// Puts a request into the waiting queue.
    fn enqueue(&mut self, incoming: Incoming);

    /// Whether any request is waiting or running.
    fn has_work(&self) -> bool;

    /// The request that a stuck worker is stuck on.
    fn head(&self) -> Option<RequestId>;

    /// Starts a pass, or a run of passes, at `context.now`.
    fn start_pass(&mut self, context: &mut PassContext<'_>) -> Result<PassTimes, SimError>;

    /// Ends a run after the step that is under way at `now`. `None` if a single pass is.
    fn cut_run(&mut self, now: SimTime, boundary: Boundary, pages: &DecodePages) -> Option<PassTimes>;

    /// Lets those steps of a run happen that have started by `context.now`.
    fn settle_run(&mut self, boundary: Boundary, context: &mut PassContext<'_>) -> Option<PassTimes>;

    /// The pass, or what is left of the run, is over.
    fn end_pass(&mut self, context: &mut PassContext<'_>);

    /// Reports each shared segment whose cached blocks have changed.
    fn take_cache_changes(&mut self, report: &mut dyn FnMut(SegmentId, u32));

    /// When others see cache changes of a pass: at its start, or only at its end.
    fn publishes_at_pass_start(&self) -> bool;

    /// Blocks evicted so far.
    fn evictions(&self) -> u64;

    /// What it holds in the step that is under way at `now`, when everything that happens at this instant has happened.
    /// Known only where [phases are kept](Recorder::keeps_phases).
    fn usage_in_pass(&self, now: SimTime, pool: &PoolSetup, pages: &DecodePages) -> WorkerUsage;

    /// What it holds while it has no work.
    fn usage_at_rest(&self) -> WorkerUsage;
}
