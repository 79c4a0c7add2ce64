//! Prompt blocks that running requests occupy.

use std::sync::Arc;

use dynosim_spec::{PromptSegments, RouterSettings, SegmentId, WorkerId};

use crate::segment_rows::SegmentRows;

/// Full prompt blocks that a request occupies while it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Footprint<'a> {
    /// Shared segments, from the first block of the prompt on.
    pub(crate) shared: &'a [SegmentId],
    /// Blocks that count as the request's own.
    pub(crate) own_blocks: u32,
}

/// Which blocks of running requests count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockTracking {
    /// None at all.
    Off,
    /// All blocks of every request.
    PerRequest,
    /// Each block once, however many requests share it.
    Distinct,
}

impl BlockTracking {
    /// What a router's settings ask for.
    pub(crate) fn new(settings: &RouterSettings) -> Self {
        match (settings.router_track_active_blocks, settings.router_assume_kv_reuse) {
            (false, _) => Self::Off,
            (true, false) => Self::PerRequest,
            (true, true) => Self::Distinct,
        }
    }
}

/// Prompt blocks of the requests running on each worker.
///
/// A shared segment counts once per worker, from its first holder until its last one ends; own
/// blocks count for every request. Requests hold their prompts whole, so a worker on which a
/// segment is active has all segments before it active as well.
#[derive(Debug, Clone)]
pub(crate) struct ActiveBlocks {
    tracking: BlockTracking,
    prompts: Arc<PromptSegments>,
    /// Whole numbers, far from where `f64` has gaps.
    blocks: Vec<f64>,
    /// Running requests that contain a segment.
    holders: SegmentRows,
}

impl ActiveBlocks {
    /// No running requests on `workers` workers.
    pub(crate) fn new(tracking: BlockTracking, prompts: Arc<PromptSegments>, workers: usize) -> Self {
        Self {
            tracking,
            blocks: vec![0.0; workers],
            holders: SegmentRows::new(prompts.segment_count(), workers),
            prompts,
        }
    }

    /// What counts of a request with `full_blocks` blocks, the first of which are the segments `prompt`.
    pub(crate) fn footprint<'a>(&self, full_blocks: u32, prompt: &'a [SegmentId]) -> Footprint<'a> {
        let (shared, own_blocks): (&[SegmentId], u32) = match self.tracking {
            BlockTracking::Off => (&[], 0),
            BlockTracking::PerRequest => (&[], full_blocks),
            BlockTracking::Distinct => {
                let shared_blocks: u32 = prompt.iter().map(|&segment| self.prompts.segment_blocks(segment)).sum();
                (prompt, full_blocks.saturating_sub(shared_blocks))
            }
        };
        Footprint { shared, own_blocks }
    }

    /// A request begins on `worker`.
    pub(crate) fn add(&mut self, worker: WorkerId, footprint: Footprint<'_>) {
        let mut new_blocks = footprint.own_blocks;
        for &segment in footprint.shared {
            if let Some(holders) = self.holders.get_mut(segment, worker) {
                if *holders == 0 {
                    new_blocks += self.prompts.segment_blocks(segment);
                }
                *holders += 1;
            }
        }
        self.blocks[worker.index()] += f64::from(new_blocks);
    }

    /// A request that was [added](Self::add) ends.
    pub(crate) fn remove(&mut self, worker: WorkerId, footprint: Footprint<'_>) {
        let mut freed_blocks = footprint.own_blocks;
        for &segment in footprint.shared {
            if let Some(holders) = self.holders.get_mut(segment, worker) {
                *holders -= 1;
                if *holders == 0 {
                    freed_blocks += self.prompts.segment_blocks(segment);
                }
            }
        }
        self.blocks[worker.index()] -= f64::from(freed_blocks);
    }

    /// Blocks that are active on each worker.
    pub(crate) fn active(&self) -> &[f64] {
        &self.blocks
    }

    /// Blocks that a request counts for where none of them is active yet.
    pub(crate) fn request_blocks(&self, footprint: Footprint<'_>) -> f64 {
        let shared_blocks = |&segment: &SegmentId| f64::from(self.prompts.segment_blocks(segment));
        footprint.shared.iter().map(shared_blocks).sum::<f64>() + f64::from(footprint.own_blocks)
    }

    /// Writes how many of a request's blocks are active on each worker already.
    pub(crate) fn shared_with(&self, footprint: Footprint<'_>, shared: &mut [u32]) {
        shared.fill(0);
        for &segment in footprint.shared {
            let Some(holders) = self.holders.row(segment) else {
                // Nobody has ever held this segment, nor therefore the ones behind it.
                return;
            };
            let blocks = self.prompts.segment_blocks(segment);
            for (shared, &holders) in shared.iter_mut().zip(holders) {
                *shared += if holders > 0 { blocks } else { 0 };
            }
        }
    }
}
