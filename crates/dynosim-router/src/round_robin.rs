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

#[cfg(test)]
mod tests {
    use dynosim_spec::RequestId;

    use super::*;

    #[test]
    fn workers_take_turns() {
        let mut router = RoundRobin::new(3);
        let query = RouteQuery::new(RequestId::new(0), 16, &[]);
        let chosen: Vec<u32> = (0..5)
            .filter_map(|_| router.route(SimTime::ZERO, &query))
            .map(WorkerId::get)
            .collect();
        assert_eq!(chosen, [0, 1, 2, 0, 1]);
    }
}
