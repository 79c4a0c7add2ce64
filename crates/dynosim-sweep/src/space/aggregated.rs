//! Aggregated deployments within a budget.

use std::ops::RangeInclusive;

use dynosim_spec::{ParallelShape, RouterMode, Topology};
use indexmap::IndexSet;

use super::{Frame, Sizes, Space, smallest};
use crate::budget::Budget;
use crate::state::{RouterState, State};

/// One parallel shape and a number of workers.
///
/// A single worker leaves a KV router nothing to choose, so these two never meet.
#[derive(Debug)]
pub(crate) struct AggregatedSpace {
    frame: Frame,
    /// Usable shapes, ascending, none of them without GPUs.
    shapes: Vec<ParallelShape>,
}

impl AggregatedSpace {
    pub(crate) fn new(frame: Frame, shapes: Vec<ParallelShape>) -> Self {
        Self { frame, shapes }
    }

    fn state(&self, shape: ParallelShape, workers: u32, router: RouterState) -> State {
        State {
            topology: Topology::Aggregated { workers, shape },
            router,
            engine: self.frame.engine,
        }
    }

    /// Workers of this shape within the budget.
    fn workers(&self, shape: ParallelShape, router: RouterState) -> RangeInclusive<u32> {
        workers_within(self.frame.budget, shape, router)
    }
}

/// Workers of this shape within a budget.
fn workers_within(budget: Budget, shape: ParallelShape, router: RouterState) -> RangeInclusive<u32> {
    let least = budget.least.div_ceil(shape.gpus()).max(least_workers(router));
    least..=budget.most / shape.gpus()
}

fn least_workers(router: RouterState) -> u32 {
    match router.mode {
        RouterMode::RoundRobin => 1,
        RouterMode::KvRouter => 2,
    }
}

impl Space for AggregatedSpace {
    fn states(&self) -> Vec<State> {
        let routers = |shape: ParallelShape, workers: u32| {
            let routers = self.frame.routers.iter().copied();
            routers
                .filter(move |&router| workers >= least_workers(router))
                .map(move |router| self.state(shape, workers, router))
        };
        let of_shape = |&shape: &ParallelShape| {
            let workers = self.workers(shape, RouterState::round_robin());
            workers.flat_map(move |workers| routers(shape, workers))
        };
        self.shapes.iter().flat_map(of_shape).collect()
    }

    fn contains(&self, state: &State) -> bool {
        let Topology::Aggregated { workers, shape } = state.topology else {
            return false;
        };
        self.shapes.contains(&shape) && self.workers(shape, state.router).contains(&workers)
    }

    fn size(&self) -> u64 {
        let routers = self.frame.routers.iter();
        let of_router = |&router: &RouterState| -> u64 {
            let workers = |&shape: &ParallelShape| {
                let workers = self.workers(shape, router);
                (u64::from(*workers.end()) + 1).saturating_sub(u64::from(*workers.start()))
            };
            self.shapes.iter().map(workers).sum()
        };
        routers.map(of_router).sum()
    }

    fn shapes(&self, router: RouterState) -> Vec<State> {
        let budgets = match self.frame.sizes {
            Sizes::Largest => vec![self.frame.budget],
            Sizes::All => self.frame.budget.halves().collect(),
        };
        let shapes = self.shapes.iter().copied();
        let states = shapes.flat_map(|shape| {
            let most = |&budget: &Budget| workers_within(budget, shape, router).last();
            let workers: IndexSet<u32> = budgets.iter().filter_map(most).collect();
            workers
                .into_iter()
                .map(move |workers| self.state(shape, workers, router))
        });
        states.collect()
    }

    fn splits(&self, of: &State) -> Vec<State> {
        let Topology::Aggregated { shape, .. } = of.topology else {
            return Vec::new();
        };
        self.workers(shape, of.router)
            .map(|workers| self.state(shape, workers, of.router))
            .collect()
    }

    fn routers(&self, of: &State) -> Vec<State> {
        let Topology::Aggregated { workers, shape } = of.topology else {
            return Vec::new();
        };
        let routers = self.frame.routers.iter().copied();
        routers
            .filter(|&router| workers >= least_workers(router))
            .map(|router| self.state(shape, workers, router))
            .collect()
    }

    fn smallest(&self) -> (u64, String) {
        let shape = smallest(&self.shapes);
        let workers = self.frame.routers.iter().copied().map(least_workers).min().unwrap_or(1);
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
    use crate::engine_settings::EngineSettings;

    const ROUND_ROBIN: RouterState = RouterState::round_robin();
    const KV_ROUTER: RouterState = RouterState::kv_router(1.0, 1.0);

    fn tensor(sizes: &[u32]) -> Vec<ParallelShape> {
        sizes.iter().copied().map(ParallelShape::tensor).collect()
    }

    fn space_of(budget: Budget, shapes: Vec<ParallelShape>, routers: Vec<RouterState>) -> AggregatedSpace {
        let frame = Frame {
            budget,
            routers,
            engine: EngineSettings::default(),
            sizes: Sizes::Largest,
        };
        AggregatedSpace::new(frame, shapes)
    }

    fn state(tp: u32, workers: u32, router: RouterState) -> State {
        let shape = ParallelShape::tensor(tp);
        State::new(Topology::Aggregated { workers, shape }, router)
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
        let space = space_of(Budget::up_to(6), tensor(&[1, 2, 4, 8]), vec![ROUND_ROBIN, KV_ROUTER]);
        assert_eq!(shapes_of(&space.shapes(ROUND_ROBIN)), [(1, 6), (2, 3), (4, 1)]);
        assert_eq!(shapes_of(&space.shapes(KV_ROUTER)), [(1, 6), (2, 3)]);
    }

    #[test]
    fn groups_of_gpus_count_too() {
        let shapes = vec![ParallelShape::experts(1, 4, 1, 4), ParallelShape::experts(2, 1, 2, 1)];
        let space = space_of(Budget::up_to(6), shapes, vec![ROUND_ROBIN]);
        assert_eq!(shapes_of(&space.shapes(ROUND_ROBIN)), [(1, 1), (2, 3)]);
        assert_eq!(space.smallest(), (2, "one worker at tp 2 moe_tp 2".to_owned()));
    }

    #[test]
    fn splits_count_up() {
        let space = space_of(Budget::up_to(6), tensor(&[1, 2]), vec![ROUND_ROBIN]);
        assert_eq!(
            shapes_of(&space.splits(&state(2, 3, ROUND_ROBIN))),
            [(2, 1), (2, 2), (2, 3)]
        );
        assert_eq!(shapes_of(&space.splits(&state(2, 3, KV_ROUTER))), [(2, 2), (2, 3)]);
    }

    #[test]
    fn a_single_worker_needs_no_kv_router() {
        let space = space_of(Budget::up_to(8), tensor(&[8]), vec![ROUND_ROBIN, KV_ROUTER]);
        assert_eq!(space.routers(&state(8, 1, ROUND_ROBIN)), [state(8, 1, ROUND_ROBIN)]);
        assert_eq!(space.routers(&state(1, 2, ROUND_ROBIN)).len(), 2);
        let picky = space_of(Budget::up_to(8), tensor(&[8]), vec![KV_ROUTER]);
        assert_eq!(picky.smallest().0, 16);
        assert!(picky.routers(&state(8, 1, ROUND_ROBIN)).is_empty());
    }

    #[test]
    fn sizes_count_the_states() {
        let routers = [ROUND_ROBIN, KV_ROUTER, RouterState::kv_router(1.0, 0.0)];
        for (least, most) in [(1, 1), (1, 6), (4, 6), (6, 6), (5, 5), (3, 17)] {
            for routers in [&routers[..], &routers[1..]] {
                let space = space_of(Budget { least, most }, tensor(&[2, 4, 8]), routers.to_vec());
                let states = space.states();
                assert_eq!(space.size(), states.len() as u64, "{least} to {most}");
                assert!(states.iter().all(|state| space.frame.budget.holds(state.total_gpus())));
                for router in routers {
                    let mut found = space.shapes(*router);
                    found.extend(space.shapes(*router).iter().flat_map(|shape| space.splits(shape)));
                    assert!(found.iter().all(|state| states.contains(state)));
                }
            }
        }
    }
}
