use std::path::{Path, PathBuf};
use std::{env, fs, process};

use serde_json::{Value, json};

use super::{ModelSpec, MoeSpec, SlidingWindow, WeightFormat, config_json};
use crate::error::SpecError;

fn llama() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128_256,
        "max_position_embeddings": 131_072,
        "rope_theta": 500_000.0
    })
}

fn llama_with(key: &str, value: Value) -> Value {
    let mut config = llama();
    config[key] = value;
    config
}

#[track_caller]
fn check_refused(config: &Value, expected: &str) {
    let error = config_json::read("my/model", config, None).expect_err("the model is refused");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn facts_of_a_config() {
    let model = config_json::read("my/model", &llama(), None).expect("the model is supported");
    let expected = ModelSpec {
        name: "my/model".to_owned(),
        layers: 32,
        hidden_size: 4096,
        intermediate_size: 14_336,
        attention_heads: 32,
        kv_heads: 8,
        head_dim: 128,
        vocab_size: 128_256,
        context_length: Some(131_072),
        qk_norm: false,
        weights: WeightFormat::Bfloat16,
        moe: None,
        sliding_window: None,
    };
    assert_eq!(model, expected);
}

fn qwen3_moe() -> Value {
    let mut config = llama_with("architectures", json!(["Qwen3MoeForCausalLM"]));
    for (key, value) in [
        ("num_experts", json!(128)),
        ("num_experts_per_tok", json!(8)),
        ("moe_intermediate_size", json!(768)),
        ("decoder_sparse_step", json!(1)),
        ("mlp_only_layers", json!([])),
    ] {
        config[key] = value;
    }
    config
}

fn gpt_oss() -> Value {
    let mut config = llama_with("architectures", json!(["GptOssForCausalLM"]));
    for (key, value) in [
        ("num_local_experts", json!(32)),
        ("num_experts_per_tok", json!(4)),
        ("sliding_window", json!(128)),
        ("num_hidden_layers", json!(3)),
        ("quantization_config", json!({"quant_method": "mxfp4"})),
    ] {
        config[key] = value;
    }
    config
}

#[test]
fn facts_about_experts() {
    let qwen = config_json::read("qwen", &qwen3_moe(), None).expect("the model is supported");
    let expected = MoeSpec {
        experts: 128,
        top_k: 8,
        intermediate_size: 768,
    };
    assert_eq!(
        (qwen.moe, qwen.sliding_window, qwen.qk_norm),
        (Some(expected), None, true)
    );
    let gpt = config_json::read("gpt", &gpt_oss(), None).expect("the model is supported");
    let expected = MoeSpec {
        experts: 32,
        top_k: 4,
        intermediate_size: 14_336,
    };
    assert_eq!((gpt.moe, gpt.weights), (Some(expected), WeightFormat::Mxfp4Experts));
}

#[test]
fn layers_with_a_window() {
    #[track_caller]
    fn check(key: &str, value: Value, expected: Option<(u32, u32)>) {
        let mut config = gpt_oss();
        config[key] = value;
        let model = config_json::read("gpt", &config, None).expect("the model is supported");
        let window = expected.map(|(tokens, layers)| SlidingWindow { tokens, layers });
        assert_eq!(model.sliding_window, window);
    }
    check("layer_types", Value::Null, Some((128, 2)));
    let kinds = |kinds: [&str; 3]| kinds.map(|kind| format!("{kind}_attention"));
    check("layer_types", json!(kinds(["full", "sliding", "full"])), Some((128, 1)));
    check("layer_types", json!(kinds(["full", "full", "full"])), None);
    check("sliding_window", Value::Null, None);
}

#[test]
fn experts_must_make_sense() {
    let mut config = qwen3_moe();
    config["num_experts_per_tok"] = json!(129);
    check_refused(
        &config,
        "invalid model my/model: num_experts_per_tok: must be at most num_experts, which is 128, got 129",
    );
    config["num_experts_per_tok"] = Value::Null;
    config["moe_intermediate_size"] = json!(0);
    check_refused(
        &config,
        "invalid model my/model, 2 mistakes:\n  \
         moe_intermediate_size: must be a whole number of at least 1, got 0\n  \
         num_experts_per_tok: is missing; must be a whole number of at least 1",
    );
    let mut config = gpt_oss();
    config["layer_types"] = json!(["sliding_attention"]);
    check_refused(
        &config,
        "invalid model my/model: layer_types: has 1 entries, num_hidden_layers is 3",
    );
    let mut config = qwen3_moe();
    config["decoder_sparse_step"] = json!(2);
    check_refused(
        &config,
        "not supported yet: my/model has experts in every 2th layer only; supported are models with experts in every \
         layer",
    );
    config["decoder_sparse_step"] = json!(1);
    config["mlp_only_layers"] = json!([0, 1]);
    check_refused(
        &config,
        "not supported yet: my/model has 2 layers without experts (mlp_only_layers); supported are models with \
         experts in every layer",
    );
}

#[test]
fn qwen3_normalises_queries_and_keys() {
    let mut config = llama_with("architectures", json!(["Qwen3ForCausalLM"]));
    config["head_dim"] = json!(64);
    let model = config_json::read("qwen", &config, None).expect("the model is supported");
    assert!(model.qk_norm);
    assert_eq!(model.head_dim, 64);
}

#[test]
fn context_lengths() {
    #[track_caller]
    fn check(positions: Value, scaling: Value, expected: Option<u32>) {
        let mut config = llama_with("max_position_embeddings", positions);
        config["rope_scaling"] = scaling;
        let model = config_json::read("my/model", &config, None).expect("the model is supported");
        assert_eq!(model.context_length, expected);
    }
    check(json!(null), json!(null), None);
    check(json!(40_960), json!(null), Some(40_960));
    check(
        json!(131_072),
        json!({"rope_type": "llama3", "factor": 8.0}),
        Some(131_072),
    );
    check(json!(4096), json!({"type": "linear", "factor": 2.0}), Some(8192));
    let yarn = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768});
    check(json!(40_960), yarn, Some(131_072));
}

#[test]
fn the_side_file_decides_about_weights() {
    let side_file = json!({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}});
    let model = config_json::read("fp8", &llama(), Some(&side_file)).expect("the model is supported");
    assert_eq!(model.weights, WeightFormat::Fp8PerTensor);
}

#[test]
fn numbers_must_make_sense() {
    check_refused(
        &json!({"architectures": ["LlamaForCausalLM"], "num_attention_heads": 0, "hidden_size": 4096}),
        "invalid model my/model, 4 mistakes:\n  \
         num_hidden_layers: is missing; must be a whole number of at least 1\n  \
         intermediate_size: is missing; must be a whole number of at least 1\n  \
         num_attention_heads: must be a whole number of at least 1, got 0\n  \
         vocab_size: is missing; must be a whole number of at least 1",
    );
    check_refused(
        &llama_with("num_key_value_heads", json!(5)),
        "invalid model my/model: num_key_value_heads: must divide num_attention_heads, which is 32, got 5",
    );
    check_refused(
        &llama_with("hidden_size", json!(4100)),
        "invalid model my/model: head_dim: is missing, and hidden_size does not divide by num_attention_heads",
    );
}

#[test]
fn other_kinds_of_models_are_refused() {
    const SUPPORTED: &str = "supported are dense models of LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, \
                             Qwen3ForCausalLM and mixtures of experts of Qwen3MoeForCausalLM, GptOssForCausalLM";
    for (experts, name) in [
        (llama_with("num_experts", json!(128)), "LlamaForCausalLM"),
        (
            llama_with("architectures", json!(["MixtralForCausalLM"])),
            "MixtralForCausalLM",
        ),
        (
            llama_with("architectures", json!(["Qwen2MoeForCausalLM"])),
            "Qwen2MoeForCausalLM",
        ),
    ] {
        check_refused(
            &experts,
            &format!("not supported yet: my/model is a mixture-of-experts model of {name}; {SUPPORTED}"),
        );
    }
    let mut latent = llama_with("architectures", json!(["DeepseekV3ForCausalLM"]));
    latent["kv_lora_rank"] = json!(512);
    check_refused(
        &latent,
        &format!(
            "not supported yet: my/model has latent attention (MLA, architecture DeepseekV3ForCausalLM); {SUPPORTED}"
        ),
    );
    check_refused(
        &llama_with("quantization_config", json!({"quant_method": "mxfp4"})),
        "not supported yet: my/model is quantised with quant_method mxfp4 and has no experts; supported are 16-bit \
         weights, 8-bit floats with one scale per tensor, per channel or per 128 x 128 block, and MXFP4 experts",
    );
    check_refused(
        &llama_with("architectures", json!(["GPT2LMHeadModel"])),
        &format!("not supported yet: my/model has architecture GPT2LMHeadModel; {SUPPORTED}"),
    );
    check_refused(
        &json!({}),
        &format!("not supported yet: my/model names no architecture; {SUPPORTED}"),
    );
    check_refused(
        &llama_with("sliding_window", json!(4096)),
        "not supported yet: my/model attends to a window of 4096 tokens; supported is attention to all tokens",
    );
}

#[test]
fn a_window_that_is_switched_off_is_none() {
    let mut config = llama_with("sliding_window", json!(4096));
    config["use_sliding_window"] = json!(false);
    config_json::read("qwen", &config, None).expect("the model is supported");
}

#[cfg(feature = "bundled")]
#[test]
fn bundled_facts() {
    let check = |name: &str, expected: (u32, u32, bool, WeightFormat)| {
        let model = ModelSpec::find(name).expect("the model is bundled");
        assert_eq!(
            (model.layers, model.head_dim, model.qk_norm, model.weights),
            expected,
            "{name}"
        );
    };
    check("Qwen/Qwen3-0.6B", (28, 128, true, WeightFormat::Bfloat16));
    check("Qwen/Qwen3-32B-FP8", (64, 128, true, WeightFormat::Fp8Block));
    check(
        "meta-llama/Meta-Llama-3.1-405B",
        (126, 128, false, WeightFormat::Bfloat16),
    );
    check(
        "nvidia/Llama-3.3-70B-Instruct-FP8",
        (80, 128, false, WeightFormat::Fp8PerTensor),
    );
    check("Qwen/Qwen3-30B-A3B-FP8", (48, 128, true, WeightFormat::Fp8Block));
    check("openai/gpt-oss-120b", (36, 64, false, WeightFormat::Mxfp4Experts));
    let gpt = ModelSpec::find("openai/gpt-oss-120b").expect("the model is bundled");
    let window = SlidingWindow {
        tokens: 128,
        layers: 18,
    };
    assert_eq!(gpt.sliding_window, Some(window));
}

#[cfg(feature = "bundled")]
#[test]
fn an_unknown_name_is_answered_with_the_nearest() {
    let error = ModelSpec::find("qwen3-32b").expect_err("the name is wrong");
    assert_eq!(
        error.to_string(),
        "unknown model `qwen3-32b`, did you mean `Qwen/Qwen3-32B`? (bundled: Qwen/Qwen3-0.6B, Qwen/Qwen3-1.7B, \
         Qwen/Qwen3-235B-A22B, Qwen/Qwen3-235B-A22B-FP8, Qwen/Qwen3-30B-A3B, Qwen/Qwen3-30B-A3B-FP8, Qwen/Qwen3-32B, \
         Qwen/Qwen3-32B-FP8, Qwen/Qwen3-8B, meta-llama/Meta-Llama-3.1-405B, meta-llama/Meta-Llama-3.1-70B, \
         meta-llama/Meta-Llama-3.1-8B, nvidia/Llama-3.3-70B-Instruct-FP8, openai/gpt-oss-120b)"
    );
}

#[test]
fn a_checkpoint_on_disk_is_found_by_folder_and_by_file() {
    let folder = Folder::new("checkpoint");
    folder.write("config.json", &llama().to_string());
    let file = folder.0.join("config.json");
    for path in [&folder.0, &file] {
        let path = path.to_str().expect("the path is text");
        let model = ModelSpec::find(path).expect("the file is there");
        assert_eq!((model.name.as_str(), model.weights), (path, WeightFormat::Bfloat16));
    }
    folder.write("hf_quant_config.json", r#"{"quantization": {"quant_algo": "FP8"}}"#);
    let model = ModelSpec::find(file.to_str().expect("the path is text")).expect("the file is there");
    assert_eq!(model.weights, WeightFormat::Fp8PerTensor);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = Folder::new("broken");
    let path = folder.0.join("config.json");
    let text = path.to_str().expect("the path is text");
    let error = ModelSpec::find(text).expect_err("the file is missing");
    assert!(
        matches!(&error, SpecError::ModelFile { path: missing, .. } if *missing == path),
        "{error}"
    );

    folder.write("config.json", "{\n\"a\"}");
    let error = ModelSpec::find(text).expect_err("the file is broken");
    assert_eq!(
        error.to_string(),
        format!("model file {text}: not valid JSON: expected `:` at line 2 column 4")
    );
}

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("dynosim-spec-{}-{name}", process::id()));
        fs::create_dir_all(&path).expect("the temporary folder is writable");
        Self(path)
    }

    fn write(&self, name: &str, text: &str) {
        let path: &Path = &self.0;
        fs::write(path.join(name), text).expect("the temporary folder is writable");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing depends on it: the system cleans its temporary folder too.
        let _ = fs::remove_dir_all(&self.0);
    }
}
