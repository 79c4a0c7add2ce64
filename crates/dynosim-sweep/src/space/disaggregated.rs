//! Disaggregated deployments within a budget.

use dynosim_spec::{ParallelShape, Topology};
use indexmap::IndexSet;

use super::{Frame, Sizes, Space, smallest};
use crate::budget::Budget;
use crate::state::{RouterState, State};

/// A parallel shape and a number of workers for each of the two pools.
#[derive(Debug)]
pub(crate) struct DisaggregatedSpace {
    frame: Frame,
    /// Usable shapes of prefill workers, ascending, none of them without GPUs.
    prefill_shapes: Vec<ParallelShape>,
    /// Usable shapes of decode workers, ascending, none of them without GPUs.
    decode_shapes: Vec<ParallelShape>,
}

/// Splits that are all looked at where GPUs count against a candidate.
const FEW_STATES: u64 = 256;

/// Shapes of a prefill and of a decode worker.
type Pair = (ParallelShape, ParallelShape);

impl DisaggregatedSpace {
    pub(crate) fn new(frame: Frame, prefill_shapes: Vec<ParallelShape>, decode_shapes: Vec<ParallelShape>) -> Self {
        Self {
            frame,
            prefill_shapes,
            decode_shapes,
        }
    }

    fn pairs(&self) -> impl Iterator<Item = Pair> {
        self.prefill_shapes.iter().flat_map(|&prefill_shape| {
            let decode_shapes = self.decode_shapes.iter();
            decode_shapes.map(move |&decode_shape| (prefill_shape, decode_shape))
        })
    }

    fn state(&self, topology: Topology, router: RouterState) -> State {
        State {
            topology,
            router,
            engine: self.frame.engine,
        }
    }

    /// The fewest decode workers with which so many prefill workers reach the least number of GPUs.
    fn least_decode_workers(&self, (prefill_shape, decode_shape): Pair, prefill_workers: u32) -> u32 {
        let missing = self
            .frame
            .budget
            .least
            .saturating_sub(prefill_workers * prefill_shape.gpus());
        missing.div_ceil(decode_shape.gpus()).max(1)
    }
}

/// Numbers of prefill workers that leave room for a decode worker, each with the largest number of decode workers.
fn fullest(budget: Budget, (prefill_shape, decode_shape): Pair) -> impl Iterator<Item = (u32, u32)> {
    let (most, prefill_gpus, decode_gpus) = (budget.most, prefill_shape.gpus(), decode_shape.gpus());
    let most_prefill_workers = most.saturating_sub(decode_gpus) / prefill_gpus;
    (1..=most_prefill_workers).map(move |workers| (workers, (most - workers * prefill_gpus) / decode_gpus))
}

/// The splits that use as many GPUs as any split can, if these are enough.
fn edge(budget: Budget, pair: Pair) -> Vec<Topology> {
    let fullest: Vec<Topology> = fullest(budget, pair).map(|split| topology(pair, split)).collect();
    let most_gpus = fullest.iter().map(Topology::total_gpus).max();
    let edge = fullest
        .into_iter()
        .filter(|topology| Some(topology.total_gpus()) == most_gpus);
    edge.filter(|topology| budget.holds(topology.total_gpus())).collect()
}

/// As many workers in either pool as fit if both have equally many; where those use too few GPUs, the split on the
/// edge of the budget that comes closest to it.
fn balanced(budget: Budget, pair: Pair) -> Option<Topology> {
    let workers = budget.most / pair.0.gpus().saturating_add(pair.1.gpus());
    let equal = topology(pair, (workers, workers));
    if workers >= 1 && budget.holds(equal.total_gpus()) {
        return Some(equal);
    }
    let imbalance = |topology: &Topology| match *topology {
        Topology::Disaggregated {
            prefill_workers,
            decode_workers,
            ..
        } => prefill_workers.abs_diff(decode_workers),
        Topology::Aggregated { .. } => u32::MAX,
    };
    edge(budget, pair).into_iter().min_by_key(imbalance)
}

fn topology((prefill_shape, decode_shape): Pair, (prefill_workers, decode_workers): (u32, u32)) -> Topology {
    Topology::Disaggregated {
        prefill_workers,
        decode_workers,
        prefill_shape,
        decode_shape,
    }
}

impl Space for DisaggregatedSpace {
    fn states(&self) -> Vec<State> {
        let mut states = Vec::new();
        for pair in self.pairs() {
            for (prefill_workers, most) in fullest(self.frame.budget, pair) {
                for decode_workers in self.least_decode_workers(pair, prefill_workers)..=most {
                    let topology = topology(pair, (prefill_workers, decode_workers));
                    states.extend(self.frame.routers.iter().map(|&router| self.state(topology, router)));
                }
            }
        }
        states
    }

    fn contains(&self, state: &State) -> bool {
        let Topology::Disaggregated {
            prefill_workers,
            decode_workers,
            prefill_shape,
            decode_shape,
        } = state.topology
        else {
            return false;
        };
        self.prefill_shapes.contains(&prefill_shape)
            && self.decode_shapes.contains(&decode_shape)
            && prefill_workers.min(decode_workers) >= 1
            && self.frame.budget.holds(state.total_gpus())
    }

    fn size(&self) -> u64 {
        let splits = |pair: Pair| -> u64 {
            let decode_workers = fullest(self.frame.budget, pair).map(|(prefill_workers, most)| {
                let least = self.least_decode_workers(pair, prefill_workers);
                (u64::from(most) + 1).saturating_sub(u64::from(least))
            });
            decode_workers.sum()
        };
        self.pairs().map(splits).sum::<u64>() * self.frame.routers.len() as u64
    }

    fn shapes(&self, router: RouterState) -> Vec<State> {
        let budgets = match self.frame.sizes {
            Sizes::Largest => vec![self.frame.budget],
            Sizes::All => self.frame.budget.halves().collect(),
        };
        if self.frame.sizes == Sizes::All && self.size() <= FEW_STATES * self.frame.routers.len() as u64 {
            let mut states: IndexSet<State> = self.states().into_iter().collect();
            states.retain(|state| state.router == router);
            return states.into_iter().collect();
        }
        let topologies = self.pairs().flat_map(|pair| {
            let balanced = budgets.iter().filter_map(move |&budget| balanced(budget, pair));
            balanced.collect::<IndexSet<Topology>>()
        });
        topologies.map(|topology| self.state(topology, router)).collect()
    }

    /// The splits that use as many GPUs as any split can within a budget.
    fn splits(&self, of: &State) -> Vec<State> {
        let Topology::Disaggregated {
            prefill_shape,
            decode_shape,
            ..
        } = of.topology
        else {
            return Vec::new();
        };
        let pair = (prefill_shape, decode_shape);
        let splits: IndexSet<Topology> = match self.frame.sizes {
            Sizes::Largest => edge(self.frame.budget, pair).into_iter().collect(),
            Sizes::All => {
                let budgets = self.frame.budget.ladder();
                budgets.flat_map(|budget| edge(budget, pair)).collect()
            }
        };
        splits
            .into_iter()
            .map(|topology| self.state(topology, of.router))
            .collect()
    }

    fn routers(&self, of: &State) -> Vec<State> {
        let routers = self.frame.routers.iter();
        routers.map(|&router| self.state(of.topology, router)).collect()
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
    use crate::engine_settings::EngineSettings;

    const ROUND_ROBIN: RouterState = RouterState::round_robin();

    fn space(budget: u32) -> DisaggregatedSpace {
        within(Budget::up_to(budget))
    }

    fn within(budget: Budget) -> DisaggregatedSpace {
        let sizes: Vec<ParallelShape> = [1, 2, 4, 8].map(ParallelShape::tensor).to_vec();
        let frame = Frame {
            budget,
            routers: vec![ROUND_ROBIN],
            engine: EngineSettings::default(),
            sizes: Sizes::Largest,
        };
        DisaggregatedSpace::new(frame, sizes.clone(), sizes)
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
        let state = State::new(topology, ROUND_ROBIN);
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

    #[test]
    fn sizes_count_the_states() {
        for (least, most) in [(1, 1), (1, 2), (1, 16), (9, 16), (16, 16), (17, 17), (64, 64)] {
            let space = within(Budget { least, most });
            let states = space.states();
            assert_eq!(space.size(), states.len() as u64, "{least} to {most}");
            assert!(states.iter().all(|state| space.frame.budget.holds(state.total_gpus())));
            for shape in space.shapes(ROUND_ROBIN) {
                assert!(states.contains(&shape), "{shape}");
                assert!(space.splits(&shape).iter().all(|split| states.contains(split)));
            }
        }
    }

    #[test]
    fn too_few_gpus_at_equal_numbers_fall_back_to_the_edge() {
        let shapes = numbers(&within(Budget { least: 15, most: 16 }).shapes(ROUND_ROBIN));
        // 2 and 2 workers of sizes 4 and 2 use 12 GPUs only; on the edge, 3 and 2 are closest to equal.
        assert!(shapes.contains(&[4, 2, 3, 2]), "{shapes:?}");
        assert!(shapes.contains(&[1, 1, 8, 8]), "{shapes:?}");
    }

    #[test]
    fn smaller_sizes_are_states_too() {
        let mut space = within(Budget { least: 3, most: 8 });
        space.frame.sizes = Sizes::All;
        let states = space.states();
        assert_eq!(space.shapes(ROUND_ROBIN), states, "they are few");
        space.frame.budget = Budget { least: 3, most: 32 };
        let states = space.states();
        let shapes = space.shapes(ROUND_ROBIN);
        assert!(shapes.iter().all(|shape| states.contains(shape)));
        let at = |workers: u32| numbers(&shapes).contains(&[1, 1, workers, workers]);
        assert!(at(16) && at(8) && at(4) && !at(5), "half of the budget, a quarter");
        let splits = space.splits(&shapes[0]);
        assert!(splits.iter().all(|split| states.contains(split)));
        let gpus: IndexSet<u64> = splits.iter().map(State::total_gpus).collect();
        assert!(gpus.contains(&32) && gpus.contains(&3) && gpus.contains(&7), "{gpus:?}");
    }
}
