//! A sweep: one spec, one workload, one timing provider, and the searches over them.

use std::fmt;
use std::time::Instant;

use dynosim_core::{RouterFactory, Scenario};
use dynosim_spec::{ParallelShape, ReplayOptimizeSpec, RouterMode, SweepRouterMode, WorkerRole};
use dynosim_timing::TimingProvider;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::comparison::Comparison;
use crate::equivalence::Equivalence;
use crate::error::SweepError;
use crate::evaluator::{Evaluate, Evaluator};
use crate::judge::Judge;
use crate::record::Record;
use crate::result::{OptimizationResult, sift};
use crate::search::search;
use crate::space::{AggregatedSpace, DisaggregatedSpace, Space, router_states};
use crate::state::{Mode, RouterState, State};
use crate::worker_shapes::{KvCapacity, WorkerShapes};

/// Largest budget whose candidates are enumerated.
const MOST_GPUS: u32 = 65_536;

/// More threads than any machine has use for.
const MOST_THREADS: usize = 512;

/// Is told how many simulations are done and how many are planned so far; the plan grows as a
/// search goes on. Called from several threads, so numbers may arrive out of order.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Searches deployments within a GPU budget by simulating them.
///
/// Results are the same for any number of threads. What goes wrong with a single candidate is part
/// of the result: its record says why it is infeasible.
pub struct Sweep<'a> {
    pub(crate) spec: &'a ReplayOptimizeSpec,
    pub(crate) scenario: Scenario,
    pub(crate) provider: &'a dyn TimingProvider,
    pub(crate) build_router: RouterFactory<'a>,
    pub(crate) threads: ThreadPool,
    /// Which states are one simulation; `None` if nothing is known about the routers.
    equivalence: Option<Equivalence>,
    progress: Option<Progress<'a>>,
    warnings: Vec<String>,
    budget: u32,
}

impl<'a> Sweep<'a> {
    /// A sweep over the deployments that `spec` allows. `scenario` is made from the engine, the
    /// hardware and the workload of the same spec; `provider` prices its steps and says which
    /// shapes of workers there are.
    ///
    /// # Errors
    /// If the spec breaks its rules, its budget is too large to be searched, or threads cannot be
    /// started.
    pub fn new(
        spec: &'a ReplayOptimizeSpec,
        scenario: Scenario,
        provider: &'a dyn TimingProvider,
    ) -> Result<Self, SweepError> {
        spec.validate()?;
        let budget = spec.hardware.total_gpus.unwrap_or(0);
        if budget > MOST_GPUS {
            return Err(SweepError::BudgetTooLarge {
                budget,
                most: MOST_GPUS,
            });
        }
        let threads = spec.parallel_evals().min(MOST_THREADS);
        Ok(Self {
            spec,
            provider,
            threads: ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .map_err(|source| SweepError::Threads { threads, source })?,
            build_router: &dynosim_router::build,
            equivalence: Some(Equivalence::new(scenario.engine(), &spec.router.base_config)),
            scenario,
            progress: None,
            warnings: Vec::new(),
            budget,
        })
    }

    /// Routes with routers of your own. Then every state is simulated by itself, because nothing
    /// is known about what your routers make of their settings.
    #[must_use]
    pub fn with_router_factory(mut self, build_router: RouterFactory<'a>) -> Self {
        self.build_router = build_router;
        self.equivalence = None;
        self
    }

    /// Reports progress.
    #[must_use]
    pub fn with_progress(mut self, progress: Progress<'a>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Puts these warnings into results, ahead of their own.
    #[must_use]
    pub fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    /// Searches deployments with separate pools for prompts and outputs.
    ///
    /// # Errors
    /// If no candidate fits the budget.
    pub fn optimize_dense_disagg(&self) -> Result<OptimizationResult, SweepError> {
        self.optimize(Mode::Disagg)
    }

    /// Searches deployments of one pool.
    ///
    /// # Errors
    /// If no candidate fits the budget.
    pub fn optimize_dense_agg(&self) -> Result<OptimizationResult, SweepError> {
        self.optimize(Mode::Agg)
    }

    /// Searches both kinds of deployments and chooses between their best states.
    ///
    /// # Errors
    /// If neither search can be made.
    pub fn compare_agg_and_disagg(&self) -> Result<Comparison, SweepError> {
        Comparison::new(self.optimize_dense_agg(), self.optimize_dense_disagg())
    }

    /// Evaluates these states, whether or not the spec allows them; one record each, in order.
    /// A state that cannot be simulated has a record that says why.
    pub fn evaluate_states(&self, states: &[State]) -> Vec<Record> {
        let mut roles: Vec<WorkerRole> = Vec::new();
        for role in states.iter().flat_map(|state| state.mode().roles()) {
            if !roles.contains(role) {
                roles.push(*role);
            }
        }
        Evaluator::new(self, self.judge(), &roles).evaluate(states)
    }

    pub(crate) fn report_progress(&self, done: usize, planned: usize) {
        if let Some(progress) = self.progress {
            progress(done, planned);
        }
    }

    /// The state that is simulated for all that are the same as `state`.
    pub(crate) fn representative(&self, state: State) -> State {
        match &self.equivalence {
            Some(equivalence) => equivalence.representative(state),
            None => state,
        }
    }

    fn judge(&self) -> Judge {
        Judge::new(self.spec, self.budget)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "host time is a field of its own, which no result or output depends on"
    )]
    fn optimize(&self, mode: Mode) -> Result<OptimizationResult, SweepError> {
        let start = Instant::now();
        let mut evaluator = Evaluator::new(self, self.judge(), mode.roles());
        let (space, first_router) = self.space(mode, evaluator.shapes())?;
        let beam = usize::try_from(self.spec.search.beam).unwrap_or(usize::MAX);
        let mut evaluated = search(space.as_ref(), first_router, beam, &mut evaluator);
        let (mut feasible, mut best_infeasible) = sift(&evaluated);
        if feasible.is_empty() && evaluator.begin_whole() {
            // The search goes on from the state that is closest to the bounds, which was only estimated.
            evaluated = search(space.as_ref(), first_router, beam, &mut evaluator);
            (feasible, best_infeasible) = sift(&evaluated);
        }
        let used: Vec<(WorkerRole, ParallelShape)> = evaluated
            .iter()
            .flat_map(|record| record.state.pools())
            .map(|pool| (pool.role, pool.shape))
            .collect();
        let used = evaluator.shapes().among(&used);
        let mut warnings = self.warnings.clone();
        warnings.extend(self.scenario.warnings(&used, self.router_mode()));
        Ok(OptimizationResult {
            mode,
            spec: self.spec.clone(),
            best_feasible: feasible.first().cloned(),
            best_infeasible,
            evaluated,
            feasible,
            simulations: evaluator.simulations(),
            left_out_tps: evaluator.shapes().left_out(),
            kv_capacity: used.into_iter().map(KvCapacity::of).collect(),
            warnings,
            host_time: start.elapsed(),
        })
    }

    /// Where to search, and the router to start with.
    fn space(&self, mode: Mode, shapes: &WorkerShapes) -> Result<(Box<dyn Space>, RouterState), SweepError> {
        let usable = |role: WorkerRole| {
            let usable = shapes.usable(role);
            if usable.is_empty() {
                return Err(SweepError::NoUsableTp {
                    role,
                    model: self.spec.engine.model.clone(),
                    system: self.spec.hardware.system.clone(),
                    left_out: shapes.left_out(),
                });
            }
            Ok(usable)
        };
        let routers = router_states(&self.spec.router);
        let first_router = routers.first().copied().unwrap_or(RouterState::round_robin());
        let space: Box<dyn Space> = match mode {
            Mode::Agg => Box::new(AggregatedSpace::new(
                self.budget,
                usable(WorkerRole::Aggregated)?,
                routers,
            )),
            Mode::Disagg => {
                let (prefill, decode) = (usable(WorkerRole::Prefill)?, usable(WorkerRole::Decode)?);
                Box::new(DisaggregatedSpace::new(self.budget, prefill, decode, routers))
            }
        };
        if space.shapes(first_router).is_empty() {
            let (needed, parts) = space.smallest();
            return Err(SweepError::BudgetTooSmall {
                budget: self.budget,
                mode,
                needed,
                parts,
                left_out: shapes.left_out(),
            });
        }
        Ok((space, first_router))
    }

    /// The more demanding of the strategies that are tried.
    fn router_mode(&self) -> RouterMode {
        match self.spec.router.mode {
            SweepRouterMode::RoundRobin => RouterMode::RoundRobin,
            SweepRouterMode::KvRouter | SweepRouterMode::Both => RouterMode::KvRouter,
        }
    }
}

impl fmt::Debug for Sweep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep")
            .field("spec", &self.spec)
            .field("warnings", &self.warnings)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
