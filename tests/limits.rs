//! Where a run must end with an error instead of a number.

use dynosim::Error;
use dynosim::core::SimError;
use dynosim::spec::{
    Backend, EngineArgs, EngineSpec, HardwareSpec, Limit, ParallelShape, Rules, RunSpec, SyntheticLoad,
    SyntheticWorkload, TimingKind, TimingSpec, Topology, WorkloadSpec,
};

fn spec(args: EngineArgs, workload: SyntheticWorkload) -> RunSpec {
    let engine = EngineSpec {
        base_engine_args: EngineArgs {
            num_gpu_blocks: args.num_gpu_blocks.or(Some(1000)),
            ..args
        },
        ..EngineSpec::new("any", Backend::Vllm)
    };
    let topology = Topology::Aggregated {
        workers: 1,
        shape: ParallelShape::tensor(1),
    };
    let workload = WorkloadSpec::Synthetic(workload);
    let mut spec = RunSpec::new(engine, HardwareSpec::new("h200_sxm"), topology, workload);
    spec.timing = TimingSpec {
        provider: TimingKind::Polynomial,
        ..TimingSpec::default()
    };
    spec
}

fn few_requests() -> SyntheticWorkload {
    SyntheticWorkload::new(1000, 20, 4, SyntheticLoad::Concurrency(2))
}

#[track_caller]
fn ends_beyond_the_clock(spec: &RunSpec) {
    let outcome = dynosim::run(spec);
    assert!(
        matches!(outcome, Err(Error::Simulation(SimError::ClockExhausted))),
        "{outcome:?}"
    );
}

#[test]
fn steps_longer_than_the_clock_are_an_error() {
    let args = EngineArgs {
        speedup_ratio: Some(1e-300),
        ..EngineArgs::default()
    };
    ends_beyond_the_clock(&spec(args, few_requests()));
}

#[test]
fn think_times_beyond_the_clock_are_an_error() {
    let workload = SyntheticWorkload {
        turns_per_session: 20,
        inter_turn_delay_ms: 1e12,
        ..few_requests()
    };
    ends_beyond_the_clock(&spec(EngineArgs::default(), workload));
}

#[test]
fn transfers_that_never_end_are_an_error() {
    let args = EngineArgs {
        kv_bytes_per_token: Some(1_000_000),
        kv_transfer_bandwidth: Some(1e-300),
        ..EngineArgs::default()
    };
    let mut spec = spec(args, few_requests());
    spec.topology = Topology::Disaggregated {
        prefill_workers: 1,
        decode_workers: 1,
        prefill_shape: ParallelShape::tensor(1),
        decode_shape: ParallelShape::tensor(1),
    };
    ends_beyond_the_clock(&spec);
}

#[test]
fn requests_that_take_blocks_from_each_other_for_ever_are_an_error() {
    let args = EngineArgs {
        block_size: Some(4),
        num_gpu_blocks: Some(14),
        max_num_batched_tokens: Some(Limit::AtMost(16)),
        ..EngineArgs::default()
    };
    let workload = SyntheticWorkload::new(40, 4, 2, SyntheticLoad::ArrivalIntervalMs(0.0));
    let mut spec = spec(args, workload);
    spec.engine.rules = Rules::Dynosim12;
    let Err(error) = dynosim::run(&spec) else {
        panic!("the two evict each other's prompts");
    };
    assert!(
        matches!(error, Error::Simulation(SimError::NoProgress { .. })),
        "{error}"
    );
    assert!(error.to_string().contains("of which there are 14"), "{error}");
    spec.engine.rules = Rules::VllmV1;
    assert_eq!(
        dynosim::run(&spec)
            .expect("one waits for the other")
            .report
            .completed_requests,
        2
    );
}

#[test]
fn a_page_larger_than_the_default_chunk_makes_the_chunk_one_page() {
    let args = EngineArgs {
        block_size: Some(8193),
        ..EngineArgs::default()
    };
    let mut spec = spec(args, SyntheticWorkload::new(9000, 2, 1, SyntheticLoad::Concurrency(1)));
    spec.engine.backend = Backend::Sglang;
    assert_eq!(
        dynosim::run(&spec)
            .expect("it is computed in two chunks")
            .report
            .completed_requests,
        1
    );
}

#[test]
fn weights_that_do_not_fit_are_warned_about_where_blocks_are_pinned() {
    let mut spec = spec(EngineArgs::default(), few_requests());
    spec.engine.model = "meta-llama/Meta-Llama-3.1-405B".to_owned();
    let warnings = dynosim::run(&spec).expect("blocks are pinned").report.warnings;
    let warned = warnings
        .iter()
        .any(|warning| warning.contains("about 0 fit (aggregated tp 1)"));
    assert!(warned, "{warnings:?}");
}
