//! What a run measures: records while it goes on, a report at its end.

mod breakdown;
mod distribution;
mod gap_tally;
mod latency;
mod recorder;
mod report;
mod token_trail;

pub use breakdown::{Breakdown, TtftParts};
pub use distribution::Distribution;
pub use latency::Latency;
pub use recorder::RequestRecord;
pub use report::{ErrorBands, Rejection, Report};

pub(crate) use distribution::rank;
pub(crate) use gap_tally::CountedGaps;
pub(crate) use recorder::Recorder;
pub(crate) use token_trail::TokenTrail;
