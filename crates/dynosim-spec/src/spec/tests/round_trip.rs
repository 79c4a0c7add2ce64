//! A document written back reads as itself.

use proptest::option;
use proptest::prelude::*;

use crate::engine::{Backend, PreemptionMode, QueuePolicy, Rules, SchedulePolicy};
use crate::engine_args::{EngineArgs, Limit, SglangArgs};
use crate::parallel_shape::ParallelShape;
use crate::router::RouterMode;
use crate::spec::StepTerm;
use crate::spec::{
    EngineAxes, EngineSpec, HardwareSpec, KvRouterConfig, Objective, PerRequestSla, Prune, ReplayOptimizeSpec,
    RunRouterSpec, RunSpec, SearchSpec, SearchStrategy, SlaSpec, SweepRouterMode, SweepRouterSpec, TimingKind,
    TimingSpec, Topology,
};
use crate::workload_spec::{SyntheticLoad, SyntheticWorkload, TraceFormat, TraceWorkload, WorkloadSpec};

prop_compose! {
    fn sglang_args()(
        schedule_policy in option::of(prop::sample::select(vec![SchedulePolicy::Fifo, SchedulePolicy::Lpm])),
        max_prefill_tokens in option::of(1_u32..100_000),
        chunks in option::of(1_u32..1000),
        clip_max_new_tokens in option::of(1_u32..10_000),
        schedule_conservativeness in option::of(0.0..=1.0),
    ) -> SglangArgs {
        SglangArgs {
            schedule_policy,
            page_size: Some(16),
            max_prefill_tokens,
            chunked_prefill_size: chunks.map(|chunks| chunks * 16),
            clip_max_new_tokens,
            schedule_conservativeness,
        }
    }
}

fn limit() -> impl Strategy<Value = Option<Limit>> {
    option::of(prop_oneof![Just(Limit::Unlimited), (1_u32..).prop_map(Limit::AtMost)])
}

prop_compose! {
    fn engine_args(backend: Backend)(
        num_gpu_blocks in option::of(1_u32..),
        enable_prefix_caching in option::of(any::<bool>()),
        max_num_seqs in limit(),
        max_num_batched_tokens in limit(),
        preemption_mode in option::of(prop::sample::select(vec![PreemptionMode::Lifo, PreemptionMode::Fifo])),
        speedup_ratio in option::of(0.0..1e6),
        kv_bytes_per_token in option::of(1_u64..),
        share in option::of(0.01..=1.0),
        router_queue_policy in option::of(prop::sample::select(vec![QueuePolicy::Lcfs, QueuePolicy::Wspt])),
        sglang in option::of(sglang_args()),
    ) -> EngineArgs {
        let of = |wanted: Backend| share.filter(|_| backend == wanted);
        EngineArgs {
            block_size: Some(16),
            num_gpu_blocks,
            enable_prefix_caching,
            max_num_seqs,
            max_num_batched_tokens,
            preemption_mode,
            speedup_ratio,
            kv_bytes_per_token,
            gpu_memory_utilization: of(Backend::Vllm),
            mem_fraction_static: of(Backend::Sglang),
            router_queue_policy,
            sglang: sglang.filter(|_| backend == Backend::Sglang),
            ..EngineArgs::default()
        }
    }
}

fn engine() -> impl Strategy<Value = EngineSpec> {
    prop::sample::select(vec![Backend::Vllm, Backend::Sglang]).prop_flat_map(|backend| {
        let pools = option::of((engine_args(backend), engine_args(backend)));
        let rules = prop::sample::select(vec![Rules::VllmV1Async, Rules::VllmV1, Rules::Dynosim12]);
        ("[a-z/\"\\\\]{1,8}", rules, engine_args(backend), pools).prop_map(move |(model, rules, base, pools)| {
            let (prefill_engine_args, decode_engine_args) = pools.unzip();
            EngineSpec {
                model,
                backend,
                rules,
                base_engine_args: base,
                prefill_engine_args,
                decode_engine_args,
            }
        })
    })
}

fn load() -> impl Strategy<Value = SyntheticLoad> {
    prop_oneof![
        (1_u32..).prop_map(SyntheticLoad::Concurrency),
        (1e-3..1e6).prop_map(SyntheticLoad::RequestRate),
        (0.0..1e9).prop_map(SyntheticLoad::ArrivalIntervalMs),
    ]
}

prop_compose! {
    fn synthetic()(
        load in load(),
        isl in 1_u32..1_000_000,
        length_range_ratio in prop_oneof![Just(1.0), 1e-9..1.0],
        length_seed in any::<u64>(),
        shared_prefix_ratio in 0.0..=1.0,
        num_prefix_groups in 1_u32..100,
        turns_per_session in 1_u32..10,
        inter_turn_delay_ms in 0.0..1e6,
        arrival_seed in any::<u64>(),
    ) -> SyntheticWorkload {
        SyntheticWorkload {
            length_range_ratio,
            length_seed,
            shared_prefix_ratio,
            num_prefix_groups,
            turns_per_session,
            inter_turn_delay_ms,
            arrival_seed,
            ..SyntheticWorkload::new(isl, 7, 1000, load)
        }
    }
}

prop_compose! {
    fn trace()(
        agentic in any::<bool>(),
        trace_file in "[a-z/.]{1,12}",
        trace_block_size in 1_u32..,
        arrival_speedup_ratio in 0.1..10.0,
        concurrency in 1_u32..,
        trace_shared_prefix_ratio in 0.0..=1.0,
    ) -> TraceWorkload {
        TraceWorkload {
            trace_format: if agentic { TraceFormat::AppliedComputeAgentic } else { TraceFormat::Mooncake },
            trace_block_size,
            arrival_speedup_ratio,
            trace_replay_concurrency: agentic.then_some(concurrency),
            trace_shared_prefix_ratio,
            trace_num_prefix_groups: 3,
            ..TraceWorkload::new(trace_file)
        }
    }
}

fn workload() -> impl Strategy<Value = WorkloadSpec> {
    prop_oneof![
        synthetic().prop_map(WorkloadSpec::Synthetic),
        trace().prop_map(WorkloadSpec::Trace),
    ]
}

prop_compose! {
    fn kv_router_config()(
        overlap_score_credit in 0.0..=1.0,
        router_temperature in 0.0..5.0,
        router_queue_threshold in option::of(0.0..100.0),
        router_track_active_blocks in any::<bool>(),
    ) -> KvRouterConfig {
        KvRouterConfig {
            overlap_score_credit,
            router_temperature,
            router_queue_threshold,
            router_track_active_blocks,
            ..KvRouterConfig::default()
        }
    }
}

prop_compose! {
    fn timing()(
        provider in prop::sample::select(vec![TimingKind::Table, TimingKind::Roofline, TimingKind::Polynomial]),
        engine_version in option::of("[0-9.]{1,6}"),
        repair in option::of(any::<bool>()),
        calibration in option::of("[a-z./]{1,9}"),
        without in prop::sample::subsequence(StepTerm::ALL, 0..=StepTerm::ALL.len()),
    ) -> TimingSpec {
        TimingSpec { provider, engine_version, repair, calibration, without }
    }
}

fn topology() -> impl Strategy<Value = Topology> {
    prop_oneof![
        (1_u32..=65_536, shape()).prop_map(|(workers, shape)| Topology::Aggregated { workers, shape }),
        (1_u32..=65_536, 1_u32..=65_536, shape(), shape()).prop_map(
            |(prefill_workers, decode_workers, prefill_shape, decode_shape)| Topology::Disaggregated {
                prefill_workers,
                decode_workers,
                prefill_shape,
                decode_shape,
            }
        ),
    ]
}

/// Dense ones, and such whose experts are spread completely, in part, or not said how.
fn shape() -> impl Strategy<Value = ParallelShape> {
    let open = |shape: ParallelShape, moe_tp: bool, moe_ep: bool| ParallelShape {
        moe_tp: shape.moe_tp.filter(|_| moe_tp),
        moe_ep: shape.moe_ep.filter(|_| moe_ep),
        ..shape
    };
    prop_oneof![
        (1_u32..9).prop_map(ParallelShape::tensor),
        (1_u32..9, 1_u32..9).prop_map(|(tp, attention_dp)| ParallelShape::experts(tp, attention_dp, attention_dp, tp)),
        (1_u32..9, 1_u32..9, any::<bool>(), any::<bool>()).prop_map(move |(tp, attention_dp, moe_tp, moe_ep)| {
            open(
                ParallelShape::experts(tp, attention_dp, 1, tp * attention_dp),
                moe_tp,
                moe_ep,
            )
        }),
    ]
}

prop_compose! {
    fn run()(
        engine in engine(),
        topology in topology(),
        workload in workload(),
        timing in timing(),
        mode in prop::sample::select(vec![RouterMode::RoundRobin, RouterMode::KvRouter]),
        overlap_score_credit in option::of(0.0..=1.0),
        router_seed in option::of(any::<u64>()),
        base_config in kv_router_config(),
        seed in any::<u64>(),
    ) -> RunSpec {
        let router = RunRouterSpec {
            mode,
            overlap_score_credit,
            prefill_load_scale: None,
            seed: router_seed,
            base_config,
        };
        RunSpec { router, timing, seed, ..RunSpec::new(engine, HardwareSpec::new("h200_sxm"), topology, workload) }
    }
}

prop_compose! {
    fn search()(
        strategy in prop::sample::select(vec![SearchStrategy::Descent, SearchStrategy::Exhaustive]),
        beam in 1_u32..9,
        stop_hopeless in any::<bool>(),
        prune in prop::sample::select(vec![Prune::None, Prune::Infeasible, Prune::Worse]),
        block_size in prop::sample::subsequence(vec![16, 32, 64], 0..=3),
    ) -> SearchSpec {
        let engine_args = EngineAxes { block_size, ..EngineAxes::default() };
        SearchSpec { strategy, beam, stop_hopeless, prune, engine_args }
    }
}

prop_compose! {
    fn sweep()(
        engine in engine(),
        total_gpus in 1_u32..,
        workload in workload(),
        timing in timing(),
        mode in prop::sample::select(vec![SweepRouterMode::Both, SweepRouterMode::KvRouter]),
        overlap_credits in prop::collection::vec(0.0..=1.0, 1..4),
        prefill_load_scales in prop::collection::vec(0.0..9.0, 1..4),
        base_config in kv_router_config(),
        ttft in option::of(-1.0..1e6),
        objective in prop::sample::select(Objective::ALL.to_vec()),
        gpu_hour_price in 0.1..9.0,
        search in search(),
        seed in any::<u64>(),
    ) -> ReplayOptimizeSpec {
        ReplayOptimizeSpec {
            sla: SlaSpec {
                ttft,
                p95_itl: ttft,
                per_request: Some(PerRequestSla { itl: Some(gpu_hour_price), ..PerRequestSla::default() }),
                ..SlaSpec::default()
            },
            router: SweepRouterSpec { mode, overlap_credits, prefill_load_scales, base_config },
            objective,
            timing,
            search,
            seed,
            ..ReplayOptimizeSpec::new(
                engine,
                HardwareSpec {
                    min_gpus: Some(1),
                    gpu_hour_price: Some(gpu_hour_price),
                    ..HardwareSpec::new("gb200").with_budget(total_gpus)
                },
                workload,
            )
        }
    }
}

proptest! {
    #[test]
    fn of_a_run(run in run()) {
        prop_assert!(run.validate().is_ok());
        let text = serde_json::to_string(&run).expect("specs have a JSON form");
        let read = RunSpec::from_json(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(read.value, run);
    }

    #[test]
    fn of_a_sweep(sweep in sweep()) {
        prop_assert!(sweep.validate().is_ok());
        let text = serde_json::to_string(&sweep).expect("specs have a JSON form");
        let read = ReplayOptimizeSpec::from_json(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(read.value, sweep);
    }
}

/// A sweep of defaults.
fn plain_sweep() -> ReplayOptimizeSpec {
    let engine = EngineSpec::new("model", Backend::Vllm);
    let load = SyntheticLoad::Concurrency(1);
    let workload = WorkloadSpec::Synthetic(SyntheticWorkload::new(1, 1, 1, load));
    ReplayOptimizeSpec::new(engine, HardwareSpec::new("l40s").with_budget(1), workload)
}

#[test]
fn the_number_of_parallel_simulations_is_not_written() {
    let mut sweep = plain_sweep();
    let text = serde_json::to_string(&sweep).expect("specs have a JSON form");
    sweep.max_parallel_evals = Some(5);
    assert_eq!(serde_json::to_string(&sweep).expect("specs have a JSON form"), text);
}

#[test]
fn a_stop_that_is_off_is_not_written() {
    let mut sweep = plain_sweep();
    let search = |sweep: &ReplayOptimizeSpec| serde_json::to_string(&sweep.search).expect("specs have a JSON form");
    assert_eq!(search(&sweep), r#"{"beam":3}"#);
    sweep.search.stop_hopeless = true;
    assert_eq!(search(&sweep), r#"{"beam":3,"stopHopeless":true}"#);
}
