//! Runs the simulations that states ask for, each once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dynosim_core::{LatencyBound, WorkerShape};
use dynosim_spec::{PromptSegments, WorkerRole};
use indexmap::{IndexMap, IndexSet};
use rayon::prelude::*;

use crate::hopeless;
use crate::judge::{Figures, Judge, Trial};
use crate::record::Record;
use crate::state::State;
use crate::sweep::Sweep;
use crate::worker_shapes::WorkerShapes;

/// Turns states into records.
pub(crate) trait Evaluate {
    /// One record per state, in their order.
    fn evaluate(&mut self, states: &[State]) -> Vec<Record>;
}

/// Evaluates states by simulating them, in parallel.
///
/// Results depend neither on the number of threads nor on which of them finishes first.
#[derive(Debug)]
pub(crate) struct Evaluator<'s, 'a> {
    sweep: &'s Sweep<'a>,
    judge: Judge,
    /// Beyond which simulations are given up.
    bounds: Vec<LatencyBound>,
    shapes: WorkerShapes,
    /// By the role of the workers that compute prompts.
    prompts: Vec<(WorkerRole, Arc<PromptSegments>)>,
    /// How the simulations of representatives ended, in order of first use.
    trials: IndexMap<State, Trial>,
    /// Whole simulations of a search before this one.
    whole: IndexMap<State, Trial>,
}

impl<'s, 'a> Evaluator<'s, 'a> {
    /// Binds all workers of these roles.
    pub(crate) fn new(sweep: &'s Sweep<'a>, judge: Judge, roles: &[WorkerRole]) -> Self {
        let scenario = &sweep.scenario;
        let prompt_roles = roles.iter().filter(|&&role| role != WorkerRole::Decode);
        Self {
            sweep,
            judge,
            bounds: hopeless::latency_bounds(sweep.spec),
            shapes: WorkerShapes::bind(scenario, sweep.provider, roles),
            prompts: prompt_roles.map(|&role| (role, scenario.prompts(role))).collect(),
            trials: IndexMap::new(),
            whole: IndexMap::new(),
        }
    }

    /// The workers that states may consist of.
    pub(crate) fn shapes(&self) -> &WorkerShapes {
        &self.shapes
    }

    /// Simulations made so far.
    pub(crate) fn simulations(&self) -> usize {
        self.trials.len()
    }

    /// Begins anew and gives up no simulation from now on; those that were whole are used again. Returns whether any
    /// was given up so far.
    pub(crate) fn begin_whole(&mut self) -> bool {
        let is_given_up = |trial: &Trial| matches!(trial, Trial::GivenUp { .. });
        if !self.trials.values().any(is_given_up) {
            return false;
        }
        self.whole = std::mem::take(&mut self.trials);
        self.whole.retain(|_, trial| !is_given_up(trial));
        self.bounds.clear();
        true
    }

    /// Makes the simulations of these states, which are representatives and were not simulated yet.
    fn simulate_all(&mut self, states: &[State]) {
        let before = self.trials.len();
        let planned = before + states.len();
        let done = AtomicUsize::new(before);
        self.sweep.report_progress(before, planned);
        let trials: Vec<Trial> = self.sweep.threads.install(|| {
            // One at a time, so that no thread is left with several while another has none.
            let trials = states.par_iter().with_max_len(1).map(|state| {
                let trial = self.simulate(state);
                self.sweep
                    .report_progress(done.fetch_add(1, Ordering::Relaxed) + 1, planned);
                trial
            });
            trials.collect()
        });
        self.trials.extend(states.iter().copied().zip(trials));
    }

    fn simulate(&self, state: &State) -> Trial {
        match self.whole.get(state) {
            Some(trial) => trial.clone(),
            None => self.try_simulate(state).unwrap_or_else(Trial::Failed),
        }
    }

    fn try_simulate(&self, state: &State) -> Result<Trial, String> {
        let sweep = self.sweep;
        let mut pools: Vec<(&WorkerShape, u32)> = Vec::new();
        for pool in state.pools() {
            if pool.workers == 0 {
                return Err("a pool has no workers".to_owned());
            }
            pools.push((self.shapes.get(pool.role, pool.shape)?, pool.workers));
        }
        let prompt_role = pools.first().map(|(shape, _)| shape.deployment.engine.role);
        let prompts = self.prompts.iter().find(|(role, _)| Some(*role) == prompt_role);
        let (_, prompts) = prompts.ok_or("no pool computes prompts")?;
        let router = sweep.spec.router.settings(
            state.router.mode,
            state.router.overlap_score_credit,
            state.router.prefill_load_scale,
        );
        let outcome = sweep
            .scenario
            .simulation(&pools, prompts, &router, sweep.spec.seed, sweep.build_router)
            .and_then(|simulation| simulation.giving_up_beyond(&self.bounds).run(Vec::new()));
        match outcome {
            Ok(outcome) => Ok(Trial::Finished(Figures::of(&outcome.report))),
            Err(error) => hopeless::given_up(sweep.spec, &error).ok_or_else(|| error.to_string()),
        }
    }
}

impl Evaluate for Evaluator<'_, '_> {
    fn evaluate(&mut self, states: &[State]) -> Vec<Record> {
        let representatives: Vec<State> = states.iter().map(|&state| self.sweep.representative(state)).collect();
        let known = &self.trials;
        let new: IndexSet<State> = representatives
            .iter()
            .filter(|&state| !known.contains_key(state))
            .copied()
            .collect();
        if !new.is_empty() {
            self.simulate_all(&new.into_iter().collect::<Vec<State>>());
        }
        let records = states
            .iter()
            .zip(&representatives)
            .filter_map(|(&state, representative)| {
                let (simulation, _, trial) = self.trials.get_full(representative)?;
                Some(self.judge.record(state, simulation, trial))
            });
        records.collect()
    }
}
