//! Engine arguments as given in a spec, and what they mean once every default is filled in.

mod fields;

use serde::{Serialize, Serializer};

use crate::engine::{Backend, EngineConfig, PreemptionMode, QueuePolicy, SchedulePolicy, SglangConfig, WorkerRole};
use crate::units::BlockSize;

/// Arguments of the engine of one worker, each of them optional; [`resolve`](Self::resolve) fills the rest in.
///
/// Names and meanings are those of the `MockEngineArgs` of the DynoSim released in ai-dynamo 1.2.1,
/// without the ones that mean nothing to a simulation.
///
/// ```
/// use dynosim_spec::{Backend, EngineArgs, WorkerRole};
///
/// let args = EngineArgs { block_size: Some(512), ..EngineArgs::default() };
/// let config = args.resolve(Backend::Vllm, WorkerRole::Aggregated);
/// assert_eq!(config.block_size.tokens(), 512);
/// assert_eq!(config.max_num_seqs, Some(256));
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct EngineArgs {
    /// Role of the worker; it must be the one that the place in the spec implies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_type: Option<WorkerRole>,
    /// Tokens per KV block, at least 1; 64 for the vLLM-style engine, `sglang.page_size` or 1 for the SGLang-style one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u32>,
    /// KV blocks of the pool, at least 1; absent, they are estimated from model, GPU and memory fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_gpu_blocks: Option<u32>,
    /// Whether full blocks stay reusable by later requests; off for decode workers, else on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_prefix_caching: Option<bool>,
    /// Requests that may run at once; 256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_num_seqs: Option<Limit>,
    /// Token budget of a step; 8192.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_num_batched_tokens: Option<Limit>,
    /// Whether a prompt may be computed over several steps; true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_chunked_prefill: Option<bool>,
    /// Victim of a preemption; the request admitted last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption_mode: Option<PreemptionMode>,
    /// Divides every step time; 1, and 0 means not scaled too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup_ratio: Option<f64>,
    /// Divides decode times in addition; 1, and 0 means not scaled too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode_speedup_ratio: Option<f64>,
    /// KV bytes of one token, for the transfer between pools; absent, the transfer takes no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_bytes_per_token: Option<u64>,
    /// Bandwidth of that transfer in GB/s (1e9 bytes per second); absent, the transfer takes no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_transfer_bandwidth: Option<f64>,
    /// vLLM-style engine: share of GPU memory that it may use, above 0 and at most 1; 0.9.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_memory_utilization: Option<f64>,
    /// SGLang-style engine: share of GPU memory for weights and KV cache, above 0 and at most 1; 0.88.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_fraction_static: Option<f64>,
    /// Queue order of this pool's KV router; the router's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_queue_policy: Option<QueuePolicy>,
    /// Arguments that only the SGLang-style scheduler reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sglang: Option<SglangArgs>,
}

/// Arguments of the SGLang-style scheduler, each of them optional.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SglangArgs {
    /// Order of the waiting queue; first come, first served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_policy: Option<SchedulePolicy>,
    /// Another name of [`EngineArgs::block_size`]; if both are given they must agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u32>,
    /// Tokens that one prefill batch may take; 16384.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_prefill_tokens: Option<u32>,
    /// Tokens of one chunk of a prompt, a multiple of the block size; 8192.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunked_prefill_size: Option<u32>,
    /// Most output tokens reserved per request at admission; 4096.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip_max_new_tokens: Option<u32>,
    /// How much output room is reserved, 0 to 1; 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_conservativeness: Option<f64>,
}

/// A number of things that may be unlimited, which JSON spells `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// No limit.
    Unlimited,
    /// At most this many, at least 1.
    AtMost(u32),
}

impl Limit {
    /// The limit as a number, `None` if there is none.
    pub const fn get(self) -> Option<u32> {
        match self {
            Self::Unlimited => None,
            Self::AtMost(most) => Some(most),
        }
    }
}

impl From<u32> for Limit {
    fn from(most: u32) -> Self {
        Self::AtMost(most)
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

impl EngineArgs {
    /// The settings of a worker of this role, every default filled in.
    ///
    /// The arguments are taken as valid (reading a spec and `validate` check them); a block size of
    /// 0, which they refuse, counts as absent. `worker_type` does not matter here, `role` does.
    pub fn resolve(&self, backend: Backend, role: WorkerRole) -> EngineConfig {
        let memory_fraction = match backend {
            Backend::Vllm => self.gpu_memory_utilization.unwrap_or(0.9),
            Backend::Sglang => self.mem_fraction_static.unwrap_or(0.88),
        };
        EngineConfig {
            backend,
            role,
            block_size: self.resolved_block_size(backend),
            num_gpu_blocks: self.num_gpu_blocks,
            enable_prefix_caching: self.enable_prefix_caching.unwrap_or(role != WorkerRole::Decode),
            max_num_seqs: self.max_num_seqs.unwrap_or(Limit::AtMost(256)).get(),
            max_num_batched_tokens: self.max_num_batched_tokens.unwrap_or(Limit::AtMost(8192)).get(),
            enable_chunked_prefill: self.enable_chunked_prefill.unwrap_or(true),
            preemption_mode: self.preemption_mode.unwrap_or_default(),
            speedup_ratio: self.speedup_ratio.unwrap_or(1.0),
            decode_speedup_ratio: self.decode_speedup_ratio.unwrap_or(1.0),
            kv_bytes_per_token: self.kv_bytes_per_token,
            kv_transfer_bandwidth: self.kv_transfer_bandwidth,
            memory_fraction,
            router_queue_policy: self.router_queue_policy,
            sglang: self
                .sglang
                .as_ref()
                .map_or_else(SglangConfig::default, SglangArgs::resolve),
        }
    }

    /// The arguments given for the KV transfer, each with its value.
    pub(crate) fn transfer_keys(&self) -> impl Iterator<Item = (&'static str, String)> {
        [
            (
                "kv_bytes_per_token",
                self.kv_bytes_per_token.map(|bytes| bytes.to_string()),
            ),
            (
                "kv_transfer_bandwidth",
                self.kv_transfer_bandwidth.map(|rate| rate.to_string()),
            ),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
    }

    /// Tokens per block with the default of the backend filled in.
    pub(crate) fn resolved_block_size(&self, backend: Backend) -> BlockSize {
        let (page_size, default) = match backend {
            Backend::Vllm => (None, BlockSize::VLLM_DEFAULT),
            Backend::Sglang => (self.sglang.as_ref().and_then(|args| args.page_size), BlockSize::ONE),
        };
        self.block_size
            .and_then(BlockSize::new)
            .or_else(|| page_size.and_then(BlockSize::new))
            .unwrap_or(default)
    }
}

impl SglangArgs {
    /// The settings with every default filled in.
    fn resolve(&self) -> SglangConfig {
        let default = SglangConfig::default();
        SglangConfig {
            schedule_policy: self.schedule_policy.unwrap_or(default.schedule_policy),
            max_prefill_tokens: self.max_prefill_tokens.unwrap_or(default.max_prefill_tokens),
            chunked_prefill_size: self.chunked_prefill_size.unwrap_or(default.chunked_prefill_size),
            clip_max_new_tokens: self.clip_max_new_tokens.unwrap_or(default.clip_max_new_tokens),
            schedule_conservativeness: self
                .schedule_conservativeness
                .unwrap_or(default.schedule_conservativeness),
        }
    }
}
