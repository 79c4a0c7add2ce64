//! What a run tells about itself, on examples small enough to work out by hand.
//!
//! Computing a prompt token takes 1 ms and generating a token for the batch 100 ms. Blocks hold one token; each
//! worker has 100. A request is `(arrival in ms, prompt, output)`.

use std::sync::Arc;

use dynosim::Run;
use dynosim::core::{Outcome, PoolSample, PoolUse, Stepping, TtftParts};
use dynosim::spec::{
    Admission, Backend, BlockSize, Calibration, Constant, Deployment, EngineArgs, EngineSpec, Limit, ParallelShape,
    Request, Rules, RunSpec, SimDuration, SimTime, Topology, WeightFormat, WorkerRole, Workload, WorkloadBuilder,
};
use dynosim::timing::{DecodeInputs, Price, StepShape, TimingModel};

use crate::one_worker::one_worker;

#[derive(Debug)]
struct CountedTokens;

impl TimingModel for CountedTokens {
    fn prefill(&self, step: &StepShape) -> Price {
        Price::known((step.prefill_tokens - step.prefill_prefix_tokens) as f64)
    }

    fn decode(&self, _step: &StepShape) -> Price {
        Price::known(100.0)
    }

    fn decode_depends_on(&self) -> DecodeInputs {
        DecodeInputs::MeanContext
    }
}

fn aggregated(rules: Rules) -> RunSpec {
    let mut engine = EngineSpec::new("any model", Backend::Vllm);
    engine.rules = rules;
    engine.base_engine_args = EngineArgs {
        block_size: Some(1),
        num_gpu_blocks: Some(100),
        enable_prefix_caching: Some(false),
        ..EngineArgs::default()
    };
    one_worker(engine)
}

/// A prefill worker that takes one prompt at a time, whose KV takes half a millisecond per token to the decode worker.
fn disaggregated() -> RunSpec {
    let mut spec = aggregated(Rules::VllmV1);
    let args = spec.engine.base_engine_args.clone();
    spec.engine.prefill_engine_args = Some(EngineArgs {
        max_num_seqs: Some(Limit::AtMost(1)),
        kv_bytes_per_token: Some(500_000),
        kv_transfer_bandwidth: Some(1.0),
        ..args.clone()
    });
    spec.engine.decode_engine_args = Some(args);
    spec.topology = Topology::Disaggregated {
        prefill_workers: 1,
        decode_workers: 1,
        prefill_shape: ParallelShape::tensor(1),
        decode_shape: ParallelShape::tensor(1),
    };
    spec
}

/// What comes of it with details, however steps are computed.
fn serve(spec: &RunSpec, requests: &[(u64, u32, u32)], calibration: Option<&Calibration>) -> Outcome {
    let timing: Arc<dyn TimingModel> = Arc::new(CountedTokens);
    let provider = |_: &Deployment| Ok(Arc::clone(&timing));
    let [bulk, single] = [Stepping::Bulk, Stepping::Single].map(|stepping| {
        let run = Run::new(spec).timing(&provider).workload(workload(requests));
        let run = run.stepping(stepping).keep_details();
        let run = match calibration {
            Some(calibration) => run.calibration(calibration.clone()),
            None => run,
        };
        run.simulate().expect("the example runs")
    });
    assert_eq!(bulk.details, single.details);
    bulk
}

fn workload(requests: &[(u64, u32, u32)]) -> Workload {
    let mut workload = WorkloadBuilder::new(BlockSize::new(1).expect("not zero"));
    for (session, &(arrival_ms, input_tokens, output_tokens)) in (0..).zip(requests) {
        let request = Request {
            session,
            turn: 0,
            input_tokens,
            output_tokens,
            delay: ms(arrival_ms),
        };
        workload.push(request, []);
    }
    workload.build(Admission::OpenLoop)
}

fn ms(ms: u64) -> SimDuration {
    SimDuration::from_nanos(ms * 1_000_000)
}

fn parts([ingress, queue, prefill, transfer, decode_queue, first_step, egress]: [u64; 7]) -> TtftParts<SimDuration> {
    TtftParts {
        ingress: ms(ingress),
        queue: ms(queue),
        prefill: ms(prefill),
        transfer: ms(transfer),
        decode_queue: ms(decode_queue),
        first_step: ms(first_step),
        egress: ms(egress),
    }
}

/// The prompts are computed until 10 and 30 ms and arrive at 15 and 40 ms; the second one finds a step under way
/// until 115 ms. Tokens come at 115, 215 and 315 ms, and at 215 and 315 ms.
fn two_requests_through_two_pools() -> Outcome {
    serve(&disaggregated(), &[(0, 10, 3), (0, 20, 2)], None)
}

#[test]
fn the_way_through_two_pools_is_split_into_phases() {
    let details = two_requests_through_two_pools().details.expect("details were kept");
    let found: Vec<_> = details.requests.iter().flatten().map(|phases| phases.ttft).collect();
    assert_eq!(
        found,
        [parts([0, 0, 10, 5, 0, 100, 0]), parts([0, 10, 20, 10, 75, 100, 0])]
    );
    let second = details.requests[1].expect("it was served");
    let at = |span| SimTime::ZERO + ms(span);
    assert_eq!(second.prompt_done, at(30));
    assert_eq!(
        (second.kv_landed, second.decode_admission),
        (Some(at(40)), Some(at(115)))
    );
    let mean = details.mean_ttft();
    assert_eq!((mean.queue, mean.transfer, mean.decode_queue), (5.0, 7.5, 37.5));
}

#[test]
fn a_timeline_shows_queues_batches_and_blocks() {
    let details = two_requests_through_two_pools().details.expect("details were kept");
    let [prefill, decode] = &details.timelines[..] else {
        panic!("two pools");
    };
    assert_eq!((prefill.period, prefill.samples.len()), (ms(1), 316));
    let busy = |waiting, running, blocks: u32| PoolSample {
        waiting,
        running,
        busy_workers: 1,
        kv_in_use: f64::from(blocks) / 100.0,
        kv_cached: 0.0,
    };
    assert_eq!(prefill.samples[0], busy(1, 1, 10));
    assert_eq!(prefill.samples[9], busy(1, 1, 10));
    assert_eq!(prefill.samples[10], busy(0, 1, 20));
    assert_eq!(prefill.samples[30], PoolSample::default());
    assert_eq!(decode.samples[14], PoolSample::default());
    assert_eq!(decode.samples[15], busy(0, 1, 10));
    assert_eq!(decode.samples[114], busy(1, 1, 10));
    assert_eq!(decode.samples[115], busy(0, 2, 31));
    assert_eq!(decode.samples[314], busy(0, 2, 33));
    assert_eq!(decode.samples[315], PoolSample::default());
}

#[test]
fn pools_say_how_busy_they_were() {
    let pool = |role, busy_ms: f64, tokens| PoolUse {
        role,
        workers: 1,
        busy_ms,
        utilisation: busy_ms / 315.0,
        preemptions: 0,
        evicted_blocks: 0,
        prompt_tokens: tokens,
        reused_tokens: tokens.map(|_| 0),
    };
    let expected = [
        pool(WorkerRole::Prefill, 30.0, Some(30)),
        pool(WorkerRole::Decode, 300.0, None),
    ];
    assert_eq!(two_requests_through_two_pools().report.pools, expected);
}

/// Blocks that are cached but held by nobody, and those of them that the next request evicts: of 100, the first request
/// leaves its 60, of which the second one, with 70, takes 30.
#[test]
fn a_timeline_shows_what_is_cached() {
    let mut spec = aggregated(Rules::VllmV1);
    spec.engine.base_engine_args.enable_prefix_caching = Some(true);
    let outcome = serve(&spec, &[(0, 60, 1), (100, 70, 1)], None);
    assert_eq!(outcome.report.pools[0].evicted_blocks, 30);
    let details = outcome.details.expect("details were kept");
    let timeline = &details.timelines[0];
    let at = |now: u64| {
        let sample = timeline.at_instants().find(|(at, _)| *at == SimTime::ZERO + ms(now));
        let (_, sample) = sample.expect("an instant");
        (sample.kv_in_use, sample.kv_cached)
    };
    assert_eq!((at(59), at(60), at(99)), ((0.6, 0.0), (0.0, 0.6), (0.0, 0.6)));
    assert_eq!((at(100), at(169), at(170)), ((0.7, 0.3), (0.7, 0.3), (0.0, 1.0)));
}

#[test]
fn the_way_from_the_client_and_back_counts() {
    let mut calibration = Calibration::neutral("far clients", Backend::Vllm, WeightFormat::Bfloat16);
    calibration.constants.ingress_ms = Some(Constant::new(2.0, "this test"));
    calibration.constants.egress_ms = Some(Constant::new(3.0, "this test"));
    // The second request comes to the router at 6 ms, during the first step, and so is part of the third one only.
    let requests = [(0, 10, 2), (4, 20, 1)];
    let outcome = serve(&aggregated(Rules::VllmV1Async), &requests, Some(&calibration));
    let details = outcome.details.expect("details were kept");
    let found: Vec<_> = details.requests.iter().flatten().map(|phases| phases.ttft).collect();
    assert_eq!(found, [parts([2, 0, 10, 0, 0, 0, 3]), parts([2, 106, 20, 0, 0, 0, 3])]);
}
