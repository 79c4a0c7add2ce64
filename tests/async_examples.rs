//! Rules `vllm-v1-async` on examples small enough to work out by hand.
//!
//! Computing a prompt token takes 1 ms and generating a token for the batch 100 ms; a step that does both takes
//! both. Blocks hold one token. A request is `(arrival in ms, prompt, output)`.

use std::sync::Arc;

use dynosim::Run;
use dynosim::core::{Outcome, Stepping};
use dynosim::spec::{
    Admission, Backend, BlockSize, Deployment, EngineArgs, EngineSpec, Limit, Request, Rules, SimDuration, SimTime,
    StepTerm, Workload, WorkloadBuilder,
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

struct Example {
    blocks: u32,
    max_num_seqs: u32,
    calibration: &'static str,
    without: Vec<StepTerm>,
}

impl Example {
    const fn new() -> Self {
        Self {
            blocks: 10_000,
            max_num_seqs: 256,
            calibration: "none",
            without: Vec::new(),
        }
    }

    /// Checks when each token of each request comes out, in milliseconds, however steps are computed.
    #[track_caller]
    fn serves(&self, requests: &[(u64, u32, u32)], expected_ms: &[&[f64]]) -> Outcome {
        let outcomes = [Stepping::Bulk, Stepping::Single].map(|stepping| {
            let outcome = self.simulate(&workload(requests), stepping);
            for (request, expected) in expected_ms.iter().enumerate() {
                let times = &outcome.token_times.as_ref().expect("token times were kept")[request];
                let ms: Vec<f64> = times.iter().map(|time| time.as_nanos() as f64 / 1e6).collect();
                assert_eq!(&ms, expected, "tokens of request {request}, {stepping:?}");
            }
            outcome
        });
        let [bulk, _] = outcomes;
        bulk
    }

    fn simulate(&self, workload: &Workload, stepping: Stepping) -> Outcome {
        let mut engine = EngineSpec::new("Qwen/Qwen3-32B", Backend::Vllm);
        engine.rules = Rules::VllmV1Async;
        engine.base_engine_args = EngineArgs {
            block_size: Some(1),
            num_gpu_blocks: Some(self.blocks),
            enable_prefix_caching: Some(false),
            max_num_seqs: Some(Limit::AtMost(self.max_num_seqs)),
            ..EngineArgs::default()
        };
        let mut spec = one_worker(engine);
        if self.calibration != "bundled" {
            spec.timing.calibration = Some(self.calibration.to_owned());
        }
        spec.timing.without.clone_from(&self.without);
        let timing: Arc<dyn TimingModel> = Arc::new(CountedTokens);
        let provider = |_: &Deployment| Ok(Arc::clone(&timing));
        let run = Run::new(&spec).timing(&provider).workload(workload.clone());
        let run = run.keep_token_times().stepping(stepping);
        run.simulate().expect("the example runs")
    }
}

fn workload(requests: &[(u64, u32, u32)]) -> Workload {
    let mut workload = WorkloadBuilder::new(BlockSize::new(1).expect("not zero"));
    for (session, &(arrival_ms, input_tokens, output_tokens)) in (0..).zip(requests) {
        let request = Request {
            session,
            turn: 0,
            input_tokens,
            output_tokens,
            delay: SimDuration::from_ms(arrival_ms as f64).expect("a time"),
        };
        workload.push(request, []);
    }
    workload.build(Admission::OpenLoop)
}

#[test]
fn a_request_alone_waits_for_nothing() {
    Example::new().serves(&[(7, 10, 3)], &[&[17.0, 117.0, 217.0]]);
}

#[test]
fn who_arrives_during_a_step_waits_for_the_rest_of_it_and_for_the_next() {
    // Step 2 (from 10) was scheduled at 0, step 3 (from 110) at 10, before the second request came.
    Example::new().serves(
        &[(0, 10, 5), (50, 20, 2)],
        &[&[10.0, 110.0, 210.0, 330.0, 430.0], &[330.0, 430.0]],
    );
}

#[test]
fn without_the_pipeline_it_waits_for_the_rest_of_the_step_only() {
    let example = Example {
        without: vec![StepTerm::Pipeline],
        ..Example::new()
    };
    example.serves(
        &[(0, 10, 5), (50, 20, 2)],
        &[&[10.0, 110.0, 230.0, 330.0, 430.0], &[230.0, 330.0]],
    );
}

#[test]
fn who_arrives_as_a_step_starts_is_seen_by_the_next() {
    Example::new().serves(&[(0, 10, 4), (10, 20, 1)], &[&[10.0, 110.0, 230.0, 330.0], &[230.0]]);
}

#[test]
fn a_place_is_free_one_step_after_its_request_has_finished() {
    // The first request finishes at 120, when the step from 120 has long been scheduled.
    let example = Example {
        max_num_seqs: 2,
        ..Example::new()
    };
    example.serves(
        &[(0, 10, 2), (0, 10, 4), (0, 30, 1)],
        &[&[20.0, 120.0], &[20.0, 120.0, 220.0, 350.0], &[350.0]],
    );
}

#[test]
fn with_nothing_to_schedule_ahead_nobody_waits() {
    let example = Example {
        max_num_seqs: 1,
        ..Example::new()
    };
    example.serves(&[(0, 10, 1), (0, 10, 1)], &[&[10.0], &[20.0]]);
}

#[test]
fn blocks_are_free_one_step_after_their_request_has_finished() {
    // The third request needs 6 of 16 blocks. The first has 11 until the step from 111 has been scheduled.
    let example = Example {
        blocks: 16,
        ..Example::new()
    };
    example.serves(
        &[(0, 10, 2), (0, 1, 4), (0, 6, 1)],
        &[&[11.0, 111.0], &[11.0, 111.0, 211.0, 317.0], &[317.0]],
    );
}

#[test]
fn clients_see_tokens_late_and_send_requests_late() {
    // The bundled calibration: 3 ms and 1.2 us per token in, 1 ms out.
    let example = Example {
        calibration: "bundled",
        ..Example::new()
    };
    let outcome = example.serves(&[(0, 1000, 2)], &[&[1005.2, 1105.2]]);
    assert_eq!(outcome.requests[0].arrival, Some(SimTime::ZERO));
    assert!((outcome.report.ttft.mean - 1005.2).abs() < 1e-9);
    let example = Example {
        without: vec![StepTerm::Client],
        ..example
    };
    example.serves(&[(0, 1000, 2)], &[&[1000.0, 1100.0]]);
}
