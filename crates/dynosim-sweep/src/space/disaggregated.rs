//! Disaggregated deployments within a budget.

use dynosim_spec::{ParallelShape, Topology};

use super::{Space, smallest};
use crate::state::{RouterState, State};

/// A parallel shape and a number of workers for each of the two pools.
#[derive(Debug)]
pub(crate) struct DisaggregatedSpace {
    budget: u32,
    /// Usable shapes of prefill workers, ascending, none of them without GPUs.
    prefill_shapes: Vec<ParallelShape>,
    /// Usable shapes of decode workers, ascending, none of them without GPUs.
    decode_shapes: Vec<ParallelShape>,
    /// At least one.
    routers: Vec<RouterState>,
}

impl DisaggregatedSpace {
    pub(crate) fn new(
        budget: u32,
        prefill_shapes: Vec<ParallelShape>,
        decode_shapes: Vec<ParallelShape>,
        routers: Vec<RouterState>,
    ) -> Self {
        Self {
            budget,
            prefill_shapes,
            decode_shapes,
            routers,
        }
    }
}

impl Space for DisaggregatedSpace {
    /// As many workers in either pool as fit if both have equally many.
    fn shapes(&self, router: RouterState) -> Vec<State> {
        let pairs = self.prefill_shapes.iter().flat_map(|&prefill_shape| {
            let decode_shapes = self.decode_shapes.iter();
            decode_shapes.map(move |&decode_shape| (prefill_shape, decode_shape))
        });
        pairs
            .map(|(prefill_shape, decode_shape)| {
                let gpus = prefill_shape.gpus().saturating_add(decode_shape.gpus());
                (prefill_shape, decode_shape, self.budget / gpus)
            })
            .filter(|&(_, _, workers)| workers >= 1)
            .map(|(prefill_shape, decode_shape, workers)| State {
                topology: Topology::Disaggregated {
                    prefill_workers: workers,
                    decode_workers: workers,
                    prefill_shape,
                    decode_shape,
                },
                router,
            })
            .collect()
    }

    /// The splits that use as many GPUs as any split can.
    fn splits(&self, of: &State) -> Vec<State> {
        let Topology::Disaggregated {
            prefill_shape,
            decode_shape,
            ..
        } = of.topology
        else {
            return Vec::new();
        };
        let (prefill_gpus, decode_gpus) = (prefill_shape.gpus(), decode_shape.gpus());
        let most_prefill_workers = self.budget.saturating_sub(decode_gpus) / prefill_gpus;
        let fullest = (1..=most_prefill_workers).map(|prefill_workers| {
            let decode_workers = (self.budget - prefill_workers * prefill_gpus) / decode_gpus;
            Topology::Disaggregated {
                prefill_workers,
                decode_workers,
                prefill_shape,
                decode_shape,
            }
        });
        let most_gpus = fullest.clone().map(|topology| topology.total_gpus()).max();
        fullest
            .filter(|topology| Some(topology.total_gpus()) == most_gpus)
            .map(|topology| State {
                topology,
                router: of.router,
            })
            .collect()
    }

    fn routers(&self, of: &State) -> Vec<State> {
        self.routers.iter().map(|&router| of.with_router(router)).collect()
    }

    fn smallest(&self) -> (u64, String) {
        let (prefill, decode) = (smallest(&self.prefill_shapes), smallest(&self.decode_shapes));
        let parts = format!("a prefill worker at {prefill} and a decode worker at {decode}");
        (u64::from(prefill.gpus()) + u64::from(decode.gpus()), parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_ROBIN: RouterState = RouterState::round_robin();

    fn space(budget: u32) -> DisaggregatedSpace {
        let sizes: Vec<ParallelShape> = [1, 2, 4, 8].map(ParallelShape::tensor).to_vec();
        DisaggregatedSpace::new(budget, sizes.clone(), sizes, vec![ROUND_ROBIN])
    }

    /// Prefill TP, decode TP, prefill workers, decode workers.
    fn numbers(states: &[State]) -> Vec<[u32; 4]> {
        let numbers = |state: &State| match state.topology {
            Topology::Aggregated { .. } => [0; 4],
            Topology::Disaggregated {
                prefill_workers,
                decode_workers,
                prefill_shape,
                decode_shape,
            } => [prefill_shape.tp, decode_shape.tp, prefill_workers, decode_workers],
        };
        states.iter().map(numbers).collect()
    }

    #[test]
    fn shapes_have_equal_and_many_workers() {
        assert_eq!(
            numbers(&space(4).shapes(ROUND_ROBIN)),
            [[1, 1, 2, 2], [1, 2, 1, 1], [2, 1, 1, 1], [2, 2, 1, 1]]
        );
        assert_eq!(space(8).shapes(ROUND_ROBIN).len(), 9);
        assert_eq!(space(16).shapes(ROUND_ROBIN).len(), 16);
        assert!(space(1).shapes(ROUND_ROBIN).is_empty());
    }

    #[track_caller]
    fn check_splits(budget: u32, prefill_tp: u32, decode_tp: u32, expected: &[[u32; 2]]) {
        let topology = Topology::Disaggregated {
            prefill_workers: 1,
            decode_workers: 1,
            prefill_shape: ParallelShape::tensor(prefill_tp),
            decode_shape: ParallelShape::tensor(decode_tp),
        };
        let state = State {
            topology,
            router: ROUND_ROBIN,
        };
        let expected: Vec<[u32; 4]> = expected.iter().map(|&[p, d]| [prefill_tp, decode_tp, p, d]).collect();
        assert_eq!(numbers(&space(budget).splits(&state)), expected);
    }

    #[test]
    fn splits_lie_on_the_budget_edge() {
        check_splits(16, 4, 1, &[[1, 12], [2, 8], [3, 4]]);
        check_splits(5, 1, 2, &[[1, 2], [3, 1]]);
        check_splits(5, 2, 1, &[[1, 3], [2, 1]]);
        check_splits(11, 4, 4, &[[1, 1]]);
        check_splits(16, 8, 8, &[[1, 1]]);
        // No split uses all 9 GPUs.
        check_splits(9, 2, 4, &[[2, 1]]);
        check_splits(1, 1, 1, &[]);
    }
}
