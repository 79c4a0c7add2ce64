//! Small random deployments and workloads in which ties, preemptions and evictions are common.

use std::sync::Arc;

use dynosim::core::{Outcome, Stepping};
use dynosim::spec::{
    Admission, Backend, BlockSize, Deployment, EngineArgs, EngineSpec, HardwareSpec, Limit, ParallelShape,
    PreemptionMode, Request, Rules, RunSpec, SimDuration, SyntheticLoad, SyntheticWorkload, TimingKind, TimingSpec,
    Topology, Workload, WorkloadBuilder, WorkloadSpec,
};
use dynosim::timing::{DecodeInputs, PolynomialTiming, TimingModel};
use dynosim::{Error, Run};
use proptest::prelude::*;

use super::toy_timing::ToyTiming;

/// One run to be made.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) rules: Rules,
    pub(crate) topology: Topology,
    pub(crate) closed_loop: Option<u32>,
    pub(crate) content_block: u32,
    pub(crate) args: [EngineArgs; 2],
    /// Price steps by [`ToyTiming`] of this kind; by the polynomials if there is none.
    pub(crate) toy_timing: Option<DecodeInputs>,
    pub(crate) sessions: Vec<Vec<Turn>>,
}

/// One request of a case.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) delay_us: u64,
    pub(crate) content: Vec<u64>,
    pub(crate) input_tokens: u32,
    pub(crate) output_tokens: u32,
}

impl Case {
    /// Any case with these rules.
    pub(crate) fn any(rules: Rules) -> impl Strategy<Value = Self> {
        let longest_output = prop_oneof![20 => Just(12_u32), 10 => Just(40), 1 => Just(300)];
        let sizes = (1_u32..=16, longest_output, any::<bool>());
        sizes.prop_flat_map(move |(block_size, longest_output, disaggregated)| {
            let longest_prompt = 4 * block_size.max(4);
            let prefill_args = args(block_size, longest_prompt, 1);
            let decode_args = args(block_size, longest_prompt, longest_output);
            let content_block = prop_oneof![Just(block_size), 1_u32..=12, Just(2 * block_size)];
            (
                topology(disaggregated),
                prop::option::of(1_u32..6),
                content_block,
                (prefill_args, decode_args),
                toy_timing(),
                prop::collection::vec(session(longest_prompt, longest_output), 1..12),
            )
                .prop_map(
                    move |(topology, closed_loop, content_block, args, toy_timing, sessions)| Self {
                        rules,
                        topology,
                        closed_loop,
                        content_block,
                        args: args.into(),
                        toy_timing,
                        sessions,
                    },
                )
        })
    }

    /// Model and engine settings; an aggregated deployment uses the arguments of the decode pool.
    pub(crate) fn engine(&self) -> EngineSpec {
        let [prefill, decode] = self.args.clone();
        let mut engine = EngineSpec::new("a model that nothing is known about", Backend::Vllm);
        engine.rules = self.rules;
        match self.topology {
            Topology::Aggregated { .. } => engine.base_engine_args = decode,
            Topology::Disaggregated { .. } => {
                engine.prefill_engine_args = Some(prefill);
                engine.decode_engine_args = Some(decode);
            }
        }
        engine
    }

    /// The requests.
    pub(crate) fn workload(&self) -> Workload {
        let content_block = BlockSize::new(self.content_block).expect("at least 1");
        let mut builder = WorkloadBuilder::new(content_block);
        for (session, turns) in (0..).zip(&self.sessions) {
            for (turn, request) in (0..).zip(turns) {
                let content = request.content.iter().copied();
                builder.push(
                    Request {
                        session,
                        turn,
                        input_tokens: request.input_tokens,
                        output_tokens: request.output_tokens,
                        delay: SimDuration::from_nanos(request.delay_us * 1000),
                    },
                    content,
                );
            }
        }
        builder.build(match self.closed_loop {
            Some(concurrency) => Admission::ClosedLoop { concurrency },
            None => Admission::OpenLoop,
        })
    }

    /// The run as a spec; its workload gives way to [`Case::workload`].
    pub(crate) fn spec(&self) -> RunSpec {
        let load = SyntheticLoad::ArrivalIntervalMs(1.0);
        let mut spec = RunSpec::new(
            self.engine(),
            HardwareSpec::new("h200_sxm"),
            self.topology,
            WorkloadSpec::Synthetic(SyntheticWorkload::new(1, 1, 1, load)),
        );
        spec.timing.provider = TimingKind::Polynomial;
        if self.rules == Rules::VllmV1Async {
            spec.timing.calibration = Some(TimingSpec::NO_CALIBRATION.to_owned());
        }
        spec
    }

    /// What prices its steps.
    pub(crate) fn timing(&self) -> Arc<dyn TimingModel> {
        match self.toy_timing {
            Some(inputs) => Arc::new(ToyTiming(inputs)),
            None => Arc::new(PolynomialTiming),
        }
    }

    /// What the simulator makes of it.
    pub(crate) fn simulate(&self) -> Result<Outcome, Error> {
        self.simulate_stepping(Stepping::Bulk)
    }

    /// What the simulator makes of it when it computes decode steps in this way.
    pub(crate) fn simulate_stepping(&self, stepping: Stepping) -> Result<Outcome, Error> {
        self.simulate_as(&self.spec(), stepping)
    }

    /// What the simulator makes of its workload under another spec.
    pub(crate) fn simulate_as(&self, spec: &RunSpec, stepping: Stepping) -> Result<Outcome, Error> {
        let run = Run::new(spec)
            .workload(self.workload())
            .keep_token_times()
            .stepping(stepping);
        let timing = self.timing();
        run.timing(&|_: &Deployment| Ok(Arc::clone(&timing))).simulate()
    }
}

fn toy_timing() -> impl Strategy<Value = Option<DecodeInputs>> {
    prop_oneof![
        2 => Just(None),
        1 => Just(Some(DecodeInputs::WholeStep)),
        2 => Just(Some(DecodeInputs::MeanContext)),
        1 => Just(Some(DecodeInputs::KvUsage)),
    ]
}

fn topology(disaggregated: bool) -> BoxedStrategy<Topology> {
    if disaggregated {
        let pools = (1_u32..4, prop_oneof![2 => Just(1_u32), 1 => 2_u32..4]);
        let topology = |(prefill_workers, decode_workers)| Topology::Disaggregated {
            prefill_workers,
            decode_workers,
            prefill_shape: ParallelShape::tensor(1),
            decode_shape: ParallelShape::tensor(1),
        };
        pools.prop_map(topology).boxed()
    } else {
        let workers = prop_oneof![3 => Just(1_u32), 2 => 2_u32..5];
        workers
            .prop_map(|workers| Topology::Aggregated {
                workers,
                shape: ParallelShape::tensor(1),
            })
            .boxed()
    }
}

/// Engine arguments under which requests of up to this size mostly fit, but hardly two of them.
fn args(block_size: u32, longest_prompt: u32, longest_output: u32) -> impl Strategy<Value = EngineArgs> {
    let blocks = (longest_prompt + longest_output).div_ceil(block_size);
    let pool = prop_oneof![
        1 => (blocks / 2).max(1)..=blocks,
        8 => blocks..=blocks + blocks / 2 + 2,
        2 => Just(8 * blocks),
    ];
    let budget = prop_oneof![
        Just(Limit::Unlimited),
        (1..=longest_prompt).prop_map(Limit::AtMost),
        (longest_prompt..3 * longest_prompt).prop_map(Limit::AtMost),
    ];
    let seqs = prop_oneof![Just(Limit::Unlimited), (1_u32..5).prop_map(Limit::AtMost)];
    let preemption = prop_oneof![Just(PreemptionMode::Lifo), Just(PreemptionMode::Fifo)];
    let speed_up = || prop_oneof![4 => Just(None), 1 => Just(Some(0.0)), 1 => Just(Some(2.0)), 1 => Just(Some(1.7))];
    let transfer = prop_oneof![
        2 => Just((None, None)),
        1 => Just((Some(1_000_000), Some(1.0))),
        1 => Just((Some(262_144), Some(0.3))),
        1 => Just((Some(1000), Some(0.0))),
    ];
    (
        (pool, budget, seqs, preemption, transfer),
        (speed_up(), speed_up()),
        prop::bool::weighted(0.8),
        prop::bool::weighted(0.8),
    )
        .prop_map(
            move |((pool, budget, seqs, preemption, transfer), speed_ups, caching, chunking)| EngineArgs {
                block_size: Some(block_size),
                num_gpu_blocks: Some(pool),
                enable_prefix_caching: Some(caching),
                max_num_seqs: Some(seqs),
                max_num_batched_tokens: Some(budget),
                enable_chunked_prefill: Some(chunking),
                preemption_mode: Some(preemption),
                speedup_ratio: speed_ups.0,
                decode_speedup_ratio: speed_ups.1,
                kv_bytes_per_token: transfer.0,
                kv_transfer_bandwidth: transfer.1,
                ..EngineArgs::default()
            },
        )
}

fn session(longest_prompt: u32, longest_output: u32) -> impl Strategy<Value = Vec<Turn>> {
    let turns = prop_oneof![3 => Just(1_usize), 1 => 2_usize..4];
    turns.prop_flat_map(move |turns| prop::collection::vec(turn(longest_prompt, longest_output), turns))
}

fn turn(longest_prompt: u32, longest_output: u32) -> impl Strategy<Value = Turn> {
    let delay_us = prop_oneof![4 => (0_u64..4).prop_map(|ms| ms * 1000), 1 => 0_u64..100_000];
    // Half of the prompts begin like others.
    let content = prop_oneof![
        prop::collection::vec(0_u64..2, 0..8),
        prop::collection::vec(prop_oneof![0_u64..2, 100_u64..1_000_000], 0..8),
    ];
    let output_tokens = prop_oneof![1 => Just(0_u32), 15 => Just(1_u32), 50 => 2..=longest_output];
    (delay_us, content, 1..=longest_prompt, output_tokens).prop_map(
        |(delay_us, content, input_tokens, output_tokens)| Turn {
            delay_us,
            content,
            input_tokens,
            output_tokens,
        },
    )
}
