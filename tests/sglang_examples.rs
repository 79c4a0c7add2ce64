//! The SGLang-style engine on examples small enough to work out by hand.
//!
//! Computing a prompt token takes 1 ms, a decode step 100 ms, and pages hold one token unless an
//! example says otherwise. A request given as `(arrival in ms, prompt, output)` has content of its own.

use std::sync::Arc;

use dynosim::Run;
use dynosim::core::Outcome;
use dynosim::spec::{
    Admission, Backend, BlockSize, Deployment, EngineArgs, EngineSpec, Request, Rules, SchedulePolicy, SglangArgs,
    SimDuration, SimTime, Workload, WorkloadBuilder,
};
use dynosim::timing::{Price, StepShape, TimingModel};

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
}

struct Worker {
    page_tokens: u32,
    pages: u32,
    args: SglangArgs,
}

impl Worker {
    fn with_tokens(tokens: u32) -> Self {
        Self {
            page_tokens: 1,
            pages: tokens,
            args: SglangArgs::default(),
        }
    }

    /// The run under both rule sets, which must agree here.
    #[track_caller]
    fn serve(&self, workload: &Workload) -> Served {
        let [outcome, other] = [Rules::VllmV1, Rules::Dynosim12].map(|rules| self.simulate(rules, workload));
        assert_eq!(
            outcome.token_times, other.token_times,
            "the rule sets do not differ here"
        );
        Served(outcome)
    }

    fn simulate(&self, rules: Rules, workload: &Workload) -> Outcome {
        let mut engine = EngineSpec::new("any model", Backend::Sglang);
        engine.rules = rules;
        engine.base_engine_args = EngineArgs {
            block_size: Some(self.page_tokens),
            num_gpu_blocks: Some(self.pages),
            sglang: Some(self.args.clone()),
            ..EngineArgs::default()
        };
        let spec = one_worker(engine);
        let timing: Arc<dyn TimingModel> = Arc::new(CountedTokens);
        let provider = |_: &Deployment| Ok(Arc::clone(&timing));
        let run = Run::new(&spec).timing(&provider).workload(workload.clone());
        run.keep_token_times().simulate().expect("the example runs")
    }
}

struct Served(Outcome);

impl Served {
    #[track_caller]
    fn tokens(&self, request: usize, expected_ms: &[u64]) {
        let times = &self.0.token_times.as_ref().expect("token times were kept")[request];
        let ms: Vec<u64> = times.iter().map(|time| time.as_nanos() / 1_000_000).collect();
        assert_eq!(ms, expected_ms, "tokens of request {request}");
    }

    #[track_caller]
    fn reuses(&self, expected_tokens: &[u32]) {
        let reused: Vec<u32> = self.0.requests.iter().map(|record| record.reused_tokens).collect();
        assert_eq!(reused, expected_tokens, "reused tokens");
    }

    #[track_caller]
    fn retractions(&self, expected: &[u32]) {
        let retractions: Vec<u32> = self.0.requests.iter().map(|record| record.preemptions).collect();
        assert_eq!(retractions, expected, "retractions");
    }
}

fn own_prompts(requests: &[(u64, u32, u32)]) -> Workload {
    let requests: Vec<_> = requests
        .iter()
        .map(|&(arrival_ms, prompt, output)| (arrival_ms, prompt, output, Vec::new()))
        .collect();
    prompts(&requests)
}

/// Requests whose prompts begin with these content blocks of 4 tokens.
fn prompts(requests: &[(u64, u32, u32, Vec<u64>)]) -> Workload {
    let mut builder = WorkloadBuilder::new(BlockSize::new(4).expect("not zero"));
    for (session, (arrival_ms, input_tokens, output_tokens, content)) in (0..).zip(requests) {
        let request = Request {
            session,
            turn: 0,
            input_tokens: *input_tokens,
            output_tokens: *output_tokens,
            delay: SimDuration::from_nanos(arrival_ms * 1_000_000),
        };
        builder.push(request, content.iter().copied());
    }
    builder.build(Admission::OpenLoop)
}

/// Chunks of 8, 8 and 4 tokens; what is computed before a chunk counts as reused.
#[test]
fn a_long_prompt_is_computed_in_chunks() {
    let mut worker = Worker::with_tokens(1000);
    worker.args.chunked_prefill_size = Some(8);
    let served = worker.serve(&own_prompts(&[(0, 20, 2)]));
    served.tokens(0, &[120, 220]);
    served.reuses(&[16]);
}

/// After 5 of 8 tokens the second prompt may begin with the 3 that are left, being longer than a chunk.
#[test]
fn a_long_prompt_takes_what_is_left_of_the_chunk() {
    let mut worker = Worker::with_tokens(1000);
    worker.args.chunked_prefill_size = Some(8);
    let served = worker.serve(&own_prompts(&[(0, 5, 3), (0, 20, 1)]));
    // Passes of 5 + 3, 8, 8 and 1 prompt tokens.
    served.tokens(0, &[108, 216, 324]);
    served.tokens(1, &[425]);
}

/// With pages of 4 tokens, 3 tokens are no page: the second prompt waits for the next pass.
#[test]
fn a_chunk_is_whole_pages() {
    let mut worker = Worker::with_tokens(1000);
    worker.page_tokens = 4;
    worker.args.chunked_prefill_size = Some(8);
    let served = worker.serve(&own_prompts(&[(0, 5, 3), (0, 20, 1)]));
    // Passes of 5, 8, 8 and 4 prompt tokens.
    served.tokens(0, &[105, 213, 321]);
    served.tokens(1, &[425]);
}

/// A prompt that would fit a chunk of its own is not cut: it waits until it fits whole.
#[test]
fn a_short_prompt_is_not_cut() {
    let mut worker = Worker::with_tokens(1000);
    worker.args.chunked_prefill_size = Some(8);
    let served = worker.serve(&own_prompts(&[(0, 5, 2), (0, 6, 1)]));
    served.tokens(0, &[105, 211]);
    served.tokens(1, &[211]);
}

/// Free are 40 tokens; the first request takes 10 and reserves 20 for its output. The second would
/// need 5 + 20, and as the first one generates, what is free shrinks from 15 to 9.
#[test]
fn a_request_waits_for_room_for_its_output() {
    let served = Worker::with_tokens(40).serve(&own_prompts(&[(0, 10, 20), (0, 5, 20)]));
    let first: Vec<u64> = (1..=20).map(|step| 10 + 100 * step).collect();
    let second: Vec<u64> = (1..=20).map(|step| 2010 + 5 + 100 * step).collect();
    served.tokens(0, &first);
    served.tokens(1, &second);
}

/// Counting 3 output tokens at most, both fit at once: 10 + 3, then 5 + 3 of the 27 that are left.
#[test]
fn the_output_reserve_is_clipped() {
    let mut worker = Worker::with_tokens(40);
    worker.args.clip_max_new_tokens = Some(3);
    let served = worker.serve(&own_prompts(&[(0, 10, 4), (0, 5, 4)]));
    served.tokens(0, &[115, 215, 315, 415]);
    served.tokens(1, &[115, 215, 315, 415]);
}

/// Nothing is reserved for running requests, so in the second pass 40 - 11 tokens are free, less a
/// page of slack for the one that runs: more than 7 + 20, not more than 8 + 20.
#[test]
fn a_page_of_slack_is_kept_per_running_request() {
    let mut worker = Worker::with_tokens(40);
    worker.args.schedule_conservativeness = Some(0.0);
    let fits = worker.serve(&own_prompts(&[(0, 10, 20), (50, 7, 20)]));
    assert_eq!(
        fits.0.requests[1].first_admission.map(SimTime::as_nanos),
        Some(110_000_000)
    );
    let waits = worker.serve(&own_prompts(&[(0, 10, 20), (50, 8, 20)]));
    assert_eq!(
        waits.0.requests[1].first_admission.map(SimTime::as_nanos),
        Some(2_010_000_000)
    );
}

/// Both together need 28 of 20 tokens. When all are used, with 5 and 3 outputs, the second one is
/// retracted, keeps its 3 outputs, and computes 9 tokens again once the first one is done.
#[test]
fn the_request_with_the_fewest_outputs_is_retracted() {
    let mut worker = Worker::with_tokens(20);
    worker.args.clip_max_new_tokens = Some(1);
    let served = worker.serve(&own_prompts(&[(0, 6, 8), (150, 6, 8)]));
    served.tokens(0, &[106, 206, 312, 412, 512, 612, 712, 812]);
    served.tokens(1, &[312, 412, 512, 921, 1021, 1121, 1221, 1321]);
    served.retractions(&[0, 1]);
}

/// With equally many outputs it is the first in the batch.
#[test]
fn of_equals_the_first_is_retracted() {
    let mut worker = Worker::with_tokens(16);
    worker.args.clip_max_new_tokens = Some(1);
    let served = worker.serve(&own_prompts(&[(0, 6, 4), (0, 6, 4)]));
    served.tokens(0, &[112, 212, 520, 620]);
    served.tokens(1, &[112, 212, 312, 412]);
    served.retractions(&[1, 0]);
}

/// After two of three chunks, 8 tokens, the second prompt no longer fits: with a token of output and a
/// page of slack it asks for more than the 5 that are free. When the first request has taken those as
/// well, the second gives its tokens back.
#[test]
fn an_unfinished_prompt_gives_way_to_the_last_running_request() {
    let mut worker = Worker::with_tokens(21);
    worker.args.chunked_prefill_size = Some(4);
    worker.args.clip_max_new_tokens = Some(1);
    worker.args.schedule_conservativeness = Some(0.0);
    let workload = own_prompts(&[(0, 4, 11), (50, 12, 1)]);
    for rules in [Rules::VllmV1, Rules::Dynosim12] {
        let served = Served(worker.simulate(rules, &workload));
        served.tokens(0, &[104, 208, 312, 412, 512, 612, 712, 812, 912, 1012, 1112]);
        served.retractions(&[0, 1]);
    }
}

/// One chunk per pass. The prompt that is cached from the first request goes first under `lpm`,
/// although it costs as much of the chunk as one that is not.
#[test]
fn lpm_serves_the_longest_cached_prefix_first() {
    let shared: Vec<u64> = (0..10).collect();
    let workload = prompts(&[
        (0, 40, 1, shared.clone()),
        (1000, 40, 1, Vec::new()),
        (1000, 48, 1, shared),
    ]);
    let mut worker = Worker::with_tokens(1000);
    worker.args.chunked_prefill_size = Some(48);
    for (policy, unrelated, cached) in [(SchedulePolicy::Lpm, 1248, 1108), (SchedulePolicy::Fifo, 1140, 1248)] {
        worker.args.schedule_policy = Some(policy);
        let served = worker.serve(&workload);
        served.tokens(0, &[140]);
        served.tokens(1, &[unrelated]);
        served.tokens(2, &[cached]);
        served.reuses(&[0, 0, 40]);
    }
}

/// The second prompt shares 40 tokens with the first. Under `lpm` it lets the third go before it
/// and finds them cached; first come first served, both compute them in one pass.
#[test]
fn lpm_defers_a_prompt_that_a_waiting_one_will_bring_into_the_cache() {
    let shared: Vec<u64> = (0..10).collect();
    let workload = prompts(&[(0, 40, 1, shared.clone()), (0, 44, 1, shared), (0, 40, 1, Vec::new())]);
    let mut worker = Worker::with_tokens(1000);
    worker.args.chunked_prefill_size = Some(84);
    worker.args.schedule_policy = Some(SchedulePolicy::Lpm);
    let served = worker.serve(&workload);
    served.tokens(0, &[180]);
    served.tokens(2, &[180]);
    served.tokens(1, &[284]);
    served.reuses(&[0, 40, 0]);
    worker.args.schedule_policy = Some(SchedulePolicy::Fifo);
    let served = worker.serve(&workload);
    served.tokens(0, &[184]);
    served.tokens(1, &[184]);
    served.tokens(2, &[324]);
    served.reuses(&[0, 0, 0]);
}

/// Whole pages of a finished request stay: 6 prompt tokens and 2 outputs are two pages of 4, of which
/// the next turn's prompt, 4 tokens long where they agree, finds one.
#[test]
fn whole_pages_of_a_finished_prompt_are_found_again() {
    let mut worker = Worker::with_tokens(100);
    worker.page_tokens = 4;
    let workload = prompts(&[(0, 6, 2, vec![1]), (1000, 10, 1, vec![1])]);
    let served = worker.serve(&workload);
    served.tokens(0, &[106, 206]);
    served.tokens(1, &[1106]);
    served.reuses(&[0, 4]);
}
