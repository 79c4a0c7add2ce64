//! What a run measures: records while it goes on, a report at its end.

mod distribution;
mod recorder;
mod report;

pub use distribution::Distribution;
pub use recorder::RequestRecord;
pub use report::{Rejection, Report};

pub(crate) use recorder::Recorder;
