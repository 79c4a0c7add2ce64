//! What a pool of workers did with its time and its cache.

use dynosim_spec::{RequestId, SimDuration, SimTime, WorkerRole};
use serde::Serialize;

use super::recorder::Recorder;
use crate::prices::StepTime;

/// Use of one pool over a whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolUse {
    /// Which part of a request's life it serves.
    pub role: WorkerRole,
    /// Number of workers.
    pub workers: u32,
    /// Time that its workers spent in steps, summed over workers, milliseconds.
    pub busy_ms: f64,
    /// The same as a share, 0 to 1, of the time that they had: workers times the duration of the run.
    pub utilisation: f64,
    /// How often one of its requests lost its blocks to another.
    pub preemptions: u64,
    /// KV blocks evicted from its caches.
    pub evicted_blocks: u64,
    /// Prompt tokens of the requests that it served; `None` where prompts are not computed.
    pub prompt_tokens: Option<u64>,
    /// Of these, tokens found in a cache (per request, the most over its admissions); `None` where prompts are not
    /// computed.
    pub reused_tokens: Option<u64>,
}

/// What is counted of one pool while a run goes on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PoolTally {
    /// Time of all steps, and how much of it rests on extrapolation.
    pub(super) step_time: SimDuration,
    pub(super) extrapolated_time: SimDuration,
    preemptions: u64,
    reused_tokens: u64,
}

/// A pool at the end of a run.
#[derive(Debug)]
pub(crate) struct PoolEnd<'a, G> {
    pub(crate) role: WorkerRole,
    pub(crate) workers: u32,
    pub(crate) tally: PoolTally,
    pub(crate) evicted_blocks: u64,
    /// The gaps between tokens that were not noted one by one.
    pub(crate) gaps_in_runs: &'a G,
}

impl PoolTally {
    /// A step, a part of one, or a run of them was priced.
    pub(crate) fn priced(&mut self, time: StepTime) {
        self.step_time += time.total;
        self.extrapolated_time += time.extrapolated;
    }

    /// A worker has scheduled a request that waited, finding `reused_tokens` of its prompt cached.
    pub(crate) fn admitted(&mut self, request: RequestId, at: SimTime, reused_tokens: u32, recorder: &mut Recorder) {
        self.reused_tokens += u64::from(recorder.admitted(request, at, reused_tokens));
    }

    /// A request has lost its blocks.
    pub(crate) fn preempted(&mut self, request: RequestId, recorder: &mut Recorder) {
        self.preemptions += 1;
        recorder.preempted(request);
    }
}

impl<G> PoolEnd<'_, G> {
    /// Its use in a run of this duration that served prompts of so many tokens.
    pub(super) fn pool_use(&self, duration_ms: f64, prompt_tokens: u64) -> PoolUse {
        let busy_ms = self.tally.step_time.as_ms();
        let time_ms = f64::from(self.workers) * duration_ms;
        let computes_prompts = self.role != WorkerRole::Decode;
        PoolUse {
            role: self.role,
            workers: self.workers,
            busy_ms,
            utilisation: if time_ms > 0.0 { busy_ms / time_ms } else { 0.0 },
            preemptions: self.tally.preemptions,
            evicted_blocks: self.evicted_blocks,
            prompt_tokens: computes_prompts.then_some(prompt_tokens),
            reused_tokens: computes_prompts.then_some(self.tally.reused_tokens),
        }
    }
}
