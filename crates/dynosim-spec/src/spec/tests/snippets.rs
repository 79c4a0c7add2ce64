//! Documents as users write them are read without a mistake or a warning.

use crate::engine::{Backend, Rules, WorkerRole};
use crate::parallel_shape::ParallelShape;
use crate::router::RouterMode;
use crate::spec::{ReplayOptimizeSpec, RunSpec, SweepRouterMode, TimingKind, Topology};
use crate::workload_spec::{SyntheticLoad, TraceFormat, WorkloadSpec};

#[track_caller]
fn run(text: &str) -> RunSpec {
    let read = RunSpec::from_json(text).expect("the document is valid");
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
    read.value.validate().expect("what is read is valid");
    read.value
}

#[test]
fn a_single_aggregated_worker() {
    let run = run(r#"{
        "engine": {"model": "Qwen/Qwen3-32B", "backend": "vllm", "rules": "dynosim-1.2",
                   "baseEngineArgs": {"num_gpu_blocks": 16384, "max_num_seqs": 1}},
        "hardware": {"system": "h200_sxm"},
        "topology": {"workers": 1, "tp": 1},
        "router": {"mode": "round_robin"},
        "workload": {"isl": 100, "osl": 3, "requestCount": 3.0, "arrivalIntervalMs": 1.0},
        "timing": {"provider": "polynomial"}
    }"#);
    assert_eq!(run.engine.rules, Rules::Dynosim12);
    assert_eq!(run.timing.provider, TimingKind::Polynomial);
    let WorkloadSpec::Synthetic(workload) = run.workload else {
        panic!("the workload is synthetic");
    };
    assert_eq!(
        (workload.request_count, workload.load),
        (3, SyntheticLoad::ArrivalIntervalMs(1.0))
    );
}

#[test]
fn a_disaggregated_run_with_kv_routing_over_a_trace() {
    let run = run(r#"{
        "engine": {"model": "Qwen/Qwen3-32B", "backend": "vllm", "rules": "dynosim-1.2",
                   "prefillEngineArgs": {"worker_type": "prefill", "num_gpu_blocks": 16384,
                                         "kv_bytes_per_token": 262144, "kv_transfer_bandwidth": 64.0},
                   "decodeEngineArgs": {"worker_type": "decode", "enable_prefix_caching": false,
                                        "num_gpu_blocks": 16384}},
        "hardware": {"system": "h200_sxm"},
        "topology": {"prefillWorkers": 2, "decodeWorkers": 3, "prefillTp": 1, "decodeTp": 2},
        "router": {"mode": "kv_router", "overlapScoreCredit": 1.0, "prefillLoadScale": 1.0, "seed": 0},
        "workload": {"traceFile": "traces/conversation_trace.jsonl", "traceFormat": "mooncake",
                     "traceBlockSize": 512, "arrivalSpeedupRatio": 10.0},
        "timing": {"provider": "polynomial"}
    }"#);
    let expected = Topology::Disaggregated {
        prefill_workers: 2,
        decode_workers: 3,
        prefill_shape: ParallelShape::tensor(1),
        decode_shape: ParallelShape::tensor(2),
    };
    assert_eq!(run.topology, expected);
    assert_eq!(run.topology.total_gpus(), 8);
    assert_eq!(run.router.mode, RouterMode::KvRouter);
    let prefill = run.engine.config(WorkerRole::Prefill);
    assert_eq!(
        (prefill.kv_bytes_per_token, prefill.kv_transfer_bandwidth),
        (Some(262_144), Some(64.0))
    );
}

#[test]
fn experts_spread_over_groups_of_gpus() {
    let run = run(r#"{
        "engine": {"model": "Qwen/Qwen3-30B-A3B", "backend": "vllm"},
        "hardware": {"system": "h200_sxm"},
        "topology": {"prefillWorkers": 1, "decodeWorkers": 2, "prefillTp": 2, "prefillMoeEp": 2,
                     "decodeTp": 1, "decodeAttentionDp": 4, "decodeMoeTp": 1},
        "workload": {"isl": 100, "osl": 10, "requestCount": 4, "concurrency": 2}
    }"#);
    let shapes: Vec<ParallelShape> = run.topology.pools().iter().map(|pool| pool.shape).collect();
    assert_eq!(
        shapes.iter().map(|shape| shape.spread()).collect::<Vec<_>>(),
        [Ok((1, 2)), Ok((1, 4))]
    );
    assert_eq!(run.topology.total_gpus(), 2 + 2 * 4);
}

#[test]
fn an_agentic_trace_in_a_closed_loop() {
    let run = run(r#"{
        "engine": {"model": "Qwen/Qwen3-32B", "backend": "vllm",
                   "baseEngineArgs": {"block_size": 64, "num_gpu_blocks": 16384}},
        "hardware": {"gpuSku": "h200_sxm"},
        "topology": {"workers": 2, "tp": 1},
        "workload": {"traceFile": "inline", "traceFormat": "applied_compute_agentic", "traceBlockSize": 64,
                     "traceReplayConcurrency": 4, "traceSharedPrefixRatio": 0.5, "traceNumPrefixGroups": 1}
    }"#);
    assert_eq!(run.hardware.system, "h200_sxm");
    let WorkloadSpec::Trace(trace) = run.workload else {
        panic!("the workload is a trace");
    };
    assert_eq!(trace.trace_format, TraceFormat::AppliedComputeAgentic);
    assert_eq!(trace.trace_replay_concurrency, Some(4));
}

#[test]
fn a_sglang_worker() {
    let run = run(r#"{
        "engine": {"model": "Qwen/Qwen3-32B", "backend": "sglang",
                   "baseEngineArgs": {"sglang": {"chunked_prefill_size": 400, "schedule_policy": "lpm"},
                                      "mem_fraction_static": 0.8, "dp_size": 1}},
        "hardware": {"system": "h200_sxm"},
        "topology": {"workers": 1, "tp": 1},
        "workload": {"isl": 1000, "osl": 3, "requestCount": 1, "requestRate": 2.5}
    }"#);
    let config = run.engine.config(WorkerRole::Aggregated);
    assert_eq!(
        (config.backend, config.sglang.chunked_prefill_size),
        (Backend::Sglang, 400)
    );
    assert_eq!(config.memory_fraction.to_bits(), 0.8_f64.to_bits());
}

#[test]
fn sessions_with_shared_prefixes() {
    let run = run(r#"{
        "engine": {"model": "Qwen/Qwen3-32B", "backend": "vllm"},
        "hardware": {"system": "h200_sxm"},
        "topology": {"workers": 2, "tp": 1},
        "workload": {"isl": 1000, "osl": 32, "requestCount": 50, "arrivalIntervalMs": 100.0,
                     "sharedPrefixRatio": 0.5, "numPrefixGroups": 4, "turnsPerSession": 3,
                     "interTurnDelayMs": 500.0}
    }"#);
    let WorkloadSpec::Synthetic(workload) = run.workload else {
        panic!("the workload is synthetic");
    };
    assert_eq!((workload.turns_per_session, workload.num_prefix_groups), (3, 4));
}

#[test]
fn a_sweep() {
    let text = r#"{
        "engine": {"model": "Qwen/Qwen3-32B", "backend": "vllm",
                   "baseEngineArgs": {"block_size": 512, "enable_prefix_caching": true, "worker_type": "aggregated"},
                   "prefillEngineArgs": {"block_size": 512, "enable_prefix_caching": true, "worker_type": "prefill"},
                   "decodeEngineArgs": {"block_size": 512, "enable_prefix_caching": false, "worker_type": "decode"}},
        "hardware": {"system": "h200_sxm", "totalGpus": 16},
        "workload": {"isl": 32768, "osl": 256, "requestCount": 5000, "concurrency": 200.0,
                     "sharedPrefixRatio": 0.5, "numPrefixGroups": 50},
        "sla": {"ttft": 50000.0, "itl": 100.0, "e2eLatency": 60000.0},
        "router": {"mode": "both", "overlapCredits": [0.5, 1.0], "prefillLoadScales": [0.0, 1.0],
                   "baseConfig": {"router_temperature": 0.1}},
        "objective": "mean_e2e_latency", "maxParallelEvals": 4, "search": {"beam": 1, "stopHopeless": true},
        "timing": {"provider": "table", "engineVersion": "0.14.0"}, "seed": 18446744073709551615
    }"#;
    let read = ReplayOptimizeSpec::from_json(text).expect("the document is valid");
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
    let sweep = read.value;
    sweep.validate().expect("what is read is valid");
    assert_eq!(sweep.router.mode, SweepRouterMode::Both);
    assert_eq!(sweep.router.overlap_credits, [0.5, 1.0]);
    assert_eq!(
        (sweep.parallel_evals(), sweep.search.beam, sweep.seed),
        (4, 1, u64::MAX)
    );
    assert!(sweep.search.stop_hopeless);
}

#[test]
fn a_sweep_in_the_names_of_the_reference() {
    let text = r#"{
        "engine": {"model": "Qwen/Qwen3-32B", "backend": "vllm",
                   "basePrefillEngineArgs": {"block_size": 128}, "baseDecodeEngineArgs": {"block_size": 128}},
        "hardware": {"gpuSku": "h100_sxm", "totalGpus": 8},
        "workload": {"isl": 1000, "osl": 100, "requestCount": 10, "concurrency": 2, "requestRate": null},
        "router": {"mode": "kv_router", "baseRouterConfig": {"router_queue_threshold": null}}
    }"#;
    let read = ReplayOptimizeSpec::from_json(text).expect("the document is valid");
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
    assert_eq!(read.value.engine.config(WorkerRole::Decode).block_size.tokens(), 128);
    assert_eq!(read.value.router.base_config.router_queue_threshold, None);
}
