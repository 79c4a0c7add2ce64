//! From a report to a verdict.

use std::sync::Arc;

use dynosim_spec::{Objective, ReplayOptimizeSpec, SlaBound};
use indexmap::IndexSet;

use crate::budget::Budget;
use crate::metrics::{Metrics, metric_names};
use crate::record::Record;
use crate::state::State;
use crate::trial::{Figures, Trial};

/// Bounds, budget and objective of a sweep.
#[derive(Debug, Clone)]
pub(crate) struct Judge {
    bounds: Vec<SlaBound>,
    budget: Budget,
    objective: Objective,
    gpu_hour_price: Option<f64>,
    metric_names: Arc<IndexSet<String>>,
}

impl Judge {
    pub(crate) fn new(spec: &ReplayOptimizeSpec, budget: Budget) -> Self {
        Self {
            bounds: spec.sla.active_bounds().collect(),
            budget,
            objective: spec.objective,
            gpu_hour_price: spec.hardware.gpu_hour_price,
            metric_names: metric_names(&spec.sla),
        }
    }

    /// What to note down about `state` after its trial.
    pub(crate) fn record(&self, state: State, simulation: usize, trial: &Trial) -> Record {
        let figures = match trial {
            Trial::Finished(figures) => Some(figures),
            Trial::Failed(_) | Trial::GivenUp { .. } => None,
        };
        let mut record = Record {
            state,
            simulation,
            metrics: figures.map_or_else(Metrics::default, |figures| {
                Metrics::new(&self.metric_names, &figures.metrics)
            }),
            rejected_requests: figures.map(|figures| figures.rejected_requests),
            extrapolated_share: figures.map(|figures| figures.extrapolated_share),
            total_gpus_used: state.total_gpus(),
            gpu_hour_price: self.gpu_hour_price,
            objective: self.objective,
            score: None,
            given_up: matches!(trial, Trial::GivenUp { .. }),
            feasible: false,
            violation_penalty: 0.0,
            infeasible_reason: None,
        };
        record.score = self.score(&record);
        let mut violations = Violations::default();
        self.check_budget(&state, &mut violations);
        match trial {
            Trial::Failed(reason) => violations.add(f64::INFINITY, reason.clone()),
            Trial::GivenUp {
                reason,
                expected_excess,
            } => violations.add(*expected_excess, reason.clone()),
            Trial::Finished(figures) => {
                check_rejections(figures, &record, &mut violations);
                for bound in &self.bounds {
                    check_bound(bound, record.metric(bound.metric), &mut violations);
                }
            }
        }
        record.feasible = violations.reasons.is_empty();
        record.violation_penalty = violations.penalty;
        record.infeasible_reason = (!violations.reasons.is_empty()).then(|| violations.reasons.join("; "));
        record
    }

    /// The more, the better; `None` without metrics.
    fn score(&self, record: &Record) -> Option<f64> {
        if record.metrics.is_empty() {
            return None;
        }
        let value = record.metric(self.objective.metric())?;
        Some(if self.objective.is_more_better() { value } else { -value })
    }

    fn check_budget(&self, state: &State, violations: &mut Violations) {
        let gpus = state.total_gpus();
        let Budget { least, most } = self.budget;
        if gpus > u64::from(most) {
            violations.add(1.0, format!("uses {gpus} GPUs of a budget of {most}"));
        } else if gpus < u64::from(least) && least > 1 {
            violations.add(
                1.0,
                format!("uses {gpus} GPUs, fewer than hardware.minGpus, which is {least}"),
            );
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
fn check_rejections(figures: &Figures, record: &Record, violations: &mut Violations) {
    let rejected = figures.rejected_requests;
    if rejected == 0 {
        return;
    }
    let requests = record.metric("num_requests").unwrap_or(0.0).max(rejected as f64);
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
        judging(Judge::new(&spec, Budget::up_to(8)), &METRICS)
    }

    /// The same judge of trials with these metrics.
    fn judging(judge: Judge, metrics: &[(&str, f64)]) -> Judge {
        let names = metrics.iter().map(|(name, _)| (*name).to_owned());
        Judge {
            metric_names: Arc::new(names.collect()),
            ..judge
        }
    }

    fn state(workers: u32) -> State {
        let shape = ParallelShape::tensor(2);
        State::new(Topology::Aggregated { workers, shape }, RouterState::round_robin())
    }

    fn figures(metrics: &[(&str, f64)]) -> Figures {
        Figures {
            metrics: metrics.iter().map(|&(_, value)| value).collect(),
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
        for metrics in [&METRICS[..], &[("mean_e2e_latency_ms", f64::NAN)]] {
            let judge = judging(judge(sla.clone(), Objective::MeanE2eLatency), metrics);
            let record = judge.record(state(1), 0, &Trial::Finished(figures(metrics)));
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
    fn the_more_the_better() {
        let score = |objective: Objective| {
            let judge = Judge {
                gpu_hour_price: Some(9.0),
                ..judging(judge(SlaSpec::default(), objective), &SCORED)
            };
            let record = judge.record(state(3), 0, &Trial::Finished(figures(&SCORED)));
            record.score.expect("there are metrics")
        };
        for (objective, expected) in [
            (Objective::Throughput, 600.0),
            (Objective::ThroughputPerGpu, 100.0),
            (Objective::Goodput, 2.5),
            (Objective::P99Itl, -40.0),
            (Objective::MinGpus, -6.0),
            // Six GPUs for two hours at 9 make 108, for half a million tokens.
            (Objective::Cost, -216.0),
        ] {
            assert!((score(objective) - expected).abs() < 1e-12, "{objective}");
        }
    }

    const SCORED: [(&str, f64); 5] = [
        ("output_throughput_tok_s", 600.0),
        ("goodput_rps", 2.5),
        ("p99_tpot_ms", 40.0),
        ("duration_ms", 7_200_000.0),
        ("total_output_tokens", 500_000.0),
    ];

    #[test]
    fn the_budget_is_a_bound_too() {
        let judge = judge(SlaSpec::default(), Objective::Throughput);
        let record = judge.record(state(5), 0, &Trial::Finished(figures(&METRICS)));
        check(&record, 1.0, Some("uses 10 GPUs of a budget of 8"));
    }
}
