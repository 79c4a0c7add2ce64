//! Runs that are given up beyond a bound, against the same runs played to their end.

use std::sync::Arc;

use dynosim::core::{LatencyBound, Outcome, Scenario, SimError, WorkerShape};
use dynosim::router::build;
use dynosim::spec::{Deployment, GpuSpec};
use proptest::prelude::*;

use super::any_run::AnyRun;
use crate::random_cases::random_cases;

const METRICS: [&str; 7] = [
    "mean_ttft_ms",
    "p95_ttft_ms",
    "mean_tpot_ms",
    "p95_tpot_ms",
    "mean_e2e_latency_ms",
    "p95_e2e_latency_ms",
    "median_e2e_latency_ms",
];

/// What comes of a run that is given up beyond these bounds.
fn play(run: &AnyRun, bounds: &[LatencyBound]) -> Result<Outcome, SimError> {
    let spec = run.spec();
    let pools = spec.topology.pools();
    let gpu = GpuSpec::find(&spec.hardware.system).expect("the GPU is known");
    let scenario = Scenario::new(spec.engine.clone(), None, gpu, run.case.workload());
    let timing = run.case.timing();
    let provider = |_: &Deployment| Ok(Arc::clone(&timing));
    let shapes = pools
        .iter()
        .map(|pool| scenario.worker_shape(pool.role, pool.shape, &provider))
        .collect::<Result<Vec<WorkerShape>, SimError>>()?;
    let workers: Vec<(&WorkerShape, u32)> = shapes.iter().zip(pools.iter().map(|pool| pool.workers)).collect();
    let prompts = scenario.prompts(pools[0].role);
    let settings = spec.router.settings();
    scenario
        .simulation(&workers, &prompts, &settings, spec.router_seed(), &build)?
        .giving_up_beyond(bounds)
        .run(Vec::new())
}

/// Factors between a figure and a limit, most of them close to 1.
fn factor() -> impl Strategy<Value = f64> {
    let near = (-30_i32..30).prop_map(|steps| 1.0 + f64::from(steps) * 1e-7);
    let exact = prop::sample::select(vec![1.0, 1.0 + f64::EPSILON, 1.0 - f64::EPSILON]);
    prop_oneof![2 => near, 1 => exact, 2 => 0.0..1.2]
}

proptest! {
    #![proptest_config(random_cases(300))]

    #[test]
    fn differential_a_run_is_given_up_if_and_only_if_it_misses_a_bound(
        run in AnyRun::any(),
        limits in prop::collection::vec((prop::sample::select(METRICS.to_vec()), factor()), 1..3),
    ) {
        let Ok(whole) = play(&run, &[]) else { return Ok(()) };
        let metrics = whole.report.metrics();
        let bound = |&(metric, factor): &(&str, f64)| {
            LatencyBound::on_metric(metric, metrics[metric] * factor).expect("a latency")
        };
        let bounds: Vec<LatencyBound> = limits.iter().map(bound).collect();
        match play(&run, &bounds) {
            Ok(outcome) => {
                prop_assert_eq!(outcome.report, whole.report);
                prop_assert_eq!(outcome.requests, whole.requests);
                for bound in bounds {
                    let figure = metrics[&bound.metric()];
                    // The last request proves whatever is missed by more than a hair.
                    prop_assert!(figure <= bound.limit_ms * 1.000_002 + 3e-6, "{:?} is missed by {}", bound, figure);
                }
            }
            Err(SimError::GivenUp { bound, finished, requests }) => {
                let figure = metrics[&bound.metric()];
                prop_assert!(bounds.contains(&bound));
                prop_assert!(figure / bound.limit_ms - 1.0 > 0.0, "{:?} is not missed by {}", bound, figure);
                prop_assert_eq!(requests as u64, whole.report.completed_requests);
                prop_assert!((1..=requests).contains(&finished));
            }
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
    }
}
