//! What a document asks for in vain is said, not swallowed.

use serde_json::json;

use super::{Change, changed, run_document, set, sweep_document, without};
use crate::router::RouterSettings;
use crate::spec::{ReplayOptimizeSpec, RunSpec};

#[track_caller]
pub(super) fn check_run(changes: &[Change], expected: &[&str]) -> RunSpec {
    let read = RunSpec::from_json(&changed(run_document(), changes)).expect("the document is valid");
    assert_eq!(read.warnings, expected);
    read.value
}

#[track_caller]
pub(super) fn check_sweep(changes: &[Change], expected: &[&str]) {
    let read = ReplayOptimizeSpec::from_json(&changed(sweep_document(), changes)).expect("the document is valid");
    assert_eq!(read.warnings, expected);
}

#[test]
fn plain_documents_have_none() {
    check_run(&[], &[]);
    check_sweep(&[], &[]);
}

#[test]
fn synthetic_fields_beside_a_trace() {
    check_run(
        &[
            set("workload.traceFile", json!("trace.jsonl")),
            set("workload.sharedPrefixRatio", json!("anything")),
            set("workload.lengthRangeRatio", json!(0.8)),
            set("workload.lengthSeed", json!(1)),
        ],
        &[
            "workload.isl: is ignored because traceFile is given",
            "workload.osl: is ignored because traceFile is given",
            "workload.requestCount: is ignored because traceFile is given",
            "workload.concurrency: is ignored because traceFile is given",
            "workload.lengthRangeRatio: is ignored because traceFile is given",
            "workload.lengthSeed: is ignored because traceFile is given",
            "workload.sharedPrefixRatio: is ignored because traceFile is given",
        ],
    );
}

#[test]
fn workload_fields_without_an_effect() {
    check_run(
        &[
            set("workload.arrivalSpeedupRatio", json!(2)),
            set("workload.arrivalSeed", json!(1)),
            set("workload.lengthSeed", json!(3)),
            set("workload.interTurnDelayMs", json!(5)),
            set("workload.numPrefixGroups", json!(4)),
        ],
        &[
            "workload.arrivalSpeedupRatio: 2 has no effect in a closed loop (concurrency)",
            "workload.arrivalSeed: 1 has no effect without requestRate",
            "workload.lengthSeed: 3 has no effect when lengthRangeRatio is 1",
            "workload.interTurnDelayMs: 5 has no effect when turnsPerSession is 1",
            "workload.numPrefixGroups: 4 has no effect when sharedPrefixRatio is 0",
        ],
    );
    let agentic = json!({
        "traceFile": "trace.jsonl",
        "traceFormat": "applied_compute_agentic",
        "traceReplayConcurrency": 8,
        "traceNumPrefixGroups": 2
    });
    check_run(
        &[set("workload", agentic)],
        &["workload.traceNumPrefixGroups: 2 has no effect when traceSharedPrefixRatio is 0"],
    );
    let trace = json!({
        "traceFile": "trace.jsonl",
        "arrivalSpeedupRatio": 2,
        "traceReplayConcurrency": 8,
        "traceSharedPrefixRatio": 0.5,
        "traceNumPrefixGroups": 2
    });
    check_run(
        &[set("workload", trace)],
        &[
            "workload.arrivalSpeedupRatio: 2 has no effect in a closed loop (traceReplayConcurrency)",
            "workload.traceSharedPrefixRatio: 0.5 has no effect unless traceFormat is applied_compute_agentic",
            "workload.traceNumPrefixGroups: 2 has no effect unless traceFormat is applied_compute_agentic",
        ],
    );
}

#[test]
fn more_concurrency_than_requests() {
    check_run(&[set("workload.concurrency", json!(20))], &[]);
    check_run(
        &[set("workload.concurrency", json!(64))],
        &["workload.concurrency: 64 has no effect beyond 20: only 20 requests are ever in flight"],
    );
    check_run(
        &[
            set("workload.concurrency", json!(30)),
            set("workload.turnsPerSession", json!(2)),
        ],
        &["workload.concurrency: 30 has no effect beyond 20: only 20 requests are ever in flight, one of each session"],
    );
}

#[test]
fn hardware_and_timing() {
    check_run(
        &[
            set("hardware.totalGpus", json!(8)),
            set(
                "timing",
                json!({"provider": "polynomial", "engineVersion": "0.14.0", "repair": false}),
            ),
        ],
        &[
            "hardware.totalGpus: 8 has no effect in a single run, whose topology says how many GPUs it uses",
            "timing.engineVersion: only has an effect with provider table",
            "timing.repair: only has an effect with provider table",
        ],
    );
}

#[test]
fn latency_bounds_that_are_none() {
    check_sweep(
        &[set("sla", json!({"ttft": 0, "itl": 20, "p95Itl": -1}))],
        &[
            "sla.ttft: is no bound, because it is not above 0",
            "sla.p95Itl: is no bound, because it is not above 0",
        ],
    );
}

#[test]
fn engine_arguments_of_other_pools() {
    check_run(
        &[
            set("engine.prefillEngineArgs", json!({})),
            set("engine.decodeEngineArgs", json!({})),
        ],
        &[
            "engine.prefillEngineArgs: has no effect in an aggregated run",
            "engine.decodeEngineArgs: has no effect in an aggregated run",
        ],
    );
    check_run(
        &[
            set(
                "topology",
                json!({"prefillWorkers": 1, "decodeWorkers": 1, "prefillTp": 1, "decodeTp": 1}),
            ),
            set("engine.baseEngineArgs.block_size", json!(16)),
            set("engine.prefillEngineArgs", json!({})),
            set("engine.decodeEngineArgs", json!({})),
        ],
        &["engine.baseEngineArgs: has no effect in a disaggregated run whose roles have arguments of their own"],
    );
}

#[test]
fn arguments_that_the_sglang_scheduler_ignores() {
    check_run(
        &[
            set("engine.backend", json!("sglang")),
            set(
                "engine.baseEngineArgs",
                json!({
                    "max_num_seqs": null,
                    "max_num_batched_tokens": 100,
                    "enable_chunked_prefill": true,
                    "preemption_mode": "lifo",
                    "enable_prefix_caching": false
                }),
            ),
        ],
        &[
            "engine.baseEngineArgs.max_num_seqs: has no effect on the SGLang-style scheduler",
            "engine.baseEngineArgs.enable_chunked_prefill: has no effect on the SGLang-style scheduler",
            "engine.baseEngineArgs.preemption_mode: has no effect on the SGLang-style scheduler",
            "engine.baseEngineArgs.enable_prefix_caching: has no effect on the SGLang-style scheduler",
            "engine.baseEngineArgs.max_num_batched_tokens: has no effect on the SGLang-style scheduler, only on router \
             queues and the memory estimate",
        ],
    );
}

#[test]
fn router_settings_of_live_systems() {
    let run = check_run(
        &[
            set("router.mode", json!("kv_router")),
            set(
                "router.baseConfig",
                json!({"use_kv_events": false, "router_ttl_secs": 60, "router_prefill_load_model": "none"}),
            ),
        ],
        &["router.baseConfig: ignored, because they only matter to a live system: use_kv_events, router_ttl_secs"],
    );
    assert_eq!(run.router.settings().router_queue_threshold, Some(4.0));
}

#[test]
fn the_deprecated_weight_is_taken_over() {
    let read = |weight: f64, expected: &str| -> RouterSettings {
        let changes = [
            set("router.mode", json!("kv_router")),
            set(
                "router.baseConfig",
                json!({"prefill_load_scale": 7, "overlap_score_weight": weight}),
            ),
        ];
        check_run(&changes, &[expected]).router.settings()
    };
    let weighted = read(
        2.0,
        "router.baseConfig.overlap_score_weight: is deprecated and sets prefill_load_scale; use that instead",
    );
    assert_eq!((weighted.prefill_load_scale, weighted.overlap_score_credit), (2.0, 1.0));
    let off = read(
        0.0,
        "router.baseConfig.overlap_score_weight: is deprecated and sets prefill_load_scale and overlap_score_credit \
         to 0; use those instead",
    );
    assert_eq!((off.prefill_load_scale, off.overlap_score_credit), (0.0, 0.0));
}

#[test]
fn router_settings_that_the_mode_does_not_read() {
    check_run(
        &[
            set("router.overlapScoreCredit", json!(0.5)),
            set("router.baseConfig.router_temperature", json!(1)),
        ],
        &[
            "router.overlapScoreCredit: 0.5 has no effect with mode round_robin",
            "router.baseConfig: has no effect with mode round_robin",
        ],
    );
    check_sweep(
        &[
            set("router.mode", json!("round_robin")),
            set("router.prefillLoadScales", json!([1])),
        ],
        &["router.prefillLoadScales: [1] has no effect with mode round_robin"],
    );
    check_sweep(
        &[set(
            "router.baseConfig",
            json!({"overlap_score_credit": 0.5, "prefill_load_scale": 2}),
        )],
        &[
            "router.baseConfig.overlap_score_credit: has no effect in a sweep, which tries the credits of \
             router.overlapCredits",
            "router.baseConfig.prefill_load_scale: has no effect in a sweep, which tries the scales of \
             router.prefillLoadScales",
        ],
    );
}

#[test]
fn null_is_the_same_as_leaving_a_key_out() {
    let run = check_run(
        &[
            set("workload.traceFile", json!(null)),
            set("workload.sharedPrefixRatio", json!(null)),
            set("engine.prefillEngineArgs", json!(null)),
            set("router", json!(null)),
            without("timing"),
        ],
        &[],
    );
    let plain = check_run(&[], &[]);
    assert_eq!(run, plain);
}
