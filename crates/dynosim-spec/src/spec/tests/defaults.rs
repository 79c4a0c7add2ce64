//! What a document means by what it leaves out.

use serde_json::json;

use super::{changed, run_document, set, sweep_document};
use crate::engine::{Backend, PreemptionMode, QueuePolicy, Rules, SchedulePolicy, SglangConfig, WorkerRole};
use crate::engine_args::{EngineArgs, Limit, SglangArgs};
use crate::router::{RouterMode, RouterSettings};
use crate::spec::{
    EngineSpec, KvRouterConfig, Objective, ReplayOptimizeSpec, RunSpec, SlaSpec, SweepRouterMode, TimingKind,
};
use crate::workload_spec::{TraceFormat, WorkloadSpec};

#[test]
fn of_a_run() {
    let run = RunSpec::from_json(&changed(run_document(), &[]))
        .expect("the document is valid")
        .value;
    assert_eq!(run.engine.rules, Rules::VllmV1Async);
    assert_eq!(run.timing.provider, TimingKind::Table);
    for (backend, rules, version) in [
        (Backend::Vllm, Rules::VllmV1Async, "0.19.0"),
        (Backend::Vllm, Rules::VllmV1, "0.14.0"),
        (Backend::Vllm, Rules::Dynosim12, "0.14.0"),
        (Backend::Sglang, Rules::VllmV1Async, "0.5.6.post2"),
    ] {
        assert_eq!(run.timing.engine_version(backend, rules), version);
    }
    assert!(run.timing.repairs(Rules::VllmV1) && !run.timing.repairs(Rules::Dynosim12));
    assert_eq!(run.router.settings(), RouterSettings::default());
    assert_eq!(run.router.settings().mode, RouterMode::RoundRobin);
    assert_eq!(run.router_seed(), 0);
    let WorkloadSpec::Synthetic(workload) = run.workload else {
        panic!("the workload is synthetic");
    };
    assert_eq!((workload.turns_per_session, workload.arrival_seed), (1, 42));
    assert_eq!((workload.length_range_ratio, workload.length_seed), (1.0, 0));
}

#[test]
fn of_a_sweep() {
    let sweep = ReplayOptimizeSpec::from_json(&changed(sweep_document(), &[]))
        .expect("the document is valid")
        .value;
    assert_eq!(sweep.router.mode, SweepRouterMode::KvRouter);
    assert_eq!(sweep.router.overlap_credits, [1.0]);
    assert_eq!(sweep.router.prefill_load_scales, [0.0, 0.25, 0.5, 1.0, 2.0, 4.0]);
    assert_eq!(sweep.objective, Objective::Throughput);
    assert_eq!((sweep.search.beam, sweep.seed), (3, 0));
    assert!(!sweep.search.stop_hopeless);
    assert!((1..=8).contains(&sweep.parallel_evals()));
    assert_eq!(sweep.sla.active_bounds().count(), 0);
}

#[test]
fn of_a_trace() {
    let text = changed(run_document(), &[set("workload", json!({"traceFile": "inline"}))]);
    let run = RunSpec::from_json(&text).expect("the document is valid").value;
    let WorkloadSpec::Trace(trace) = run.workload else {
        panic!("the workload is a trace");
    };
    assert_eq!(trace.trace_file.to_str(), Some("inline"));
    assert_eq!(
        (trace.trace_format, trace.trace_block_size),
        (TraceFormat::Mooncake, 512)
    );
    assert_eq!(trace.trace_replay_concurrency, None);
}

#[test]
fn of_a_vllm_worker() {
    let config = EngineArgs::default().resolve(Backend::Vllm, WorkerRole::Aggregated);
    assert_eq!(config.block_size.tokens(), 64);
    assert_eq!(config.num_gpu_blocks, None);
    assert!(config.enable_prefix_caching && config.enable_chunked_prefill);
    assert_eq!(
        (config.max_num_seqs, config.max_num_batched_tokens),
        (Some(256), Some(8192))
    );
    assert_eq!(config.preemption_mode, PreemptionMode::Lifo);
    assert_eq!((config.speedup_ratio, config.decode_speedup_ratio), (1.0, 1.0));
    assert_eq!(config.memory_fraction.to_bits(), 0.9_f64.to_bits());
}

#[test]
fn of_a_sglang_worker() {
    let config = EngineArgs::default().resolve(Backend::Sglang, WorkerRole::Aggregated);
    assert_eq!(config.block_size.tokens(), 1);
    assert_eq!(config.memory_fraction.to_bits(), 0.88_f64.to_bits());
    let expected = SglangConfig {
        schedule_policy: SchedulePolicy::Fifo,
        max_prefill_tokens: 16_384,
        chunked_prefill_size: 8192,
        clip_max_new_tokens: 4096,
        schedule_conservativeness: 1.0,
    };
    assert_eq!(config.sglang, expected);

    let sglang = SglangArgs {
        page_size: Some(16),
        ..SglangArgs::default()
    };
    let args = EngineArgs {
        sglang: Some(sglang),
        ..EngineArgs::default()
    };
    assert_eq!(
        args.resolve(Backend::Sglang, WorkerRole::Aggregated)
            .block_size
            .tokens(),
        16
    );
}

#[test]
fn limits_may_be_lifted() {
    let args = EngineArgs {
        max_num_seqs: Some(Limit::Unlimited),
        max_num_batched_tokens: Some(400.into()),
        ..EngineArgs::default()
    };
    let config = args.resolve(Backend::Vllm, WorkerRole::Aggregated);
    assert_eq!((config.max_num_seqs, config.max_num_batched_tokens), (None, Some(400)));
}

#[test]
fn roles_stand_alone_or_copy_the_base() {
    let mut engine = EngineSpec::new("model", Backend::Vllm);
    engine.base_engine_args.block_size = Some(512);
    engine.decode_engine_args = Some(EngineArgs::default());
    let [prefill, decode] = [WorkerRole::Prefill, WorkerRole::Decode].map(|role| engine.config(role));
    assert_eq!((prefill.role, prefill.block_size.tokens()), (WorkerRole::Prefill, 512));
    assert_eq!((decode.role, decode.block_size.tokens()), (WorkerRole::Decode, 64));
    assert!(prefill.enable_prefix_caching);
    assert!(!decode.enable_prefix_caching);
}

#[test]
fn explicit_router_fields_win() {
    let changes = [
        set("seed", json!(7)),
        set("router.mode", json!("kv_router")),
        set("router.overlapScoreCredit", json!(0.25)),
        set(
            "router.baseConfig",
            json!({
                "overlap_score_credit": 0.75,
                "prefill_load_scale": 3,
                "router_queue_threshold": null,
                "router_queue_policy": "wspt"
            }),
        ),
    ];
    let run = RunSpec::from_json(&changed(run_document(), &changes))
        .expect("the document is valid")
        .value;
    let expected = RouterSettings {
        mode: RouterMode::KvRouter,
        overlap_score_credit: 0.25,
        prefill_load_scale: 3.0,
        router_queue_threshold: None,
        router_queue_policy: QueuePolicy::Wspt,
        ..RouterSettings::default()
    };
    assert_eq!(run.router.settings(), expected);
    assert_eq!(run.router_seed(), 7);
}

#[test]
fn the_seed_of_the_router_wins() {
    let text = changed(
        run_document(),
        &[set("seed", json!(7)), set("router.seed", json!(u64::MAX))],
    );
    let run = RunSpec::from_json(&text).expect("the document is valid").value;
    assert_eq!(run.router_seed(), u64::MAX);
}

#[test]
fn candidates_of_a_sweep_overrule_the_base_config() {
    let mut router = crate::spec::SweepRouterSpec {
        base_config: KvRouterConfig {
            router_temperature: 0.5,
            ..KvRouterConfig::default()
        },
        ..Default::default()
    };
    router.base_config.overlap_score_credit = 0.1;
    let expected = RouterSettings {
        mode: RouterMode::KvRouter,
        overlap_score_credit: 1.0,
        prefill_load_scale: 4.0,
        router_temperature: 0.5,
        ..RouterSettings::default()
    };
    assert_eq!(router.settings(RouterMode::KvRouter, 1.0, 4.0), expected);
}

#[test]
fn active_bounds_name_their_metric() {
    let sla = SlaSpec {
        ttft: Some(0.0),
        itl: Some(20.0),
        p95_e2e_latency: Some(9000.0),
        ..SlaSpec::default()
    };
    let bounds: Vec<_> = sla
        .active_bounds()
        .map(|bound| (bound.name, bound.metric, bound.bound_ms))
        .collect();
    let expected = [
        ("itl", "mean_tpot_ms", 20.0),
        ("p95E2eLatency", "p95_e2e_latency_ms", 9000.0),
    ];
    assert_eq!(bounds, expected);
}
