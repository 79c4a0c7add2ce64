//! What users can do wrong gets a clear error, and no step makes a bound model fail.

mod facts;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use dynosim_spec::{Backend, Deployment, ModelSpec, ParallelShape, WeightFormat};
use dynosim_timing::{
    PolynomialTiming, Price, RooflineTiming, StepShape, TableModel, TableTiming, TimingError, TimingModel,
    TimingProvider, check_decode_inputs, estimate_kv_tokens,
};
use facts::{deployment, model};
use proptest::prelude::*;

const MODEL: &str = "Qwen/Qwen3-8B";

fn on_vllm(tp: u32) -> Deployment {
    deployment(model(MODEL), tp, Backend::Vllm)
}

fn bundled(deployment: &Deployment) -> Arc<TableModel> {
    TableTiming::new(None)
        .bind_table(deployment)
        .expect("tables cover the model")
}

/// A copy of the repository's tables for one test to damage.
struct Copied(PathBuf);

impl Copied {
    fn new(name: &str) -> Self {
        let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../perfdata/h200_sxm/vllm_0.14.0");
        let folder = root.join("h200_sxm/vllm_0.14.0");
        fs::create_dir_all(&folder).expect("target folder is writable");
        for table in [
            "gemm",
            "context_attention",
            "generation_attention",
            "custom_allreduce",
            "moe",
            "nccl",
        ] {
            let text = fs::read(source.join(format!("{table}.json"))).expect("perfdata is complete");
            fs::write(folder.join(format!("{table}.json")), text).expect("target folder is writable");
        }
        Self(root)
    }

    fn table(&self, table: &str) -> PathBuf {
        self.0.join("h200_sxm/vllm_0.14.0").join(format!("{table}.json"))
    }

    fn edit(&self, table: &str, edit: impl FnOnce(String) -> String) {
        let text = fs::read_to_string(self.table(table)).expect("copied");
        fs::write(self.table(table), edit(text)).expect("target folder is writable");
    }

    fn bind(&self) -> Result<Arc<TableModel>, TimingError> {
        TableTiming::new(None).with_perfdata(&self.0).bind_table(&on_vllm(2))
    }
}

#[track_caller]
fn check_message<T>(result: Result<T, TimingError>, parts: &[&str]) {
    let Err(error) = result else {
        panic!("an error was expected");
    };
    let message = error.to_string();
    for part in parts {
        assert!(message.contains(part), "`{part}` is missing in: {message}");
    }
}

#[test]
fn a_folder_prices_as_the_built_in_tables() {
    let folder = Copied::new("same").bind().expect("complete copy");
    let built_in = bundled(&on_vllm(2));
    let step = StepShape::prefill(3, 10_000, 1_000);
    assert_eq!(folder.prefill(&step), built_in.prefill(&step));
}

#[test]
fn a_git_lfs_pointer_is_recognised() {
    let tables = Copied::new("lfs");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    tables.edit("gemm", |_| pointer.to_owned());
    check_message(tables.bind(), &["gemm.json is a Git LFS pointer", "git lfs pull"]);
}

#[test]
fn a_truncated_table_is_recognised() {
    let tables = Copied::new("truncated");
    tables.edit("generation_attention", |text| text[..text.len() / 2].to_owned());
    check_message(tables.bind(), &["generation_attention.json is damaged", "column"]);
    tables.edit("generation_attention", |_| String::new());
    check_message(tables.bind(), &["generation_attention.json is damaged"]);
}

#[test]
fn a_table_that_contradicts_itself_is_recognised() {
    let tables = Copied::new("invalid");
    tables.edit("custom_allreduce", |text| text.replacen("128,", "", 1));
    check_message(
        tables.bind(),
        &["custom_allreduce.json is invalid", "slice `tp 2`", "entries"],
    );
    let tables = Copied::new("moved");
    tables.edit("gemm", |text| text.replacen("0.14.0", "0.15.0", 1));
    check_message(
        tables.bind(),
        &["gemm.json", "engine_version is `0.15.0`, `0.14.0` was expected"],
    );
}

#[test]
fn a_missing_table_or_folder_is_recognised() {
    let tables = Copied::new("missing");
    fs::remove_file(tables.table("context_attention")).expect("copied");
    check_message(tables.bind(), &["cannot read", "context_attention.json"]);
    let nowhere = TableTiming::new(None).with_perfdata("/nowhere/perfdata");
    check_message(nowhere.bind_table(&on_vllm(1)), &["cannot read /nowhere/perfdata"]);
}

#[test]
fn tables_of_experts_are_read_for_experts_only() {
    let tables = Copied::new("experts");
    let bind = |shape| {
        let deployment = Deployment {
            shape,
            ..deployment(model("Qwen/Qwen3-30B-A3B"), 1, Backend::Vllm)
        };
        TableTiming::new(None).with_perfdata(&tables.0).bind_table(&deployment)
    };
    let (one_group, groups) = (ParallelShape::experts(2, 1, 1, 2), ParallelShape::experts(1, 2, 1, 2));
    tables.edit("nccl", |text| text.replacen("256,", "", 1));
    bind(one_group).expect("exchanges nothing between groups");
    check_message(
        bind(groups),
        &["nccl.json is invalid", "slice `all_gather over 2 GPUs`"],
    );
    tables.edit("moe", |text| text.replace("power_law_1.2", "balanced"));
    check_message(
        bind(one_group),
        &[
            "moe.json does not cover Qwen/Qwen3-30B-A3B at tp 2 moe_ep 2: it has no 8 of 128 experts in bfloat16",
            "only 4 of 128 experts in w4a16_mxfp4",
        ],
    );
    fs::remove_file(tables.table("moe")).expect("copied");
    check_message(bind(one_group), &["cannot read", "moe.json"]);
    tables.bind().expect("dense models need no such tables");
}

#[test]
fn unknown_engine_versions_list_the_known_ones() {
    let timing = TableTiming::new(Some("0.99.0".to_owned()));
    check_message(
        timing.bind_table(&on_vllm(1)),
        &["vllm 0.99.0", "built-in", "versions with tables: 0.14.0, 0.19.0"],
    );
}

#[test]
fn systems_without_known_figures_list_the_measured_ones_and_hint_at_the_roofline() {
    let mut deployment = on_vllm(1);
    let mut gpu = deployment.gpu.as_ref().clone();
    gpu.name = "our_own".to_owned();
    deployment.gpu = Arc::new(gpu);
    let bound = TableTiming::new(None).bind_table(&deployment);
    check_message(bound, &["`our_own`", "h200_sxm (vllm)", "`roofline`"]);
}

#[test]
fn shapes_outside_the_tables_are_refused() {
    let bind = |edit: fn(&mut ModelSpec), backend| {
        let mut model = model(MODEL);
        edit(&mut model);
        TableTiming::new(None).bind_table(&deployment(model, 1, backend))
    };
    let other_heads = bind(|model| model.head_dim = 96, Backend::Vllm);
    check_message(
        other_heads,
        &[
            "context_attention.json",
            "head_dim 96",
            "head_dim 128, 64",
            "`roofline`",
        ],
    );
    let no_head_dim_64 = bind(|model| model.head_dim = 64, Backend::Sglang);
    check_message(no_head_dim_64, &["sglang_0.5.6.post2", "head_dim 64"]);
    let three_kv_heads = bind(|model| model.kv_heads = 3, Backend::Vllm);
    check_message(three_kv_heads, &["kv heads 3", "kv heads 1, 2, 4, 8"]);
    let wide = bind(|model| model.intermediate_size = 200_000, Backend::Vllm);
    check_message(wide, &["gemm.json", "weight of 400000 x 4096", "32 to 262144 features"]);
    let sixteen_bit_only = Copied::new("dtype");
    sixteen_bit_only.edit("gemm", |text| {
        text.replacen(r#""dtype":"fp8_block""#, r#""dtype":"fp8""#, 1)
    });
    let timing = TableTiming::new(None).with_perfdata(&sixteen_bit_only.0);
    let fp8_block = deployment(model("Qwen/Qwen3-32B-FP8"), 1, Backend::Vllm);
    check_message(timing.bind_table(&fp8_block), &["it has no fp8_block", "bfloat16, fp8"]);
}

#[test]
fn uneven_heads_and_unknown_models_are_refused_by_all() {
    for tp in [0, 3, 5] {
        let uneven = on_vllm(tp);
        let divisor = ["does not divide the 32 attention heads of Qwen/Qwen3-8B"];
        check_message(TableTiming::new(None).bind(&uneven), &divisor);
        check_message(RooflineTiming.bind(&uneven), &divisor);
        check_message(estimate_kv_tokens(&uneven), &divisor);
    }
    let unknown = Deployment {
        model: None,
        ..on_vllm(1)
    };
    check_message(
        TableTiming::new(None).bind(&unknown),
        &["nothing is known about model", "config.json"],
    );
    check_message(RooflineTiming.bind(&unknown), &["nothing is known about model"]);
    check_message(estimate_kv_tokens(&unknown), &["nothing is known about model"]);
}

#[test]
fn single_questions_beyond_the_tables_are_refused() {
    let model = bundled(&deployment(model("Qwen/Qwen3-32B"), 1, Backend::Vllm));
    check_message(
        model.prefill_ms(1, 2_000_000, 0),
        &["s = 1048576, 2000000 was asked for"],
    );
    check_message(model.prefill_ms(4000, 1, 0), &["b = 2048"]);
    check_message(model.prefill_ms(255, 98_604, 0), &["gemm.json", "m = 16777216"]);
    check_message(model.decode_ms(10_000, 100, 2), &["b = 8192"]);
    check_message(model.decode_operators(1, 17_000_000), &["s = 16777216"]);
    assert!(model.decode_ms(8192, 15_000_000, 2).is_ok());
}

#[test]
fn per_tensor_fp8_is_priced_from_its_own_table() {
    let name = "nvidia/Llama-3.3-70B-Instruct-FP8";
    for backend in [Backend::Vllm, Backend::Sglang] {
        let fp8 = bundled(&deployment(model(name), 2, backend));
        let bf16 = bundled(&deployment(model("meta-llama/Meta-Llama-3.1-70B"), 2, backend));
        let decode = |model: &TableModel| model.decode_ms(8, 2000, 2).expect("within reach");
        assert!(decode(&fp8) < 0.8 * decode(&bf16), "{backend:?}");
        let half = estimate_kv_tokens(&deployment(model(name), 2, backend)).expect("has room");
        let whole = estimate_kv_tokens(&deployment(model("meta-llama/Meta-Llama-3.1-70B"), 2, backend));
        assert!(half > 2 * whole.expect("has room"), "{backend:?}");
    }
}

#[test]
fn only_what_leaves_the_measurements_counts_as_extrapolated() {
    let model = bundled(&deployment(model("Qwen/Qwen3-32B"), 4, Backend::Vllm));
    let share = |price: Price| price.extrapolated_ms / price.ms;
    // 16 query heads, 2 KV heads: measured up to 65,536 tokens for 8 sequences.
    assert!(share(model.decode(&StepShape::decode(8, 8 * 5000))) < 1e-12);
    assert!(share(model.prefill(&StepShape::prefill(3, 3 * 7000, 3 * 1000))) < 1e-12);
    let long = share(model.decode(&StepShape::decode(64, 64 * 60_000)));
    assert!(long > 0.5 && long < 1.0, "{long}");
    let long = share(model.prefill(&StepShape::prefill(1, 40_000, 0)));
    assert!(long > 0.2 && long < 1.0, "{long}");
    // Two nodes: the all-reduce rests on measurements within one.
    let two_nodes = bundled(&on_vllm(16));
    assert!(share(two_nodes.decode(&StepShape::decode(8, 8 * 5000))) > 0.1);
}

#[test]
fn the_roofline_counts_cases_without_a_fit() {
    let share = |name, edit: fn(&mut ModelSpec), backend| {
        let mut model = model(name);
        edit(&mut model);
        let bound = RooflineTiming
            .bind(&deployment(model, 2, backend))
            .expect("facts are known");
        let price = bound.decode(&StepShape::decode(8, 8000));
        price.extrapolated_ms / price.ms
    };
    assert!(share(MODEL, |_| (), Backend::Vllm) < 1e-12);
    assert!(share(MODEL, |_| (), Backend::Sglang) < 1e-12);
    assert!(share(MODEL, |model| model.head_dim = 96, Backend::Vllm) > 0.01);
    assert!(
        share(
            MODEL,
            |model| model.weights = WeightFormat::Fp8PerTensor,
            Backend::Sglang
        ) > 0.5
    );
}

fn all_models() -> Vec<Arc<dyn TimingModel>> {
    let mut models = Vec::new();
    for backend in [Backend::Vllm, Backend::Sglang] {
        let tables = TableTiming::new(None);
        for (name, tp) in [
            ("Qwen/Qwen3-32B", 1),
            ("Qwen/Qwen3-32B-FP8", 4),
            (MODEL, 8),
            (MODEL, 16),
        ] {
            let deployment = deployment(model(name), tp, backend);
            models.push(tables.bind(&deployment).expect("tables cover the model"));
            models.push(RooflineTiming.bind(&deployment).expect("facts are known"));
        }
    }
    let tables = TableTiming::new(None);
    for (name, shape) in [
        ("Qwen/Qwen3-30B-A3B", ParallelShape::experts(1, 4, 1, 4)),
        ("Qwen/Qwen3-235B-A22B", ParallelShape::experts(4, 2, 8, 1)),
        ("openai/gpt-oss-120b", ParallelShape::experts(2, 1, 1, 2)),
    ] {
        let deployment = Deployment {
            shape,
            ..deployment(model(name), 1, Backend::Vllm)
        };
        models.push(tables.bind(&deployment).expect("tables cover the model"));
        models.push(RooflineTiming.bind(&deployment).expect("facts are known"));
    }
    models
}

/// Small, usual and absurd counts alike.
fn count() -> impl Strategy<Value = u64> {
    (0_u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift)
}

fn seqs() -> impl Strategy<Value = u32> {
    (0_u32..32, any::<u32>()).prop_map(|(shift, bits)| bits >> shift)
}

#[test]
fn no_step_makes_a_model_fail() {
    let models = all_models();
    let steps = (seqs(), count(), count(), seqs(), count());
    let check = |price: Price, floor: f64| {
        prop_assert!(price.ms.is_finite() && price.ms >= floor, "{price:?}");
        prop_assert!(
            price.extrapolated_ms >= 0.0 && price.extrapolated_ms <= price.ms * (1.0 + 1e-12),
            "{price:?}"
        );
        Ok(())
    };
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2000)
    };
    proptest!(config, |((prefills, tokens, prefix, decodes, context) in steps)| {
        let (prefill, decode) = (StepShape::prefill(prefills, tokens, prefix), StepShape::decode(decodes, context));
        for model in &models {
            check(model.prefill(&prefill), 0.0)?;
            check(model.decode(&decode), if decodes == 0 { 0.0 } else { 1.0 })?;
        }
    });
}

#[test]
fn the_same_shape_is_bound_once() {
    let tables = TableTiming::new(None);
    let bind = |deployment: &Deployment| tables.bind_table(deployment).expect("tables cover the model");
    let mut renamed = on_vllm(4);
    renamed.model_name = "the same by another name".to_owned();
    assert!(Arc::ptr_eq(&bind(&on_vllm(4)), &bind(&renamed)));
    assert!(!Arc::ptr_eq(&bind(&on_vllm(4)), &bind(&on_vllm(2))));
    let sglang = deployment(model(MODEL), 4, Backend::Sglang);
    assert!(!Arc::ptr_eq(&bind(&on_vllm(4)), &bind(&sglang)));
}

#[test]
fn single_questions_agree_with_steps() {
    for backend in [Backend::Vllm, Backend::Sglang] {
        let model = bundled(&deployment(model("Qwen/Qwen3-32B"), 2, backend));
        // The last batch size is one of those that are not kept.
        for batch in [1, 7, 256, 2048, 2049, 5000] {
            for context in [1, 500, 4095, 4096, 70_000] {
                let price = model.decode(&StepShape::decode(batch, u64::from(batch) * context));
                let ms = model.decode_ms(batch, context, 2).expect("within reach");
                assert_eq!(ms.to_bits(), price.ms.to_bits(), "{batch} x {context}");
                let operators = model.decode_operators(batch, context).expect("within reach");
                let sum: f64 = operators.iter().map(|operator| operator.ms).sum();
                assert!((sum - price.ms).abs() < 1e-12 * price.ms, "{batch} x {context}");
                let extrapolated = operators.iter().filter(|operator| operator.extrapolated);
                let sum: f64 = extrapolated.map(|operator| operator.ms).sum();
                assert!(
                    (sum - price.extrapolated_ms).abs() < 1e-12 * price.ms,
                    "{batch} x {context}"
                );
            }
        }
    }
}

#[test]
fn built_in_models_depend_on_what_they_say() {
    let mut models = all_models();
    models.push(Arc::new(PolynomialTiming));
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2000)
    };
    proptest!(config, |(seqs in seqs(), context in count(), active in count(), total in count())| {
        let step = StepShape::decode(seqs, context).with_kv_tokens(active, total);
        for model in &models {
            check_decode_inputs(model.as_ref(), [step]);
        }
    });
}

#[test]
fn four_times_the_work_takes_longer() {
    for model in all_models() {
        for seqs in [1, 3, 16, 200, 5000] {
            for tokens in [512, 3000, 20_000, 300_000, 5_000_000] {
                let total = u64::from(seqs) * tokens;
                let prefill = |factor| model.prefill(&StepShape::prefill(seqs, factor * total, 0)).ms;
                let decode = |factor| model.decode(&StepShape::decode(seqs, factor * total)).ms;
                assert!(prefill(4) > prefill(1), "{model:?}: {seqs} x {tokens}");
                // Short contexts cost next to nothing, so that the noise of the measurements shows.
                assert!(decode(4) > 0.98 * decode(1), "{model:?}: {seqs} x {tokens}");
            }
        }
    }
}
