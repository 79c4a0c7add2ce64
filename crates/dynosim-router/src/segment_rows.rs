//! A number per shared segment and worker.

use dynosim_spec::{SegmentId, WorkerId};

/// One row over all workers per shared segment, made when a number of it is first written.
///
/// Most segments are never seen by the router while many workers exist, so rows that hold only
/// zeros are not stored.
#[derive(Debug, Clone)]
pub(crate) struct SegmentRows {
    workers: usize,
    rows: Vec<Vec<u32>>,
}

impl SegmentRows {
    /// Zeros for `segments` segments and `workers` workers.
    pub(crate) fn new(segments: usize, workers: usize) -> Self {
        Self {
            workers,
            rows: vec![Vec::new(); segments],
        }
    }

    /// The numbers of all workers; `None` if nothing was written for the segment yet.
    pub(crate) fn row(&self, segment: SegmentId) -> Option<&[u32]> {
        let row = self.rows.get(segment.index())?;
        (!row.is_empty()).then_some(row)
    }

    /// The number of one worker, to be changed; `None` for a segment or worker that does not exist.
    pub(crate) fn get_mut(&mut self, segment: SegmentId, worker: WorkerId) -> Option<&mut u32> {
        let row = self.rows.get_mut(segment.index())?;
        if row.is_empty() {
            row.resize(self.workers, 0);
        }
        row.get_mut(worker.index())
    }
}
