//! A sweep: one spec, one workload, one timing provider, and the searches over them.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use dynosim_core::{RouterFactory, Scenario};
use dynosim_spec::{ParallelShape, ReplayOptimizeSpec, RouterMode, SearchStrategy, SweepRouterMode, WorkerRole};
use dynosim_timing::TimingProvider;
use indexmap::{IndexMap, IndexSet};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::budget::Budget;
use crate::certificate::{Certificate, Regret};
use crate::comparison::Comparison;
use crate::descent::{Spaces, descend};
use crate::engine_settings::EngineSettings;
use crate::error::SweepError;
use crate::evaluator::{Evaluate, Evaluator};
use crate::exhaustive::{Plan, Shard};
use crate::hooks::{Hooks, Progress};
use crate::judge::Judge;
use crate::pareto::Front;
use crate::prune::{Pruned, Pruner};
use crate::record::Record;
use crate::result::{OptimizationResult, first_of_each, sift};
use crate::space::{AggregatedSpace, DisaggregatedSpace, Frame, Sizes, Space, router_states};
use crate::state::{Mode, RouterState, State};
use crate::trial::{Trial, TrialStore};
use crate::variant::Variant;
use crate::worker_shapes::{KvCapacity, LeftOutTp};

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

    /// Records in the order of first visits, or of the space.
    fn search(&self, parts: &Parts, evaluator: &mut Evaluator<'_, '_>) -> Found {
        let descent = self.descend(&parts.spaces, evaluator);
        if self.spec.search.strategy == SearchStrategy::Descent {
            return Found {
                records: descent.into_values().collect(),
                pruned: Vec::new(),
                regret: None,
            };
        }
        let plan = self.plan(&parts.spaces, &descent, evaluator);
        let records = evaluator.evaluate(&plan.states);
        let regret = (!self.is_interrupted()).then(|| regret(&descent, &records));
        Found {
            records,
            pruned: plan.pruned,
            regret,
        }
    }

    fn descend(&self, spaces: &[(Mode, Spaces)], evaluator: &mut Evaluator<'_, '_>) -> IndexMap<State, Record> {
        let beam = usize::try_from(self.spec.search.beam).unwrap_or(usize::MAX);
        let first_router = self.first_router();
        let mut records = IndexMap::new();
        for (_, spaces) in spaces {
            records.extend(descend(spaces, first_router, beam, evaluator));
        }
        records
    }

    fn plan(
        &self,
        spaces: &[(Mode, Spaces)],
        descent: &IndexMap<State, Record>,
        evaluator: &Evaluator<'_, '_>,
    ) -> Plan {
        let spaces = spaces.iter().flat_map(|(_, spaces)| spaces.values());
        let states: Vec<State> = spaces.flat_map(|space| space.states()).collect();
        let (feasible, _) = sift(descent.values());
        let known_score = feasible.first().and_then(|record| record.score);
        let mut pruner = Pruner::new(self.spec, &self.scenario, evaluator, known_score);
        Plan::new(states, descent, &mut pruner)
    }

    fn result(&self, parts: &Parts, found: Found, evaluator: &Evaluator<'_, '_>) -> OptimizationResult {
        let (feasible, best_infeasible) = sift(&found.records);
        let used: IndexSet<(EngineSettings, WorkerRole, ParallelShape)> = found
            .records
            .iter()
            .flat_map(|record| {
                let pools = record.state.pools().into_iter();
                pools.map(|pool| (record.state.engine, pool.role, pool.shape))
            })
            .collect();
        let mut warnings = self.warnings.clone();
        warnings.extend(parts.warnings.iter().cloned());
        let mut kv_capacity: IndexSet<KvCapacity> = IndexSet::new();
        for (settings, variant) in evaluator.variants() {
            let of_variant = used.iter().filter(|(of, ..)| of == settings);
            let of_variant: Vec<(WorkerRole, ParallelShape)> =
                of_variant.map(|&(_, role, shape)| (role, shape)).collect();
            let shapes = variant.shapes.among(&of_variant);
            for warning in variant.scenario.warnings(&shapes, self.router_mode()) {
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
            kv_capacity.extend(shapes.into_iter().map(KvCapacity::of));
        }
        let front = self.front.of(&found.records);
        let front: Vec<&Record> = front.into_iter().map(|index| &found.records[index]).collect();
        OptimizationResult {
            modes: parts.spaces.iter().map(|(mode, _)| *mode).collect(),
            spec: self.spec.clone(),
            best_feasible: feasible.first().cloned(),
            best_infeasible,
            pareto: first_of_each(&front, usize::MAX).into_iter().cloned().collect(),
            certificate: self.certificate(parts, &found, evaluator),
            evaluated: found.records,
            feasible,
            pruned: found.pruned,
            simulations: evaluator.simulations(),
            left_out_tps: left_out(evaluator.variants().values()),
            kv_capacity: kv_capacity.into_iter().collect(),
            warnings,
            host_time: std::time::Duration::ZERO,
        }
    }

    fn certificate(&self, parts: &Parts, found: &Found, evaluator: &Evaluator<'_, '_>) -> Certificate {
        let (visited, simulations) = (found.records.len() as u64, evaluator.simulations() as u64);
        let count = |wanted: fn(&Trial) -> bool| evaluator.trials().filter(|trial| wanted(trial)).count() as u64;
        let mut pruned = Certificate::no_pruned(self.spec.search.prune, self.spec.search.strategy);
        for left_out in &found.pruned {
            *pruned.entry(left_out.bound.name()).or_insert(0) += 1;
        }
        let space = parts.size();
        Certificate {
            strategy: self.spec.search.strategy,
            space,
            visited,
            simulations,
            deduplicated: visited.saturating_sub(simulations),
            unvisited: space.saturating_sub(visited + found.pruned.len() as u64),
            pruned,
            failed: count(|trial| matches!(trial, Trial::Failed(_))),
            given_up: count(|trial| matches!(trial, Trial::GivenUp { .. })),
            finished: !self.is_interrupted(),
            regret: found.regret.clone(),
        }
    }

    /// The spaces of these kinds of deployments.
    fn parts(&self, modes: &[Mode], evaluator: &Evaluator<'_, '_>) -> Result<Parts, SweepError> {
        let mut parts = Parts::default();
        let mut errors = Vec::new();
        for &mode in modes {
            match self.spaces(mode, evaluator) {
                Ok(spaces) => parts.spaces.push((mode, spaces)),
                Err(error) => errors.push((mode, error)),
            }
        }
        if parts.spaces.is_empty() {
            return Err(match errors.len() {
                1 => errors.remove(0).1,
                _ => SweepError::NoMode {
                    reasons: errors
                        .into_iter()
                        .map(|(mode, error)| format!("{mode}: {error}"))
                        .collect(),
                },
            });
        }
        let left_out = errors.into_iter();
        parts.warnings = left_out
            .map(|(mode, error)| format!("{mode} deployments are left out: {error}"))
            .collect();
        let states = parts.size();
        if self.spec.search.strategy == SearchStrategy::Exhaustive && states > MOST_STATES {
            return Err(SweepError::SpaceTooLarge {
                states,
                most: MOST_STATES,
            });
        }
        Ok(parts)
    }

    /// Where to search for deployments of a kind: a space for every choice of engine arguments that has one.
    fn spaces(&self, mode: Mode, evaluator: &Evaluator<'_, '_>) -> Result<Spaces, SweepError> {
        let mut spaces = Spaces::new();
        let mut first_error = None;
        for (&settings, variant) in evaluator.variants() {
            match self.space(mode, settings, variant) {
                Ok(space) => {
                    spaces.insert(settings, space);
                }
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        match first_error {
            Some(error) if spaces.is_empty() => Err(error),
            _ => Ok(spaces),
        }
    }

    fn space(&self, mode: Mode, engine: EngineSettings, variant: &Variant) -> Result<Box<dyn Space>, SweepError> {
        let left_out = || left_out([variant]);
        let usable = |role: WorkerRole| {
            let usable = variant.shapes.usable(role);
            if usable.is_empty() {
                return Err(SweepError::NoUsableTp {
                    role,
                    model: self.spec.engine.model.clone(),
                    system: self.spec.hardware.system.clone(),
                    left_out: left_out(),
                });
            }
            Ok(usable)
        };
        let frame = Frame {
            budget: self.budget,
            routers: router_states(&self.spec.router),
            engine,
            sizes: Sizes::of(self.spec.objective),
        };
        let space: Box<dyn Space> = match mode {
            Mode::Agg => Box::new(AggregatedSpace::new(frame, usable(WorkerRole::Aggregated)?)),
            Mode::Disagg => {
                let (prefill, decode) = (usable(WorkerRole::Prefill)?, usable(WorkerRole::Decode)?);
                Box::new(DisaggregatedSpace::new(frame, prefill, decode))
            }
        };
        if space.shapes(self.first_router()).is_empty() {
            let (needed, parts) = space.smallest();
            let Budget { least, most } = self.budget;
            if needed <= u64::from(most) && least > 1 {
                return Err(SweepError::BudgetTooNarrow { mode, least, most });
            }
            return Err(SweepError::BudgetTooSmall {
                budget: most,
                mode,
                needed,
                parts,
                left_out: left_out(),
            });
        }
        Ok(space)
    }

    fn first_router(&self) -> RouterState {
        let routers = router_states(&self.spec.router);
        routers.first().copied().unwrap_or(RouterState::round_robin())
    }

    /// The more demanding of the strategies that are tried.
    fn router_mode(&self) -> RouterMode {
        match self.spec.router.mode {
            SweepRouterMode::RoundRobin => RouterMode::RoundRobin,
            SweepRouterMode::KvRouter | SweepRouterMode::Both => RouterMode::KvRouter,
        }
    }
}

/// Where a sweep searches.
#[derive(Debug, Default)]
struct Parts {
    spaces: Vec<(Mode, Spaces)>,
    /// Why kinds of deployments are left out.
    warnings: Vec<String>,
}

impl Parts {
    fn size(&self) -> u64 {
        let spaces = self.spaces.iter().flat_map(|(_, spaces)| spaces.values());
        spaces.map(|space| space.size()).sum()
    }
}

/// What a search came to.
#[derive(Debug)]
struct Found {
    records: Vec<Record>,
    pruned: Vec<Pruned>,
    regret: Option<Regret>,
}

impl Found {
    fn iter(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }
}

/// How far the best state of a descent is from the best of all.
fn regret(descent: &IndexMap<State, Record>, records: &[Record]) -> Regret {
    let score = |feasible: &[Record]| feasible.first().and_then(|record| record.score);
    let (by_descent, _) = sift(descent.values());
    let (of_all, _) = sift(records);
    let (descent_score, best_score) = (score(&by_descent), score(&of_all));
    Regret {
        descent_visited: descent.len() as u64,
        descent_best: by_descent.first().map(|record| record.state.to_string()),
        descent_score,
        best_score,
        share: Regret::share_of(descent_score, best_score),
    }
}

/// Shapes of workers that were tried in vain, each once.
fn left_out<'v>(variants: impl IntoIterator<Item = &'v Variant>) -> Vec<LeftOutTp> {
    let mut left_out: IndexSet<LeftOutTp> = IndexSet::new();
    for variant in variants {
        left_out.extend(variant.shapes.left_out());
    }
    left_out.into_iter().collect()
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
