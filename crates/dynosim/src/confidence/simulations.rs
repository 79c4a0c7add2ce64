//! Candidates simulated under one workload after another.

use std::fmt;

use dynosim_core::Scenario;
use dynosim_spec::{ReplayOptimizeSpec, Workload};
use dynosim_sweep::{Mode, Progress, Record, State, Sweep};
use dynosim_timing::TimingProvider;

use super::error::ConfidenceError;
use crate::error::Error;
use crate::search::sweep_scenario;

/// Is asked before every workload whether to stop.
pub type Cancelled<'a> = &'a (dyn Fn() -> bool + Sync);

/// Simulates states, in parallel, and keeps count.
pub(super) struct Simulations<'a> {
    pub(super) provider: &'a dyn TimingProvider,
    pub(super) modes: Vec<Mode>,
    pub(super) progress: Option<Progress<'a>>,
    pub(super) cancelled: Option<Cancelled<'a>>,
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
        if self.cancelled.is_some_and(|cancelled| cancelled()) {
            return Err(ConfidenceError::Cancelled { done: before }.into());
        }
        self.planned = self.planned.max(before + states.len());
        let planned = self.planned;
        let report = |done: usize, _planned_of_these: usize| {
            if let Some(progress) = self.progress {
                progress(before + done, planned);
            }
        };
        let sweep = Sweep::new(spec, scenario, self.provider)?;
        let records = sweep.with_progress(&report).evaluate_states(states);
        // Fewer simulations may have been made than there are states.
        self.done = before + states.len();
        if let Some(progress) = self.progress {
            progress(self.done, planned);
        }
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
