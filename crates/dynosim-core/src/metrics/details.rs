//! What a run tells beyond its report and records, if that was asked for.

use super::phases::{RequestPhases, TtftParts};
use super::timeline::PoolTimeline;

/// Details of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Details {
    /// How each request came to its first token, indexed by [`RequestId`](dynosim_spec::RequestId); `None` for requests
    /// that were not served.
    pub requests: Vec<Option<RequestPhases>>,
    /// The state of each pool over time: of the aggregated one, or of the prefill and of the decode pool.
    pub timelines: Vec<PoolTimeline>,
}

impl Details {
    /// The parts of the mean time to first token, milliseconds; zero if nothing was served.
    pub fn mean_ttft(&self) -> TtftParts {
        TtftParts::mean_of(self.requests.iter().flatten().copied())
    }
}
