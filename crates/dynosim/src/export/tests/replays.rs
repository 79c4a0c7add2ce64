//! Exported requests, read and simulated again.

use std::path::Path;

use dynosim_spec::{SimTime, TraceWorkload, Workload, read_trace};
use indexmap::IndexMap;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Simulated, aggregated, closed_loop, disaggregated, file, run};
use crate::Run;
use crate::export::Target;

/// The exported requests, read again, and tokens per id.
fn read_again(simulated: &Simulated) -> (Workload, u32) {
    let handoff = simulated.hand_off(&Target::default()).expect("possible");
    let bench = file(&handoff, "bench.sh");
    let number = |option: &str| -> Option<u32> {
        let (_, rest) = bench.split_once(option)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let replay_concurrency = bench.split_once("replay)").and_then(|(_, rest)| {
        let (_, rest) = rest.split_once(";;").map_or(("", rest), |(case, _)| ("", case));
        rest.split_once("--concurrency ")?
            .1
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    });
    let block_tokens = number("--isl-block-size ").expect("given");
    let trace = TraceWorkload {
        trace_block_size: block_tokens,
        trace_replay_concurrency: replay_concurrency,
        ..TraceWorkload::new("trace.jsonl")
    };
    let workload = read_trace(file(&handoff, "trace.jsonl").as_bytes(), "trace.jsonl", &trace).expect("a trace");
    one_size_for_each_id(file(&handoff, "trace.jsonl"), block_tokens);
    (workload, block_tokens)
}

/// AIPerf's rule for `hash_ids`.
fn one_size_for_each_id(trace: &str, block_tokens: u32) {
    let mut sizes: IndexMap<u64, u64> = IndexMap::new();
    for line in trace.lines() {
        let row: Value = serde_json::from_str(line).expect("JSON");
        let mut left = row["input_length"].as_u64().expect("a number");
        for id in row["hash_ids"].as_array().expect("a list") {
            let size = left.min(u64::from(block_tokens));
            left -= size;
            assert!(size > 0, "more ids than blocks: {line}");
            let known = sizes.insert(id.as_u64().expect("a number"), size).unwrap_or(size);
            assert_eq!(known, size, "an id has two sizes: {line}");
        }
        assert_eq!(left, 0, "{line}");
    }
}

#[track_caller]
fn check_replay(spec: &Value) {
    let simulated = Simulated::new(spec);
    let (workload, _) = read_again(&simulated);
    let again = Run::new(&simulated.spec).workload(workload).simulate().expect("runs");
    assert_eq!(again.report.metrics(), simulated.outcome.report.metrics());
}

#[test]
fn replayed_traces_come_out_the_same() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/sample_trace.jsonl");
    let trace = json!({ "traceFile": sample, "arrivalSpeedupRatio": 2 });
    check_replay(&run("vllm", aggregated(), trace.clone()));
    check_replay(&run("vllm", disaggregated(), closed_loop()));
    check_replay(&run("sglang", disaggregated(), trace));
    check_replay(&run(
        "vllm",
        disaggregated(),
        json!({ "traceFile": sample, "traceReplayConcurrency": 7 }),
    ));
}

#[test]
fn blocks_become_smaller_where_prompts_cut_them_off() {
    let workload = json!({
        "isl": 400, "osl": 10, "requestCount": 40, "concurrency": 4,
        "sharedPrefixRatio": 0.75, "numPrefixGroups": 2, "lengthRangeRatio": 0.25,
    });
    let (_, block_tokens) = read_again(&Simulated::new(&run("vllm", aggregated(), workload.clone())));
    assert_eq!(block_tokens, 16);
    check_replay(&run("vllm", aggregated(), workload));
}

#[test]
fn turns_become_rows_at_their_simulated_times() {
    let workload = json!({
        "isl": 400, "osl": 10, "requestCount": 6, "requestRate": 2, "turnsPerSession": 3, "interTurnDelayMs": 500,
        "sharedPrefixRatio": 0.5, "numPrefixGroups": 2,
    });
    let simulated = Simulated::new(&run("vllm", aggregated(), workload));
    let handoff = simulated.hand_off(&Target::default()).expect("possible");
    assert!(
        handoff
            .warnings
            .iter()
            .any(|warning| warning.contains("later turns are sent at the times"))
    );
    let rows: Vec<Value> = file(&handoff, "trace.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let times: Vec<f64> = rows
        .iter()
        .map(|row| row["timestamp"].as_f64().expect("a number"))
        .collect();
    assert!(times.is_sorted() && rows.len() == 18 && rows.iter().all(|row| row.get("session_id").is_none()));
    let arrivals = simulated.outcome.requests.iter().filter_map(|record| record.arrival);
    let mut arrivals: Vec<f64> = arrivals.map(SimTime::as_ms).collect();
    arrivals.sort_by(f64::total_cmp);
    assert_eq!(times, arrivals);
}

#[test]
fn rejected_requests_are_left_out_and_said_to_be() {
    let mut spec = run("vllm", aggregated(), closed_loop());
    spec["engine"]["baseEngineArgs"] = json!({ "num_gpu_blocks": 20, "block_size": 16 });
    spec["workload"]["lengthRangeRatio"] = 0.5.into();
    let simulated = Simulated::new(&spec);
    let rejected = simulated.outcome.report.rejections.len();
    assert!(rejected > 0 && rejected < 20, "{rejected}");
    let handoff = simulated.hand_off(&Target::default()).expect("possible");
    assert_eq!(file(&handoff, "trace.jsonl").lines().count(), 20 - rejected);
    assert!(
        handoff
            .warnings
            .iter()
            .any(|warning| warning.contains("rejected in the simulation"))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the workload, simulating the exported requests gives the same figures.
    #[test]
    fn oracle_exports_replay_to_the_same_report(
        (isl, osl, block) in (1_u32..600, 1_u32..20, 1_u32..70),
        (ratio, groups) in (prop_oneof![Just(0.0), 0.0_f64..1.0], 1_u32..4),
        range in prop_oneof![Just(1.0), 0.05_f64..1.0],
        load in prop_oneof![
            (1_u32..9).prop_map(|concurrency| json!({ "concurrency": concurrency })),
            (1_u32..50).prop_map(|rate| json!({ "requestRate": rate })),
            (0_u32..90).prop_map(|gap| json!({ "arrivalIntervalMs": gap })),
        ],
        disaggregate in any::<bool>(),
    ) {
        let mut workload = json!({
            "isl": isl, "osl": osl, "requestCount": 25, "lengthRangeRatio": range,
            "sharedPrefixRatio": ratio, "numPrefixGroups": groups,
        });
        workload.as_object_mut().expect("a map").extend(load.as_object().expect("a map").clone());
        let topology = if disaggregate { disaggregated() } else { aggregated() };
        let mut spec = run("vllm", topology, workload);
        spec["engine"]["baseEngineArgs"]["block_size"] = block.into();
        check_replay(&spec);
    }
}
