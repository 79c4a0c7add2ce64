//! Runs the simulations that states ask for, each once.

use std::sync::atomic::{AtomicUsize, Ordering};

use dynosim_core::{LatencyBound, WorkerShape};
use dynosim_spec::WorkerRole;
use indexmap::{IndexMap, IndexSet};
use rayon::prelude::*;

use crate::engine_settings::EngineSettings;
use crate::hopeless;
use crate::judge::Judge;
use crate::record::Record;
use crate::state::State;
use crate::sweep::Sweep;
use crate::trial::{Figures, Trial};
use crate::variant::{PromptsByBlock, Variant};

/// Turns states into records.
pub(crate) trait Evaluate {
    /// One record per state, in their order; after an interruption, only of states whose simulation has ended.
    fn evaluate(&mut self, states: &[State]) -> Vec<Record>;

    /// Whether somebody has asked to stop.
    fn is_interrupted(&self) -> bool {
        false
    }
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
    variants: IndexMap<EngineSettings, Variant>,
    /// How the simulations of representatives ended, in order of first use.
    trials: IndexMap<State, Trial>,
    /// Whole simulations of a search before this one.
    whole: IndexMap<State, Trial>,
}

impl<'s, 'a> Evaluator<'s, 'a> {
    /// Binds all workers of these roles, with every choice of engine arguments.
    pub(crate) fn new(
        sweep: &'s Sweep<'a>,
        judge: Judge,
        roles: &[WorkerRole],
        settings: impl IntoIterator<Item = EngineSettings>,
    ) -> Self {
        let mut prompts = PromptsByBlock::new();
        let base_config = &sweep.spec.router.base_config;
        let mut variant = |settings: EngineSettings| {
            let variant = Variant::new(
                &sweep.scenario,
                settings,
                sweep.provider,
                roles,
                base_config,
                &mut prompts,
            );
            (settings, variant)
        };
        Self {
            sweep,
            judge,
            bounds: hopeless::latency_bounds(sweep.spec),
            variants: settings.into_iter().map(&mut variant).collect(),
            trials: IndexMap::new(),
            whole: IndexMap::new(),
        }
    }

    /// Every choice of engine arguments, with the workers that states may consist of.
    pub(crate) fn variants(&self) -> &IndexMap<EngineSettings, Variant> {
        &self.variants
    }

    /// How simulations ended so far.
    pub(crate) fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.trials.values()
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

    /// The state that is simulated for all that are the same as `state`.
    pub(crate) fn representative(&self, state: State) -> State {
        match self.variants.get(&state.engine) {
            Some(variant) if self.sweep.knows_routers() => variant.equivalence().representative(state),
            _ => state,
        }
    }

    /// Those representatives of these states that were not simulated yet, each once.
    pub(crate) fn pending(&self, states: &[State]) -> IndexSet<State> {
        let representatives = states.iter().map(|&state| self.representative(state));
        representatives
            .filter(|state| !self.trials.contains_key(state))
            .collect()
    }

    /// Makes the simulations of these states, which are representatives and were not simulated yet. Those that are not
    /// begun when somebody asks to stop are left out.
    pub(crate) fn simulate_all(&mut self, states: &[State]) {
        let before = self.trials.len();
        let planned = before + states.len();
        let done = AtomicUsize::new(before);
        self.sweep.report_progress(before, planned);
        let trials: Vec<Option<Trial>> = self.sweep.threads.install(|| {
            // One at a time, so that no thread is left with several while another has none.
            let trials = states.par_iter().with_max_len(1).map(|state| {
                if self.is_interrupted() {
                    return None;
                }
                let trial = self.simulate(state);
                self.sweep
                    .report_progress(done.fetch_add(1, Ordering::Relaxed) + 1, planned);
                Some(trial)
            });
            trials.collect()
        });
        let ended = states
            .iter()
            .zip(trials)
            .filter_map(|(&state, trial)| Some((state, trial?)));
        self.trials.extend(ended);
    }

    fn simulate(&self, state: &State) -> Trial {
        if let Some(trial) = self.whole.get(state) {
            return trial.clone();
        }
        let Some(store) = self.sweep.hooks.trials else {
            return self.try_simulate(state).unwrap_or_else(Trial::Failed);
        };
        let key = self.key(state);
        if let Some(trial) = store.find(&key) {
            return trial;
        }
        let trial = self.try_simulate(state).unwrap_or_else(Trial::Failed);
        store.keep(&key, &trial);
        trial
    }

    /// Names the simulation of a state. One that may be given up is another one than that which is whole.
    fn key(&self, state: &State) -> String {
        let limits = self.bounds.iter();
        let limits = limits.map(|bound| format!(" {}<={}", bound.metric(), bound.limit_ms));
        format!("{state}{}", limits.collect::<String>())
    }

    fn try_simulate(&self, state: &State) -> Result<Trial, String> {
        let sweep = self.sweep;
        let variant = self.variants.get(&state.engine);
        let variant = variant.ok_or("its engine arguments are not among those that the sweep tries")?;
        let mut pools: Vec<(&WorkerShape, u32)> = Vec::new();
        for pool in state.pools() {
            if pool.workers == 0 {
                return Err("a pool has no workers".to_owned());
            }
            pools.push((variant.shapes.get(pool.role, pool.shape)?, pool.workers));
        }
        let prompt_role = pools.first().map(|(shape, _)| shape.deployment.engine.role);
        let prompts = prompt_role.and_then(|role| variant.prompts(role));
        let prompts = prompts.ok_or("no pool computes prompts")?;
        let router = sweep.spec.router.settings(
            state.router.mode,
            state.router.overlap_score_credit,
            state.router.prefill_load_scale,
        );
        let outcome = variant
            .scenario
            .simulation(&pools, prompts, &router, sweep.spec.seed, sweep.build_router)
            .and_then(|simulation| simulation.giving_up_beyond(&self.bounds).run(Vec::new()));
        match outcome {
            Ok(outcome) => {
                let per_request = sweep.spec.sla.per_request.as_ref();
                Ok(Trial::Finished(Figures::of(&outcome, per_request)))
            }
            Err(error) => hopeless::given_up(sweep.spec, &error).ok_or_else(|| error.to_string()),
        }
    }
}

impl Evaluate for Evaluator<'_, '_> {
    fn evaluate(&mut self, states: &[State]) -> Vec<Record> {
        let pending: Vec<State> = self.pending(states).into_iter().collect();
        if !pending.is_empty() {
            self.simulate_all(&pending);
        }
        let records = states.iter().filter_map(|&state| {
            let (simulation, _, trial) = self.trials.get_full(&self.representative(state))?;
            Some(self.judge.record(state, simulation, trial))
        });
        records.collect()
    }

    fn is_interrupted(&self) -> bool {
        self.sweep.is_interrupted()
    }
}
