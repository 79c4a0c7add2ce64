//! Reading the `config.json` of a Hugging Face checkpoint.

use serde_json::{Map, Value};

use super::{ModelSpec, WeightFormat, experts, weights};
use crate::error::SpecError;
use crate::reader::{Findings, Section, Whole};

/// Architectures with the operators of a dense Llama, and whether queries and keys are normalised per head.
const ARCHITECTURES: [(&str, bool); 4] = [
    ("LlamaForCausalLM", false),
    ("MistralForCausalLM", false),
    ("Qwen2ForCausalLM", false),
    ("Qwen3ForCausalLM", true),
];
/// Architectures whose layers have experts, with the same remark.
const MOE_ARCHITECTURES: [(&str, bool); 2] = [("Qwen3MoeForCausalLM", true), ("GptOssForCausalLM", false)];
/// Keys that hold the number of experts of a mixture-of-experts model.
const EXPERT_COUNTS: [&str; 4] = [
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
];
/// The only architecture whose layers may attend to a window.
const WINDOWED: &str = "GptOssForCausalLM";
const COUNT: Whole = Whole::at_least(1);

/// The facts that `config` and its quantisation side file state.
///
/// # Errors
///
/// [`SpecError::UnsupportedModel`] for other kinds of models, [`SpecError::InvalidModel`] for numbers
/// that are missing or make no sense.
pub(super) fn read(name: &str, config: &Value, side_file: Option<&Value>) -> Result<ModelSpec, SpecError> {
    let no_keys = Map::new();
    let keys = config.as_object().unwrap_or(&no_keys);
    let unsupported = |reason: String| SpecError::UnsupportedModel {
        model: name.to_owned(),
        reason,
    };
    let architecture = Architecture::of(keys).map_err(unsupported)?;
    if architecture.has_experts {
        experts::refuse_dense_layers(keys).map_err(unsupported)?;
    }
    let windowed = architecture.name == WINDOWED;
    if !windowed {
        refuse_sliding_window(keys).map_err(unsupported)?;
    }
    let side_file = side_file.or_else(|| keys.get("hf_quant_config"));
    let mut model = ModelSpec {
        name: name.to_owned(),
        layers: 1,
        hidden_size: 1,
        intermediate_size: 1,
        attention_heads: 1,
        kv_heads: 1,
        head_dim: 1,
        vocab_size: 1,
        context_length: None,
        qk_norm: architecture.qk_norm,
        weights: weights::detect(keys, side_file).map_err(unsupported)?,
        moe: None,
        sliding_window: None,
    };
    if model.weights == WeightFormat::Mxfp4Experts && !architecture.has_experts {
        return Err(unsupported(weights::mxfp4_without_experts()));
    }
    let mut findings = Findings::new(Vec::new());
    Section::walk_document(config, &mut findings, |section| {
        numbers(&mut model, section);
        if architecture.has_experts {
            model.moe = Some(experts::read(architecture.name, model.intermediate_size, section));
        }
        if windowed {
            model.sliding_window = experts::window(keys, model.layers, section);
        }
    });
    let violations = findings.into_violations();
    if violations.is_empty() {
        model.context_length = model.context_length.map(|positions| context(keys, positions));
        Ok(model)
    } else {
        let model = name.to_owned();
        Err(SpecError::InvalidModel { model, violations })
    }
}

/// What the operators of a model depend on beside its numbers.
#[derive(Debug, Clone, Copy)]
struct Architecture {
    name: &'static str,
    qk_norm: bool,
    has_experts: bool,
}

impl Architecture {
    /// The architecture of a configuration, or why it is not supported.
    fn of(config: &Map<String, Value>) -> Result<Self, String> {
        let declared = config.get("architectures").and_then(|list| list.get(0));
        let declared = declared.and_then(Value::as_str);
        if config.get("kv_lora_rank").is_some_and(|rank| !rank.is_null()) {
            let name = declared.unwrap_or("no name");
            return Err(format!(
                "has latent attention (MLA, architecture {name}); {}",
                supported()
            ));
        }
        let mut known = (ARCHITECTURES.iter().map(|known| (known, false)))
            .chain(MOE_ARCHITECTURES.iter().map(|known| (known, true)));
        let found = known.find(|((name, _), _)| declared == Some(*name));
        let has_experts = EXPERT_COUNTS.iter().any(|key| {
            let count = config.get(*key).and_then(Value::as_u64);
            count.is_some_and(|count| count > 1)
        });
        match (found, declared) {
            (Some((&(name, qk_norm), moe)), _) if moe || !has_experts => Ok(Self {
                name,
                qk_norm,
                has_experts: moe,
            }),
            (_, Some(name)) if has_experts || name.contains("Moe") || name.contains("Mixtral") => {
                Err(format!("is a mixture-of-experts model of {name}; {}", supported()))
            }
            (_, Some(name)) => Err(format!("has architecture {name}; {}", supported())),
            (_, None) => Err(format!("names no architecture; {}", supported())),
        }
    }
}

fn supported() -> String {
    let names = |of: &[(&'static str, bool)]| of.iter().map(|(name, _)| *name).collect::<Vec<&str>>().join(", ");
    format!(
        "supported are dense models of {} and mixtures of experts of {}",
        names(&ARCHITECTURES),
        names(&MOE_ARCHITECTURES)
    )
}

/// Attention over a window costs less than over everything, which no timing model knows.
fn refuse_sliding_window(config: &Map<String, Value>) -> Result<(), String> {
    let number = |key: &str| config.get(key).and_then(Value::as_u64);
    let switched_off = config.get("use_sliding_window").and_then(Value::as_bool) == Some(false);
    match number("sliding_window") {
        Some(window) if !switched_off && number("max_position_embeddings").is_none_or(|longest| window < longest) => {
            Err(format!(
                "attends to a window of {window} tokens; supported is attention to all tokens"
            ))
        }
        _ => Ok(()),
    }
}

/// Tokens of the context of a model with this `max_position_embeddings`: scaled rotary embeddings may reach further.
fn context(config: &Map<String, Value>, positions: u32) -> u32 {
    let Some(scaling) = config.get("rope_scaling").and_then(Value::as_object) else {
        return positions;
    };
    let kind = scaling.get("rope_type").or_else(|| scaling.get("type"));
    let original = scaling.get("original_max_position_embeddings").and_then(Value::as_u64);
    let unscaled = match kind.and_then(Value::as_str) {
        Some("yarn") => original
            .and_then(|tokens| u32::try_from(tokens).ok())
            .unwrap_or(positions),
        Some("linear" | "dynamic") => positions,
        _ => return positions,
    };
    let factor = scaling.get("factor").and_then(Value::as_f64).unwrap_or(1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates"
    )]
    let tokens = (f64::from(unscaled) * factor) as u32;
    tokens
}

fn numbers(model: &mut ModelSpec, section: &mut Section<'_, '_>) {
    section.accept_all();
    section.required("num_hidden_layers", &mut model.layers, &COUNT);
    let hidden = section.required("hidden_size", &mut model.hidden_size, &COUNT);
    section.required("intermediate_size", &mut model.intermediate_size, &COUNT);
    let heads = section.required("num_attention_heads", &mut model.attention_heads, &COUNT);
    let mut kv_heads = None;
    let kv_heads_right = section.option("num_key_value_heads", &mut kv_heads, &COUNT);
    model.kv_heads = kv_heads.unwrap_or(model.attention_heads);
    let mut head_dim = None;
    let head_dim_right = section.option("head_dim", &mut head_dim, &COUNT);
    section.required("vocab_size", &mut model.vocab_size, &COUNT);
    section.option("max_position_embeddings", &mut model.context_length, &COUNT);
    if heads && kv_heads_right && !model.attention_heads.is_multiple_of(model.kv_heads) {
        let message = format!(
            "must divide num_attention_heads, which is {}, got {}",
            model.attention_heads, model.kv_heads
        );
        section.violation("num_key_value_heads", message);
    }
    let derived = head_dim_right && head_dim.is_none();
    if derived && hidden && heads && !model.hidden_size.is_multiple_of(model.attention_heads) {
        let message = "is missing, and hidden_size does not divide by num_attention_heads";
        section.violation("head_dim", message);
    }
    model.head_dim = head_dim.unwrap_or(model.hidden_size / model.attention_heads);
}
