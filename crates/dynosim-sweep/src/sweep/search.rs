//! What a sweep does: where it searches, what it visits, and what comes of it.

use std::time::Duration;

use dynosim_spec::{ParallelShape, RouterMode, SearchStrategy, SweepRouterMode, WorkerRole};
use indexmap::{IndexMap, IndexSet};

use super::{MOST_STATES, Sweep};
use crate::budget::Budget;
use crate::certificate::{Certificate, Regret};
use crate::descent::{Spaces, descend};
use crate::engine_settings::EngineSettings;
use crate::error::SweepError;
use crate::evaluator::{Evaluate, Evaluator};
use crate::exhaustive::Plan;
use crate::prune::{Pruned, Pruner};
use crate::record::Record;
use crate::result::{OptimizationResult, first_of_each, sift};
use crate::space::{AggregatedSpace, DisaggregatedSpace, Frame, Sizes, Space, router_states};
use crate::state::{Mode, RouterState, State};
use crate::trial::Trial;
use crate::variant::Variant;
use crate::worker_shapes::{KvCapacity, LeftOutTp};

impl Sweep<'_> {
    /// Records in the order of first visits, or of the space.
    pub(super) fn search(&self, parts: &Parts, evaluator: &mut Evaluator<'_, '_>) -> Found {
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

    pub(super) fn descend(
        &self,
        spaces: &[(Mode, Spaces)],
        evaluator: &mut Evaluator<'_, '_>,
    ) -> IndexMap<State, Record> {
        let beam = usize::try_from(self.spec.search.beam).unwrap_or(usize::MAX);
        let first_router = self.first_router();
        let mut records = IndexMap::new();
        for (_, spaces) in spaces {
            records.extend(descend(spaces, first_router, beam, evaluator));
        }
        records
    }

    pub(super) fn plan(
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

    pub(super) fn result(&self, parts: &Parts, found: Found, evaluator: &Evaluator<'_, '_>) -> OptimizationResult {
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
            host_time: Duration::ZERO,
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
    pub(super) fn parts(&self, modes: &[Mode], evaluator: &Evaluator<'_, '_>) -> Result<Parts, SweepError> {
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
pub(super) struct Parts {
    pub(super) spaces: Vec<(Mode, Spaces)>,
    /// Why kinds of deployments are left out.
    warnings: Vec<String>,
}

impl Parts {
    pub(super) fn size(&self) -> u64 {
        let spaces = self.spaces.iter().flat_map(|(_, spaces)| spaces.values());
        spaces.map(|space| space.size()).sum()
    }
}

/// What a search came to.
#[derive(Debug)]
pub(super) struct Found {
    records: Vec<Record>,
    pruned: Vec<Pruned>,
    regret: Option<Regret>,
}

impl Found {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Record> {
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
