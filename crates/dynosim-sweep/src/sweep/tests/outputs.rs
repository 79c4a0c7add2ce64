//! What a sweep returns and writes.

use std::sync::atomic::{AtomicUsize, Ordering};

use dynosim_spec::{Objective, SlaSpec};
use dynosim_timing::PolynomialTiming;

use super::*;

/// Everything that a sweep writes.
fn outputs(sweep: &Sweep<'_>) -> Vec<String> {
    let comparison = sweep.compare_agg_and_disagg().expect("there are candidates");
    let mut outputs = vec![comparison.to_json().expect("no odd paths")];
    for result in [&comparison.agg, &comparison.disagg] {
        let result = result.as_ref().expect("there are candidates");
        outputs.push(result.to_json().expect("no odd paths"));
        outputs.push(result.table(5));
        let (mut evaluated, mut feasible) = (Vec::new(), Vec::new());
        result.write_evaluated_csv(&mut evaluated).expect("memory is writable");
        result.write_feasible_csv(&mut feasible).expect("memory is writable");
        outputs.extend([evaluated, feasible].map(|bytes| String::from_utf8(bytes).expect("names and numbers")));
    }
    outputs
}

#[test]
fn outputs_do_not_depend_on_threads() {
    let mut spec = small_spec();
    spec.max_parallel_evals = Some(1);
    let alone = outputs(&sweep(&spec, &PolynomialTiming));
    for threads in [2, 8] {
        spec.max_parallel_evals = Some(threads);
        assert_eq!(outputs(&sweep(&spec, &PolynomialTiming)), alone);
    }
    assert!(!alone[0].contains("maxParallelEvals") && alone[0].contains("\"chosen_mode\""));
}

#[test]
fn the_best_state_is_the_best_record() {
    for objective in [Objective::Throughput, Objective::MeanTtft, Objective::MeanE2eLatency] {
        let spec = ReplayOptimizeSpec {
            objective,
            ..small_spec()
        };
        let result = sweep(&spec, &PolynomialTiming)
            .optimize_dense_disagg()
            .expect("there are candidates");
        let best = result.best_feasible.as_ref().expect("there are no bounds");
        assert_eq!(result.feasible.len(), result.evaluated.len());
        assert!(result.evaluated.iter().all(|record| record.score <= best.score));
        assert!(result.best_infeasible.is_none());
        assert!(result.verdict().contains(&best.state.to_string()));
        let again = sweep(&spec, &PolynomialTiming).evaluate_states(&[best.state]);
        assert_eq!(again[0].metrics, best.metrics, "a state alone gives the same figures");
    }
}

#[test]
fn bounds_that_nobody_meets_are_named() {
    let sla = SlaSpec {
        ttft: Some(1.0),
        p95_itl: Some(0.5),
        ..SlaSpec::default()
    };
    let spec = ReplayOptimizeSpec { sla, ..small_spec() };
    let result = sweep(&spec, &PolynomialTiming)
        .optimize_dense_agg()
        .expect("there are candidates");
    assert!(result.feasible.is_empty() && result.best_feasible.is_none());
    let nearest = result.best_infeasible.as_ref().expect("something was visited");
    assert!(
        result
            .evaluated
            .iter()
            .all(|record| record.violation_penalty >= nearest.violation_penalty)
    );
    let reason = nearest.infeasible_reason.as_deref().unwrap_or_default();
    assert!(
        reason.contains("sla.ttft: mean_ttft_ms") && reason.contains("sla.p95Itl: p95_tpot_ms"),
        "{reason}"
    );
    assert!(result.verdict().starts_with("none of ") && result.verdict().contains(reason));
    assert_eq!(result.table(2).lines().count(), 3);
    let mut feasible = Vec::new();
    result.write_feasible_csv(&mut feasible).expect("memory is writable");
    let feasible = String::from_utf8(feasible).expect("names only");
    assert_eq!(feasible.lines().count(), 1);
    assert!(
        feasible.starts_with("tp,workers,router_mode,overlap_score_credit,prefill_load_scale,total_gpus_used,score")
    );
}

#[test]
fn small_and_near_alternatives_are_counted() {
    let spec = small_spec();
    let result = sweep(&spec, &PolynomialTiming)
        .optimize_dense_agg()
        .expect("there are candidates");
    let fewest = result.fewest_gpus().expect("there are no bounds");
    let gpus = |record: &Record| record.total_gpus_used;
    assert_eq!(Some(gpus(fewest)), result.feasible.iter().map(gpus).min());
    let as_small = result.feasible.iter().filter(|record| gpus(record) == gpus(fewest));
    assert!(as_small.into_iter().all(|record| record.score <= fewest.score));
    // All are within 100 % of the best one, and no two of these have the same outcome.
    let rows = result.table(usize::MAX).lines().count() - 1;
    assert_eq!(result.near_best(1.0), rows - 1);
    assert!(result.near_best(0.01) < rows - 1);

    let sla = SlaSpec {
        ttft: Some(1.0),
        ..SlaSpec::default()
    };
    let hopeless = ReplayOptimizeSpec { sla, ..small_spec() };
    let result = sweep(&hopeless, &PolynomialTiming)
        .optimize_dense_agg()
        .expect("there are candidates");
    assert_eq!((result.fewest_gpus(), result.near_best(1.0)), (None, 0));
}

#[test]
fn progress_counts_simulations() {
    let spec = small_spec();
    let (calls, most_done, most_planned) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let progress = |done: usize, planned: usize| {
        assert!(done <= planned);
        calls.fetch_add(1, Ordering::Relaxed);
        most_done.fetch_max(done, Ordering::Relaxed);
        most_planned.fetch_max(planned, Ordering::Relaxed);
    };
    let sweep = sweep(&spec, &PolynomialTiming).with_progress(&progress);
    let result = sweep.optimize_dense_agg().expect("there are candidates");
    assert_eq!(most_done.load(Ordering::Relaxed), result.simulations);
    assert_eq!(most_planned.load(Ordering::Relaxed), result.simulations);
    assert!(calls.load(Ordering::Relaxed) > result.simulations);
}
