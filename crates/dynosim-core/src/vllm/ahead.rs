//! Scheduling one step ahead of the GPU.
//!
//! While a step runs, the next one is scheduled already, from what was known when the running one started: who
//! arrives meanwhile is seen one step later, and blocks and places of requests that finish in the running
//! step are still taken in the next. See [`ScheduledWhen::StepBeforeStarts`].
//!
//! Steps are computed when they start, so the engine does not keep a scheduled step; it keeps back what the
//! scheduler could not have known.

use std::collections::VecDeque;

use dynosim_spec::RequestId;

use super::engine::VllmEngine;
use super::scheduling::Batch;
use super::sequence::SequenceKey;
use crate::engine::{PassContext, PoolSetup};
use crate::kv::KvHold;
use crate::rules::ScheduledWhen;

/// What has happened since the step that starts next was scheduled. Empty where scheduling does not run ahead.
#[derive(Debug, Default)]
pub(super) struct NotYetSeen {
    /// Requests that have arrived, in this order.
    pub(super) arrived: VecDeque<SequenceKey>,
    /// Blocks of requests that have finished; each has its place among the running ones still.
    finished: Vec<(RequestId, KvHold)>,
}

impl NotYetSeen {
    /// Places among the running requests that are not free yet.
    pub(super) fn places_taken(&self) -> usize {
        self.finished.len()
    }

    /// Whether the scheduler knows everything.
    pub(super) fn is_empty(&self) -> bool {
        self.arrived.is_empty() && self.finished.is_empty()
    }
}

impl VllmEngine {
    /// Schedules the step that starts now, as far ahead as the rules say.
    pub(super) fn schedule_step(&mut self, context: &mut PassContext<'_>) -> Batch {
        let batch = self.schedule(context);
        if self.not_yet_seen.is_empty() {
            return batch;
        }
        self.see_everything(context.pool);
        if self.running.is_empty() {
            // There was nothing to schedule ahead, so scheduling waited until now.
            return self.schedule(context);
        }
        batch
    }

    /// Lets the scheduler see early what nobody is waiting to use.
    pub(super) fn see_what_nobody_waits_for(&mut self, pool: &PoolSetup) {
        if self.waiting.is_empty() && self.not_yet_seen.arrived.is_empty() {
            self.see_everything(pool);
        }
    }

    /// Takes back the blocks of a request that has finished, when the scheduler may use them again.
    pub(super) fn take_back(&mut self, request: RequestId, hold: KvHold, pool: &PoolSetup) {
        match pool.rules.scheduled_when {
            ScheduledWhen::StepStarts => self.blocks.retire(pool.prompts.path(request), hold),
            ScheduledWhen::StepBeforeStarts => self.not_yet_seen.finished.push((request, hold)),
        }
    }

    fn see_everything(&mut self, pool: &PoolSetup) {
        for (request, hold) in self.not_yet_seen.finished.drain(..) {
            self.blocks.retire(pool.prompts.path(request), hold);
        }
        self.waiting.append(&mut self.not_yet_seen.arrived);
    }
}
