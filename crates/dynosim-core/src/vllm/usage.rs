//! What a worker holds in the step that is under way.
//!
//! Passes are computed when they start, so an engine's own state is that at their end, and that of a run is still the
//! one at its start. This is the state in between: when a step is scheduled, and nobody has emitted a token yet.

use super::engine::VllmEngine;
use crate::engine::{PoolSetup, WorkerUsage};
use crate::rules::BlockTaken;

impl VllmEngine {
    /// What is held in a step that has just been scheduled.
    pub(super) fn usage_now(&self) -> WorkerUsage {
        WorkerUsage {
            running: u32::try_from(self.running.len()).expect("requests are indexed by u32"),
            held_blocks: self.blocks.active_blocks(),
            idle_blocks: self.blocks.cache().idle_blocks(),
        }
    }

    /// What is held in the step with this number, from 1, of a run that none of the steps has changed yet.
    pub(super) fn usage_in_run(&self, step: u32, pool: &PoolSetup) -> WorkerUsage {
        let begun = self.blocks_taken_for(step, pool);
        let at_start = self.usage_now();
        WorkerUsage {
            held_blocks: at_start.held_blocks + begun,
            // Blocks are taken from the free ones first.
            idle_blocks: at_start.idle_blocks - begun.saturating_sub(self.blocks.free_blocks()),
            ..at_start
        }
    }

    /// Blocks taken from the start of a run to the scheduling of this step.
    fn blocks_taken_for(&self, step: u32, pool: &PoolSetup) -> u64 {
        let absorber = self.absorber(pool);
        let steps_of_generating = match pool.rules.block_taken {
            BlockTaken::WhenScheduled => step,
            // The step's own blocks are taken at its end.
            BlockTaken::WhenEmitted => step - 1,
        };
        let absorbed = absorber.map_or(0, |absorber| self.blocks_absorbed(absorber, step, pool));
        absorbed + self.blocks_begun_by_generating(absorber, steps_of_generating, pool)
    }
}
