//! What one part of a document leaves without an effect in another.

use serde_json::{Value, json};

use super::warnings::{check_run, check_sweep};
use super::{Change, changed, set, sweep_document};
use crate::engine::WorkerRole;
use crate::spec::ReplayOptimizeSpec;

fn disaggregated() -> Change {
    let topology = json!({"prefillWorkers": 1, "decodeWorkers": 1, "prefillTp": 1, "decodeTp": 1});
    set("topology", topology)
}

fn transfer() -> Value {
    json!({"kv_bytes_per_token": 262_144, "kv_transfer_bandwidth": 50})
}

#[test]
fn transfers_that_the_prefill_arguments_set() {
    let in_decode = [
        "engine.decodeEngineArgs.kv_bytes_per_token: 262144 has no effect because the transfer is set by the prefill \
         arguments",
        "engine.decodeEngineArgs.kv_transfer_bandwidth: 50 has no effect because the transfer is set by the prefill \
         arguments",
    ];
    let decode = || set("engine.decodeEngineArgs", transfer());
    check_run(&[disaggregated(), decode()], &in_decode);
    check_sweep(&[decode()], &in_decode);

    let in_base = [
        "engine.baseEngineArgs.kv_bytes_per_token: 262144 has no effect because the transfer is set by the prefill \
         arguments",
        "engine.baseEngineArgs.kv_transfer_bandwidth: 50 has no effect because the transfer is set by the prefill \
         arguments",
    ];
    let base = || set("engine.baseEngineArgs", transfer());
    let prefill = || set("engine.prefillEngineArgs", json!({}));
    check_run(&[disaggregated(), base(), prefill()], &in_base);
    check_sweep(&[base(), prefill()], &in_base);

    check_run(&[disaggregated(), base()], &[]);
    check_run(&[disaggregated()], &[]);
    check_sweep(&[base()], &[]);
    check_run(&[disaggregated(), set("engine.prefillEngineArgs", transfer())], &[]);
}

#[test]
fn transfers_of_an_aggregated_run() {
    check_run(
        &[set("engine.baseEngineArgs", transfer())],
        &[
            "engine.baseEngineArgs.kv_bytes_per_token: 262144 has no effect in an aggregated run, which transfers no KV",
            "engine.baseEngineArgs.kv_transfer_bandwidth: 50 has no effect in an aggregated run, which transfers no KV",
        ],
    );
}

#[test]
fn half_a_transfer() {
    check_run(
        &[
            disaggregated(),
            set("engine.baseEngineArgs.kv_transfer_bandwidth", json!(64)),
        ],
        &["engine.baseEngineArgs.kv_transfer_bandwidth: 64 has no effect without kv_bytes_per_token"],
    );
    check_sweep(
        &[set("engine.basePrefillEngineArgs.kv_bytes_per_token", json!(262_144))],
        &["engine.basePrefillEngineArgs.kv_bytes_per_token: 262144 has no effect without kv_transfer_bandwidth"],
    );
}

#[test]
fn work_that_the_workers_of_a_role_do_not_do() {
    let prefill = || set("engine.prefillEngineArgs", json!({"decode_speedup_ratio": 2}));
    let decode = || {
        let args = json!({"enable_chunked_prefill": false, "router_queue_policy": "wspt"});
        set("engine.decodeEngineArgs", args)
    };
    let speedup =
        "decode_speedup_ratio: 2 has no effect on prefill workers of the vLLM-style engine, which do not decode";
    let chunks = "enable_chunked_prefill: false has no effect on decode workers under rules vllm-v1 and vllm-v1-async, which take prompts whole";
    let queue = "router_queue_policy: \"wspt\" has no effect on decode workers, whose router never queues";
    let expected = [
        format!("engine.prefillEngineArgs.{speedup}"),
        format!("engine.decodeEngineArgs.{chunks}"),
        format!("engine.decodeEngineArgs.{queue}"),
    ];
    let expected = expected.each_ref().map(String::as_str);
    check_run(
        &[
            disaggregated(),
            set("router.mode", json!("kv_router")),
            prefill(),
            decode(),
        ],
        &expected,
    );
    check_sweep(&[prefill(), decode()], &expected);
    let without_chunks = [expected[0], expected[2]];
    check_sweep(
        &[set("engine.rules", json!("dynosim-1.2")), prefill(), decode()],
        &without_chunks,
    );
    check_run(
        &[
            disaggregated(),
            set("engine.baseEngineArgs.decode_speedup_ratio", json!(2)),
            set("engine.decodeEngineArgs", json!({})),
        ],
        &[&format!("engine.baseEngineArgs.{speedup}")],
    );
    check_run(
        &[
            disaggregated(),
            set("engine.baseEngineArgs.decode_speedup_ratio", json!(2)),
        ],
        &[],
    );
}

#[test]
fn memory_shares_beside_pinned_blocks() {
    check_run(
        &[set(
            "engine.baseEngineArgs",
            json!({"num_gpu_blocks": 500, "gpu_memory_utilization": 0.8}),
        )],
        &[
            "engine.baseEngineArgs.gpu_memory_utilization: 0.8 has no effect on the size of the KV cache, because \
           num_gpu_blocks is given",
        ],
    );
    check_sweep(
        &[
            set("engine.backend", json!("sglang")),
            set(
                "engine.baseEngineArgs",
                json!({"num_gpu_blocks": 500, "mem_fraction_static": 0.8}),
            ),
        ],
        &[
            "engine.baseEngineArgs.mem_fraction_static: 0.8 has no effect on the size of the KV cache, because \
           num_gpu_blocks is given",
        ],
    );
}

#[test]
fn queue_orders_of_routers_that_never_queue() {
    let policy = || set("engine.baseEngineArgs.router_queue_policy", json!("lcfs"));
    let expected = ["engine.baseEngineArgs.router_queue_policy: \"lcfs\" has no effect with router mode round_robin"];
    check_run(&[policy()], &expected);
    check_run(&[disaggregated(), policy()], &expected);
    check_sweep(&[policy(), set("router.mode", json!("round_robin"))], &expected);
    check_sweep(&[policy()], &[]);
    check_sweep(&[policy(), set("router.mode", json!("both"))], &[]);
    check_run(
        &[
            disaggregated(),
            set("engine.basePrefillEngineArgs.router_queue_policy", json!("lcfs")),
        ],
        &["engine.basePrefillEngineArgs.router_queue_policy: \"lcfs\" has no effect with router mode round_robin"],
    );
    check_run(
        &[
            policy(),
            set("router.mode", json!("kv_router")),
            set(
                "router.baseConfig",
                json!({"router_queue_threshold": null, "router_queue_policy": "wspt"}),
            ),
        ],
        &[
            "router.baseConfig.router_queue_policy: \"wspt\" has no effect without a router_queue_threshold, because no \
             request waits",
            "engine.baseEngineArgs.router_queue_policy: \"lcfs\" has no effect without a router_queue_threshold, \
             because no request waits",
        ],
    );
    check_sweep(
        &[
            policy(),
            set("router.baseConfig.router_track_prefill_tokens", json!(false)),
        ],
        &[
            "engine.baseEngineArgs.router_queue_policy: \"lcfs\" has no effect without router_track_prefill_tokens, \
           because no request waits",
        ],
    );
}

#[test]
fn seeds_that_nothing_is_drawn_from() {
    check_run(
        &[set("seed", json!(7))],
        &["seed: 7 has no effect with router mode round_robin"],
    );
    check_run(
        &[set("seed", json!(7)), set("router.seed", json!(0))],
        &[
            "router.seed: 0 has no effect with mode round_robin",
            "seed: 7 has no effect because router.seed is given",
        ],
    );
    check_sweep(
        &[set("seed", json!(7)), set("router.mode", json!("round_robin"))],
        &["seed: 7 has no effect with router mode round_robin"],
    );
    check_run(&[set("seed", json!(7)), set("router.mode", json!("kv_router"))], &[]);
    check_sweep(&[set("seed", json!(7))], &[]);
}

#[test]
fn shared_prefixes_without_prefix_caching() {
    let shared = || {
        [
            set("workload.sharedPrefixRatio", json!(0.5)),
            set("workload.numPrefixGroups", json!(4)),
        ]
    };
    let run = |changes: Vec<Change>, expected: &[&str]| {
        check_run(&changes.into_iter().chain(shared()).collect::<Vec<_>>(), expected);
    };
    let uncached = |path| set(path, json!({"enable_prefix_caching": false}));
    run(
        vec![uncached("engine.baseEngineArgs")],
        &[
            "workload.sharedPrefixRatio: 0.5 has no effect on prompt computation, because prefix caching is off for \
           aggregated workers",
        ],
    );
    run(
        vec![disaggregated(), uncached("engine.prefillEngineArgs")],
        &[
            "workload.sharedPrefixRatio: 0.5 has no effect on prompt computation, because prefix caching is off for \
           prefill workers",
        ],
    );
    run(vec![disaggregated(), uncached("engine.decodeEngineArgs")], &[]);

    let sweep = |change: Change, expected: &[&str]| {
        check_sweep(&shared().into_iter().chain([change]).collect::<Vec<_>>(), expected);
    };
    sweep(
        uncached("engine.baseEngineArgs"),
        &[
            "workload.sharedPrefixRatio: 0.5 has no effect on prompt computation, because prefix caching is off for \
           aggregated and prefill workers",
        ],
    );
    sweep(uncached("engine.prefillEngineArgs"), &[]);
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
fn a_stop_beyond_bounds_that_are_not_there() {
    let stop = |stop: bool| set("search.stopHopeless", json!(stop));
    let why = "search.stopHopeless: true has no effect without a bound in sla";
    check_sweep(&[stop(true)], &[why]);
    check_sweep(
        &[stop(true), set("sla.ttft", json!(0))],
        &["sla.ttft: is no bound, because it is not above 0", why],
    );
    check_sweep(&[stop(true), set("sla.p95Itl", json!(30))], &[]);
    check_sweep(&[stop(false)], &[]);
}
