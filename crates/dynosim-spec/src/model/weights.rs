//! How a checkpoint says that it is quantised.

use serde_json::{Map, Value};

use super::WeightFormat;

const SUPPORTED: &str = "supported are 16-bit weights, 8-bit floats with one scale per tensor, per channel or per \
                         128 x 128 block, and MXFP4 experts";

/// The weight format that a `config.json` and its `hf_quant_config.json` declare.
///
/// # Errors
///
/// What is not supported about it, to follow the model's name.
pub(super) fn detect(config: &Map<String, Value>, side_file: Option<&Value>) -> Result<WeightFormat, String> {
    if let Some(quantization) = side_file.and_then(|file| file.get("quantization")) {
        return model_opt(quantization);
    }
    let Some(quantization) = config.get("quantization_config").filter(|json| !json.is_null()) else {
        return Ok(WeightFormat::Bfloat16);
    };
    match text(quantization, "quant_method").as_str() {
        "fp8" => block_or_tensor(quantization.get("weight_block_size")),
        "modelopt" => model_opt(quantization),
        "compressed-tensors" => compressed_tensors(quantization),
        "mxfp4" => Ok(WeightFormat::Mxfp4Experts),
        method => Err(unsupported(&format!("quant_method {method}"))),
    }
}

/// Why a dense model cannot have MXFP4 weights.
pub(super) fn mxfp4_without_experts() -> String {
    unsupported("quant_method mxfp4 and has no experts")
}

fn model_opt(quantization: &Value) -> Result<WeightFormat, String> {
    match text(quantization, "quant_algo").as_str() {
        "FP8" => Ok(WeightFormat::Fp8PerTensor),
        algorithm => Err(unsupported(&format!("quant_algo {algorithm}"))),
    }
}

/// Format written by llm-compressor: every group must hold 8-bit floats in the same layout.
fn compressed_tensors(quantization: &Value) -> Result<WeightFormat, String> {
    let groups = quantization.get("config_groups").and_then(Value::as_object);
    let mut formats = groups.into_iter().flat_map(Map::values).map(|group| {
        let weights = group.get("weights").unwrap_or(&Value::Null);
        let bits = weights.get("num_bits").and_then(Value::as_u64);
        let kind = text(weights, "type");
        if kind != "float" || bits != Some(8) {
            let bits = bits.map_or_else(|| "?".to_owned(), |bits| bits.to_string());
            return Err(unsupported(&format!(
                "compressed-tensors weights of type {kind} with {bits} bits"
            )));
        }
        match text(weights, "strategy").as_str() {
            "tensor" | "channel" => Ok(WeightFormat::Fp8PerTensor),
            "block" => block_or_tensor(weights.get("block_structure")),
            strategy => Err(unsupported(&format!("compressed-tensors strategy {strategy}"))),
        }
    });
    let first = formats
        .next()
        .unwrap_or_else(|| Err(unsupported("compressed-tensors without config_groups")))?;
    for other in formats {
        if other? != first {
            return Err(unsupported("a mixture of compressed-tensors groups"));
        }
    }
    Ok(first)
}

/// 8-bit floats with a scale for each block of this shape, or for the tensor if there is none.
fn block_or_tensor(shape: Option<&Value>) -> Result<WeightFormat, String> {
    let Some(shape) = shape.filter(|json| !json.is_null()) else {
        return Ok(WeightFormat::Fp8PerTensor);
    };
    let sides: Vec<u64> = shape
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_u64)
        .collect();
    match sides.as_slice() {
        [128, 128] => Ok(WeightFormat::Fp8Block),
        _ => Err(unsupported(&format!("8-bit floats in blocks of {shape}"))),
    }
}

fn unsupported(what: &str) -> String {
    format!("is quantised with {what}; {SUPPORTED}")
}

fn text(json: &Value, key: &str) -> String {
    match json.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "unnamed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::{WeightFormat, detect};

    #[track_caller]
    fn check(quantization_config: Value, expected: Result<WeightFormat, &str>) {
        let config = Map::from_iter([("quantization_config".to_owned(), quantization_config)]);
        match (detect(&config, None), expected) {
            (Ok(format), expected) => assert_eq!(Ok(format), expected),
            (Err(reason), Err(expected)) => assert!(reason.starts_with(expected), "{reason}"),
            (Err(reason), Ok(_)) => panic!("{reason}"),
        }
    }

    fn compressed(weights: &Value) -> Value {
        json!({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}})
    }

    #[test]
    fn formats_are_recognised() {
        check(Value::Null, Ok(WeightFormat::Bfloat16));
        let blocks = json!({"quant_method": "fp8", "weight_block_size": [128, 128]});
        check(blocks, Ok(WeightFormat::Fp8Block));
        let dynamic = json!({"quant_method": "fp8", "activation_scheme": "dynamic"});
        check(dynamic, Ok(WeightFormat::Fp8PerTensor));
        let static_scales = json!({"quant_method": "fp8", "activation_scheme": "static"});
        check(static_scales, Ok(WeightFormat::Fp8PerTensor));
        let model_opt = json!({"quant_method": "modelopt", "quant_algo": "FP8"});
        check(model_opt, Ok(WeightFormat::Fp8PerTensor));
        let channels = compressed(&json!({"type": "float", "num_bits": 8, "strategy": "channel"}));
        check(channels, Ok(WeightFormat::Fp8PerTensor));
        let compressed_blocks =
            compressed(&json!({"type": "float", "num_bits": 8, "strategy": "block", "block_structure": [128, 128]}));
        check(compressed_blocks, Ok(WeightFormat::Fp8Block));
        check(json!({"quant_method": "mxfp4"}), Ok(WeightFormat::Mxfp4Experts));
    }

    #[test]
    fn what_has_no_price_is_refused() {
        check(
            json!({"quant_method": "awq", "bits": 4}),
            Err("is quantised with quant_method awq; supported"),
        );
        let narrow = json!({"quant_method": "fp8", "weight_block_size": [64, 64]});
        check(narrow, Err("is quantised with 8-bit floats in blocks of [64,64]"));
        let nvfp4 = json!({"quant_method": "modelopt", "quant_algo": "NVFP4"});
        check(nvfp4, Err("is quantised with quant_algo NVFP4"));
        let integers = compressed(&json!({"type": "int", "num_bits": 4, "strategy": "group"}));
        check(
            integers,
            Err("is quantised with compressed-tensors weights of type int with 4 bits"),
        );
    }
}
