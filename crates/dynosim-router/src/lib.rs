//! Which worker a request goes to.
//!
//! A [`Router`] serves one pool of equal workers. It learns of every request that [arrives](Router::route) and of what
//! workers [report](WorkerReport), and decides from that alone. [`build`] makes the router that a deployment's
//! settings ask for:
//!
//! - [`RoundRobin`]: workers in turn;
//! - [`KvOverlap`]: the worker with the least prompt work left, after credit for cached prefixes, and the
//!   fewest active blocks, with a queue while all workers are busy.
//!
//! Routing is a function of settings, seed and calls: the same calls give the same workers.
//!
//! What the crate is not: it does not schedule within a worker, hold KV caches or move the clock (the engine does), and
//! like the routers it stands for it sees no worker's queue, batch size or KV usage. Workers
//! neither join nor leave during a run.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `router`, `pool` | the trait, what passes between a router and the engine, what a router is built for |
//! | `build` | from settings to a router, with what a pool's role changes about them |
//! | `round_robin` | workers in turn |
//! | `kv_overlap` | the policy that puts the following together |
//! | `cost` | what sending a request to a worker costs |
//! | `prefix_index` | which prompt prefixes the workers hold in their caches |
//! | `active_blocks` | prompt blocks that running requests occupy |
//! | `bookings` | what every running request is charged for |
//! | `choice` | the cheapest worker, ties, temperature and the random stream |
//! | `queue` | requests that wait for a worker to become free |
//! | `segment_rows` | a number per shared segment and worker |
//!
//! # A router of your own
//!
//! One method is required. This router counts the unfinished requests of its workers.
//!
//! ```
//! use dynosim_router::{RouteQuery, Router, WorkerReport};
//! use dynosim_spec::{RequestId, SimTime, WorkerId};
//!
//! #[derive(Debug)]
//! struct FewestRequests {
//!     unfinished: Vec<u32>,
//! }
//!
//! impl Router for FewestRequests {
//!     fn route(&mut self, _now: SimTime, _query: &RouteQuery<'_>) -> Option<WorkerId> {
//!         let (worker, unfinished) = (0..).zip(&mut self.unfinished).min_by_key(|(_, unfinished)| **unfinished)?;
//!         *unfinished += 1;
//!         Some(WorkerId::new(worker))
//!     }
//!
//!     fn observe(&mut self, _now: SimTime, report: WorkerReport) {
//!         if let WorkerReport::Finished { worker, .. } = report {
//!             self.unfinished[worker.index()] -= 1;
//!         }
//!     }
//! }
//!
//! let mut router = FewestRequests { unfinished: vec![0; 2] };
//! let mut route = |request| router.route(SimTime::ZERO, &RouteQuery::new(RequestId::new(request), 100, &[]));
//! assert_eq!(route(0), Some(WorkerId::new(0)));
//! assert_eq!(route(1), Some(WorkerId::new(1)));
//! ```

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
