//! How sure the order of candidates is, where the answer is known.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dynosim::confidence::{Assessment, Confidence, ConfidenceOptions, Knee, LoadQuantity, Spread, WinnerEdge};
use dynosim::spec::{
    Backend, BlockSize, Deployment, EngineArgs, EngineSpec, GpuSpec, HardwareSpec, Limit, Objective, ParallelShape,
    ReplayOptimizeSpec, Rules, SyntheticLoad, SyntheticWorkload, Topology, TraceWorkload, Workload, WorkloadSpec,
};
use dynosim::sweep::{Mode, Record, RouterState, State, Sweep};
use dynosim::timing::{Price, StepShape, TimingError, TimingModel};
use dynosim::{Error, Scenario, sweep_scenario};

/// What a pass over one prompt costs; generated tokens cost a millisecond.
#[derive(Debug, Clone, Copy)]
struct PromptTimes {
    fixed_ms: f64,
    ms_per_token: f64,
}

impl TimingModel for PromptTimes {
    fn prefill(&self, step: &StepShape) -> Price {
        Price::known(self.fixed_ms + self.ms_per_token * step.prefill_tokens as f64)
    }

    fn decode(&self, _: &StepShape) -> Price {
        Price::known(1.0)
    }
}

fn fixed(ms: f64) -> PromptTimes {
    PromptTimes {
        fixed_ms: ms,
        ms_per_token: 0.0,
    }
}

/// A provider with these prompt times at tp 1 and beyond.
fn provider(times: [PromptTimes; 2]) -> impl Fn(&Deployment) -> Result<Arc<dyn TimingModel>, TimingError> {
    move |deployment| Ok(Arc::new(times[usize::from(deployment.shape.tp > 1)]))
}

/// Workers that compute one prompt of 100 tokens at a time.
fn spec(workload: WorkloadSpec) -> ReplayOptimizeSpec {
    let engine = EngineSpec {
        base_engine_args: EngineArgs {
            block_size: Some(4),
            num_gpu_blocks: Some(10_000),
            max_num_batched_tokens: Some(Limit::AtMost(100)),
            ..EngineArgs::default()
        },
        rules: Rules::VllmV1,
        ..EngineSpec::new("some-model", Backend::Vllm)
    };
    let hardware = HardwareSpec::new("h200_sxm").with_budget(4);
    ReplayOptimizeSpec {
        objective: Objective::MeanE2eLatency,
        max_parallel_evals: Some(2),
        ..ReplayOptimizeSpec::new(engine, hardware, workload)
    }
}

/// Prompts of 100 tokens and single tokens as output.
fn single_tokens(requests: u32, load: SyntheticLoad) -> SyntheticWorkload {
    SyntheticWorkload::new(100, 1, requests, load)
}

fn workers(workers: u32, tp: u32) -> State {
    State {
        topology: Topology::Aggregated {
            workers,
            shape: ParallelShape::tensor(tp),
        },
        router: RouterState::round_robin(),
    }
}

fn options(repeats: u32, load_factors: &[f64]) -> ConfidenceOptions {
    ConfidenceOptions {
        repeats,
        load_factors: load_factors.to_vec(),
    }
}

fn assess(
    spec: &ReplayOptimizeSpec,
    times: [PromptTimes; 2],
    states: &[State],
    options: ConfidenceOptions,
) -> Confidence {
    let provider = provider(times);
    let assessment = Assessment::new(spec, &provider, states, options).expect("the options are possible");
    assessment.run().expect("the spec is sound")
}

/// A single request of 50 to 100 tokens.
fn one_drawn_prompt() -> SyntheticWorkload {
    SyntheticWorkload {
        length_range_ratio: 0.5,
        length_seed: 11,
        ..single_tokens(1, SyntheticLoad::Concurrency(1))
    }
}

/// The prompt lengths that the first seeds draw.
fn drawn_prompts(repeats: u32) -> Vec<f64> {
    let block_size = BlockSize::new(4).expect("not zero");
    let lengths = (0..repeats).map(|number| {
        let mut load = one_drawn_prompt();
        load.length_seed += u64::from(number);
        let workload = Workload::load(&WorkloadSpec::Synthetic(load), block_size).expect("is sound");
        f64::from(workload.requests()[0].input_tokens)
    });
    lengths.collect()
}

const BY_TOKEN: PromptTimes = PromptTimes {
    fixed_ms: 0.0,
    ms_per_token: 1.0,
};

/// The first candidate takes a millisecond per prompt token, the other one as long as this for any prompt.
fn against_fixed(ms: f64, repeats: u32) -> Confidence {
    let spec = spec(WorkloadSpec::Synthetic(one_drawn_prompt()));
    let states = [workers(1, 1), workers(1, 2)];
    assess(&spec, [BY_TOKEN, fixed(ms)], &states, options(repeats, &[]))
}

#[test]
fn the_order_flips_as_often_as_prompts_are_long() {
    const REPEATS: u32 = 9;
    let lengths = drawn_prompts(REPEATS);
    let mut flips = Vec::new();
    // Prompts have 50 to 100 tokens.
    for ms in [49.5, 74.5, 100.5] {
        let expected = lengths.iter().filter(|&&length| ms < length).count();
        let found = against_fixed(ms, REPEATS);
        let pair = &found.repetitions.pairs[0];
        assert_eq!((pair.better, pair.equal), (expected, 0), "{ms} ms against {lengths:?}");
        assert_eq!(pair.flip_chance, Some((expected as f64 + 0.5) / 10.0));
        flips.push(expected);
    }
    assert_eq!((flips[0], flips[2]), (9, 0), "certain, and never");
    assert!((1..9).contains(&flips[1]), "sometimes");
}

#[test]
fn intervals_are_those_of_a_plain_recomputation() {
    const REPEATS: u32 = 7;
    /// 95 % quantile of Student's t with six degrees of freedom, from a printed table.
    const T: f64 = 1.943;
    let lengths = drawn_prompts(REPEATS);
    let mean = lengths.iter().sum::<f64>() / 7.0;
    let variance = lengths
        .iter()
        .map(|length| (length - mean) * (length - mean))
        .sum::<f64>()
        / 6.0;
    let half_width = T * (variance / 7.0).sqrt();
    let found = against_fixed(70.0, REPEATS);
    let spread = found.repetitions.candidates[0].figures["mean_e2e_latency_ms"];
    let [low, high] = spread.interval_90.expect("lengths differ");
    assert!((spread.mean - mean).abs() < 1e-6, "{spread:?}");
    assert!((low - (mean - half_width)).abs() < 0.01 && (high - (mean + half_width)).abs() < 0.01);
    // The difference of the scores: the score is the latency, negative.
    let difference = found.repetitions.pairs[0].score_difference.expect("both have scores");
    assert!((difference.mean - (mean - 70.0)).abs() < 1e-6, "{difference:?}");
    let fixed = &found.repetitions.candidates[1];
    assert!(!fixed.varies || fixed.figures["mean_e2e_latency_ms"].interval_90.is_none());
}

#[test]
fn without_chance_there_is_nothing_to_be_sure_of() {
    let spec = spec(WorkloadSpec::Synthetic(single_tokens(
        20,
        SyntheticLoad::Concurrency(2),
    )));
    let states = [workers(1, 1), workers(1, 2)];
    let found = assess(&spec, [fixed(10.0), fixed(12.0)], &states, options(5, &[]));
    assert!(!found.repetitions.varies);
    assert_eq!(found.repetitions.pairs[0].flip_chance, None);
    assert_eq!(found.repetitions.candidates[0].figures["score"].interval_90, None);
    let text = found.text();
    assert!(text.contains("came to exactly the same"), "{text}");
    assert!(text.contains("worse each time, score -20.0 %"), "{text}");
}

/// Ten requests per second at equal gaps, which is a queue without chance.
fn ten_per_second() -> SyntheticWorkload {
    single_tokens(200, SyntheticLoad::ArrivalIntervalMs(100.0))
}

/// The knee of a worker that takes 80 ms for a request, under 10 requests per second that may wait up to 20 ms.
#[track_caller]
fn check_knee(factors: &[f64], expected: Knee) {
    let mut spec = spec(WorkloadSpec::Synthetic(ten_per_second()));
    spec.sla.p95_ttft = Some(100.0);
    let found = assess(&spec, [fixed(80.0); 2], &[workers(1, 1)], options(2, factors));
    let load = found.load.expect("arrivals can come faster");
    assert_eq!(load.candidates[0].knee, expected);
    assert_eq!(load.quantity, LoadQuantity::SessionsPerSecond);
}

#[test]
fn the_knee_of_a_queue_is_its_capacity() {
    // 12.5 requests per second.
    let knee = Knee::Within {
        factor: 1.25,
        fails_at: 1.3,
    };
    check_knee(&[0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0], knee);
    check_knee(&[2.0, 0.5], knee);
    check_knee(&[0.5, 1.2], Knee::Above { factor: 1.2 });
    let mut overloaded = spec(WorkloadSpec::Synthetic(ten_per_second()));
    overloaded.sla.p95_ttft = Some(100.0);
    let found = assess(&overloaded, [fixed(180.0); 2], &[workers(1, 1)], options(2, &[0.75]));
    let load = found.load.expect("arrivals can come faster");
    assert_eq!(load.candidates[0].knee, Knee::Below { factor: 0.75 });
}

#[test]
fn the_candidate_that_takes_most_load_is_named() {
    let mut spec = spec(WorkloadSpec::Synthetic(ten_per_second()));
    spec.sla.p95_ttft = Some(100.0);
    // 12.5, 11.1 and 22.2 requests per second.
    let states = [workers(1, 2), workers(1, 1), workers(2, 1)];
    let found = assess(&spec, [fixed(90.0), fixed(80.0)], &states, options(2, &[0.5, 1.5, 2.5]));
    let text = found.text();
    let expected = "Other loads: 1. keeps its bounds up to 1.25 times the load (12.50 sessions/s), no longer at 1.3; 3. up to 2.2\n";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("1. stays the best of these from 0.5 to"), "{text}");
}

/// A closed loop of requests that take 10 ms of a worker one after the other, of which as many as may be in flight wait.
#[test]
fn the_knee_of_a_closed_loop_is_a_number_of_requests() {
    let mut spec = spec(WorkloadSpec::Synthetic(single_tokens(
        400,
        SyntheticLoad::Concurrency(10),
    )));
    // A request waits for those in flight: 10 ms times their number, of which 120 ms leaves 12.
    spec.sla.p95_ttft = Some(120.0);
    let found = assess(&spec, [fixed(10.0); 2], &[workers(1, 1)], ConfidenceOptions::default());
    let load = found.load.expect("more can be in flight");
    assert_eq!(load.quantity, LoadQuantity::RequestsInFlight);
    let [last_kept, first_missed] = [true, false].map(|feasible| {
        let mut loads = load.candidates[0].loads.iter().filter(|at| at.feasible == feasible);
        let found = if feasible { loads.next_back() } else { loads.next() };
        found.map(|at| at.load)
    });
    assert_eq!((last_kept, first_missed), (Some(12.0), Some(13.0)));
}

#[test]
fn without_bounds_no_load_is_too_much() {
    let spec = spec(WorkloadSpec::Synthetic(ten_per_second()));
    let found = assess(&spec, [fixed(80.0); 2], &[workers(1, 1)], options(2, &[0.5, 2.0]));
    let load = found.load.expect("arrivals can come faster");
    assert_eq!(load.candidates[0].knee, Knee::NoBounds);
    let offered: Vec<f64> = load.candidates[0]
        .loads
        .iter()
        .filter_map(|at| at.offered_rps)
        .collect();
    for (offered, expected) in offered.iter().zip([5.0, 10.0, 20.0]) {
        assert!((offered - expected).abs() < 1e-6, "{offered}");
    }
    assert_eq!(offered.len(), 3);
}

#[test]
fn nothing_can_be_scaled_where_all_arrives_at_once() {
    let at_once = single_tokens(10, SyntheticLoad::ArrivalIntervalMs(0.0));
    let spec = spec(WorkloadSpec::Synthetic(at_once));
    let found = assess(&spec, [fixed(80.0); 2], &[workers(1, 1)], options(2, &[0.5, 2.0]));
    assert_eq!(found.load, None);
}

#[test]
fn the_winner_changes_where_the_faster_worker_is_full() {
    // One worker of 60 ms is better than two of 90 ms until it is full: 16.7 requests per second. With 200 requests its
    // queue costs 30 ms on average from 16.75 per second on.
    let spec = spec(WorkloadSpec::Synthetic(ten_per_second()));
    let states = [workers(1, 2), workers(2, 1)];
    let times = [fixed(90.0), fixed(60.0)];
    let found = assess(&spec, times, &states, ConfidenceOptions::default());
    let load = found.load.as_ref().expect("arrivals can come faster");
    let above = WinnerEdge::Changes {
        best_until: Some(1.65),
        changes_at: 1.7,
        to: 1,
    };
    assert_eq!(
        (load.winner_below, load.winner_above),
        (WinnerEdge::Stays { factor: 0.5 }, above)
    );
    let text = found.text();
    let expected = "1. stays the best of these from 0.5 to 1.65 times the load; at 1.7 number 2 is";
    assert!(text.contains(expected), "{text}");

    // Seen from the other one, which is better under more load only.
    let reversed = [states[1], states[0]];
    let mut spec = spec;
    let WorkloadSpec::Synthetic(load) = &mut spec.workload else {
        panic!("it is synthetic");
    };
    load.load = SyntheticLoad::ArrivalIntervalMs(50.0);
    let found = assess(&spec, times, &reversed, ConfidenceOptions::default());
    let load = found.load.expect("arrivals can come faster");
    let below = WinnerEdge::Changes {
        best_until: Some(0.85),
        changes_at: 0.8,
        to: 1,
    };
    assert_eq!(load.winner_below, below);

    // A candidate that is not even best as it is.
    let found = assess(&spec, times, &states, options(2, &[0.95, 1.05]));
    let edge = WinnerEdge::Changes {
        best_until: None,
        changes_at: 1.0,
        to: 1,
    };
    let load = found.load.as_ref().expect("arrivals can come faster");
    assert_eq!((load.winner_below, load.winner_above), (edge, edge));
    assert!(found.text().contains("number 2 ranks better even at the load as it is"));
}

/// A trace in which long and short prompts alternate in a way that depends on where one begins.
fn sample_trace() -> TraceWorkload {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/sample_trace.jsonl");
    TraceWorkload::new(trace)
}

/// The record of a state by a sweep of its own.
fn plain_record(spec: &ReplayOptimizeSpec, times: [PromptTimes; 2], state: State) -> Record {
    let provider = provider(times);
    let scenario = sweep_scenario(spec, &[Mode::Agg]).expect("the spec is sound");
    let sweep = Sweep::new(spec, scenario, &provider).expect("the spec is sound");
    sweep.evaluate_states(&[state]).remove(0)
}

#[test]
fn traces_are_turned_and_sped_up() {
    let times = [BY_TOKEN; 2];
    let spec = spec(WorkloadSpec::Trace(sample_trace()));
    let state = workers(2, 1);
    let found = assess(&spec, times, &[state], options(4, &[2.0]));
    assert!(found.repetitions.varies, "a trace has another beginning");
    let first_sessions: Vec<usize> = found
        .repetitions
        .variations
        .iter()
        .map(|variation| variation.first_session)
        .collect();
    assert!(
        first_sessions.windows(2).all(|pair| pair[0] < pair[1]),
        "{first_sessions:?}"
    );

    let load = found.load.expect("arrivals can come faster");
    assert_eq!(load.quantity, LoadQuantity::ArrivalSpeedup);
    for (at, speedup) in load.candidates[0].loads.iter().zip([1.0, 2.0]) {
        let mut trace = sample_trace();
        trace.arrival_speedup_ratio = speedup;
        let spec = ReplayOptimizeSpec {
            workload: WorkloadSpec::Trace(trace),
            ..spec.clone()
        };
        let plain = plain_record(&spec, times, state);
        assert_eq!((at.factor, at.load), (speedup, speedup));
        assert_eq!(at.mean_ttft_ms, plain.metric("mean_ttft_ms"));
        assert_eq!(at.output_throughput_tok_s, plain.metric("output_throughput_tok_s"));
    }
    assert_eq!(load.candidates[0].loads.len(), 2);
}

/// Poisson arrivals, drawn lengths, prefix groups and KV routing: everything that is left to chance.
fn all_by_chance() -> ReplayOptimizeSpec {
    let workload = SyntheticWorkload {
        length_range_ratio: 0.5,
        shared_prefix_ratio: 0.5,
        num_prefix_groups: 3,
        ..SyntheticWorkload::new(100, 4, 60, SyntheticLoad::RequestRate(20.0))
    };
    let mut spec = spec(WorkloadSpec::Synthetic(workload));
    spec.sla.p95_ttft = Some(150.0);
    spec
}

fn three_states() -> [State; 3] {
    let kv_router = RouterState::kv_router(1.0, 1.0);
    [workers(4, 1).with_router(kv_router), workers(4, 1), workers(2, 2)]
}

#[test]
fn answers_do_not_depend_on_threads() {
    let answers = [1, 3].map(|threads| {
        let mut spec = all_by_chance();
        spec.max_parallel_evals = Some(threads);
        let found = assess(
            &spec,
            [BY_TOKEN, fixed(40.0)],
            &three_states(),
            ConfidenceOptions::default(),
        );
        (serde_json::to_string(&found).expect("it is plain data"), found.text())
    });
    assert_eq!(answers[0], answers[1]);
    let [(json, text), _] = answers;
    assert!(
        json.starts_with(r#"{"candidates":["tp=1 workers=4 kv_router"#),
        "{json}"
    );
    assert!(text.lines().count() <= 10, "{text}");
}

/// A metric of each variation, simulated one by one.
fn plain_variations(
    spec: &ReplayOptimizeSpec,
    times: [PromptTimes; 2],
    state: State,
    repeats: u32,
    metric: &str,
) -> Vec<f64> {
    let provider = provider(times);
    let values = (0..repeats).map(|number| {
        let mut spec = spec.clone();
        spec.seed += u64::from(number);
        let WorkloadSpec::Synthetic(load) = &mut spec.workload else {
            panic!("it is synthetic");
        };
        load.arrival_seed += u64::from(number);
        load.length_seed += u64::from(number);
        let (sessions, block_size) = (load.request_count, BlockSize::new(4).expect("not zero"));
        let workload = Workload::load(&spec.workload, block_size).expect("is sound");
        let workload = workload.rotated((sessions * number / repeats) as usize);
        let gpu = GpuSpec::find("h200_sxm").expect("is known");
        let scenario = Scenario::new(spec.engine.clone(), None, gpu, workload);
        let sweep = Sweep::new(&spec, scenario, &provider).expect("the spec is sound");
        let record = sweep.evaluate_states(&[state]).remove(0);
        record.metric(metric).expect("a report")
    });
    values.collect()
}

#[test]
fn repetitions_are_the_variations_one_by_one() {
    let spec = all_by_chance();
    let times = [BY_TOKEN, fixed(40.0)];
    let states = three_states();
    let found = assess(&spec, times, &states, options(4, &[1.0]));
    assert_eq!(found.evaluations, 12, "the load as it is was simulated already");
    let load = found.load.expect("arrivals can come faster");
    for (place, &state) in states.iter().enumerate() {
        for metric in ["mean_ttft_ms", "output_throughput_tok_s"] {
            let plain = plain_variations(&spec, times, state, 4, metric);
            assert!(
                plain.windows(2).all(|pair| pair[0].to_bits() != pair[1].to_bits()),
                "{plain:?}"
            );
            let figures = &found.repetitions.candidates[place].figures;
            assert_eq!(figures.get(metric), Spread::of(plain).as_ref(), "{metric} of {state}");
        }
        let as_it_is = plain_record(&spec, times, state).metric("mean_ttft_ms");
        assert_eq!(load.candidates[place].loads[0].mean_ttft_ms, as_it_is);
    }
}

#[test]
fn hopeless_candidates_are_simulated_to_the_end() {
    let mut spec = all_by_chance();
    spec.sla.p95_ttft = Some(1.0);
    spec.search.stop_hopeless = true;
    let found = assess(&spec, [BY_TOKEN; 2], &[workers(1, 1)], options(2, &[]));
    let candidate = &found.repetitions.candidates[0];
    assert_eq!((candidate.feasible, candidate.figures["score"].count), (0, 2));
    assert!(
        found.text().contains("feasible in none: sla.p95Ttft"),
        "{}",
        found.text()
    );
}

#[test]
fn candidates_that_fail_are_part_of_the_answer() {
    let failing = |_: &Deployment| -> Result<Arc<dyn TimingModel>, TimingError> {
        Err(TimingError::Custom("nothing was measured".into()))
    };
    let spec = all_by_chance();
    let states = [workers(1, 1), workers(2, 1)];
    let assessment = Assessment::new(&spec, &failing, &states, ConfidenceOptions::default());
    let found = assessment
        .expect("the options are possible")
        .run()
        .expect("the spec is sound");
    assert!(found.repetitions.candidates[0].figures.is_empty());
    assert_eq!(found.repetitions.pairs[0].score_difference, None);
    assert!(found.text().contains("nothing was measured"), "{}", found.text());
}

#[test]
fn progress_is_told_and_cancelling_ends_it() {
    let spec = all_by_chance();
    let states = three_states();
    let provider = provider([BY_TOKEN, fixed(40.0)]);
    let told = Mutex::new(Vec::new());
    let progress = |done: usize, planned: usize| told.lock().expect("nobody panics").push((done, planned));
    let assess = || Assessment::new(&spec, &provider, &states, options(2, &[0.5, 1.0, 2.0])).expect("possible");
    let found = assess().with_progress(&progress).run().expect("the spec is sound");
    let told = told.into_inner().expect("nobody panics");
    assert!(told.iter().all(|(done, planned)| done <= planned), "{told:?}");
    assert_eq!(told.first(), Some(&(0, 12)));
    let last = told.last().expect("it is told");
    assert_eq!(last.0, found.evaluations);
    assert_eq!(last.0, last.1);

    let asked = AtomicUsize::new(0);
    let cancelled = || asked.fetch_add(1, Ordering::Relaxed) == 2;
    let error = assess()
        .with_cancellation(&cancelled)
        .run()
        .expect_err("it is cancelled");
    assert_eq!(error.to_string(), "cancelled after 6 simulations");
}

#[track_caller]
fn check_error(states: &[State], options: ConfidenceOptions, expected: &str) {
    let spec = all_by_chance();
    let provider = provider([BY_TOKEN; 2]);
    match Assessment::new(&spec, &provider, states, options) {
        Ok(assessment) => panic!("{assessment:?} is possible"),
        Err(error @ Error::Confidence(_)) => assert_eq!(error.to_string(), expected),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn impossible_wishes_are_refused() {
    let states = three_states();
    check_error(
        &[],
        ConfidenceOptions::default(),
        "no candidates are given; pass the best states of a sweep, best first",
    );
    check_error(&states, options(1, &[]), "repeats is 1; it must be from 2 to 1000");
    for impossible in [0.0, -1.0, f64::NAN, f64::INFINITY, 101.0] {
        let expected = format!("load factor {impossible} (number 2) must be above 0 and at most 100");
        check_error(&states, options(2, &[1.0, impossible]), &expected);
    }
}

/// One validated kind of deployment, and another one.
#[test]
fn close_candidates_are_within_the_error_of_the_model() {
    let engine = EngineSpec::new("nvidia/Llama-3.3-70B-Instruct-FP8", Backend::Vllm);
    let load = SyntheticWorkload::new(1000, 20, 16, SyntheticLoad::Concurrency(4));
    let hardware = HardwareSpec::new("h200_sxm").with_budget(4);
    let spec = ReplayOptimizeSpec::new(engine, hardware, WorkloadSpec::Synthetic(load));
    let provider = dynosim::timing_provider(&spec.timing, &spec.engine, None);
    let states = [workers(1, 4), workers(1, 2)];
    let assess = |states: &[State]| {
        let assessment = Assessment::new(&spec, provider.as_ref(), states, options(2, &[])).expect("possible");
        assessment.run().expect("the spec is sound")
    };
    let found = assess(&states);
    let error = found.model_error.as_ref().expect("it was validated");
    assert!(error.as_validated);
    // The band of TPOT: 1.010 to 1.137.
    assert!((error.common - 0.0735).abs() < 1e-9 && (error.differing - 0.127 / 2.147).abs() < 1e-9);
    let far = found.repetitions.pairs[0]
        .relative_difference
        .expect("both have scores");
    assert!(far < -0.1, "{far}");
    assert!(
        !found.text().contains(", within the error of the model"),
        "{}",
        found.text()
    );

    let same = assess(&[
        workers(4, 1),
        workers(4, 1).with_router(RouterState::kv_router(1.0, 1.0)),
    ]);
    assert!(!same.model_error.expect("the machine was validated").as_validated);

    let own = Assessment::new(&spec, provider.as_ref(), &states, options(2, &[])).expect("possible");
    let own = own.with_step_times_of_your_own().run().expect("the spec is sound");
    assert_eq!(own.model_error, None);
}
