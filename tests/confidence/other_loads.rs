//! Other loads: knees, and where the winner changes.

use dynosim::confidence::{Knee, LoadQuantity, WinnerEdge};
use dynosim::spec::TraceWorkload;

use super::*;

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
    let expected = "Other loads, with the seeds of the search: 1. keeps its bounds up to 1.25 times the load (12.50 arrivals/s), no longer at 1.3; 2. ";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("1. stays the best of these from 0.5 to"), "{text}");
}

/// A closed loop of requests that take 10 ms of a worker one after the other, of which as many as may be in flight
/// wait.
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
