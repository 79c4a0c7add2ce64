//! Facts about a language model that latency and memory depend on.

mod bundled;
mod config_json;
mod experts;
#[cfg(test)]
mod tests;
mod weights;

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::error::SpecError;
use crate::nearest::nearest_model;

/// How the weights of the linear layers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightFormat {
    /// 16-bit floats, not quantised.
    Bfloat16,
    /// 8-bit floats with one scale per tensor or output channel (static or dynamic activations, `ModelOpt` included).
    Fp8PerTensor,
    /// 8-bit floats with one scale per 128 x 128 block.
    Fp8Block,
    /// Experts in 4-bit floats with a scale per 32 elements (MXFP4), everything else in 16-bit floats.
    Mxfp4Experts,
}

/// The experts that take the place of the feed-forward part in every layer of a mixture-of-experts model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MoeSpec {
    /// Experts of a layer, of which a router chooses some for each token.
    pub experts: u32,
    /// Experts that each token is sent to.
    pub top_k: u32,
    /// Width of one expert.
    pub intermediate_size: u32,
}

/// Layers whose attention does not look further back than so many tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SlidingWindow {
    /// Tokens in sight, the present one included.
    pub tokens: u32,
    /// Layers with such a window; the others see everything.
    pub layers: u32,
}

/// A decoder-only transformer with grouped-query attention, dense or with experts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelSpec {
    /// Name by which it was asked for.
    pub name: String,
    /// Transformer layers.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden_size: u32,
    /// Width of the feed-forward part; experts have a width of their own.
    pub intermediate_size: u32,
    /// Query heads.
    pub attention_heads: u32,
    /// Key/value heads.
    pub kv_heads: u32,
    /// Elements per head.
    pub head_dim: u32,
    /// Entries of the vocabulary.
    pub vocab_size: u32,
    /// Tokens of prompt and output together that the model was made for, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_length: Option<u32>,
    /// Whether queries and keys are normalised per head (Qwen3).
    pub qk_norm: bool,
    /// Storage of the linear layers.
    pub weights: WeightFormat,
    /// Experts; `None` for dense models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moe: Option<MoeSpec>,
    /// Layers with a sliding window, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sliding_window: Option<SlidingWindow>,
}

impl ModelSpec {
    /// The model with a bundled name, or of a Hugging Face checkpoint on disk.
    ///
    /// A path leads to a `config.json` or to the folder that holds it; a `hf_quant_config.json` beside it
    /// is read too. Bundled names come first. Dense models of the architectures `LlamaForCausalLM`,
    /// `MistralForCausalLM`, `Qwen2ForCausalLM` and `Qwen3ForCausalLM` are supported, and mixtures of experts of
    /// `Qwen3MoeForCausalLM` and `GptOssForCausalLM`, with 16-bit or 8-bit floating-point weights, or MXFP4 ones of
    /// experts. A missing `head_dim` is hidden size / heads.
    ///
    /// # Errors
    ///
    /// [`SpecError::UnknownModel`] if neither name nor path exists, [`SpecError::ModelFile`] and
    /// [`SpecError::ModelSyntax`] if the file cannot be read, [`SpecError::InvalidModel`] if its numbers
    /// make no sense, [`SpecError::UnsupportedModel`] for everything else.
    ///
    /// ```
    /// # #[cfg(feature = "bundled")] {
    /// use dynosim_spec::{ModelSpec, WeightFormat};
    ///
    /// let model = ModelSpec::find("Qwen/Qwen3-32B-FP8")?;
    /// assert_eq!((model.layers, model.weights), (64, WeightFormat::Fp8Block));
    /// # }
    /// # Ok::<(), dynosim_spec::SpecError>(())
    /// ```
    pub fn find(name_or_path: &str) -> Result<Self, SpecError> {
        if let Some(text) = bundled::text(name_or_path) {
            let config = parse(Path::new(name_or_path), text)?;
            return config_json::read(name_or_path, &config, None);
        }
        let path = Path::new(name_or_path);
        if path.is_dir() {
            return Self::from_file(name_or_path, &path.join("config.json"));
        }
        let looks_like_a_file = path.extension().is_some_and(|extension| extension == "json");
        if looks_like_a_file || path.is_absolute() || path.is_file() {
            return Self::from_file(name_or_path, path);
        }
        let known = bundled::names();
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        Err(SpecError::UnknownModel {
            name: name_or_path.to_owned(),
            nearest: nearest_model(name_or_path, &names).map(str::to_owned),
            known,
        })
    }

    /// Names of the models that are part of the crate; none without the cargo feature `bundled`.
    pub fn bundled_names() -> Vec<String> {
        bundled::names()
    }

    fn from_file(name: &str, path: &Path) -> Result<Self, SpecError> {
        let unreadable = |path: &Path, source| SpecError::ModelFile {
            path: path.to_owned(),
            source,
        };
        let text = fs::read_to_string(path).map_err(|source| unreadable(path, source))?;
        let config = parse(path, &text)?;
        let side_path = path.with_file_name("hf_quant_config.json");
        let side_file = match fs::read_to_string(&side_path) {
            Ok(text) => Some(parse(&side_path, &text)?),
            Err(source) if source.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(unreadable(&side_path, source)),
        };
        config_json::read(name, &config, side_file.as_ref())
    }

    /// KV heads on each GPU of a tensor-parallel group of `tp`; heads are replicated when there are fewer than GPUs.
    pub const fn kv_heads_per_gpu(&self, tp: u32) -> u32 {
        self.kv_heads.div_ceil(tp)
    }

    /// Whether the query heads divide evenly over `tp` GPUs.
    pub const fn splits_over(&self, tp: u32) -> bool {
        tp != 0 && self.attention_heads.is_multiple_of(tp)
    }
}

fn parse(path: &Path, text: &str) -> Result<Value, SpecError> {
    serde_json::from_str(text).map_err(|error| SpecError::ModelSyntax {
        path: path.to_owned(),
        message: error.to_string(),
    })
}
