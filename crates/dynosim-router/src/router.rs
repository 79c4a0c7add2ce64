//! The router trait and what passes between a router and the engine.

use std::fmt::Debug;

use dynosim_spec::{RequestId, SegmentId, SimTime, WorkerId};

/// A request that wants a worker.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RouteQuery<'a> {
    /// Its identity.
    pub request: RequestId,
    /// Prompt length in tokens.
    pub input_tokens: u32,
    /// Shared segments of the prompt from its first block on, whether or not workers cache prefixes.
    pub prompt: &'a [SegmentId],
}

impl<'a> RouteQuery<'a> {
    /// A query for `request`.
    pub fn new(request: RequestId, input_tokens: u32, prompt: &'a [SegmentId]) -> Self {
        Self {
            request,
            input_tokens,
            prompt,
        }
    }
}

/// What a worker lets its router know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerReport {
    /// The prompt is computed: the request has its first token, or is done on a prefill worker.
    PrefillDone {
        /// The worker.
        worker: WorkerId,
        /// The request.
        request: RequestId,
    },
    /// The request has left the worker.
    Finished {
        /// The worker.
        worker: WorkerId,
        /// The request.
        request: RequestId,
    },
    /// A KV event: the worker's cache now holds the first `blocks` blocks of a shared segment.
    Cached {
        /// The worker.
        worker: WorkerId,
        /// The segment.
        segment: SegmentId,
        /// Blocks of it that are resident, counted from its start.
        blocks: u32,
    },
}

/// Chooses a worker for every request of a pool.
///
/// A router knows what a real one knows: which requests it sent where, and what workers report.
/// It sees neither queues nor KV usage of a worker. One method is required.
pub trait Router: Debug + Send {
    /// The worker for a request that has just arrived; `None` if the router keeps it back until a later
    /// [`release`](Self::release).
    fn route(&mut self, now: SimTime, query: &RouteQuery<'_>) -> Option<WorkerId>;

    /// Takes note of what a worker reports.
    fn observe(&mut self, _now: SimTime, _report: WorkerReport) {}

    /// A request kept back earlier that may go now; asked after each prefill or request that ends, until `None`.
    fn release(&mut self, _now: SimTime) -> Option<(RequestId, WorkerId)> {
        None
    }

    /// Whether the router wants [`WorkerReport::Cached`]; if not, workers publish none.
    fn wants_kv_events(&self) -> bool {
        false
    }
}
