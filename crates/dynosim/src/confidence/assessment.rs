//! From the candidates of a sweep to how sure their order is.

use std::fmt;

use dynosim_spec::{Objective, ReplayOptimizeSpec, SearchSpec};
use dynosim_sweep::{Hooks, Mode, State};
use dynosim_timing::TimingProvider;
use serde::Serialize;

use super::error::ConfidenceError;
use super::load_sensitivity::LoadSensitivity;
use super::model_error::ModelError;
use super::repetitions::Repetitions;
use super::simulations::Simulations;
use super::text;
use crate::error::Error;

/// Fewest repetitions that have a spread.
const FEWEST_REPEATS: u32 = 2;

/// More repetitions than anybody has time for.
const MOST_REPEATS: u32 = 1000;

/// More load than anybody asks about.
const MOST_LOAD: f64 = 100.0;

/// What to vary, and how far.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfidenceOptions {
    /// Variations of the workload that every candidate serves, 2 to 1,000; 5 by default.
    pub repeats: u32,
    /// Factors on the load, each above 0 and at most 100, in any order; 0.5 to 2 in steps of a quarter by default. The
    /// load as it is belongs to them unasked. Without any, other loads are not looked at.
    pub load_factors: Vec<f64>,
}

impl Default for ConfidenceOptions {
    fn default() -> Self {
        Self {
            repeats: 5,
            load_factors: vec![0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0],
        }
    }
}

impl ConfidenceOptions {
    fn check(&self) -> Result<(), ConfidenceError> {
        if !(FEWEST_REPEATS..=MOST_REPEATS).contains(&self.repeats) {
            return Err(ConfidenceError::Repeats {
                given: self.repeats,
                least: FEWEST_REPEATS,
                most: MOST_REPEATS,
            });
        }
        let is_possible = |factor: f64| factor > 0.0 && factor <= MOST_LOAD;
        let impossible = self.load_factors.iter().position(|&factor| !is_possible(factor));
        match impossible {
            Some(place) => Err(ConfidenceError::LoadFactor {
                number: place + 1,
                value: self.load_factors[place],
                most: MOST_LOAD,
            }),
            None => Ok(()),
        }
    }
}

/// How sure the order of some candidates is. The same for every host and any number of threads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Confidence {
    /// The candidates, as they were given: best first.
    pub candidates: Vec<String>,
    /// What they are ranked by among those that are feasible.
    pub objective: Objective,
    /// The candidates over variations of the workload.
    pub repetitions: Repetitions,
    /// The candidates under other loads; `None` if no factors were asked for, or if all requests arrive at once, which
    /// leaves no load to scale.
    pub load: Option<LoadSensitivity>,
    /// How far measurements were from simulations; `None` if nothing comparable was measured.
    pub model_error: Option<ModelError>,
    /// Evaluations of a candidate that this rests on.
    pub evaluations: usize,
}

impl Confidence {
    /// What one needs to know before relying on the first candidate, in about ten lines.
    pub fn text(&self) -> String {
        text::text(self)
    }
}

/// Finds out how sure the order of candidates is, by simulating them again.
///
/// Candidates of one workload are simulated in parallel, as the spec says (`maxParallelEvals`). No simulation is given
/// up, even if the spec asks for it, because the figures are wanted. Routers are the built-in ones.
pub struct Assessment<'a> {
    spec: &'a ReplayOptimizeSpec,
    provider: &'a dyn TimingProvider,
    states: &'a [State],
    options: ConfidenceOptions,
    provider_is_named: bool,
    hooks: Hooks<'a>,
}

impl<'a> Assessment<'a> {
    /// Of the candidates `states` of a sweep over `spec`, best first, priced by `provider`.
    ///
    /// # Errors
    /// If there are no candidates, or an option is out of range.
    pub fn new(
        spec: &'a ReplayOptimizeSpec,
        provider: &'a dyn TimingProvider,
        states: &'a [State],
        options: ConfidenceOptions,
    ) -> Result<Self, Error> {
        if states.is_empty() {
            return Err(ConfidenceError::NoCandidates.into());
        }
        options.check()?;
        Ok(Self {
            spec,
            provider,
            states,
            options,
            provider_is_named: true,
            hooks: Hooks::default(),
        })
    }

    /// Says that the provider is not the one that the spec names. Then nothing is known of its error.
    #[must_use]
    pub fn with_step_times_of_your_own(mut self) -> Self {
        self.provider_is_named = false;
        self
    }

    /// Lets these take part: progress is told in evaluations of a candidate. A store of simulations does not, because its
    /// simulations are of another workload.
    #[must_use]
    pub fn with_hooks(mut self, hooks: Hooks<'a>) -> Self {
        self.hooks = hooks;
        self
    }

    /// Simulates.
    ///
    /// # Errors
    /// If the spec is not valid, something it names does not exist or cannot be read, a load is impossible, or the
    /// caller has cancelled. What goes wrong with a candidate is part of the result.
    pub fn run(&self) -> Result<Confidence, Error> {
        let spec = ReplayOptimizeSpec {
            search: SearchSpec {
                stop_hopeless: false,
                ..self.spec.search.clone()
            },
            ..self.spec.clone()
        };
        let mut simulations = self.simulations();
        let scenario = simulations.scenario(&spec)?;
        let repeats = self.options.repeats;
        let (repetitions, base) = Repetitions::simulate(&spec, &scenario, self.states, repeats, &mut simulations)?;
        let named = self.provider_is_named;
        let model_error = named.then(|| ModelError::of(&spec, &scenario, self.states, &base));
        let load = match self.options.load_factors.as_slice() {
            [] => None,
            factors => LoadSensitivity::simulate(&spec, &scenario, self.states, factors, base, &mut simulations)?,
        };
        Ok(Confidence {
            candidates: self.states.iter().map(State::to_string).collect(),
            objective: spec.objective,
            repetitions,
            load,
            model_error: model_error.flatten(),
            evaluations: simulations.done,
        })
    }

    fn simulations(&self) -> Simulations<'a> {
        let mut modes: Vec<Mode> = Vec::new();
        for mode in self.states.iter().map(State::mode) {
            if !modes.contains(&mode) {
                modes.push(mode);
            }
        }
        // Repetitions have simulated the load as it is.
        let as_it_is = |factor: &&f64| (**factor - 1.0).abs() < f64::EPSILON;
        let other_loads = self.options.load_factors.iter().filter(|factor| !as_it_is(factor));
        let workloads = self.options.repeats as usize + other_loads.count();
        Simulations {
            provider: self.provider,
            modes,
            hooks: self.hooks,
            done: 0,
            planned: workloads * self.states.len(),
        }
    }
}

impl fmt::Debug for Assessment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assessment")
            .field("states", &self.states)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
