//! Which worker a request goes to.

mod active_blocks;
mod bookings;
mod build;
mod choice;
mod cost;
mod kv_overlap;
mod pool;
mod prefix_index;
mod queue;
mod round_robin;
mod router;
mod segment_rows;

pub use build::build;
pub use kv_overlap::KvOverlap;
pub use pool::Pool;
pub use round_robin::RoundRobin;
pub use router::{RouteQuery, Router, WorkerReport};
