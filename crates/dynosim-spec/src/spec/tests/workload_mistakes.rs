//! Mistakes in the `workload` object.

use serde_json::json;

use super::{check_run, set, without};

#[test]
fn required_numbers() {
    check_run(
        &[set("workload", json!({}))],
        &[
            "workload.isl: is missing; must be a whole number of at least 1",
            "workload.osl: is missing; must be a whole number of at least 1",
            "workload.requestCount: is missing; must be a whole number of at least 1",
            "workload: needs exactly one of concurrency, requestRate, arrivalIntervalMs, got none",
        ],
    );
    check_run(
        &[
            set("workload.requestRate", json!(1)),
            set("workload.arrivalIntervalMs", json!(1)),
        ],
        &[
            "workload: needs exactly one of concurrency, requestRate, arrivalIntervalMs, \
             got concurrency and requestRate and arrivalIntervalMs",
        ],
    );
}

#[test]
fn ranges() {
    check_run(
        &[
            set("workload.isl", json!(0)),
            set("workload.osl", json!(0)),
            set("workload.requestCount", json!(0)),
            set("workload.concurrency", json!(0)),
            set("workload.lengthRangeRatio", json!(0)),
            set("workload.lengthSeed", json!(-1)),
            set("workload.sharedPrefixRatio", json!(1.1)),
            set("workload.numPrefixGroups", json!(-1)),
            set("workload.turnsPerSession", json!(0)),
            set("workload.interTurnDelayMs", json!(-1)),
            set("workload.arrivalSeed", json!(1.5)),
            set("workload.arrivalSpeedupRatio", json!(0)),
        ],
        &[
            "workload.isl: must be a whole number of at least 1, got 0",
            "workload.osl: must be a whole number of at least 1, got 0",
            "workload.requestCount: must be a whole number of at least 1, got 0",
            "workload.concurrency: must be a whole number of at least 1, got 0",
            "workload.lengthRangeRatio: must be a number above 0 and at most 1, got 0",
            "workload.lengthSeed: must be a whole number of at least 0, got -1",
            "workload.sharedPrefixRatio: must be a number from 0 to 1, got 1.1",
            "workload.numPrefixGroups: must be a whole number of at least 0, got -1",
            "workload.turnsPerSession: must be a whole number of at least 1, got 0",
            "workload.interTurnDelayMs: must be a number from 0 to 1000000000000, got -1",
            "workload.arrivalSeed: must be a whole number of at least 0, got 1.5",
            "workload.arrivalSpeedupRatio: must be a number above 0, got 0",
        ],
    );
    let load = |key, value| [without("workload.concurrency"), set(key, value)];
    check_run(
        &load("workload.requestRate", json!(0)),
        &["workload.requestRate: must be a number above 0, got 0"],
    );
    check_run(
        &load("workload.arrivalIntervalMs", json!(-0.5)),
        &["workload.arrivalIntervalMs: must be a number from 0 to 1000000000000, got -0.5"],
    );
}

#[test]
fn fields_that_depend_on_each_other() {
    check_run(
        &[set("workload.sharedPrefixRatio", json!(0.5))],
        &["workload.numPrefixGroups: must be at least 1 when sharedPrefixRatio is above 0"],
    );
    check_run(
        &[
            set("workload.isl", json!(4_000_000_000_u64)),
            set("workload.osl", json!(1_000_000_000)),
        ],
        &["workload.osl: isl + osl must be at most 4294967295"],
    );
    check_run(
        &[
            set("workload.requestCount", json!(3_000_000_000_u64)),
            set("workload.turnsPerSession", json!(2)),
        ],
        &["workload.turnsPerSession: requestCount x turnsPerSession must be at most 4294967295"],
    );
}

#[test]
fn trace_fields_need_a_trace() {
    check_run(
        &[
            set("workload.traceFormat", json!("mooncake")),
            set("workload.traceBlocksize", json!(512)),
        ],
        &[
            "workload.traceFormat: only applies with traceFile",
            "workload.traceBlocksize: unknown key, did you mean `traceBlockSize`?",
        ],
    );
}

#[test]
fn traces() {
    check_run(
        &[set(
            "workload",
            json!({
                "traceFile": "",
                "traceFormat": "csv",
                "traceBlockSize": 0,
                "traceReplayConcurrency": 0,
                "traceSharedPrefixRatio": 2,
                "traceNumPrefixGroups": -1,
                "arrivalSpeedupRatio": -1
            }),
        )],
        &[
            "workload.traceFile: must be a text that is not empty, got \"\"",
            "workload.traceFormat: must be mooncake or applied_compute_agentic, got \"csv\"",
            "workload.traceBlockSize: must be a whole number of at least 1, got 0",
            "workload.arrivalSpeedupRatio: must be a number above 0, got -1",
            "workload.traceReplayConcurrency: must be a whole number of at least 1, got 0",
            "workload.traceSharedPrefixRatio: must be a number from 0 to 1, got 2",
            "workload.traceNumPrefixGroups: must be a whole number of at least 0, got -1",
        ],
    );
    check_run(
        &[set(
            "workload",
            json!({"traceFile": "a.jsonl", "traceFormat": "applied_compute_agentic", "traceSharedPrefixRatio": 0.5}),
        )],
        &[
            "workload.traceNumPrefixGroups: must be at least 1 when traceSharedPrefixRatio is above 0",
            "workload.traceReplayConcurrency: is missing; traceFormat applied_compute_agentic needs it, because such \
             traces have no timestamps",
        ],
    );
}
