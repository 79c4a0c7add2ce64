//! Steps of models with experts that are one pass: what they have in common with the bare sums of kernels.

mod facts;
mod fused_steps;

use std::sync::{Arc, LazyLock};

use dynosim_spec::{
    Backend, Calibration, CalibrationConstants, Constant, Deployment, EnginePhysics, ParallelShape, StepTerm,
    WeightFormat,
};
use dynosim_timing::{PromptChunk, RooflineTiming, StepPart, StepShape, TableTiming, TimingModel, TimingProvider};
use facts::{deployment, model};
use fused_steps::{chunk, close, step};
use proptest::prelude::*;

const QWEN: &str = "Qwen/Qwen3-30B-A3B";
/// Half of its layers have a window of 128 tokens.
const GPT_OSS: &str = "openai/gpt-oss-120b";

/// Models and shapes of one, two and four GPUs: whole, cut, and with groups that attend to their own sequences.
const WORKERS: [(&str, ParallelShape); 5] = [
    (QWEN, ParallelShape::experts(1, 1, 1, 1)),
    (QWEN, ParallelShape::experts(2, 1, 2, 1)),
    (QWEN, ParallelShape::experts(1, 4, 1, 4)),
    (GPT_OSS, ParallelShape::experts(1, 1, 1, 1)),
    (GPT_OSS, ParallelShape::experts(2, 1, 1, 2)),
];

fn on(name: &str, shape: ParallelShape, physics: Option<EnginePhysics>) -> Deployment {
    Deployment {
        physics: physics.map(Arc::new),
        shape,
        ..deployment(model(name), 1, Backend::Vllm)
    }
}

fn providers() -> [Box<dyn TimingProvider>; 2] {
    [Box::new(TableTiming::new(None)), Box::new(RooflineTiming)]
}

fn with(constants: CalibrationConstants, without: Vec<StepTerm>) -> EnginePhysics {
    let mut calibration = Calibration::neutral("none", Backend::Vllm, WeightFormat::Bfloat16);
    calibration.constants = constants;
    EnginePhysics { calibration, without }
}

#[test]
fn oracle_prompts_cost_what_their_kernels_do_and_logits() {
    let neutral = || with(CalibrationConstants::default(), Vec::new());
    for (name, shape) in WORKERS {
        let tables = TableTiming::new(None);
        let bare = tables.bind_table(&on(name, shape, None)).expect("tables cover it");
        let fused = tables.bind(&on(name, shape, Some(neutral()))).expect("as before");
        let operators = bare.decode_operators(1, 10).expect("within the tables");
        let logits = operators.iter().find(|operator| operator.name == "logits_gemm");
        let logits_ms = logits.expect("is there").ms;
        for prompt in [chunk(1, 0), chunk(777, 0), chunk(8192, 0)] {
            // One prompt for each group of GPUs costs as much as one for one of them.
            for groups in [1, shape.attention_dp as usize] {
                let prompts = vec![prompt; groups];
                let step = step(&prompts, 0, 0);
                close(fused.fused(&step, &prompts).ms, bare.prefill(&step).ms + logits_ms);
            }
        }
    }
}

#[test]
fn oracle_generating_without_additions_costs_what_its_kernels_do() {
    let without = [StepTerm::GraphPadding, StepTerm::SplitKv, StepTerm::SideKernels];
    let neutral = || with(CalibrationConstants::default(), without.to_vec());
    for provider in providers() {
        for (name, shape) in WORKERS {
            let bind = |physics| provider.bind(&on(name, shape, physics)).expect("is covered");
            let (bare, fused) = (bind(None), bind(Some(neutral())));
            for (seqs, context) in [(1, 10), (7, 5000), (256, 1000)] {
                let step = StepShape::decode(seqs, context * u64::from(seqs));
                close(fused.decode(&step).ms, bare.decode(&step).ms);
            }
        }
    }
}

#[test]
fn a_window_stays_in_sight() {
    let (short, long) = (StepShape::decode(1, 1000), StepShape::decode(1, 2000));
    // By bytes: 8 KV heads of 64 elements of 2 bytes, keys and values, at 1 TB/s; 18 of 36 layers see them all.
    let physics = with(
        CalibrationConstants {
            decode_attention_bandwidth_tb_s: Some(Constant::new(1.0, "test")),
            ..CalibrationConstants::default()
        },
        Vec::new(),
    );
    let whole = ParallelShape::experts(1, 1, 1, 1);
    let bind = |physics| TableTiming::new(None).bind(&on(GPT_OSS, whole, Some(physics)));
    let model = bind(physics).expect("tables cover it");
    let bytes = 1000.0 * 8.0 * 64.0 * 2.0 * 2.0 * 18.0;
    close(model.decode(&long).ms - model.decode(&short).ms, bytes / 1e12 * 1e3);
}

#[test]
fn groups_share_sequences_out() {
    let physics = || with(CalibrationConstants::default(), Vec::new());
    let four = ParallelShape::experts(1, 4, 1, 4);
    let model = TableTiming::new(None)
        .bind(&on(QWEN, four, Some(physics())))
        .expect("is covered");
    let price = |prompts: &[PromptChunk], seqs| model.fused(&step(prompts, seqs, 900), prompts).ms;
    let prompt = chunk(512, 0);
    // Four prompts and eight sequences are one and two for each group; a fifth prompt makes it two for one of them.
    close(price(&[prompt; 4], 8), price(&[prompt], 8));
    close(price(&[prompt; 4], 5), price(&[prompt; 4], 8));
    close(price(&[prompt; 5], 8), price(&[prompt; 8], 8));
    assert!(price(&[prompt; 5], 8) > price(&[prompt; 4], 8));
}

proptest! {
    #[test]
    fn terms_add_up_to_the_price(
        prompts in prop::collection::vec((1_u64..9000, 0_u64..9000).prop_map(|(new, prefix)| chunk(new, prefix)), 1..6),
        decode_seqs in 0_u32..300,
        context in 0_u64..9000,
        worker in 0..WORKERS.len(),
    ) {
        static MODELS: LazyLock<Vec<Arc<dyn TimingModel>>> = LazyLock::new(|| {
            let constant = |value| Some(Constant::new(value, "test"));
            let constants = || CalibrationConstants {
                gemm_derate: constant(1.3),
                all_reduce_call_us: constant(4.5),
                step_ms: constant(0.3),
                ..CalibrationConstants::default()
            };
            let tables = TableTiming::new(None);
            let bind = |(name, shape)| tables.bind(&on(name, shape, Some(with(constants(), Vec::new()))));
            WORKERS.map(|worker| bind(worker).expect("is covered")).into()
        });
        let model = &MODELS[worker];
        let sum = |part| model.terms(part).iter().map(|term| term.ms).sum::<f64>();
        let step = step(&prompts, decode_seqs, context);
        let price = model.fused(&step, &prompts).ms;
        prop_assert!((sum(StepPart::Fused(&step, &prompts)) - price).abs() <= 1e-9 * price);
        if decode_seqs > 0 {
            let decode = StepShape::decode(decode_seqs, context * u64::from(decode_seqs));
            let price = model.decode(&decode).ms;
            prop_assert!((sum(StepPart::Decodes(&decode)) - price).abs() <= 1e-9 * price);
        }
    }
}
