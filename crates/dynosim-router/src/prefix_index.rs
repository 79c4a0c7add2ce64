//! Which prompt prefixes the workers hold in their caches, as far as their KV events tell.

use std::sync::Arc;

use dynosim_spec::{PromptSegments, SegmentId, WorkerId};

use crate::segment_rows::SegmentRows;

/// Resident depth of every shared segment on every worker.
///
/// Private tails are left out: no other request can ever match them.
#[derive(Debug, Clone)]
pub(crate) struct PrefixIndex {
    prompts: Arc<PromptSegments>,
    resident_blocks: SegmentRows,
}

impl PrefixIndex {
    /// An index of `workers` empty caches.
    pub(crate) fn new(prompts: Arc<PromptSegments>, workers: usize) -> Self {
        Self {
            resident_blocks: SegmentRows::new(prompts.segment_count(), workers),
            prompts,
        }
    }

    /// The beginning of `prompt` up to the first segment that is not one of the workload's.
    pub(crate) fn known_part<'a>(&self, prompt: &'a [SegmentId]) -> &'a [SegmentId] {
        let is_known = |segment: &SegmentId| segment.index() < self.prompts.segment_count();
        let known = prompt.iter().take_while(|segment| is_known(segment)).count();
        &prompt[..known]
    }

    /// Takes note that `worker` now holds the first `blocks` blocks of `segment`.
    pub(crate) fn set_resident(&mut self, worker: WorkerId, segment: SegmentId, blocks: u32) {
        if let Some(resident) = self.resident_blocks.get_mut(segment, worker) {
            *resident = blocks.min(self.prompts.segment_blocks(segment));
        }
    }

    /// Writes the blocks of `prompt` that each worker holds without a gap from the first one on.
    pub(crate) fn overlaps(&self, prompt: &[SegmentId], overlaps: &mut [u32]) {
        overlaps.fill(0);
        let mut blocks_before = 0;
        for &segment in prompt {
            let Some(row) = self.resident_blocks.row(segment) else {
                return;
            };
            let blocks_after = blocks_before + self.prompts.segment_blocks(segment);
            let mut somebody_holds_all = false;
            for (overlap, &resident) in overlaps.iter_mut().zip(row) {
                *overlap += if *overlap == blocks_before { resident } else { 0 };
                somebody_holds_all |= *overlap == blocks_after;
            }
            if !somebody_holds_all {
                return;
            }
            blocks_before = blocks_after;
        }
    }
}
