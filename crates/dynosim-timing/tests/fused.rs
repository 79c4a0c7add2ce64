//! Steps that are one pass: what they have in common with the bare sums of kernels, and what sets them apart.

mod facts;
mod fused_steps;

use std::sync::{Arc, LazyLock};

use dynosim_spec::{
    Backend, Calibration, CalibrationConstants, Constant, Deployment, EnginePhysics, StepTerm, WeightFormat,
};
use dynosim_timing::{PromptChunk, RooflineTiming, StepPart, StepShape, TableTiming, TimingModel, TimingProvider};
use facts::{deployment, model};
use fused_steps::{chunk, close, step};
use proptest::prelude::*;

const LLAMA_FP8: &str = "nvidia/Llama-3.3-70B-Instruct-FP8";
const QWEN: &str = "Qwen/Qwen3-32B";

fn bound(name: &str, tp: u32, physics: Option<EnginePhysics>) -> Arc<dyn TimingModel> {
    let deployment = Deployment {
        physics: physics.map(Arc::new),
        ..deployment(model(name), tp, Backend::Vllm)
    };
    TableTiming::new(None)
        .bind(&deployment)
        .expect("tables cover the model")
}

fn neutral(without: Vec<StepTerm>) -> EnginePhysics {
    EnginePhysics {
        calibration: Calibration::neutral("none", Backend::Vllm, WeightFormat::Bfloat16),
        without,
    }
}

fn with(constants: CalibrationConstants) -> EnginePhysics {
    let mut physics = neutral(Vec::new());
    physics.calibration.constants = constants;
    physics
}

fn constant(value: f64) -> Constant {
    Constant::new(value, "test")
}

fn everything() -> EnginePhysics {
    with(CalibrationConstants {
        gemm_derate: Some(constant(1.3)),
        all_reduce_call_us: Some(constant(4.5)),
        step_ms: Some(constant(0.3)),
        ..CalibrationConstants::default()
    })
}

#[test]
fn oracle_a_prompt_alone_costs_what_its_kernels_do() {
    for (name, tp) in [(QWEN, 1), (QWEN, 4), (LLAMA_FP8, 2)] {
        let (bare, fused) = (bound(name, tp, None), bound(name, tp, Some(neutral(Vec::new()))));
        for prompt in [chunk(1, 0), chunk(777, 0), chunk(8192, 0)] {
            let step = step(&[prompt], 0, 0);
            close(fused.fused(&step, &[prompt]).ms, bare.prefill(&step).ms);
        }
    }
}

#[test]
fn oracle_generating_without_additions_costs_what_its_kernels_do() {
    let without = vec![StepTerm::GraphPadding, StepTerm::SplitKv, StepTerm::SideKernels];
    for (name, tp) in [(QWEN, 2), (LLAMA_FP8, 1)] {
        let (bare, fused) = (bound(name, tp, None), bound(name, tp, Some(neutral(without.clone()))));
        for (seqs, context) in [(1, 10), (7, 5000), (256, 1000)] {
            let step = StepShape::decode(seqs, context * u64::from(seqs));
            close(fused.decode(&step).ms, bare.decode(&step).ms);
        }
    }
}

#[test]
fn weights_are_read_once() {
    let model = bound(QWEN, 1, Some(neutral(Vec::new())));
    let (prompt, none) = (chunk(64, 0), []);
    let together = model.fused(&step(&[prompt], 16, 1000), &[prompt]).ms;
    let apart = model.fused(&step(&[prompt], 0, 0), &[prompt]).ms + model.decode(&step(&none, 16, 1000)).ms;
    assert!(together < 0.7 * apart, "{together} together, {apart} apart");
}

#[test]
fn each_constant_adds_what_it_says() {
    let decode = StepShape::decode(8, 8000);
    let price = |tp, constants| bound(QWEN, tp, Some(with(constants))).decode(&decode).ms;
    let none = CalibrationConstants::default;
    let step_ms = CalibrationConstants {
        step_ms: Some(constant(0.25)),
        ..none()
    };
    close(price(2, step_ms) - price(2, none()), 0.25);
    let all_reduce = || CalibrationConstants {
        all_reduce_call_us: Some(constant(10.0)),
        ..none()
    };
    // Two in each of 64 layers, and one for the embedding.
    close(price(2, all_reduce()) - price(2, none()), 1.29);
    close(price(1, all_reduce()), price(1, none()));
    // 8 sequences of 1001 tokens of 8 KV heads of 128 elements of 2 bytes, keys and values, in 64 layers, at 1 TB/s.
    let bandwidth = |floor_us| CalibrationConstants {
        decode_attention_bandwidth_tb_s: Some(constant(1.0)),
        decode_attention_floor_us: Some(constant(floor_us)),
        ..none()
    };
    let floor_ms = 64.0 * 12.0 / 1e3;
    close(price(1, bandwidth(12.0)) - price(1, bandwidth(0.0)), floor_ms);
    let longer = StepShape::decode(8, 2 * 8000);
    let model = bound(QWEN, 1, Some(with(bandwidth(0.0))));
    let bytes = 8.0 * 1000.0 * 8.0 * 128.0 * 2.0 * 2.0 * 64.0;
    close(model.decode(&longer).ms - model.decode(&decode).ms, bytes / 1e12 * 1e3);
}

#[test]
fn what_is_left_out_is_gone() {
    let physics = |without| EnginePhysics {
        without,
        ..everything()
    };
    let prompt = chunk(4096, 0);
    let price = |without| {
        let model = bound(QWEN, 2, Some(physics(without)));
        (
            model.fused(&step(&[prompt], 5, 900), &[prompt]).ms,
            model.decode(&StepShape::decode(5, 4500)).ms,
        )
    };
    let whole = price(Vec::new());
    for term in [StepTerm::GemmDerate, StepTerm::AllReduceCall, StepTerm::StepConstant] {
        assert!(price(vec![term]).0 < whole.0, "{term:?}");
    }
    for term in [
        StepTerm::GraphPadding,
        StepTerm::SideKernels,
        StepTerm::AllReduceCall,
        StepTerm::StepConstant,
    ] {
        assert!(price(vec![term]).1 < whole.1, "{term:?}");
    }
}

fn prompts() -> impl Strategy<Value = Vec<PromptChunk>> {
    prop::collection::vec(
        (1_u64..9000, 0_u64..9000).prop_map(|(new, prefix)| chunk(new, prefix)),
        1..6,
    )
}

proptest! {
    #[test]
    fn terms_add_up_to_the_price(prompts in prompts(), decode_seqs in 0_u32..300, context in 0_u64..9000) {
        static MODEL: LazyLock<Arc<dyn TimingModel>> = LazyLock::new(|| bound(QWEN, 4, Some(everything())));
        let model = &*MODEL;
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

    /// On the roofline, because measured matrix products do get faster towards the end of a tile of tokens.
    #[test]
    fn a_step_costs_no_less_with_more_to_do(prompts in prompts(), decode_seqs in 1_u32..200, context in 0_u64..9000) {
        static MODEL: LazyLock<Arc<dyn TimingModel>> = LazyLock::new(|| {
            let deployment = Deployment {
                physics: Some(Arc::new(everything())),
                ..deployment(model(LLAMA_FP8), 1, Backend::Vllm)
            };
            RooflineTiming.bind(&deployment).expect("the model is known")
        });
        let model = &*MODEL;
        let price = |prompts: &[PromptChunk], seqs| model.fused(&step(prompts, seqs, context), prompts).ms;
        let whole = price(&prompts, decode_seqs);
        let at_most = whole * (1.0 + 1e-9);
        prop_assert!(price(&prompts, 0) <= at_most);
        if prompts.len() > 1 {
            prop_assert!(price(&prompts[1..], decode_seqs) <= at_most);
        }
    }
}
