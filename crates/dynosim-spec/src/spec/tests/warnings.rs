//! What a document asks for in vain is said, not swallowed.

use serde_json::json;

use super::{Change, changed, run_document, set, sweep_document, without};
use crate::engine::WorkerRole;
use crate::router::RouterSettings;
use crate::spec::{ReplayOptimizeSpec, RunSpec};

#[track_caller]
fn check_run(changes: &[Change], expected: &[&str]) -> RunSpec {
    let read = RunSpec::from_json(&changed(run_document(), changes)).expect("the document is valid");
    assert_eq!(read.warnings, expected);
    read.value
}

#[track_caller]
fn check_sweep(changes: &[Change], expected: &[&str]) {
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
        ],
        &[
            "workload.isl: is ignored because traceFile is given",
            "workload.osl: is ignored because traceFile is given",
            "workload.requestCount: is ignored because traceFile is given",
            "workload.concurrency: is ignored because traceFile is given",
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
            set("workload.interTurnDelayMs", json!(5)),
        ],
        &[
            "workload.arrivalSpeedupRatio: has no effect in a closed loop (concurrency)",
            "workload.arrivalSeed: has no effect without requestRate",
            "workload.interTurnDelayMs: has no effect when turnsPerSession is 1",
        ],
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
            "workload.arrivalSpeedupRatio: has no effect in a closed loop (traceReplayConcurrency)",
            "workload.traceSharedPrefixRatio: only has an effect with traceFormat applied_compute_agentic",
        ],
    );
}

#[test]
fn hardware_and_timing() {
    check_run(
        &[
            set("hardware.totalGpus", json!(8)),
            set("timing", json!({"provider": "polynomial", "engineVersion": "0.14.0"})),
        ],
        &[
            "hardware.totalGpus: has no effect in a single run, whose topology says how many GPUs it uses",
            "timing.engineVersion: only has an effect with provider table",
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

#[track_caller]
fn check_unused(changes: &[Change], roles: &[WorkerRole], expected: &[&str]) {
    let read = ReplayOptimizeSpec::from_json(&changed(sweep_document(), changes)).expect("the document is valid");
    assert_eq!(read.value.unused_engine_args(roles), expected);
}

#[test]
fn engine_arguments_of_roles_that_a_sweep_does_not_try() {
    use WorkerRole::{Aggregated, Decode, Prefill};
    let all_given = [
        set("engine.baseEngineArgs.block_size", json!(16)),
        set("engine.prefillEngineArgs.block_size", json!(16)),
        set("engine.decodeEngineArgs.block_size", json!(16)),
    ];
    check_unused(
        &all_given,
        &[Prefill, Decode],
        &["engine.baseEngineArgs: has no effect, because all workers of the sweep have arguments of their own"],
    );
    check_unused(
        &all_given,
        &[Aggregated],
        &[
            "engine.prefillEngineArgs: has no effect, because the sweep has no prefill workers",
            "engine.decodeEngineArgs: has no effect, because the sweep has no decode workers",
        ],
    );
    check_unused(&all_given, &[Aggregated, Prefill, Decode], &[]);
    check_unused(&all_given[..1], &[Prefill, Decode], &[]);

    let transfer = [set(
        "engine.baseEngineArgs",
        json!({"kv_bytes_per_token": 262_144, "kv_transfer_bandwidth": 50}),
    )];
    check_unused(&transfer, &[Prefill, Decode], &[]);
    check_unused(
        &transfer,
        &[Aggregated],
        &[
            "engine.baseEngineArgs.kv_bytes_per_token: 262144 has no effect, because no KV is transferred without \
             prefill workers",
            "engine.baseEngineArgs.kv_transfer_bandwidth: 50 has no effect, because no KV is transferred without \
             prefill workers",
        ],
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
fn half_a_transfer() {
    check_run(
        &[set("engine.baseEngineArgs.kv_transfer_bandwidth", json!(64))],
        &["engine.baseEngineArgs.kv_transfer_bandwidth: has no effect without kv_bytes_per_token"],
    );
    check_run(
        &[set("engine.baseEngineArgs.kv_bytes_per_token", json!(262_144))],
        &["engine.baseEngineArgs.kv_bytes_per_token: has no effect without kv_transfer_bandwidth"],
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
            "router.overlapScoreCredit: has no effect with mode round_robin",
            "router.baseConfig: has no effect with mode round_robin",
        ],
    );
    check_sweep(
        &[
            set("router.mode", json!("round_robin")),
            set("router.prefillLoadScales", json!([1])),
        ],
        &["router.prefillLoadScales: has no effect with mode round_robin"],
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
