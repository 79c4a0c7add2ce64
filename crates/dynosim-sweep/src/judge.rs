//! From a report to a verdict.

use dynosim_core::Report;
use dynosim_spec::{Objective, ReplayOptimizeSpec, SlaBound};
use indexmap::IndexMap;

use crate::record::Record;
use crate::state::State;

/// How a simulation ended.
#[derive(Debug, Clone)]
pub(crate) enum Trial {
    /// With these figures.
    Finished(Figures),
    /// Without any, for this reason.
    Failed(String),
    /// Before its end, because a bound will be missed whatever comes.
    GivenUp {
        /// Which bound, and when that was clear.
        reason: String,
        /// By how much the bound would be exceeded if the rest went on in the same way.
        expected_excess: f64,
    },
}

/// What a verdict needs of a report.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    pub(crate) metrics: IndexMap<String, f64>,
    pub(crate) rejected_requests: usize,
    /// Why the first of them is rejected.
    pub(crate) first_rejection: Option<String>,
    pub(crate) extrapolated_share: f64,
}

impl Figures {
    pub(crate) fn of(report: &Report) -> Self {
        Self {
            metrics: report.metrics(),
            rejected_requests: report.rejections.len(),
            first_rejection: report.rejections.first().map(|rejection| rejection.reason.clone()),
            extrapolated_share: report.extrapolated_share,
        }
    }

    fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.get(name).copied()
    }
}

/// Bounds, budget and objective of a sweep.
#[derive(Debug, Clone)]
pub(crate) struct Judge {
    bounds: Vec<SlaBound>,
    budget: u64,
    objective: Objective,
}

impl Judge {
    pub(crate) fn new(spec: &ReplayOptimizeSpec, budget: u32) -> Self {
        Self {
            bounds: spec.sla.active_bounds().collect(),
            budget: u64::from(budget),
            objective: spec.objective,
        }
    }

    /// What to note down about `state` after its trial.
    pub(crate) fn record(&self, state: State, simulation: usize, trial: &Trial) -> Record {
        let mut violations = Violations::default();
        self.check_budget(&state, &mut violations);
        let figures = match trial {
            Trial::Failed(reason) => {
                violations.add(f64::INFINITY, reason.clone());
                None
            }
            Trial::GivenUp {
                reason,
                expected_excess,
            } => {
                violations.add(*expected_excess, reason.clone());
                None
            }
            Trial::Finished(figures) => {
                check_rejections(figures, &mut violations);
                for bound in &self.bounds {
                    check_bound(bound, figures.metric(bound.metric), &mut violations);
                }
                Some(figures)
            }
        };
        Record {
            state,
            simulation,
            metrics: figures.map(|figures| figures.metrics.clone()).unwrap_or_default(),
            rejected_requests: figures.map(|figures| figures.rejected_requests),
            extrapolated_share: figures.map(|figures| figures.extrapolated_share),
            total_gpus_used: state.total_gpus(),
            objective: self.objective,
            score: figures.and_then(|figures| self.score(figures)),
            given_up: matches!(trial, Trial::GivenUp { .. }),
            feasible: violations.reasons.is_empty(),
            violation_penalty: violations.penalty,
            infeasible_reason: (!violations.reasons.is_empty()).then(|| violations.reasons.join("; ")),
        }
    }

    fn score(&self, figures: &Figures) -> Option<f64> {
        match self.objective {
            Objective::Throughput => figures.metric("output_throughput_tok_s"),
            Objective::MeanTtft => figures.metric("mean_ttft_ms").map(|ms| -ms),
            Objective::MeanE2eLatency => figures.metric("mean_e2e_latency_ms").map(|ms| -ms),
        }
    }

    fn check_budget(&self, state: &State, violations: &mut Violations) {
        let gpus = state.total_gpus();
        if gpus > self.budget {
            violations.add(1.0, format!("uses {gpus} GPUs of a budget of {}", self.budget));
        }
    }
}

#[derive(Debug, Default)]
struct Violations {
    penalty: f64,
    reasons: Vec<String>,
}

impl Violations {
    fn add(&mut self, penalty: f64, reason: String) {
        self.penalty += penalty;
        self.reasons.push(reason);
    }
}

/// A deployment that turns requests away is no answer, however fast it serves the others.
fn check_rejections(figures: &Figures, violations: &mut Violations) {
    let rejected = figures.rejected_requests;
    if rejected == 0 {
        return;
    }
    let requests = figures.metric("num_requests").unwrap_or(0.0).max(rejected as f64);
    let first = figures.first_rejection.as_deref().unwrap_or("of an unknown reason");
    violations.add(
        1.0 + rejected as f64 / requests,
        format!("rejects {rejected} of {requests} requests, the first one because {first}"),
    );
}

fn check_bound(bound: &SlaBound, value: Option<f64>, violations: &mut Violations) {
    let SlaBound { name, metric, bound_ms } = *bound;
    let Some(value) = value.filter(|value| !value.is_nan()) else {
        violations.add(f64::INFINITY, format!("sla.{name}: {metric} is unknown"));
        return;
    };
    // The excess may round to 0 although the bound is missed by a hair; that counts as met.
    let excess = value / bound_ms - 1.0;
    if excess > 0.0 {
        let reason = format!(
            "sla.{name}: {metric} {value:.3} exceeds {bound_ms} by {:.1} %",
            100.0 * excess
        );
        violations.add(excess, reason);
    }
}

#[cfg(test)]
mod tests {
    use dynosim_spec::{
        Backend, EngineSpec, HardwareSpec, ParallelShape, SlaSpec, SyntheticLoad, SyntheticWorkload, Topology,
        WorkloadSpec,
    };

    use super::*;
    use crate::state::RouterState;

    fn judge(sla: SlaSpec, objective: Objective) -> Judge {
        let workload = SyntheticWorkload::new(100, 10, 1, SyntheticLoad::Concurrency(1));
        let spec = ReplayOptimizeSpec {
            sla,
            objective,
            ..ReplayOptimizeSpec::new(
                EngineSpec::new("model", Backend::Vllm),
                HardwareSpec::new("h200_sxm"),
                WorkloadSpec::Synthetic(workload),
            )
        };
        Judge::new(&spec, 8)
    }

    fn state(workers: u32) -> State {
        State {
            topology: Topology::Aggregated {
                workers,
                shape: ParallelShape::tensor(2),
            },
            router: RouterState::round_robin(),
        }
    }

    fn figures(metrics: &[(&str, f64)]) -> Figures {
        Figures {
            metrics: metrics.iter().map(|&(name, value)| (name.to_owned(), value)).collect(),
            ..Figures::default()
        }
    }

    const METRICS: [(&str, f64); 5] = [
        ("num_requests", 10.0),
        ("output_throughput_tok_s", 500.0),
        ("mean_ttft_ms", 150.0),
        ("mean_tpot_ms", 30.0),
        ("p95_e2e_latency_ms", 900.0),
    ];

    #[track_caller]
    fn check(record: &Record, penalty: f64, reason: Option<&str>) {
        assert!((record.violation_penalty - penalty).abs() < 1e-12, "{record:?}");
        assert_eq!(record.infeasible_reason.as_deref(), reason);
        assert_eq!(record.feasible, reason.is_none());
    }

    #[test]
    fn excesses_over_bounds_add_up() {
        let sla = SlaSpec {
            ttft: Some(100.0),
            itl: Some(20.0),
            p95_e2e_latency: Some(900.0),
            ..SlaSpec::default()
        };
        let record = judge(sla, Objective::Throughput).record(state(4), 0, &Trial::Finished(figures(&METRICS)));
        let reason = "sla.ttft: mean_ttft_ms 150.000 exceeds 100 by 50.0 %; \
                      sla.itl: mean_tpot_ms 30.000 exceeds 20 by 50.0 %";
        check(&record, 1.0, Some(reason));
    }

    #[test]
    fn unbounded_states_are_feasible() {
        for inactive in [None, Some(0.0), Some(-1.0)] {
            let sla = SlaSpec {
                ttft: inactive,
                ..SlaSpec::default()
            };
            let record = judge(sla, Objective::MeanTtft).record(state(4), 3, &Trial::Finished(figures(&METRICS)));
            check(&record, 0.0, None);
            assert_eq!((record.score, record.simulation), (Some(-150.0), 3));
        }
    }

    #[test]
    fn unknown_metrics_cannot_meet_a_bound() {
        let sla = SlaSpec {
            e2e_latency: Some(5.0),
            ..SlaSpec::default()
        };
        let judge = judge(sla, Objective::MeanE2eLatency);
        for metrics in [figures(&METRICS), figures(&[("mean_e2e_latency_ms", f64::NAN)])] {
            let record = judge.record(state(1), 0, &Trial::Finished(metrics));
            assert!(record.violation_penalty.is_infinite() && !record.feasible);
        }
    }

    #[test]
    fn rejections_and_failures_are_no_answers() {
        let judge = judge(SlaSpec::default(), Objective::Throughput);
        let rejecting = Figures {
            rejected_requests: 2,
            first_rejection: Some("it is too long".to_owned()),
            ..figures(&METRICS)
        };
        let record = judge.record(state(1), 0, &Trial::Finished(rejecting));
        check(
            &record,
            1.2,
            Some("rejects 2 of 10 requests, the first one because it is too long"),
        );
        assert_eq!(record.score, Some(500.0));

        let record = judge.record(state(1), 0, &Trial::Failed("no progress".to_owned()));
        assert_eq!(record.infeasible_reason.as_deref(), Some("no progress"));
        assert_eq!((record.score, record.violation_penalty), (None, f64::INFINITY));
    }

    #[test]
    fn the_budget_is_a_bound_too() {
        let judge = judge(SlaSpec::default(), Objective::Throughput);
        let record = judge.record(state(5), 0, &Trial::Finished(figures(&METRICS)));
        check(&record, 1.0, Some("uses 10 GPUs of a budget of 8"));
    }
}
