//! How sure the order of candidates is, where the answer is known.

mod answers;
mod chance;
mod other_loads;

use std::sync::Arc;

use dynosim::confidence::{Assessment, Confidence, ConfidenceOptions};
use dynosim::spec::{
    Backend, Deployment, EngineArgs, EngineSpec, HardwareSpec, Limit, Objective, ParallelShape, ReplayOptimizeSpec,
    Rules, SyntheticLoad, SyntheticWorkload, Topology, WorkloadSpec,
};
use dynosim::sweep::{Mode, Record, RouterState, State, Sweep};
use dynosim::sweep_scenario;
use dynosim::timing::{Price, StepShape, TimingError, TimingModel};

/// What a pass over one prompt costs; generated tokens cost a millisecond.
#[derive(Debug, Clone, Copy)]
struct PromptTimes {
    fixed_ms: f64,
    ms_per_token: f64,
}

impl TimingModel for PromptTimes {
    fn prefill(&self, step: &StepShape) -> Price {
        Price::known(self.fixed_ms + self.ms_per_token * step.prefill_tokens as f64)
    }

    fn decode(&self, _: &StepShape) -> Price {
        Price::known(1.0)
    }
}

fn fixed(ms: f64) -> PromptTimes {
    PromptTimes {
        fixed_ms: ms,
        ms_per_token: 0.0,
    }
}

/// A provider with these prompt times at tp 1 and beyond.
fn provider(times: [PromptTimes; 2]) -> impl Fn(&Deployment) -> Result<Arc<dyn TimingModel>, TimingError> {
    move |deployment| Ok(Arc::new(times[usize::from(deployment.shape.tp > 1)]))
}

/// Workers that compute one prompt of 100 tokens at a time.
fn spec(workload: WorkloadSpec) -> ReplayOptimizeSpec {
    let engine = EngineSpec {
        base_engine_args: EngineArgs {
            block_size: Some(4),
            num_gpu_blocks: Some(10_000),
            max_num_batched_tokens: Some(Limit::AtMost(100)),
            ..EngineArgs::default()
        },
        rules: Rules::VllmV1,
        ..EngineSpec::new("some-model", Backend::Vllm)
    };
    let hardware = HardwareSpec::new("h200_sxm").with_budget(4);
    ReplayOptimizeSpec {
        objective: Objective::MeanE2eLatency,
        max_parallel_evals: Some(2),
        ..ReplayOptimizeSpec::new(engine, hardware, workload)
    }
}

/// Prompts of 100 tokens and single tokens as output.
fn single_tokens(requests: u32, load: SyntheticLoad) -> SyntheticWorkload {
    SyntheticWorkload::new(100, 1, requests, load)
}

fn workers(workers: u32, tp: u32) -> State {
    let shape = ParallelShape::tensor(tp);
    State::new(Topology::Aggregated { workers, shape }, RouterState::round_robin())
}

fn options(repeats: u32, load_factors: &[f64]) -> ConfidenceOptions {
    ConfidenceOptions {
        repeats,
        load_factors: load_factors.to_vec(),
    }
}

fn assess(
    spec: &ReplayOptimizeSpec,
    times: [PromptTimes; 2],
    states: &[State],
    options: ConfidenceOptions,
) -> Confidence {
    let provider = provider(times);
    let assessment = Assessment::new(spec, &provider, states, options).expect("the options are possible");
    assessment.run().expect("the spec is sound")
}

const BY_TOKEN: PromptTimes = PromptTimes {
    fixed_ms: 0.0,
    ms_per_token: 1.0,
};

/// The record of a state by a sweep of its own.
fn plain_record(spec: &ReplayOptimizeSpec, times: [PromptTimes; 2], state: State) -> Record {
    let provider = provider(times);
    let scenario = sweep_scenario(spec, &[Mode::Agg]).expect("the spec is sound");
    let sweep = Sweep::new(spec, scenario, &provider).expect("the spec is sound");
    sweep.evaluate_states(&[state]).remove(0)
}

/// Poisson arrivals, drawn lengths, prefix groups and KV routing: everything that is left to chance.
fn all_by_chance() -> ReplayOptimizeSpec {
    let workload = SyntheticWorkload {
        length_range_ratio: 0.5,
        shared_prefix_ratio: 0.5,
        num_prefix_groups: 3,
        ..SyntheticWorkload::new(100, 4, 60, SyntheticLoad::RequestRate(20.0))
    };
    let mut spec = spec(WorkloadSpec::Synthetic(workload));
    spec.sla.p95_ttft = Some(150.0);
    spec
}

fn three_states() -> [State; 3] {
    let kv_router = RouterState::kv_router(1.0, 1.0);
    [workers(4, 1).with_router(kv_router), workers(4, 1), workers(2, 2)]
}
