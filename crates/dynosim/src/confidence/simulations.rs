//! Candidates simulated under one workload after another.

use std::fmt;

use dynosim_core::Scenario;
use dynosim_spec::{ReplayOptimizeSpec, Workload};
use dynosim_sweep::{Hooks, Mode, Record, State, Sweep};
use dynosim_timing::TimingProvider;

use super::error::ConfidenceError;
use crate::error::Error;
use crate::search::sweep_scenario;

/// Simulates states, in parallel, and keeps count.
pub(super) struct Simulations<'a> {
    pub(super) provider: &'a dyn TimingProvider,
    pub(super) modes: Vec<Mode>,
    pub(super) hooks: Hooks<'a>,
    /// Evaluations of a candidate that are done.
    pub(super) done: usize,
    /// Evaluations that are planned so far.
    pub(super) planned: usize,
}

impl Simulations<'_> {
    /// Model, GPU, engine and requests of a spec.
    ///
    /// # Errors
    /// As [`sweep_scenario`].
    pub(super) fn scenario(&self, spec: &ReplayOptimizeSpec) -> Result<Scenario, Error> {
        sweep_scenario(spec, &self.modes)
    }

    /// One record per state, in order.
    ///
    /// # Errors
    /// If the caller has cancelled, or as [`Sweep::new`].
    pub(super) fn evaluate(
        &mut self,
        spec: &ReplayOptimizeSpec,
        scenario: Scenario,
        states: &[State],
    ) -> Result<Vec<Record>, Error> {
        let before = self.done;
        self.planned = self.planned.max(before + states.len());
        let planned = self.planned;
        let tell = |done: usize| {
            if let Some(progress) = self.hooks.progress {
                progress(done, planned);
            }
        };
        let report = |done: usize, _planned_of_these: usize| tell(before + done);
        // What is known of simulations of another workload does not help.
        let hooks = Hooks {
            trials: None,
            progress: Some(&report),
            stop: self.hooks.stop,
        };
        let records = Sweep::new(spec, scenario, self.provider)?
            .with_hooks(hooks)
            .evaluate_states(states);
        if self.hooks.is_stopped() {
            return Err(ConfidenceError::Cancelled { done: before }.into());
        }
        // Fewer simulations may have been made than there are states.
        self.done = before + states.len();
        tell(self.done);
        Ok(records)
    }
}

impl fmt::Debug for Simulations<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulations")
            .field("done", &self.done)
            .field("planned", &self.planned)
            .finish_non_exhaustive()
    }
}

/// The scenario with other requests.
pub(super) fn with_workload(scenario: &Scenario, workload: Workload) -> Scenario {
    let (engine, gpu) = (scenario.engine().clone(), scenario.gpu().clone());
    let other = Scenario::new(engine, scenario.model().cloned(), gpu, workload);
    match scenario.physics() {
        Some(physics) => other.with_physics(physics.clone()),
        None => other,
    }
}
