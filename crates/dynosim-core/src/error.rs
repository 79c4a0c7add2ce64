//! Why a run cannot be set up or finished.

use dynosim_timing::{StepShape, TimingError};
use thiserror::Error;

use crate::give_up::LatencyBound;

/// Why a run could not be set up, or ended without a report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SimError {
    /// The timing provider cannot serve the deployment.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// The topology and the engine arguments do not fit together.
    #[error("{0}")]
    Setup(String),
    /// No request of the workload can ever run.
    #[error("every request is rejected; the first one because {reason}")]
    AllRejected {
        /// Reason of the first rejection.
        reason: String,
    },
    /// A bound is missed for certain, and the run was to be given up then.
    #[error(
        "given up after {finished} of {requests} requests: {} exceeds {} whatever comes",
        bound.metric(),
        bound.limit_ms
    )]
    GivenUp {
        /// The bound.
        bound: LatencyBound,
        /// Requests that had finished.
        finished: usize,
        /// Requests that are not rejected.
        requests: usize,
    },
    /// A worker passes on and on without getting anything done.
    #[error(
        "no progress: {pool} worker {worker} made {passes} passes without emitting a token or computing more of a \
         prompt; request {request} and others take KV blocks from each other, of which there are {num_gpu_blocks}; \
         give num_gpu_blocks more, or use the rules vllm-v1, under which waiting requests take none"
    )]
    NoProgress {
        /// Pool of the worker.
        pool: &'static str,
        /// Worker.
        worker: u32,
        /// Passes since something was done.
        passes: u32,
        /// Request at the head of the queue.
        request: u32,
        /// KV blocks of the worker.
        num_gpu_blocks: u32,
    },
    /// Something would happen later than the simulated clock can tell.
    #[error(
        "the simulated clock ends after 584 years, and the run does not; look for a speed-up, a bandwidth, a rate or a \
         delay that is out of all proportion"
    )]
    ClockExhausted,
    /// The router keeps requests back although nothing is left to happen.
    #[error("{waiting} requests are held back by the {pool} router for ever, the first one is request {request}")]
    NeverReleased {
        /// Pool of the router.
        pool: &'static str,
        /// Requests not finished.
        waiting: usize,
        /// First of them.
        request: u32,
    },
    /// A router named a worker that its pool does not have.
    #[error("the {pool} router sent request {request} to worker {worker}, but there are {workers}")]
    NoSuchWorker {
        /// Pool of the router.
        pool: &'static str,
        /// Request.
        request: u32,
        /// Worker it was sent to.
        worker: u32,
        /// Workers of the pool.
        workers: u32,
    },
    /// A timing model returned something that is not a time.
    #[error("the timing model priced a step at {ms} ms, which is not a finite time of at least 0: {step:?}")]
    BadPrice {
        /// What it returned.
        ms: f64,
        /// The step.
        step: StepShape,
    },
}
