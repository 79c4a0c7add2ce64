//! Which worker a request goes to.

mod pool;
mod round_robin;
mod router;

pub use pool::Pool;
pub use round_robin::RoundRobin;
pub use router::{RouteQuery, Router, WorkerReport};
