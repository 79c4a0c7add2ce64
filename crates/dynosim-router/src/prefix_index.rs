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

#[cfg(test)]
mod tests {
    use dynosim_spec::{Admission, BlockSize, Request, RequestId, SimDuration, WorkloadBuilder};

    use super::*;

    /// Segments of 2, 3 and 1 blocks, all on the path of request 0.
    fn prompts() -> PromptSegments {
        let block_size = BlockSize::new(4).expect("not zero");
        let mut builder = WorkloadBuilder::new(block_size);
        for (session, blocks) in (0..).zip([6, 6, 5, 2]) {
            let request = Request {
                session,
                turn: 0,
                input_tokens: blocks * 4,
                output_tokens: 1,
                delay: SimDuration::ZERO,
            };
            builder.push(request, 0..u64::from(blocks));
        }
        PromptSegments::new(&builder.build(Admission::OpenLoop), block_size)
    }

    #[test]
    fn overlap_ends_at_the_first_gap() {
        let prompts = Arc::new(prompts());
        let path = prompts.path(RequestId::new(0));
        let check = |resident: [[u32; 3]; 2], expected: [u32; 2]| {
            let mut index = PrefixIndex::new(Arc::clone(&prompts), 2);
            for (worker, depths) in (0..).map(WorkerId::new).zip(resident) {
                for (&segment, blocks) in path.iter().zip(depths) {
                    index.set_resident(worker, segment, blocks);
                }
            }
            let mut overlaps = [9; 2];
            index.overlaps(path, &mut overlaps);
            assert_eq!(overlaps, expected, "{resident:?}");
        };
        check([[0, 0, 0], [0, 0, 0]], [0, 0]);
        check([[2, 3, 1], [2, 1, 0]], [6, 3]);
        check([[1, 0, 0], [2, 0, 0]], [1, 2]);
        check([[1, 3, 1], [2, 2, 1]], [1, 4]);
        check([[0, 3, 1], [0, 0, 1]], [0, 0]);
        check([[99, 0, 0], [2, 99, 0]], [2, 5]);
    }
}
