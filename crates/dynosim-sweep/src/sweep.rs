//! A sweep: one spec, one workload, one timing provider, and the searches over them.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use dynosim_core::{RouterFactory, Scenario};
use dynosim_spec::{ReplayOptimizeSpec, SearchStrategy, WorkerRole};
use dynosim_timing::TimingProvider;
use indexmap::IndexSet;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::budget::Budget;
use crate::comparison::Comparison;
use crate::engine_settings::EngineSettings;
use crate::error::SweepError;
use crate::evaluator::{Evaluate, Evaluator};
use crate::exhaustive::Shard;
use crate::hooks::{Hooks, Progress};
use crate::judge::Judge;
use crate::pareto::Front;
use crate::record::Record;
use crate::result::OptimizationResult;
use crate::state::{Mode, State};
use crate::trial::TrialStore;

/// Largest budget whose candidates are enumerated.
const MOST_GPUS: u32 = 65_536;

/// Most states that an exhaustive search goes through.
const MOST_STATES: u64 = 5_000_000;

/// More threads than any machine has use for.
const MOST_THREADS: usize = 512;

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
    pub(crate) hooks: Hooks<'a>,
    /// Whether routers are the built-in ones; nothing is known about others.
    has_built_in_routers: bool,
    warnings: Vec<String>,
    budget: Budget,
    front: Front,
}

impl<'a> Sweep<'a> {
    /// A sweep over the deployments that `spec` allows. `scenario` is made from the engine, the
    /// hardware and the workload of the same spec; `provider` prices its steps and says which
    /// shapes of workers there are.
    ///
    /// # Errors
    /// If the spec breaks its rules, its budget is too large to be searched, it asks for a trade-off in something that is
    /// no metric, or threads cannot be started.
    pub fn new(
        spec: &'a ReplayOptimizeSpec,
        scenario: Scenario,
        provider: &'a dyn TimingProvider,
    ) -> Result<Self, SweepError> {
        spec.validate()?;
        let budget = Budget {
            least: spec.hardware.min_gpus.unwrap_or(1),
            most: spec.hardware.total_gpus.unwrap_or(0),
        };
        if budget.most > MOST_GPUS {
            return Err(SweepError::BudgetTooLarge {
                budget: budget.most,
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
            hooks: Hooks::default(),
            has_built_in_routers: true,
            scenario,
            warnings: Vec::new(),
            budget,
            front: Front::new(spec)?,
        })
    }

    /// Routes with routers of your own. Then every state is simulated by itself, because nothing
    /// is known about what your routers make of their settings.
    #[must_use]
    pub fn with_router_factory(mut self, build_router: RouterFactory<'a>) -> Self {
        self.build_router = build_router;
        self.has_built_in_routers = false;
        self
    }

    /// Takes all of these instead of those that it has.
    #[must_use]
    pub fn with_hooks(mut self, hooks: Hooks<'a>) -> Self {
        self.hooks = hooks;
        self
    }

    /// Reports progress.
    #[must_use]
    pub fn with_progress(mut self, progress: Progress<'a>) -> Self {
        self.hooks.progress = Some(progress);
        self
    }

    /// Takes from `trials` how simulations ended that are known there, and keeps there how others end.
    #[must_use]
    pub fn with_trials(mut self, trials: &'a dyn TrialStore) -> Self {
        self.hooks.trials = Some(trials);
        self
    }

    /// Begins no further simulation once `stop` is true: then results are those of the simulations that were made, and
    /// their certificate says that they are not finished.
    #[must_use]
    pub fn with_stop(mut self, stop: &'a AtomicBool) -> Self {
        self.hooks.stop = Some(stop);
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
    /// As [`optimize`](Self::optimize).
    pub fn optimize_dense_disagg(&self) -> Result<OptimizationResult, SweepError> {
        self.optimize(&[Mode::Disagg])
    }

    /// Searches deployments of one pool.
    ///
    /// # Errors
    /// As [`optimize`](Self::optimize).
    pub fn optimize_dense_agg(&self) -> Result<OptimizationResult, SweepError> {
        self.optimize(&[Mode::Agg])
    }

    /// Searches both kinds of deployments and chooses between their best states.
    ///
    /// # Errors
    /// If neither search can be made.
    pub fn compare_agg_and_disagg(&self) -> Result<Comparison, SweepError> {
        Comparison::new(self.optimize_dense_agg(), self.optimize_dense_disagg())
    }

    /// Searches deployments of these kinds in one space.
    ///
    /// Of several kinds, one that cannot be searched is left out with a warning.
    ///
    /// # Errors
    /// If no candidate fits the budget, or an exhaustive search would have to go through too many states.
    #[expect(
        clippy::disallowed_methods,
        reason = "host time is a field of its own, which no result or output depends on"
    )]
    pub fn optimize(&self, modes: &[Mode]) -> Result<OptimizationResult, SweepError> {
        let start = Instant::now();
        let mut evaluator = self.evaluator(modes);
        let parts = self.parts(modes, &evaluator)?;
        let mut found = self.search(&parts, &mut evaluator);
        if found.iter().all(|record| !record.feasible) && !self.is_interrupted() && evaluator.begin_whole() {
            // The search goes on from the state that is closest to the bounds, which was only estimated.
            found = self.search(&parts, &mut evaluator);
        }
        Ok(OptimizationResult {
            host_time: start.elapsed(),
            ..self.result(&parts, found, &evaluator)
        })
    }

    /// Makes the simulations of a part of an exhaustive search, for a [`TrialStore`] to keep; their number. Once all parts
    /// are in one store, [`optimize`](Self::optimize) with it makes none.
    ///
    /// # Errors
    /// As [`optimize`](Self::optimize), and if the search is not exhaustive.
    pub fn simulate_shard(&self, modes: &[Mode], shard: Shard) -> Result<usize, SweepError> {
        if self.spec.search.strategy != SearchStrategy::Exhaustive {
            return Err(SweepError::ShardOfDescent);
        }
        let mut evaluator = self.evaluator(modes);
        let parts = self.parts(modes, &evaluator)?;
        let descent = self.descend(&parts.spaces, &mut evaluator);
        let before = evaluator.simulations();
        let plan = self.plan(&parts.spaces, &descent, &evaluator);
        let simulated = shard.simulate(&plan.states, &mut evaluator);
        Ok(before + simulated)
    }

    /// States of the space of these kinds of deployments.
    ///
    /// # Errors
    /// As [`optimize`](Self::optimize).
    pub fn count_states(&self, modes: &[Mode]) -> Result<u64, SweepError> {
        Ok(self.parts(modes, &self.evaluator(modes))?.size())
    }

    /// Evaluates these states, whether or not the spec allows them; one record each, in order.
    /// A state that cannot be simulated has a record that says why. After an interruption, records of states that were
    /// not simulated are missing.
    pub fn evaluate_states(&self, states: &[State]) -> Vec<Record> {
        let mut roles: IndexSet<WorkerRole> = IndexSet::new();
        roles.extend(states.iter().flat_map(|state| state.mode().roles()).copied());
        let roles: Vec<WorkerRole> = roles.into_iter().collect();
        let settings: IndexSet<EngineSettings> = states.iter().map(|state| state.engine).collect();
        Evaluator::new(self, self.judge(), &roles, settings).evaluate(states)
    }

    pub(crate) fn report_progress(&self, done: usize, planned: usize) {
        if let Some(progress) = self.hooks.progress {
            progress(done, planned);
        }
    }

    /// Whether somebody has asked to stop.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.hooks.is_stopped()
    }

    /// Whether it is known what routers make of their settings.
    pub(crate) fn knows_routers(&self) -> bool {
        self.has_built_in_routers
    }

    fn judge(&self) -> Judge {
        Judge::new(self.spec, self.budget)
    }

    fn evaluator(&self, modes: &[Mode]) -> Evaluator<'_, 'a> {
        let roles: Vec<WorkerRole> = modes.iter().flat_map(|mode| mode.roles()).copied().collect();
        let settings = EngineSettings::combinations(&self.spec.search.engine_args);
        Evaluator::new(self, self.judge(), &roles, settings)
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

mod search;

#[cfg(test)]
mod tests;
