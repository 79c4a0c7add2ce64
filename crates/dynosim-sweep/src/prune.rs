//! Candidates that an exhaustive search leaves out on proof.

use dynosim_core::Scenario;
use dynosim_spec::{Admission, Objective, ParallelShape, Prune, ReplayOptimizeSpec, WorkerRole};
use indexmap::IndexMap;
use serde::Serialize;

use crate::engine_settings::EngineSettings;
use crate::evaluator::Evaluator;
use crate::state::State;

/// What proves that a candidate need not be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// A worker can never serve one of the requests, most often because its KV cache is too small. So a request is
    /// rejected whatever the rest of the deployment is, and the candidate is infeasible.
    RejectsRequest,
    /// Its score cannot exceed what follows from its number of GPUs and from when the last request arrives, and a feasible
    /// candidate is known whose score is higher.
    ScoreBound,
}

impl Bound {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RejectsRequest => "rejects_request",
            Self::ScoreBound => "score_bound",
        }
    }
}

/// A candidate that was left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Pruned {
    /// The candidate.
    pub state: State,
    /// What proves that it need not be simulated.
    pub bound: Bound,
    /// The proof in words.
    pub proof: String,
}

/// Finds candidates that need not be simulated.
#[derive(Debug)]
pub(crate) struct Pruner<'e, 's, 'a> {
    evaluator: &'e Evaluator<'s, 'a>,
    prune: Prune,
    ceiling: Option<ScoreCeiling>,
    /// The best score of a feasible candidate that is known.
    known_score: Option<f64>,
    /// Why workers cannot serve all requests, as far as somebody has asked.
    rejections: IndexMap<(EngineSettings, WorkerRole, ParallelShape), Option<String>>,
}

impl<'e, 's, 'a> Pruner<'e, 's, 'a> {
    pub(crate) fn new(
        spec: &ReplayOptimizeSpec,
        scenario: &Scenario,
        evaluator: &'e Evaluator<'s, 'a>,
        known_score: Option<f64>,
    ) -> Self {
        Self {
            evaluator,
            prune: spec.search.prune,
            ceiling: ScoreCeiling::new(spec, scenario),
            known_score,
            rejections: IndexMap::new(),
        }
    }

    /// The proof that a candidate need not be simulated, if there is one.
    pub(crate) fn proof(&mut self, state: State) -> Option<Pruned> {
        if self.prune == Prune::None {
            return None;
        }
        let rejected = self.rejection(&state).map(|proof| (Bound::RejectsRequest, proof));
        let (bound, proof) = rejected.or_else(|| {
            let worse = (self.prune == Prune::Worse).then(|| self.worse(&state)).flatten();
            worse.map(|proof| (Bound::ScoreBound, proof))
        })?;
        Some(Pruned { state, bound, proof })
    }

    fn rejection(&mut self, state: &State) -> Option<String> {
        for pool in state.pools() {
            let key = (state.engine, pool.role, pool.shape);
            if !self.rejections.contains_key(&key) {
                let reason = self.first_rejection(key);
                self.rejections.insert(key, reason);
            }
            if let Some(Some(reason)) = self.rejections.get(&key) {
                return Some(reason.clone());
            }
        }
        None
    }

    fn first_rejection(&self, (settings, role, shape): (EngineSettings, WorkerRole, ParallelShape)) -> Option<String> {
        let variant = self.evaluator.variants().get(&settings)?;
        let shape = variant.shapes.get(role, shape).ok()?;
        variant.scenario.first_rejection(&[shape])
    }

    fn worse(&self, state: &State) -> Option<String> {
        let (known, ceiling) = (self.known_score?, self.ceiling.as_ref()?);
        let most = ceiling.score(state.total_gpus());
        (most < known).then(|| format!("its score is at most {most}, and one of {known} is known"))
    }
}

/// The highest score that any deployment of so many GPUs can have.
///
/// A run ends no earlier than its last request arrives, and a feasible deployment emits every token that is asked for. In
/// a closed loop arrivals prove nothing, because they wait for the deployment.
#[derive(Debug)]
struct ScoreCeiling {
    objective: Objective,
    /// When the last request arrives, hours; output tokens of all requests, millions; price of a GPU for an hour.
    last_arrival_hours: f64,
    million_tokens: f64,
    gpu_hour_price: f64,
}

impl ScoreCeiling {
    /// `None` where nothing follows for the objective.
    fn new(spec: &ReplayOptimizeSpec, scenario: &Scenario) -> Option<Self> {
        let workload = scenario.workload();
        let last_arrival_ms = match workload.admission() {
            Admission::OpenLoop => {
                let first_turns = workload.requests().iter().filter(|request| request.turn == 0);
                first_turns.map(|request| request.delay.as_ms()).fold(0.0, f64::max)
            }
            Admission::ClosedLoop { .. } => 0.0,
        };
        let follows = match spec.objective {
            Objective::MinGpus => true,
            Objective::ThroughputPerGpu | Objective::Cost => last_arrival_ms > 0.0,
            _ => false,
        };
        let tokens: u64 = workload
            .requests()
            .iter()
            .map(|request| u64::from(request.output_tokens))
            .sum();
        follows.then(|| Self {
            objective: spec.objective,
            last_arrival_hours: last_arrival_ms / 3_600_000.0,
            million_tokens: tokens as f64 / 1e6,
            gpu_hour_price: spec.hardware.gpu_hour_price.unwrap_or(0.0),
        })
    }

    fn score(&self, gpus: u64) -> f64 {
        /// More than what rounding can add to a score.
        const MARGIN: f64 = 1e-9;
        let gpus = gpus as f64;
        let score = match self.objective {
            Objective::MinGpus => return -gpus,
            Objective::Cost => -(gpus * self.gpu_hour_price * self.last_arrival_hours / self.million_tokens),
            _ => self.million_tokens * 1e6 / (self.last_arrival_hours * 3600.0) / gpus,
        };
        score + score.abs() * MARGIN
    }
}
