//! From the result of a search to an answer.

use std::fmt;

use dynosim_core::Scenario;
use dynosim_spec::ReplayOptimizeSpec;
use dynosim_sweep::{Hooks, OptimizationResult, Record, State};
use dynosim_timing::TimingProvider;

use super::Answer;
use crate::confidence::{Assessment, Confidence, ConfidenceOptions};
use crate::error::Error;
use crate::explain::{Detailed, Explainer, Explanation};
use crate::inputs::Inputs;
use crate::search::shared_workload;
use crate::step_times::StepTimes;

/// How much is to be found out about the best candidates.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerOptions {
    /// Whether anything beyond the result is to be found out.
    pub explain: bool,
    /// Best outcomes that are explained and assessed, at least 1; 3 by default.
    pub top: usize,
    /// Variations of the workload that they are repeated over; 5 by default, and 0 assesses nothing.
    pub repeats: u32,
    /// Factors on the load at which they are simulated; from 0.5 to 2 by default.
    pub load_factors: Vec<f64>,
}

impl Default for AnswerOptions {
    fn default() -> Self {
        let ConfidenceOptions { repeats, load_factors } = ConfidenceOptions::default();
        Self {
            explain: true,
            top: 3,
            repeats,
            load_factors,
        }
    }
}

/// Finds out why a result is what it is, and how sure that is.
pub struct Answering<'a> {
    result: OptimizationResult,
    scenario: &'a Scenario,
    provider: &'a dyn TimingProvider,
    step_times: Option<StepTimes>,
    hooks: Hooks<'a>,
    options: AnswerOptions,
    inputs: Option<Inputs>,
}

impl fmt::Debug for Answering<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answering")
            .field("result", &self.result)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<'a> Answering<'a> {
    /// Of a result that comes from this scenario, with this provider and the built-in routers.
    pub fn new(result: OptimizationResult, scenario: &'a Scenario, provider: &'a dyn TimingProvider) -> Self {
        Self {
            result,
            scenario,
            provider,
            step_times: None,
            hooks: Hooks::default(),
            options: AnswerOptions::default(),
            inputs: None,
        }
    }

    /// Says that step times do not come from the provider that the spec names.
    #[must_use]
    pub fn with_step_times(mut self, step_times: StepTimes) -> Self {
        self.step_times = Some(step_times);
        self
    }

    /// Lets these take part. An answer that is stopped lacks what is not known yet.
    #[must_use]
    pub fn with_hooks(mut self, hooks: Hooks<'a>) -> Self {
        self.hooks = hooks;
        self
    }

    /// Finds out so much.
    #[must_use]
    pub fn with_options(mut self, options: AnswerOptions) -> Self {
        self.options = options;
        self
    }

    /// Names what the result rests on in documents.
    #[must_use]
    pub fn with_inputs(mut self, inputs: Inputs) -> Self {
        self.inputs = Some(inputs);
        self
    }

    /// The answer.
    ///
    /// # Errors
    /// If a candidate that was simulated before cannot be simulated again, another budget or load cannot be searched, or
    /// an option is out of range.
    pub fn answer(self) -> Result<Answer, Error> {
        let mut known = (None, Vec::new(), None);
        if self.options.explain && self.result.certificate.finished && !self.hooks.is_stopped() {
            let (explanation, detailed) = self.explain()?;
            let confidence = self.assess()?;
            // What was cut short may be wrong.
            if !self.hooks.is_stopped() {
                known = (Some(explanation), detailed, confidence);
            }
        }
        let (explanation, detailed, confidence) = known;
        let spec = &self.result.spec;
        let is_whole = self.result.certificate.finished && !self.hooks.is_stopped();
        let built_in = || StepTimes::built_in(&spec.timing, &spec.engine, &spec.hardware, None);
        Ok(Answer {
            explanation,
            confidence,
            detailed,
            is_whole,
            inputs: self.inputs.clone(),
            scenario: self.scenario.clone(),
            step_times: self.step_times.clone().unwrap_or_else(built_in),
            result: self.result,
        })
    }

    fn explain(&self) -> Result<(Explanation, Vec<Detailed>), Error> {
        let explainer = Explainer::new(&self.result, self.scenario, self.provider)
            .with_best(self.options.top)
            .with_hooks(self.hooks);
        let detailed = explainer.detailed()?;
        Ok((explainer.explain_detailed(&detailed)?, detailed))
    }

    fn assess(&self) -> Result<Option<Confidence>, Error> {
        let AnswerOptions {
            top,
            repeats,
            load_factors,
            ..
        } = &self.options;
        let best = assessed(&self.result, *top);
        let states: Vec<State> = best.into_iter().map(|record| record.state).collect();
        if *repeats == 0 || states.is_empty() || self.hooks.is_stopped() {
            return Ok(None);
        }
        let options = ConfidenceOptions {
            repeats: *repeats,
            load_factors: load_factors.clone(),
        };
        // The candidates alone may be of one kind, and are to serve the same requests all the same.
        let spec = ReplayOptimizeSpec {
            workload: shared_workload(&self.result.spec, &self.result.modes),
            ..self.result.spec.clone()
        };
        let mut assessment = Assessment::new(&spec, self.provider, &states, options)?.with_hooks(self.hooks);
        if self.step_times.is_some() {
            assessment = assessment.with_step_times_of_your_own();
        }
        match assessment.run() {
            Err(_) if self.hooks.is_stopped() => Ok(None),
            confidence => confidence.map(Some),
        }
    }
}

/// The candidates that are assessed: the best outcomes or, where nothing is feasible, those that are closest to it.
pub(super) fn assessed(result: &OptimizationResult, most: usize) -> Vec<&Record> {
    match result.best_outcomes(most) {
        none if none.is_empty() => result.near_misses(most),
        best => best,
    }
}
