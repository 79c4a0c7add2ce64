//! The JSON files that hold measured kernel latencies: their schema and the checks on loading.
//!
//! One file holds one table of one engine version on one GPU system. A table is a list of slices;
//! a slice fixes everything that cannot be interpolated (number formats, head counts ...) and holds
//! one flat array over its axes, the last axis varying fastest. `null` means "not measured".

use dynosim_spec::Backend;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::TimingError;
use crate::precision::{AttentionDtype, ExpertDtype, GemmDtype};

/// The only unit of latency that tables use.
pub const TABLE_UNIT: &str = "ms";

/// First line of the stand-in that Git leaves behind when LFS content was not fetched.
const LFS_POINTER: &str = "version https://git-lfs.github.com/spec/v1";

/// One table: `perfdata/<system>/<engine>_<engine version>/<table>.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableFile<S> {
    /// Which table this is; equals [`TableSlice::TABLE`] and the file's name.
    pub table: String,
    /// GPU system that was measured, for example `h200_sxm`.
    pub system: String,
    /// Serving engine whose kernels were timed.
    pub engine: Backend,
    /// Version of that engine.
    pub engine_version: String,
    /// Where the figures come from.
    pub provenance: String,
    /// Licence of the figures, as an SPDX identifier.
    pub license: String,
    /// Unit of all latencies, [`TABLE_UNIT`]: one call of one kernel on one GPU.
    pub unit: String,
    /// The measurements.
    pub slices: Vec<S>,
}

/// One slice of a table.
pub trait TableSlice: Serialize + DeserializeOwned {
    /// Name of the table that has such slices.
    const TABLE: &'static str;

    /// What the slice fixes, for messages.
    fn describe(&self) -> String;

    /// Axes with their names, slowest first.
    fn axes(&self) -> Vec<(&'static str, &[u64])>;

    /// Latencies in milliseconds, row-major over the axes; `None` where nothing was measured.
    fn ms(&self) -> &[Option<f64>];
}

/// Matrix multiplications of `m` tokens by a weight of `n` output and `k` input features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GemmSlice {
    /// Number format.
    pub dtype: GemmDtype,
    /// Engine versions the rows were measured with.
    pub sources: Vec<String>,
    /// Tokens.
    pub m: Vec<u64>,
    /// Output features.
    pub n: Vec<u64>,
    /// Input features.
    pub k: Vec<u64>,
    /// Milliseconds over (m, n, k).
    pub ms: Vec<Option<f64>>,
}

/// Causal attention of whole prompts without any cached prefix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefillAttentionSlice {
    /// Number format of the arithmetic.
    pub fmha_dtype: AttentionDtype,
    /// Number format of the KV cache.
    pub kv_dtype: AttentionDtype,
    /// KV heads on this GPU; 0 where they equal the query heads.
    pub kv_heads: u64,
    /// Elements per head.
    pub head_dim: u64,
    /// Tokens that attention looks back over; 0, which files may leave out, for all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub window: u64,
    /// Engine versions the rows were measured with.
    pub sources: Vec<String>,
    /// Query heads on this GPU.
    pub n: Vec<u64>,
    /// Prompt length in tokens.
    pub s: Vec<u64>,
    /// Sequences.
    pub b: Vec<u64>,
    /// Milliseconds over (n, s, b).
    pub ms: Vec<Option<f64>>,
}

/// Attention of one new token per sequence over the KV cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecodeAttentionSlice {
    /// Number format of the KV cache.
    pub kv_dtype: AttentionDtype,
    /// KV heads on this GPU; 0 where they equal the query heads.
    pub kv_heads: u64,
    /// Elements per head.
    pub head_dim: u64,
    /// Tokens that attention looks back over; 0, which files may leave out, for all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub window: u64,
    /// Engine versions the rows were measured with.
    pub sources: Vec<String>,
    /// Query heads on this GPU.
    pub n: Vec<u64>,
    /// Sequences.
    pub b: Vec<u64>,
    /// KV length in tokens, the new one included.
    pub s: Vec<u64>,
    /// Milliseconds over (n, b, s).
    pub ms: Vec<Option<f64>>,
}

/// The routed experts of one layer on one GPU: gate, up and down projection of those it holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoeSlice {
    /// Number format of the weights.
    pub dtype: ExpertDtype,
    /// How tokens were spread over experts, for example `power_law_1.2`.
    pub distribution: String,
    /// Experts that each token is sent to.
    pub topk: u64,
    /// Experts of a layer, over all GPUs.
    pub num_experts: u64,
    /// Width of the residual stream.
    pub hidden_size: u64,
    /// Width of one expert, over all GPUs.
    pub inter_size: u64,
    /// Parts that each expert is cut into.
    pub moe_tp_size: u64,
    /// Groups of GPUs with different experts.
    pub moe_ep_size: u64,
    /// Engine versions the rows were measured with.
    pub sources: Vec<String>,
    /// Tokens of all GPUs together.
    pub num_tokens: Vec<u64>,
    /// Milliseconds over (`num_tokens`).
    pub ms: Vec<Option<f64>>,
}

/// What a collective operation of the NCCL library does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NcclOperation {
    /// Every GPU gets what any of them has.
    AllGather,
    /// Every GPU gets its part of the sum.
    ReduceScatter,
}

impl NcclOperation {
    /// Name in tables and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
        }
    }
}

/// Collective operations of the NCCL library on 16-bit elements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NcclSlice {
    /// What is done.
    pub op: NcclOperation,
    /// GPUs that take part.
    pub gpus: u64,
    /// Library versions the rows were measured with.
    pub sources: Vec<String>,
    /// Elements of all GPUs together (not bytes).
    pub elements: Vec<u64>,
    /// Milliseconds over (elements).
    pub ms: Vec<Option<f64>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// All-reduces of 16-bit elements over the GPUs of one tensor-parallel group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllReduceSlice {
    /// GPUs of the group.
    pub tp: u64,
    /// Engine versions the rows were measured with.
    pub sources: Vec<String>,
    /// Message size in elements (not bytes).
    pub elements: Vec<u64>,
    /// Milliseconds over (elements).
    pub ms: Vec<Option<f64>>,
}

impl TableSlice for GemmSlice {
    const TABLE: &'static str = "gemm";

    fn describe(&self) -> String {
        self.dtype.name().to_owned()
    }

    fn axes(&self) -> Vec<(&'static str, &[u64])> {
        vec![("m", &self.m), ("n", &self.n), ("k", &self.k)]
    }

    fn ms(&self) -> &[Option<f64>] {
        &self.ms
    }
}

impl TableSlice for PrefillAttentionSlice {
    const TABLE: &'static str = "context_attention";

    fn describe(&self) -> String {
        let (fmha, kv) = (self.fmha_dtype.name(), self.kv_dtype.name());
        let heads = kv_heads_name(self.kv_heads);
        let window = window_name(self.window);
        format!("{fmha}, {kv} kv, head_dim {}, kv heads {heads}{window}", self.head_dim)
    }

    fn axes(&self) -> Vec<(&'static str, &[u64])> {
        vec![("n", &self.n), ("s", &self.s), ("b", &self.b)]
    }

    fn ms(&self) -> &[Option<f64>] {
        &self.ms
    }
}

impl TableSlice for DecodeAttentionSlice {
    const TABLE: &'static str = "generation_attention";

    fn describe(&self) -> String {
        let heads = kv_heads_name(self.kv_heads);
        let window = window_name(self.window);
        format!(
            "{} kv, head_dim {}, kv heads {heads}{window}",
            self.kv_dtype.name(),
            self.head_dim
        )
    }

    fn axes(&self) -> Vec<(&'static str, &[u64])> {
        vec![("n", &self.n), ("b", &self.b), ("s", &self.s)]
    }

    fn ms(&self) -> &[Option<f64>] {
        &self.ms
    }
}

impl TableSlice for MoeSlice {
    const TABLE: &'static str = "moe";

    fn describe(&self) -> String {
        format!(
            "{}, {}, {} of {} experts, hidden size {}, width {}, moe_tp {}, moe_ep {}",
            self.dtype.name(),
            self.distribution,
            self.topk,
            self.num_experts,
            self.hidden_size,
            self.inter_size,
            self.moe_tp_size,
            self.moe_ep_size
        )
    }

    fn axes(&self) -> Vec<(&'static str, &[u64])> {
        vec![("num_tokens", &self.num_tokens)]
    }

    fn ms(&self) -> &[Option<f64>] {
        &self.ms
    }
}

impl TableSlice for NcclSlice {
    const TABLE: &'static str = "nccl";

    fn describe(&self) -> String {
        format!("{} over {} GPUs", self.op.name(), self.gpus)
    }

    fn axes(&self) -> Vec<(&'static str, &[u64])> {
        vec![("elements", &self.elements)]
    }

    fn ms(&self) -> &[Option<f64>] {
        &self.ms
    }
}

impl TableSlice for AllReduceSlice {
    const TABLE: &'static str = "custom_allreduce";

    fn describe(&self) -> String {
        format!("tp {}", self.tp)
    }

    fn axes(&self) -> Vec<(&'static str, &[u64])> {
        vec![("elements", &self.elements)]
    }

    fn ms(&self) -> &[Option<f64>] {
        &self.ms
    }
}

/// How messages name the KV heads of an attention slice.
pub(crate) fn kv_heads_name(kv_heads: u64) -> String {
    match kv_heads {
        0 => "as query heads".to_owned(),
        _ => kv_heads.to_string(),
    }
}

/// How messages name the window of an attention slice; nothing if there is none.
pub(crate) fn window_name(window: u64) -> String {
    match window {
        0 => String::new(),
        _ => format!(", window {window}"),
    }
}

/// What a table has to be about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableIdentity<'a> {
    pub(crate) system: &'a str,
    pub(crate) engine: Backend,
    pub(crate) engine_version: &'a str,
}

impl<S: TableSlice> TableFile<S> {
    /// Reads and checks the text of a table; `path` is for messages.
    pub(crate) fn parse(text: &str, path: &str, identity: TableIdentity<'_>) -> Result<Self, TimingError> {
        if text.starts_with(LFS_POINTER) {
            return Err(TimingError::LfsPointer { path: path.to_owned() });
        }
        let table: Self = serde_json::from_str(text).map_err(|source| TimingError::MalformedTable {
            path: path.to_owned(),
            source,
        })?;
        match table.first_flaw(identity) {
            None => Ok(table),
            Some(flaw) => Err(TimingError::InvalidTable {
                path: path.to_owned(),
                flaw,
            }),
        }
    }

    fn first_flaw(&self, identity: TableIdentity<'_>) -> Option<String> {
        let differs = |what, found: &str, expected: &str| {
            (found != expected).then(|| format!("{what} is `{found}`, `{expected}` was expected"))
        };
        differs("table", &self.table, S::TABLE)
            .or_else(|| differs("system", &self.system, identity.system))
            .or_else(|| differs("engine", engine_name(self.engine), engine_name(identity.engine)))
            .or_else(|| differs("engine_version", &self.engine_version, identity.engine_version))
            .or_else(|| differs("unit", &self.unit, TABLE_UNIT))
            .or_else(|| self.slices.iter().find_map(slice_flaw))
    }
}

/// Name of an engine in paths, specs and tables.
pub(crate) const fn engine_name(backend: Backend) -> &'static str {
    match backend {
        Backend::Vllm => "vllm",
        Backend::Sglang => "sglang",
    }
}

fn slice_flaw<S: TableSlice>(slice: &S) -> Option<String> {
    let flaw = |text: String| Some(format!("slice `{}`: {text}", slice.describe()));
    let axes = slice.axes();
    for (name, keys) in &axes {
        if keys.is_empty() {
            return flaw(format!("axis `{name}` is empty"));
        }
        if !keys.is_sorted_by(|a, b| a < b) {
            return flaw(format!("axis `{name}` is not strictly ascending"));
        }
    }
    let cells: usize = axes.iter().map(|(_, keys)| keys.len()).product();
    if slice.ms().len() != cells {
        return flaw(format!(
            "`ms` has {} entries, its axes ask for {cells}",
            slice.ms().len()
        ));
    }
    let impossible = |ms: &f64| !ms.is_finite() || *ms <= 0.0;
    if let Some((index, ms)) = (slice.ms().iter().enumerate()).find_map(|(i, ms)| Some(i).zip(ms.filter(impossible))) {
        return flaw(format!("entry {index} of `ms` is {ms}, latencies are positive"));
    }
    None
}
