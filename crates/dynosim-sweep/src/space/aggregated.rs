//! Aggregated deployments within a budget.

use dynosim_spec::{RouterMode, Topology};

use super::Space;
use crate::state::{RouterState, State};

/// One tensor-parallel size and a number of workers.
///
/// A single worker leaves a KV router nothing to choose, so these two never meet.
#[derive(Debug)]
pub(crate) struct AggregatedSpace {
    budget: u32,
    /// Usable tensor-parallel sizes, ascending, none of them 0.
    tps: Vec<u32>,
    /// At least one.
    routers: Vec<RouterState>,
}

impl AggregatedSpace {
    pub(crate) fn new(budget: u32, tps: Vec<u32>, routers: Vec<RouterState>) -> Self {
        Self { budget, tps, routers }
    }
}

fn state(tp: u32, workers: u32, router: RouterState) -> State {
    State {
        topology: Topology::Aggregated { workers, tp },
        router,
    }
}

fn least_workers(router: RouterState) -> u32 {
    match router.mode {
        RouterMode::RoundRobin => 1,
        RouterMode::KvRouter => 2,
    }
}

impl Space for AggregatedSpace {
    fn shapes(&self, router: RouterState) -> Vec<State> {
        let shapes = self.tps.iter().map(|&tp| (tp, self.budget / tp));
        shapes
            .filter(|&(_, workers)| workers >= least_workers(router))
            .map(|(tp, workers)| state(tp, workers, router))
            .collect()
    }

    fn splits(&self, of: &State) -> Vec<State> {
        let Topology::Aggregated { tp, .. } = of.topology else {
            return Vec::new();
        };
        (least_workers(of.router)..=self.budget / tp)
            .map(|workers| state(tp, workers, of.router))
            .collect()
    }

    fn routers(&self, of: &State) -> Vec<State> {
        let Topology::Aggregated { workers, .. } = of.topology else {
            return Vec::new();
        };
        let routers = self.routers.iter().copied();
        routers
            .filter(|&router| workers >= least_workers(router))
            .map(|router| of.with_router(router))
            .collect()
    }

    fn smallest(&self) -> (u64, String) {
        let tp = self.tps.iter().copied().min().unwrap_or(1);
        let workers = self.routers.iter().copied().map(least_workers).min().unwrap_or(1);
        let parts = if workers == 1 {
            format!("one worker at tp {tp}")
        } else {
            format!("{workers} workers at tp {tp}, because router.mode kv_router needs workers to choose from")
        };
        (u64::from(tp) * u64::from(workers), parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_ROBIN: RouterState = RouterState::round_robin();
    const KV_ROUTER: RouterState = RouterState::kv_router(1.0, 1.0);

    fn shapes_of(states: &[State]) -> Vec<(u32, u32)> {
        let shape = |state: &State| match state.topology {
            Topology::Aggregated { workers, tp } => (tp, workers),
            Topology::Disaggregated { .. } => (0, 0),
        };
        states.iter().map(shape).collect()
    }

    #[test]
    fn shapes_fill_the_budget() {
        let space = AggregatedSpace::new(6, vec![1, 2, 4, 8], vec![ROUND_ROBIN, KV_ROUTER]);
        assert_eq!(shapes_of(&space.shapes(ROUND_ROBIN)), [(1, 6), (2, 3), (4, 1)]);
        assert_eq!(shapes_of(&space.shapes(KV_ROUTER)), [(1, 6), (2, 3)]);
    }

    #[test]
    fn splits_count_up() {
        let space = AggregatedSpace::new(6, vec![1, 2], vec![ROUND_ROBIN]);
        assert_eq!(
            shapes_of(&space.splits(&state(2, 3, ROUND_ROBIN))),
            [(2, 1), (2, 2), (2, 3)]
        );
        assert_eq!(shapes_of(&space.splits(&state(2, 3, KV_ROUTER))), [(2, 2), (2, 3)]);
    }

    #[test]
    fn a_single_worker_needs_no_kv_router() {
        let space = AggregatedSpace::new(8, vec![8], vec![ROUND_ROBIN, KV_ROUTER]);
        assert_eq!(space.routers(&state(8, 1, ROUND_ROBIN)), [state(8, 1, ROUND_ROBIN)]);
        assert_eq!(space.routers(&state(1, 2, ROUND_ROBIN)).len(), 2);
        let picky = AggregatedSpace::new(8, vec![8], vec![KV_ROUTER]);
        assert_eq!(picky.smallest().0, 16);
        assert!(picky.routers(&state(8, 1, ROUND_ROBIN)).is_empty());
    }
}
