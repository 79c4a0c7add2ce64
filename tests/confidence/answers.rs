//! Answers as a whole: what they depend on, what goes wrong, what the machine leaves open.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use dynosim::Error;
use dynosim::sweep::Hooks;

use super::*;

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
    let watching = Hooks {
        progress: Some(&progress),
        ..Hooks::default()
    };
    let found = assess().with_hooks(watching).run().expect("the spec is sound");
    let told = told.into_inner().expect("nobody panics");
    assert!(told.iter().all(|(done, planned)| done <= planned), "{told:?}");
    assert_eq!(told.first(), Some(&(0, 12)));
    let last = told.last().expect("it is told");
    assert_eq!(last.0, found.evaluations);
    assert_eq!(last.0, last.1);

    // Three candidates serve each workload; stopping in the middle of the third is stopping after the second.
    let stop = AtomicBool::new(false);
    let stop_in_the_third = |done: usize, _planned: usize| {
        if done == 7 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let stopping = Hooks {
        progress: Some(&stop_in_the_third),
        stop: Some(&stop),
        ..Hooks::default()
    };
    let error = assess().with_hooks(stopping).run().expect_err("it is cancelled");
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
