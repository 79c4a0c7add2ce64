//! From the result of a sweep to its explanation.

use std::fmt;

use dynosim_core::{Outcome, Scenario, WorkerShape};
use dynosim_spec::{ReplayOptimizeSpec, SearchStrategy, SlaSpec};
use dynosim_sweep::{Bound, Hooks, OptimizationResult, Record, Sweep, SweepError, best_first};
use dynosim_timing::TimingProvider;

use super::Explanation;
use super::candidate::{CandidateExplanation, Standing};
use super::neighbours::{BudgetChange, more_gpus};
use super::relief::{self, Relief};
use crate::error::Error;

/// Candidates that are feasible, and candidates that miss a bound.
const FEASIBLE: usize = 3;
const NEAR_MISSES: usize = 2;

/// How far beyond the budget a feasible candidate is looked for, as a factor.
const FARTHEST_BUDGET: u32 = 8;

/// The largest budget in which one is looked for, unless the sweep's own is larger.
const MOST_GPUS: u32 = 1024;

/// States of another budget that are all tried, if the search that is explained tried all of its own.
const MOST_STATES: u64 = 4000;

/// Explains the result of a sweep.
pub struct Explainer<'a> {
    result: &'a OptimizationResult,
    scenario: &'a Scenario,
    provider: &'a dyn TimingProvider,
    hooks: Hooks<'a>,
    most_feasible: usize,
}

impl fmt::Debug for Explainer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Explainer")
            .field("result", self.result)
            .finish_non_exhaustive()
    }
}

/// A candidate that was simulated in detail.
#[derive(Debug)]
pub struct Detailed {
    /// What the sweep noted down about it.
    pub record: Record,
    /// How it stands among the others.
    pub standing: Standing,
    /// Its run, with details.
    pub outcome: Outcome,
}

impl<'a> Explainer<'a> {
    /// Of a result that comes from this scenario, with this provider and the built-in routers.
    pub fn new(result: &'a OptimizationResult, scenario: &'a Scenario, provider: &'a dyn TimingProvider) -> Self {
        Self {
            result,
            scenario,
            provider,
            hooks: Hooks::default(),
            most_feasible: FEASIBLE,
        }
    }

    /// Lets these take part in searches within other budgets.
    #[must_use]
    pub fn with_hooks(mut self, hooks: Hooks<'a>) -> Self {
        self.hooks = hooks;
        self
    }

    /// Explains so many of the best outcomes instead of three.
    #[must_use]
    pub fn with_best(mut self, most: usize) -> Self {
        self.most_feasible = most.max(1);
        self
    }

    /// The explanation.
    ///
    /// # Errors
    /// If a candidate that was simulated before cannot be simulated again, or a budget cannot be searched.
    pub fn explain(&self) -> Result<Explanation, Error> {
        self.explain_detailed(&self.detailed()?)
    }

    /// The candidates that are explained, simulated in detail: the best outcomes and those that miss a bound by the least.
    ///
    /// # Errors
    /// If a candidate that was simulated before cannot be simulated again.
    pub fn detailed(&self) -> Result<Vec<Detailed>, Error> {
        let best = self.result.best_outcomes(self.most_feasible).into_iter();
        let misses = self.result.near_misses(NEAR_MISSES).into_iter();
        let standing = |place: usize| {
            if place == 0 {
                Standing::Winner
            } else {
                Standing::RunnerUp
            }
        };
        let best = best.enumerate().map(|(place, record)| (record, standing(place)));
        let misses = misses.map(|record| (record, Standing::NearMiss));
        let detailed = best.chain(misses).map(|(record, standing)| {
            Ok(Detailed {
                record: record.clone(),
                standing,
                outcome: self.simulate(record)?,
            })
        });
        detailed.collect()
    }

    /// The explanation, with the [detailed](Self::detailed) candidates at hand.
    ///
    /// # Errors
    /// If a budget cannot be searched.
    pub fn explain_detailed(&self, detailed: &[Detailed]) -> Result<Explanation, Error> {
        let sla = &self.result.spec.sla;
        let candidates = detailed.iter().zip(1..).map(|(candidate, rank)| {
            CandidateExplanation::new(rank, candidate.standing, &candidate.record, sla, &candidate.outcome)
        });
        let (mut more_gpus, mut fewer_gpus, mut relief) = (None, None, None);
        match &self.result.best_feasible {
            Some(best) => {
                more_gpus = self.more_gpus(best)?;
                fewer_gpus = self.fewer_gpus(best)?;
            }
            None => relief = self.relief()?,
        }
        Ok(Explanation {
            candidates: candidates.collect(),
            more_gpus,
            fewer_gpus,
            relief,
        })
    }

    fn simulate(&self, record: &Record) -> Result<Outcome, Error> {
        let spec = &self.result.spec;
        let run = record.state.run_spec(spec);
        let scenario = self.scenario.with_engine(run.engine);
        let pools = run.topology.pools();
        let shapes = pools
            .iter()
            .map(|pool| scenario.worker_shape(pool.role, pool.shape, self.provider))
            .collect::<Result<Vec<WorkerShape>, _>>()?;
        let workers: Vec<(&WorkerShape, u32)> = shapes.iter().zip(pools.iter().map(|pool| pool.workers)).collect();
        let prompts = scenario.prompts(pools[0].role);
        let router = run.router.settings();
        let simulation = scenario.simulation(&workers, &prompts, &router, spec.seed, &dynosim_router::build)?;
        Ok(simulation.keep_details().run(Vec::new())?)
    }

    fn budget(&self) -> u32 {
        self.result.spec.hardware.total_gpus.unwrap_or(1)
    }

    fn more_gpus(&self, best: &Record) -> Result<Option<BudgetChange>, Error> {
        let mut change = None;
        for step in more_gpus(best) {
            let budget = self.budget().saturating_add(step);
            let found = self.search_within(budget)?;
            change = found.map(|found| {
                // What is feasible within the budget is so within a larger one.
                let better = found
                    .best_feasible
                    .as_ref()
                    .filter(|other| best_first(other, best).is_lt());
                BudgetChange::new(budget, Some(better.unwrap_or(best)), knows_all(&found), best)
            });
            if change.as_ref().is_some_and(BudgetChange::is_better) {
                break;
            }
        }
        Ok(change)
    }

    fn fewer_gpus(&self, best: &Record) -> Result<Option<BudgetChange>, Error> {
        // A budget that the best candidate does not use up costs nothing.
        let used = u32::try_from(best.total_gpus_used).unwrap_or(u32::MAX);
        let budget = used.min(self.budget()).saturating_sub(1);
        if budget < self.result.spec.hardware.min_gpus.unwrap_or(1) {
            return Ok(None);
        }
        if knows_all(self.result) {
            // The best one first.
            let mut fewer = self.result.feasible.iter();
            let other = fewer.find(|record| record.total_gpus_used <= u64::from(budget));
            return Ok(Some(BudgetChange::new(budget, other, true, best)));
        }
        let found = self.search_within(budget)?;
        Ok(found.map(|found| BudgetChange::new(budget, found.best_feasible.as_ref(), knows_all(&found), best)))
    }

    fn relief(&self) -> Result<Option<Relief>, Error> {
        let sla: &SlaSpec = &self.result.spec.sla;
        if self.result.evaluated.is_empty() {
            return Ok(None);
        }
        let most = self
            .budget()
            .saturating_mul(FARTHEST_BUDGET)
            .min(self.budget().max(MOST_GPUS));
        let mut with_more_gpus = None;
        let mut proven = knows_all(self.result);
        let (fewest_gpus, largest_budget) = relief::fewest_gpus(self.budget(), most, |budget| {
            let found = self.search_within(budget)?;
            let fewest = found.as_ref().and_then(OptimizationResult::fewest_gpus);
            // Deployments that are larger than what is found do not matter.
            proven &= found.as_ref().is_some_and(knows_all);
            if let Some(fewest) = fewest {
                with_more_gpus = Some(fewest.state.to_string());
            }
            Ok::<_, Error>(fewest.map(|fewest| fewest.total_gpus_used))
        })?;
        Ok(Some(Relief {
            single: relief::single(&self.result.evaluated, sla),
            joint: relief::joint(&self.result.evaluated, sla),
            fewest_gpus,
            proven,
            with_more_gpus,
            largest_budget,
        }))
    }

    /// A search within another budget, of the strategy that the spec asks for as long as there are not too many candidates,
    /// and a descent otherwise; `None` if no candidate fits it.
    fn search_within(&self, budget: u32) -> Result<Option<OptimizationResult>, Error> {
        let mut spec: ReplayOptimizeSpec = self.result.spec.clone();
        spec.hardware.total_gpus = Some(budget);
        if spec.hardware.min_gpus.is_some_and(|least| least > budget) {
            return Ok(None);
        }
        if self.size_within(&spec) > MOST_STATES.max(2 * self.result.certificate.space) {
            spec.search.strategy = SearchStrategy::Descent;
        }
        let sweep = match Sweep::new(&spec, self.scenario.clone(), self.provider) {
            Ok(sweep) => sweep.with_hooks(self.hooks),
            Err(SweepError::BudgetTooLarge { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match sweep.optimize(&self.result.modes) {
            Ok(found) => Ok(Some(found)),
            Err(SweepError::BudgetTooSmall { .. } | SweepError::NoMode { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// States within the budget of this spec; 0 if there are none.
    fn size_within(&self, spec: &ReplayOptimizeSpec) -> u64 {
        let sweep = Sweep::new(spec, self.scenario.clone(), self.provider);
        let size = sweep.and_then(|sweep| sweep.count_states(&self.result.modes));
        size.unwrap_or(0)
    }
}

/// Whether every feasible state within the budget of this result has a record.
fn knows_all(result: &OptimizationResult) -> bool {
    let certificate = &result.certificate;
    let may_hide_some = certificate
        .pruned
        .get(Bound::ScoreBound.name())
        .is_some_and(|&count| count > 0);
    certificate.is_complete() && !may_hide_some
}
