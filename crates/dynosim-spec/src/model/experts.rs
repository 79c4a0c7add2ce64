//! What the `config.json` of a mixture-of-experts model says about its experts, and about layers with a window.

use serde_json::{Map, Value};

use super::{MoeSpec, SlidingWindow};
use crate::reader::{Section, Whole};

const COUNT: Whole = Whole::at_least(1);

/// Every layer must have experts: timing models know no others.
///
/// # Errors
///
/// What is not supported, to follow the model's name.
pub(super) fn refuse_dense_layers(config: &Map<String, Value>) -> Result<(), String> {
    const SUPPORTED: &str = "supported are models with experts in every layer";
    let step = config.get("decoder_sparse_step").and_then(Value::as_u64);
    if let Some(step) = step.filter(|&step| step != 1) {
        return Err(format!("has experts in every {step}th layer only; {SUPPORTED}"));
    }
    let dense = config.get("mlp_only_layers").and_then(Value::as_array);
    match dense.map_or(0, Vec::len) {
        0 => Ok(()),
        layers => Err(format!(
            "has {layers} layers without experts (mlp_only_layers); {SUPPORTED}"
        )),
    }
}

/// The experts of a model of this architecture; gpt-oss keeps their width in `intermediate_size`.
pub(super) fn read(architecture: &str, intermediate_size: u32, section: &mut Section<'_, '_>) -> MoeSpec {
    let mut moe = MoeSpec {
        experts: 1,
        top_k: 1,
        intermediate_size,
    };
    let count_key = if architecture == "GptOssForCausalLM" {
        "num_local_experts"
    } else {
        section.required("moe_intermediate_size", &mut moe.intermediate_size, &COUNT);
        "num_experts"
    };
    let experts = section.required(count_key, &mut moe.experts, &COUNT);
    let top_k = section.required("num_experts_per_tok", &mut moe.top_k, &COUNT);
    if experts && top_k && moe.top_k > moe.experts {
        let message = format!(
            "must be at most {count_key}, which is {}, got {}",
            moe.experts, moe.top_k
        );
        section.violation("num_experts_per_tok", message);
    }
    moe
}

/// The layers with a window. Without `layer_types` it is every other one, beginning with the first.
pub(super) fn window(config: &Map<String, Value>, layers: u32, section: &mut Section<'_, '_>) -> Option<SlidingWindow> {
    let mut tokens: Option<u32> = None;
    section.option("sliding_window", &mut tokens, &COUNT);
    let windowed = match config.get("layer_types").and_then(Value::as_array) {
        None => layers.div_ceil(2),
        Some(types) if types.len() as u64 != u64::from(layers) => {
            let message = format!("has {} entries, num_hidden_layers is {layers}", types.len());
            section.violation("layer_types", message);
            return None;
        }
        Some(types) => {
            let sliding = types.iter().filter(|kind| kind.as_str() == Some("sliding_attention"));
            u32::try_from(sliding.count()).unwrap_or(layers)
        }
    };
    let window = tokens.map(|tokens| SlidingWindow {
        tokens,
        layers: windowed,
    });
    window.filter(|window| window.layers > 0)
}
