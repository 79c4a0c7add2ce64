//! What an engine is and how it is set up, with every default filled in.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::BlockSize;

/// Family of serving engines whose scheduler is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// vLLM-style: block-granular pool, running requests first, chunked prefill.
    Vllm,
    /// SGLang-style: token-granular pool, radix cache, prefill batches before decode.
    Sglang,
}

/// Named set of engine rules; see `EngineRules` in `dynosim-core` for what they change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Rules {
    /// What the real vLLM V1 engine does with asynchronous scheduling: one fused pass per step, scheduled one
    /// step ahead.
    #[default]
    #[serde(rename = "vllm-v1-async")]
    VllmV1Async,
    /// What the real vLLM V1 engine does, step after step, with prompts and generated tokens priced apart.
    #[serde(rename = "vllm-v1")]
    VllmV1,
    /// Parity with the DynoSim released in ai-dynamo 1.2.1.
    #[serde(rename = "dynosim-1.2")]
    Dynosim12,
}

/// Which part of a request's life a worker serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerRole {
    /// Prompt and output.
    #[default]
    Aggregated,
    /// The prompt only.
    Prefill,
    /// The output only; the prompt's KV arrives from a prefill worker.
    Decode,
}

impl fmt::Display for WorkerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aggregated => "aggregated",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        })
    }
}

/// Which running request gives way when KV blocks run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PreemptionMode {
    /// The one admitted last.
    #[default]
    Lifo,
    /// The one admitted first.
    Fifo,
}

/// Order in which waiting requests are served by the SGLang-style scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchedulePolicy {
    /// First come, first served.
    #[default]
    Fifo,
    /// Longest cached prefix first, while at most 128 requests wait.
    Lpm,
}

/// Order in which a KV router serves its own queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueuePolicy {
    /// First come, first served.
    #[default]
    Fcfs,
    /// Last come, first served.
    Lcfs,
    /// Fewest uncached prompt tokens first.
    Wspt,
}

/// Settings of one worker of a pool with every default filled in (`EngineArgs::resolve`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EngineConfig {
    /// Scheduler family.
    pub backend: Backend,
    /// Part of a request's life that the worker serves.
    pub role: WorkerRole,
    /// Tokens per KV block (SGLang: per page).
    pub block_size: BlockSize,
    /// KV blocks of the pool as pinned by the user; `None` asks for an estimate.
    pub num_gpu_blocks: Option<u32>,
    /// Whether full blocks stay reusable by later requests.
    pub enable_prefix_caching: bool,
    /// Requests that may run at once; `None` is unlimited.
    pub max_num_seqs: Option<u32>,
    /// Token budget of a step; `None` is unlimited.
    pub max_num_batched_tokens: Option<u32>,
    /// Whether a prompt may be computed over several steps.
    pub enable_chunked_prefill: bool,
    /// Victim of a preemption.
    pub preemption_mode: PreemptionMode,
    /// Divides every step time; 0 means not scaled.
    pub speedup_ratio: f64,
    /// Divides decode times in addition; 0 means not scaled.
    pub decode_speedup_ratio: f64,
    /// KV bytes of one token, for the transfer between pools.
    pub kv_bytes_per_token: Option<u64>,
    /// Bandwidth of that transfer in GB/s (1e9 bytes per second).
    pub kv_transfer_bandwidth: Option<f64>,
    /// Share of GPU memory the engine may use (vLLM `gpu_memory_utilization`, SGLang `mem_fraction_static`).
    pub memory_fraction: f64,
    /// Queue order of this pool's KV router; overrides the router's own.
    pub router_queue_policy: Option<QueuePolicy>,
    /// Settings that only the SGLang-style scheduler reads.
    pub sglang: SglangConfig,
}

/// Settings of the SGLang-style scheduler with every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SglangConfig {
    /// Order of the waiting queue.
    pub schedule_policy: SchedulePolicy,
    /// Tokens that one prefill batch may take.
    pub max_prefill_tokens: u32,
    /// Tokens of one chunk of a prompt.
    pub chunked_prefill_size: u32,
    /// Most output tokens reserved per request at admission.
    pub clip_max_new_tokens: u32,
    /// How much output room is reserved, 0 to 1.
    pub schedule_conservativeness: f64,
}

impl Default for SglangConfig {
    fn default() -> Self {
        Self {
            schedule_policy: SchedulePolicy::Fifo,
            max_prefill_tokens: 16_384,
            chunked_prefill_size: 8192,
            clip_max_new_tokens: 4096,
            schedule_conservativeness: 1.0,
        }
    }
}
