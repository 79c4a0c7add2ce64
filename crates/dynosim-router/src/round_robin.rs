//! Workers in turn.

use dynosim_spec::{SimTime, WorkerId};

use crate::router::{RouteQuery, Router};

/// Sends each request to the worker after the last one.
#[derive(Debug, Clone)]
pub struct RoundRobin {
    workers: u32,
    next: u32,
}

impl RoundRobin {
    /// A round over `workers` workers, beginning with worker 0.
    ///
    /// # Panics
    /// If there are no workers.
    pub fn new(workers: u32) -> Self {
        assert!(workers > 0, "a pool has at least one worker");
        Self { workers, next: 0 }
    }
}

impl Router for RoundRobin {
    fn route(&mut self, _now: SimTime, _query: &RouteQuery<'_>) -> Option<WorkerId> {
        let worker = WorkerId::new(self.next);
        self.next = (self.next + 1) % self.workers;
        Some(worker)
    }
}
