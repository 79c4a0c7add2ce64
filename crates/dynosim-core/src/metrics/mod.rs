//! What a run measures: records while it goes on, a report at its end.

mod breakdown;
mod details;
mod distribution;
mod gap_tally;
mod latency;
mod phases;
mod pool_use;
mod recorder;
mod report;
mod timeline;
mod token_trail;

pub use breakdown::Breakdown;
pub use details::Details;
pub use distribution::Distribution;
pub use latency::Latency;
pub use phases::{RequestPhases, TtftParts};
pub use pool_use::PoolUse;
pub use recorder::RequestRecord;
pub use report::{ErrorBands, Rejection, Report};
pub use timeline::{PoolSample, PoolTimeline};

pub(crate) use distribution::rank;
pub(crate) use gap_tally::CountedGaps;
pub(crate) use pool_use::{PoolEnd, PoolTally};
pub(crate) use recorder::Recorder;
pub(crate) use timeline::Timelines;
pub(crate) use token_trail::TokenTrail;
