//! Disaggregated deployments within a budget.

use dynosim_spec::Topology;

use super::Space;
use crate::state::{RouterState, State};

/// A tensor-parallel size and a number of workers for each of the two pools.
#[derive(Debug)]
pub(crate) struct DisaggregatedSpace {
    budget: u32,
    /// Usable tensor-parallel sizes of prefill workers, ascending, none of them 0.
    prefill_tps: Vec<u32>,
    /// Usable tensor-parallel sizes of decode workers, ascending, none of them 0.
    decode_tps: Vec<u32>,
    /// At least one.
    routers: Vec<RouterState>,
}

impl DisaggregatedSpace {
    pub(crate) fn new(budget: u32, prefill_tps: Vec<u32>, decode_tps: Vec<u32>, routers: Vec<RouterState>) -> Self {
        Self {
            budget,
            prefill_tps,
            decode_tps,
            routers,
        }
    }
}

impl Space for DisaggregatedSpace {
    /// As many workers in either pool as fit if both have equally many.
    fn shapes(&self, router: RouterState) -> Vec<State> {
        let pairs = self.prefill_tps.iter().flat_map(|&prefill_tp| {
            let decode_tps = self.decode_tps.iter();
            decode_tps.map(move |&decode_tp| (prefill_tp, decode_tp))
        });
        pairs
            .map(|(prefill_tp, decode_tp)| {
                (
                    prefill_tp,
                    decode_tp,
                    self.budget / prefill_tp.saturating_add(decode_tp),
                )
            })
            .filter(|&(_, _, workers)| workers >= 1)
            .map(|(prefill_tp, decode_tp, workers)| State {
                topology: Topology::Disaggregated {
                    prefill_workers: workers,
                    decode_workers: workers,
                    prefill_tp,
                    decode_tp,
                },
                router,
            })
            .collect()
    }

    /// The splits that use as many GPUs as any split can.
    fn splits(&self, of: &State) -> Vec<State> {
        let Topology::Disaggregated {
            prefill_tp, decode_tp, ..
        } = of.topology
        else {
            return Vec::new();
        };
        let most_prefill_workers = self.budget.saturating_sub(decode_tp) / prefill_tp;
        let fullest = (1..=most_prefill_workers).map(|prefill_workers| {
            let decode_workers = (self.budget - prefill_workers * prefill_tp) / decode_tp;
            Topology::Disaggregated {
                prefill_workers,
                decode_workers,
                prefill_tp,
                decode_tp,
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
        let prefill_tp = self.prefill_tps.iter().copied().min().unwrap_or(1);
        let decode_tp = self.decode_tps.iter().copied().min().unwrap_or(1);
        let parts = format!("a prefill worker at tp {prefill_tp} and a decode worker at tp {decode_tp}");
        (u64::from(prefill_tp) + u64::from(decode_tp), parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_ROBIN: RouterState = RouterState::round_robin();

    fn space(budget: u32) -> DisaggregatedSpace {
        DisaggregatedSpace::new(budget, vec![1, 2, 4, 8], vec![1, 2, 4, 8], vec![ROUND_ROBIN])
    }

    /// Prefill TP, decode TP, prefill workers, decode workers.
    fn numbers(states: &[State]) -> Vec<[u32; 4]> {
        let numbers = |state: &State| match state.topology {
            Topology::Aggregated { .. } => [0; 4],
            Topology::Disaggregated {
                prefill_workers,
                decode_workers,
                prefill_tp,
                decode_tp,
            } => [prefill_tp, decode_tp, prefill_workers, decode_workers],
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
            prefill_tp,
            decode_tp,
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
