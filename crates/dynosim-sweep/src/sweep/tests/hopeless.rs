//! Candidates that are given up.

use dynosim_spec::SlaSpec;
use dynosim_timing::PolynomialTiming;

use super::*;
use crate::result::OptimizationResult;

fn bounded(sla: SlaSpec) -> ReplayOptimizeSpec {
    ReplayOptimizeSpec { sla, ..small_spec() }
}

fn hopeless_stopped(spec: &ReplayOptimizeSpec) -> ReplayOptimizeSpec {
    let mut spec = spec.clone();
    spec.search.stop_hopeless = true;
    spec
}

fn both_searches(spec: &ReplayOptimizeSpec) -> [OptimizationResult; 2] {
    let sweep = sweep(spec, &PolynomialTiming);
    [sweep.optimize_dense_agg(), sweep.optimize_dense_disagg()].map(|result| result.expect("there are candidates"))
}

/// A bound on a metric between the figures of what is visited, so that some meet it and some do not.
fn between(metric: &str) -> f64 {
    let [agg, disagg] = both_searches(&small_spec());
    let mut figures: Vec<f64> = agg
        .evaluated
        .iter()
        .chain(&disagg.evaluated)
        .filter_map(|record| record.metric(metric))
        .collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 3]
}

/// A bound on `metric` alone, which is the field `key` of the spec.
fn bound_on(metric: &str, key: fn(&mut SlaSpec) -> &mut Option<f64>) -> SlaSpec {
    let mut sla = SlaSpec::default();
    *key(&mut sla) = Some(between(metric));
    sla
}

fn p95_ttft() -> SlaSpec {
    bound_on("p95_ttft_ms", |sla| &mut sla.p95_ttft)
}

fn slas() -> [SlaSpec; 5] {
    [
        bound_on("mean_ttft_ms", |sla| &mut sla.ttft),
        p95_ttft(),
        bound_on("mean_tpot_ms", |sla| &mut sla.itl),
        bound_on("mean_e2e_latency_ms", |sla| &mut sla.e2e_latency),
        bound_on("p95_e2e_latency_ms", |sla| &mut sla.p95_e2e_latency),
    ]
}

fn is_given_up(record: &Record) -> bool {
    let reason = record.infeasible_reason.as_deref().unwrap_or_default();
    assert_eq!(record.given_up, reason.contains("given up after"));
    record.given_up
}

/// The best feasible states of the two searches.
fn best_states(spec: &ReplayOptimizeSpec) -> [Option<State>; 2] {
    both_searches(spec).map(|result| result.best_feasible.map(|record| record.state))
}

#[test]
fn the_best_feasible_state_is_the_same() {
    for sla in slas() {
        let spec = bounded(sla);
        let whole = best_states(&spec);
        assert!(whole[0].is_some(), "{:?}", spec.sla);
        assert_eq!(best_states(&hopeless_stopped(&spec)), whole, "{:?}", spec.sla);
    }
}

#[test]
fn without_a_feasible_state_everything_is_simulated_to_its_end() {
    let nobody_keeps_it = SlaSpec {
        ttft: Some(1e-6),
        ..SlaSpec::default()
    };
    // What meets the second bound is found from the closest of those that do not.
    for sla in [nobody_keeps_it, p95_ttft()] {
        let spec = bounded(sla);
        let [_, whole] = both_searches(&spec);
        let [_, stopped] = both_searches(&hopeless_stopped(&spec));
        assert_eq!(stopped.evaluated, whole.evaluated);
        assert!(whole.simulations > 0 && whole.simulations <= whole.evaluated.len());
        assert!(!stopped.evaluated.iter().any(is_given_up));
    }
}

#[test]
fn who_is_given_up_would_have_missed_the_bound() {
    for sla in slas() {
        let bound = sla.active_bounds().next().expect("there is one");
        let spec = bounded(sla);
        let mut given_up = 0;
        for stopped in both_searches(&hopeless_stopped(&spec)) {
            let states: Vec<State> = stopped.evaluated.iter().map(|record| record.state).collect();
            let whole = sweep(&spec, &PolynomialTiming).evaluate_states(&states);
            for (stopped, whole) in stopped.evaluated.iter().zip(&whole) {
                assert_eq!(stopped.feasible, whole.feasible, "{}", whole.state);
                if !is_given_up(stopped) {
                    assert_eq!(stopped, whole);
                    continue;
                }
                given_up += 1;
                let missed = format!("sla.{}: {} ", bound.name, bound.metric);
                let [stopped_by, missed_by] = [stopped, whole].map(|record| record.infeasible_reason.as_deref());
                assert!(missed_by.is_some_and(|reason| reason.starts_with(&missed)));
                let exceeded = format!(" of 60 requests: {missed}exceeds {} ms whatever comes", bound.bound_ms);
                assert!(
                    stopped_by.is_some_and(|reason| reason.ends_with(&exceeded)),
                    "{stopped_by:?}"
                );
                assert!(stopped.metrics.is_empty() && stopped.score.is_none());
                assert!(stopped.violation_penalty.is_finite() && stopped.violation_penalty >= 0.0);
            }
        }
        assert!(given_up > 0, "nobody misses {bound:?} for certain");
    }
}

#[test]
fn results_do_not_depend_on_threads() {
    for sla in slas() {
        let mut spec = hopeless_stopped(&bounded(sla));
        let [alone, together] = [1, 2].map(|threads| {
            spec.max_parallel_evals = Some(threads);
            both_searches(&spec).map(|result| (result.to_json().expect("no odd paths"), result.evaluated))
        });
        assert_eq!(alone, together);
        assert!(alone.iter().any(|(_, evaluated)| evaluated.iter().any(is_given_up)));
    }
}

#[test]
fn without_bounds_nobody_is_given_up() {
    let spec = small_spec();
    for (whole, stopped) in both_searches(&spec).iter().zip(both_searches(&hopeless_stopped(&spec))) {
        assert_eq!(whole.evaluated, stopped.evaluated);
    }
}
