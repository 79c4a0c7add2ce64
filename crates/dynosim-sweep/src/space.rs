//! Which states there are, and which of them a search may visit from where it stands.

mod aggregated;
mod disaggregated;

use std::fmt::Debug;

use dynosim_spec::{Objective, ParallelShape, SweepRouterMode, SweepRouterSpec};

pub(crate) use aggregated::AggregatedSpace;
pub(crate) use disaggregated::DisaggregatedSpace;

use crate::budget::Budget;
use crate::engine_settings::EngineSettings;
use crate::state::{RouterState, State};

/// All states of one kind of deployment with the same engine arguments, and those around an incumbent, one kind of change
/// at a time; in the order that decides ties.
pub(crate) trait Space: Debug {
    /// Every state within the budget.
    fn states(&self) -> Vec<State>;

    /// Whether the workers of this state are among them, behind whatever router.
    fn contains(&self, state: &State) -> bool;

    /// Their number, without going through them.
    fn size(&self) -> u64;

    /// Every parallel shape with as many workers as the budget allows, behind this router; where GPUs count against a
    /// candidate, within half of the budget, a quarter and so on, too, or all numbers of workers if they are few.
    fn shapes(&self, router: RouterState) -> Vec<State>;

    /// All worker counts for the shape of this state that the budget asks to be tried; where GPUs count against a candidate,
    /// smaller budgets, too.
    fn splits(&self, of: &State) -> Vec<State>;

    /// The workers of this state behind every router that may be tried.
    fn routers(&self, of: &State) -> Vec<State>;

    /// GPUs of the smallest deployment of all, whatever the budget, and what it consists of.
    fn smallest(&self) -> (u64, String);
}

/// The shape with the fewest GPUs; the first of several.
fn smallest(shapes: &[ParallelShape]) -> ParallelShape {
    let smallest = shapes.iter().copied().min_by_key(|shape| shape.gpus());
    smallest.unwrap_or(ParallelShape::tensor(1))
}

/// What all states of a space have in common.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) budget: Budget,
    /// At least one.
    pub(crate) routers: Vec<RouterState>,
    pub(crate) engine: EngineSettings,
    pub(crate) sizes: Sizes,
}

/// How many GPUs a descent looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// As many as the budget allows: more GPUs make nothing worse.
    Largest,
    /// Smaller numbers, too, because GPUs count against a candidate.
    All,
}

impl Sizes {
    /// Those that matter for an objective.
    pub(crate) fn of(objective: Objective) -> Self {
        match objective {
            Objective::ThroughputPerGpu | Objective::MinGpus | Objective::Cost => Self::All,
            _ => Self::Largest,
        }
    }
}

/// The routers that a spec allows, in the order in which they are tried.
pub(crate) fn router_states(spec: &SweepRouterSpec) -> Vec<RouterState> {
    let round_robin = [RouterState::round_robin()].into_iter();
    let kv_router = spec.overlap_credits.iter().flat_map(|&credit| {
        let scales = spec.prefill_load_scales.iter();
        scales.map(move |&scale| RouterState::kv_router(credit, scale))
    });
    match spec.mode {
        SweepRouterMode::RoundRobin => round_robin.collect(),
        SweepRouterMode::KvRouter => kv_router.collect(),
        SweepRouterMode::Both => round_robin.chain(kv_router).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mode: SweepRouterMode, expected: &[RouterState]) {
        let spec = SweepRouterSpec {
            mode,
            overlap_credits: vec![0.5, 1.0],
            prefill_load_scales: vec![0.0, 2.0],
            ..SweepRouterSpec::default()
        };
        assert_eq!(router_states(&spec), expected);
    }

    #[test]
    fn routers_come_credit_by_credit() {
        let kv_router = [(0.5, 0.0), (0.5, 2.0), (1.0, 0.0), (1.0, 2.0)].map(|(c, s)| RouterState::kv_router(c, s));
        check(SweepRouterMode::KvRouter, &kv_router);
        check(SweepRouterMode::RoundRobin, &[RouterState::round_robin()]);
        let both: Vec<RouterState> = [RouterState::round_robin()].into_iter().chain(kv_router).collect();
        check(SweepRouterMode::Both, &both);
    }
}
