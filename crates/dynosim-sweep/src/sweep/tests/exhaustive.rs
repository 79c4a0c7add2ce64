//! Searches through the whole space, in one go and in parts.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use dynosim_spec::{EngineAxes, Objective, PerRequestSla, Prune, SlaSpec};
use dynosim_timing::PolynomialTiming;

use super::*;

/// Keeps trials in memory and asks to stop when it has so many.
#[derive(Default)]
struct Memory {
    trials: Mutex<BTreeMap<String, Trial>>,
    kept: AtomicUsize,
    stop_at: Option<usize>,
    stop: AtomicBool,
}

impl TrialStore for Memory {
    fn find(&self, key: &str) -> Option<Trial> {
        self.trials.lock().expect("no thread has failed").get(key).cloned()
    }

    fn keep(&self, key: &str, trial: &Trial) {
        let mut trials = self.trials.lock().expect("no thread has failed");
        assert!(
            trials.insert(key.to_owned(), trial.clone()).is_none(),
            "{key} is made once"
        );
        let kept = self.kept.fetch_add(1, Ordering::Relaxed) + 1;
        if Some(kept) == self.stop_at {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

impl Memory {
    fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }
}

const BOTH: [Mode; 2] = [Mode::Agg, Mode::Disagg];

fn exhaustive() -> ReplayOptimizeSpec {
    let mut spec = small_spec();
    spec.search.strategy = SearchStrategy::Exhaustive;
    spec.sla = SlaSpec {
        ttft: Some(1500.0),
        ..SlaSpec::default()
    };
    spec
}

fn optimize(spec: &ReplayOptimizeSpec, modes: &[Mode]) -> OptimizationResult {
    let result = sweep(spec, &PolynomialTiming).optimize(modes);
    let result = result.expect("there are candidates");
    assert!(result.certificate.reconciles(), "{:?}", result.certificate);
    result
}

/// Everything of a result that does not depend on the host.
fn outputs(result: &OptimizationResult) -> Vec<String> {
    let mut tables = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    result.write_evaluated_csv(&mut tables[0]).expect("memory is writable");
    result.write_feasible_csv(&mut tables[1]).expect("memory is writable");
    result.write_pareto_csv(&mut tables[2]).expect("memory is writable");
    result.write_pruned_csv(&mut tables[3]).expect("memory is writable");
    let tables = tables.into_iter().map(|bytes| String::from_utf8(bytes).expect("text"));
    tables.chain([result.to_json().expect("plain values")]).collect()
}

#[test]
fn every_state_is_visited_once() {
    let result = optimize(&exhaustive(), &BOTH);
    let certificate = &result.certificate;
    assert!(certificate.is_complete() && certificate.finished);
    assert_eq!(certificate.visited, certificate.space);
    let states: IndexSet<State> = result.evaluated.iter().map(|record| record.state).collect();
    assert_eq!(states.len(), result.evaluated.len());
    // Polynomial timing knows sizes up to 8. Aggregated: workers of 1, 2, 4 GPUs, one router for one worker and
    // nine for several. Disaggregated: six, two and two splits of the pairs (1, 1), (1, 2), (2, 1) and one of (2, 2), nine
    // routers each.
    assert_eq!(certificate.space, (3 + 4 * 9 - 9 + 9) + (6 + 2 + 2 + 1) * 9);
    assert!(result.evaluated.iter().any(|record| record.mode() == Mode::Agg));
}

#[test]
fn nothing_is_better_than_the_best_of_all() {
    for objective in [
        Objective::Throughput,
        Objective::ThroughputPerGpu,
        Objective::P99Ttft,
        Objective::MinGpus,
    ] {
        let mut spec = exhaustive();
        spec.objective = objective;
        let all = optimize(&spec, &BOTH);
        spec.search.strategy = SearchStrategy::Descent;
        spec.search.beam = 1;
        let descent = optimize(&spec, &BOTH);
        let score = |result: &OptimizationResult| result.best_feasible.as_ref().and_then(|best| best.score);
        assert!(score(&descent) <= score(&all), "{objective}");
        assert!(descent.certificate.regret.is_none() && descent.certificate.unvisited > 0);
        assert_eq!(descent.certificate.space, all.certificate.space);
    }
}

#[test]
fn regret_is_that_of_the_descent_alone() {
    let mut spec = exhaustive();
    spec.search.beam = 1;
    let all = optimize(&spec, &[Mode::Disagg]);
    spec.search.strategy = SearchStrategy::Descent;
    let descent = optimize(&spec, &[Mode::Disagg]);
    let regret = all.certificate.regret.expect("the search has come to its end");
    assert_eq!(regret.descent_visited, descent.evaluated.len() as u64);
    assert_eq!(
        regret.descent_score,
        descent.best_feasible.as_ref().and_then(|best| best.score)
    );
    assert_eq!(
        regret.best_score,
        all.best_feasible.as_ref().and_then(|best| best.score)
    );
    assert!(regret.share.is_some_and(|share| share >= 0.0));
}

#[test]
fn parts_come_to_the_same_as_the_whole() {
    let spec = exhaustive();
    let whole = outputs(&optimize(&spec, &BOTH));
    let memory = Memory::default();
    let mut simulated = Vec::new();
    for index in [3, 0, 6, 1, 2, 5, 4] {
        let shard = Shard { index, count: 7 };
        let of_part = sweep(&spec, &PolynomialTiming)
            .with_trials(&memory)
            .simulate_shard(&BOTH, shard);
        simulated.push(of_part.expect("there are candidates"));
    }
    let before = memory.kept();
    let merged = sweep(&spec, &PolynomialTiming).with_trials(&memory).optimize(&BOTH);
    let merged = merged.expect("there are candidates");
    assert_eq!(outputs(&merged), whole);
    assert_eq!(memory.kept(), before, "nothing was left to do");
    assert!(simulated.iter().all(|&part| part < merged.simulations), "{simulated:?}");
}

#[test]
fn an_interrupted_search_goes_on_where_it_was() {
    for strategy in [SearchStrategy::Exhaustive, SearchStrategy::Descent] {
        let mut spec = exhaustive();
        spec.search.strategy = strategy;
        let whole = optimize(&spec, &BOTH);
        for stop_at in (1..whole.simulations).step_by(5) {
            let memory = Memory {
                stop_at: Some(stop_at),
                ..Memory::default()
            };
            let interrupted = sweep(&spec, &PolynomialTiming)
                .with_trials(&memory)
                .with_stop(&memory.stop);
            let part = interrupted.optimize(&BOTH).expect("there are candidates");
            assert!(!part.certificate.finished && part.certificate.reconciles());
            assert!(part.certificate.regret.is_none());
            assert!(
                part.simulations <= stop_at + 1 && part.simulations < whole.simulations,
                "two threads"
            );
            memory.stop.store(false, Ordering::Relaxed);
            let resumed = sweep(&spec, &PolynomialTiming).with_trials(&memory);
            let resumed = resumed.optimize(&BOTH).expect("there are candidates");
            assert_eq!(outputs(&resumed), outputs(&whole), "stopped after {stop_at}");
        }
    }
}

#[test]
fn a_stopped_search_of_hopeless_candidates_goes_on_too() {
    let mut spec = exhaustive();
    spec.search.stop_hopeless = true;
    spec.sla.ttft = Some(1.0);
    let whole = optimize(&spec, &[Mode::Disagg]);
    assert!(
        whole.feasible.is_empty() && whole.certificate.given_up == 0,
        "made again with whole simulations"
    );
    let memory = Memory {
        stop_at: Some(whole.simulations + 3),
        ..Memory::default()
    };
    let sweep_of = || sweep(&spec, &PolynomialTiming).with_trials(&memory);
    let part = sweep_of().with_stop(&memory.stop).optimize(&[Mode::Disagg]);
    assert!(!part.expect("there are candidates").certificate.finished);
    let resumed = sweep_of().optimize(&[Mode::Disagg]).expect("there are candidates");
    assert_eq!(outputs(&resumed), outputs(&whole));
}

#[test]
fn a_shard_is_part_of_an_exhaustive_search() {
    let error = sweep(&small_spec(), &PolynomialTiming).simulate_shard(&BOTH, Shard { index: 0, count: 2 });
    assert!(matches!(error, Err(SweepError::ShardOfDescent)));
}

#[test]
fn workers_that_reject_requests_are_pruned() {
    // 30 blocks of 16 tokens hold a request, 20 do not.
    let mut spec = exhaustive();
    spec.search.engine_args.block_size = vec![16, 8];
    spec.engine.base_engine_args.num_gpu_blocks = Some(30);
    let pruned = optimize(&spec, &[Mode::Disagg]);
    let of_bound = pruned.certificate.pruned["rejects_request"];
    assert!(of_bound > 0 && of_bound == pruned.pruned.len() as u64);
    assert!(
        pruned
            .pruned
            .iter()
            .all(|left_out| left_out.proof.contains("KV blocks of 8 tokens"))
    );
    spec.search.prune = Prune::None;
    let whole = optimize(&spec, &[Mode::Disagg]);
    assert_eq!(whole.certificate.visited, whole.certificate.space);
    assert_eq!(
        whole.best_feasible.map(|best| best.state),
        pruned.best_feasible.map(|best| best.state)
    );
    for left_out in &pruned.pruned {
        let record = whole.evaluated.iter().find(|record| record.state == left_out.state);
        assert!(record.is_some_and(|record| !record.feasible), "{}", left_out.state);
    }
}

#[test]
fn what_cannot_be_better_is_pruned_if_asked_for() {
    let mut spec = exhaustive();
    spec.objective = Objective::MinGpus;
    spec.search.prune = Prune::Worse;
    spec.sla.ttft = Some(100_000.0);
    let pruned = optimize(&spec, &BOTH);
    assert!(pruned.certificate.pruned["score_bound"] > 0 && pruned.certificate.is_complete());
    spec.search.prune = Prune::None;
    let whole = optimize(&spec, &BOTH);
    let score = |result: &OptimizationResult| result.best_feasible.as_ref().and_then(|best| best.score);
    assert_eq!(score(&pruned), score(&whole));
    assert!(pruned.pruned.iter().all(|left_out| left_out.state.total_gpus() > 1));
}

#[test]
fn ceilings_hold_for_every_state() {
    for objective in [Objective::ThroughputPerGpu, Objective::Cost] {
        let mut spec = exhaustive();
        spec.objective = objective;
        spec.hardware.gpu_hour_price = Some(2.5);
        let load = SyntheticWorkload::new(400, 12, 60, SyntheticLoad::RequestRate(4.0));
        spec.workload = WorkloadSpec::Synthetic(load);
        let score = |prune: Prune| {
            let mut spec = spec.clone();
            spec.search.prune = prune;
            let result = optimize(&spec, &BOTH);
            let best = result.best_feasible.as_ref().expect("a slow load");
            (best.score, result.certificate.pruned.get("score_bound").copied())
        };
        let (pruned, whole) = (score(Prune::Worse), score(Prune::None));
        assert_eq!(pruned.0, whole.0, "{objective}");
        assert!(pruned.1.is_some_and(|count| count > 0), "{objective}");
    }
}

#[test]
fn engine_arguments_are_part_of_the_space() {
    let mut spec = exhaustive();
    let plain = optimize(&spec, &[Mode::Disagg]).certificate.space;
    spec.search.engine_args = EngineAxes {
        max_num_seqs: vec![Limit::AtMost(2), Limit::Unlimited],
        enable_chunked_prefill: vec![true, false],
        ..EngineAxes::default()
    };
    let result = optimize(&spec, &[Mode::Disagg]);
    assert_eq!(result.certificate.space, 4 * plain);
    let settings: IndexSet<EngineSettings> = result.evaluated.iter().map(|record| record.state.engine).collect();
    assert_eq!(settings.len(), 4);
    let mut table = Vec::new();
    result.write_evaluated_csv(&mut table).expect("memory is writable");
    let table = String::from_utf8(table).expect("text");
    assert!(
        table
            .lines()
            .next()
            .is_some_and(|header| header.contains(",max_num_seqs,enable_chunked_prefill,"))
    );
    assert!(table.contains(",unlimited,false,"));
    // A state alone gives the same figures as in the search.
    let best = result.best_feasible.as_ref().expect("a wide bound");
    let again = sweep(&spec, &PolynomialTiming).evaluate_states(&[best.state]);
    assert_eq!(again[0].metrics, best.metrics);
    spec.search.strategy = SearchStrategy::Descent;
    let descent = optimize(&spec, &[Mode::Disagg]);
    assert!(
        descent
            .evaluated
            .iter()
            .any(|record| record.state.engine != descent.evaluated[0].state.engine)
    );
}

#[test]
fn goodput_counts_requests_that_meet_their_bounds() {
    let mut spec = exhaustive();
    spec.objective = Objective::Goodput;
    spec.sla.per_request = Some(PerRequestSla {
        ttft: Some(300.0),
        ..PerRequestSla::default()
    });
    let result = optimize(&spec, &[Mode::Agg]);
    let share = |record: &Record| record.metric("goodput_share").expect("there are bounds");
    assert!(
        result
            .evaluated
            .iter()
            .all(|record| (0.0..=1.0).contains(&share(record)))
    );
    let best = result.best_feasible.as_ref().expect("a wide bound");
    assert_eq!(best.score, best.metric("goodput_rps"));
    let rate = best.metric("request_throughput_rps").expect("a report") * share(best);
    assert!((best.score.expect("a report") / rate - 1.0).abs() < 1e-12);
}

#[test]
fn a_kind_that_cannot_be_searched_is_left_out() {
    let mut spec = exhaustive();
    spec.hardware.total_gpus = Some(1);
    let result = optimize(&spec, &BOTH);
    assert_eq!(result.modes, [Mode::Agg]);
    assert!(
        result
            .warnings
            .iter()
            .any(|warning| warning.starts_with("disaggregated deployments are left out"))
    );
}

#[test]
fn the_least_number_of_gpus_is_kept_to() {
    let mut spec = exhaustive();
    spec.hardware.min_gpus = Some(4);
    let result = optimize(&spec, &BOTH);
    assert!(result.evaluated.iter().all(|record| record.total_gpus_used == 4));
    spec.search.strategy = SearchStrategy::Descent;
    let result = optimize(&spec, &BOTH);
    assert!(result.evaluated.iter().all(|record| record.total_gpus_used == 4));
    spec.hardware.total_gpus = Some(7);
    spec.hardware.min_gpus = Some(7);
    let result = optimize(&spec, &[Mode::Agg]);
    assert!(result.evaluated.iter().all(|record| record.total_gpus_used == 7));
}

#[test]
fn trade_offs_are_in_metrics() {
    let mut spec = exhaustive();
    spec.pareto = vec!["output_throughput_tok_s".to_owned(), "mean_ttft".to_owned()];
    let error = Sweep::new(&spec, scenario(&spec), &PolynomialTiming).expect_err("no such metric");
    assert_eq!(
        error.to_string(),
        "pareto: there is no trade-off in mean_ttft; did you mean mean_ttft_ms?"
    );
    spec.pareto = vec!["output_throughput_tok_s".to_owned(), "mean_ttft_ms".to_owned()];
    let result = optimize(&spec, &BOTH);
    let values = |records: &[Record], metric: &str| -> Vec<f64> {
        records.iter().filter_map(|record| record.metric(metric)).collect()
    };
    let most = values(&result.evaluated, "output_throughput_tok_s")
        .into_iter()
        .fold(0.0, f64::max);
    let least = values(&result.evaluated, "mean_ttft_ms")
        .into_iter()
        .fold(f64::INFINITY, f64::min);
    assert_eq!(values(&result.pareto, "output_throughput_tok_s").first(), Some(&most));
    assert!(values(&result.pareto, "mean_ttft_ms").contains(&least));
}
