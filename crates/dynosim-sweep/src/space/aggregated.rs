//! Aggregated deployments within a budget.

use dynosim_spec::{ParallelShape, RouterMode, Topology};

use super::{Space, smallest};
use crate::state::{RouterState, State};

/// One parallel shape and a number of workers.
///
/// A single worker leaves a KV router nothing to choose, so these two never meet.
#[derive(Debug)]
pub(crate) struct AggregatedSpace {
    budget: u32,
    /// Usable shapes, ascending, none of them without GPUs.
    shapes: Vec<ParallelShape>,
    /// At least one.
    routers: Vec<RouterState>,
}

impl AggregatedSpace {
    pub(crate) fn new(budget: u32, shapes: Vec<ParallelShape>, routers: Vec<RouterState>) -> Self {
        Self {
            budget,
            shapes,
            routers,
        }
    }
}

fn state(shape: ParallelShape, workers: u32, router: RouterState) -> State {
    State {
        topology: Topology::Aggregated { workers, shape },
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
        let shapes = self.shapes.iter().map(|&shape| (shape, self.budget / shape.gpus()));
        shapes
            .filter(|&(_, workers)| workers >= least_workers(router))
            .map(|(shape, workers)| state(shape, workers, router))
            .collect()
    }

    fn splits(&self, of: &State) -> Vec<State> {
        let Topology::Aggregated { shape, .. } = of.topology else {
            return Vec::new();
        };
        (least_workers(of.router)..=self.budget / shape.gpus())
            .map(|workers| state(shape, workers, of.router))
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
        let shape = smallest(&self.shapes);
        let workers = self.routers.iter().copied().map(least_workers).min().unwrap_or(1);
        let parts = if workers == 1 {
            format!("one worker at {shape}")
        } else {
            format!("{workers} workers at {shape}, because router.mode kv_router needs workers to choose from")
        };
        (u64::from(shape.gpus()) * u64::from(workers), parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_ROBIN: RouterState = RouterState::round_robin();
    const KV_ROUTER: RouterState = RouterState::kv_router(1.0, 1.0);

    fn tensor(sizes: &[u32]) -> Vec<ParallelShape> {
        sizes.iter().copied().map(ParallelShape::tensor).collect()
    }

    fn state(tp: u32, workers: u32, router: RouterState) -> State {
        super::state(ParallelShape::tensor(tp), workers, router)
    }

    fn shapes_of(states: &[State]) -> Vec<(u32, u32)> {
        let shape = |state: &State| match state.topology {
            Topology::Aggregated { workers, shape } => (shape.tp, workers),
            Topology::Disaggregated { .. } => (0, 0),
        };
        states.iter().map(shape).collect()
    }

    #[test]
    fn shapes_fill_the_budget() {
        let space = AggregatedSpace::new(6, tensor(&[1, 2, 4, 8]), vec![ROUND_ROBIN, KV_ROUTER]);
        assert_eq!(shapes_of(&space.shapes(ROUND_ROBIN)), [(1, 6), (2, 3), (4, 1)]);
        assert_eq!(shapes_of(&space.shapes(KV_ROUTER)), [(1, 6), (2, 3)]);
    }

    #[test]
    fn groups_of_gpus_count_too() {
        let shapes = vec![ParallelShape::experts(1, 4, 1, 4), ParallelShape::experts(2, 1, 2, 1)];
        let space = AggregatedSpace::new(6, shapes, vec![ROUND_ROBIN]);
        assert_eq!(shapes_of(&space.shapes(ROUND_ROBIN)), [(1, 1), (2, 3)]);
        assert_eq!(space.smallest(), (2, "one worker at tp 2 moe_tp 2".to_owned()));
    }

    #[test]
    fn splits_count_up() {
        let space = AggregatedSpace::new(6, tensor(&[1, 2]), vec![ROUND_ROBIN]);
        assert_eq!(
            shapes_of(&space.splits(&state(2, 3, ROUND_ROBIN))),
            [(2, 1), (2, 2), (2, 3)]
        );
        assert_eq!(shapes_of(&space.splits(&state(2, 3, KV_ROUTER))), [(2, 2), (2, 3)]);
    }

    #[test]
    fn a_single_worker_needs_no_kv_router() {
        let space = AggregatedSpace::new(8, tensor(&[8]), vec![ROUND_ROBIN, KV_ROUTER]);
        assert_eq!(space.routers(&state(8, 1, ROUND_ROBIN)), [state(8, 1, ROUND_ROBIN)]);
        assert_eq!(space.routers(&state(1, 2, ROUND_ROBIN)).len(), 2);
        let picky = AggregatedSpace::new(8, tensor(&[8]), vec![KV_ROUTER]);
        assert_eq!(picky.smallest().0, 16);
        assert!(picky.routers(&state(8, 1, ROUND_ROBIN)).is_empty());
    }
}
