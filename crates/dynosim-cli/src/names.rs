//! What is known by name.

use std::fmt::Write;

use dynosim::Error;
use dynosim::spec::{GpuSpec, ModelSpec, WeightFormat};

use crate::error::CliError;
use crate::output;

/// Prints one line per bundled model, its name first.
pub(crate) fn models() -> Result<(), CliError> {
    let mut lines = String::new();
    for name in ModelSpec::bundled_names() {
        let model = ModelSpec::find(&name).map_err(Error::from)?;
        let weights = match model.weights {
            WeightFormat::Bfloat16 => "bf16",
            WeightFormat::Fp8PerTensor => "fp8",
            WeightFormat::Fp8Block => "fp8 in blocks",
            WeightFormat::Mxfp4Experts => "bf16 with mxfp4 experts",
        };
        let experts = (model.moe.as_ref()).map_or_else(String::new, |moe| {
            format!(", {} of {} experts per token", moe.top_k, moe.experts)
        });
        let (layers, heads, kv_heads) = (model.layers, model.attention_heads, model.kv_heads);
        // Writing to a string cannot fail.
        let _ = writeln!(
            lines,
            "{name:<36} {layers:>3} layers, {heads:>3} heads, {kv_heads:>2} KV heads, {weights}{experts}"
        );
    }
    output::print(&lines)
}

/// Prints one line per GPU system, its name first.
pub(crate) fn systems() -> Result<(), CliError> {
    let mut lines = String::new();
    for name in GpuSpec::known_names() {
        let gpu = GpuSpec::find(name).map_err(Error::from)?;
        let _ = writeln!(
            lines,
            "{name:<10} {:>4.0} GiB, {:>4.2} TB/s, {:>4.0} bf16 TFLOP/s, {} GPUs per node",
            gpu.memory_bytes as f64 / f64::from(1 << 30),
            gpu.memory_bandwidth / 1e12,
            gpu.bf16_flops / 1e12,
            gpu.gpus_per_node
        );
    }
    output::print(&lines)
}
