//! What engines are told on their command lines, with nothing left to defaults that change between versions.

use std::fmt;

use dynosim_spec::{Backend, SchedulePolicy, SglangConfig, WorkerRole};

use super::shell;
use super::worker_pool::WorkerPool;

/// Port at which vLLM workers of Dynamo publish what they have cached.
const VLLM_EVENTS: &str =
    r#"{"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:20080","enable_kv_cache_events":true}"#;
/// The same for SGLang.
const SGLANG_EVENTS: &str = r#"{"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:5557"}"#;
/// How vLLM workers hand over the KV entries of prompts.
const NIXL: &str = r#"{"kv_connector":"NixlConnector","kv_role":"kv_both"}"#;

/// An option, with its value if it takes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flag {
    name: &'static str,
    value: Option<String>,
}

impl Flag {
    pub(super) fn switch(name: &'static str) -> Self {
        Self { name, value: None }
    }

    pub(super) fn new(name: &'static str, value: impl fmt::Display + Copy) -> Self {
        Self {
            name,
            value: Some(value.to_string()),
        }
    }

    /// As arguments of a process.
    pub(super) fn args(&self) -> impl Iterator<Item = String> + use<> {
        [Some(self.name.to_owned()), self.value.clone()].into_iter().flatten()
    }

    /// As words of a shell.
    pub(super) fn words(&self) -> String {
        match &self.value {
            None => self.name.to_owned(),
            Some(value) => format!("{} {}", self.name, shell::word(value)),
        }
    }
}

/// What an engine is told about its scheduler, its KV cache and its GPUs, under Dynamo and without it.
pub(super) fn engine_flags(pool: &WorkerPool) -> Vec<Flag> {
    match pool.config.backend {
        Backend::Vllm => vllm_flags(pool),
        Backend::Sglang => sglang_flags(pool),
    }
}

fn vllm_flags(pool: &WorkerPool) -> Vec<Flag> {
    let config = &pool.config;
    // Limits of a worker are shared by its groups, each of which is an engine of its own.
    let groups = pool.shape.attention_dp;
    let mut flags = vec![Flag::new("--tensor-parallel-size", pool.shape.tp)];
    if groups > 1 {
        flags.push(Flag::new("--data-parallel-size", groups));
    }
    if pool.shape.moe_ep.unwrap_or(1) > 1 {
        flags.push(Flag::switch("--enable-expert-parallel"));
    }
    flags.extend([
        Flag::new("--block-size", config.block_size.tokens()),
        Flag::new(
            "--max-num-seqs",
            pool.running_limit().unwrap_or(pool.most_in_flight).div_ceil(groups),
        ),
    ]);
    let budget = config.max_num_batched_tokens.map(|tokens| tokens.div_ceil(groups));
    flags.extend(budget.map(|tokens| Flag::new("--max-num-batched-tokens", tokens)));
    flags.extend([
        Flag::new("--max-model-len", pool.max_model_len),
        Flag::new("--gpu-memory-utilization", config.memory_fraction),
        Flag::new("--kv-cache-dtype", if pool.fp8_kv { "fp8" } else { "auto" }),
        Flag::switch(if config.enable_prefix_caching {
            "--enable-prefix-caching"
        } else {
            "--no-enable-prefix-caching"
        }),
        Flag::switch(if config.enable_chunked_prefill {
            "--enable-chunked-prefill"
        } else {
            "--no-enable-chunked-prefill"
        }),
    ]);
    let blocks = config.num_gpu_blocks.map(|blocks| (blocks / groups).max(1));
    flags.extend(blocks.map(|blocks| Flag::new("--num-gpu-blocks-override", blocks)));
    flags
}

fn sglang_flags(pool: &WorkerPool) -> Vec<Flag> {
    let config = &pool.config;
    let SglangConfig {
        schedule_policy,
        max_prefill_tokens,
        chunked_prefill_size,
        schedule_conservativeness,
        ..
    } = config.sglang;
    let page = config.block_size.tokens();
    let mut flags = vec![
        Flag::new("--tp-size", pool.shape.tp),
        Flag::new("--page-size", page),
        Flag::new(
            "--max-running-requests",
            pool.running_limit().unwrap_or(pool.most_in_flight),
        ),
        Flag::new("--max-prefill-tokens", max_prefill_tokens),
        Flag::new("--chunked-prefill-size", chunked_prefill_size),
        Flag::new("--context-length", pool.max_model_len),
        Flag::new("--mem-fraction-static", config.memory_fraction),
        Flag::new("--kv-cache-dtype", if pool.fp8_kv { "fp8_e4m3" } else { "auto" }),
        Flag::new(
            "--schedule-policy",
            match schedule_policy {
                SchedulePolicy::Fifo => "fcfs",
                SchedulePolicy::Lpm => "lpm",
            },
        ),
        Flag::new("--schedule-conservativeness", schedule_conservativeness),
    ];
    let tokens = config.num_gpu_blocks.map(|blocks| u64::from(blocks) * u64::from(page));
    flags.extend(tokens.map(|tokens| Flag::new("--max-total-tokens", tokens)));
    match (pool.role, config.enable_prefix_caching) {
        (WorkerRole::Decode, true) => flags.push(Flag::switch("--disaggregation-decode-enable-radix-cache")),
        // Decode workers have none unless asked.
        (WorkerRole::Decode, false) | (_, true) => {}
        (_, false) => flags.push(Flag::switch("--disable-radix-cache")),
    }
    flags
}

/// How workers of either role find each other's KV entries, without Dynamo.
pub(super) fn transfer_flags(pool: &WorkerPool, bootstrap_port: u32) -> Vec<Flag> {
    let mode = match pool.role {
        WorkerRole::Aggregated => return Vec::new(),
        role => role.to_string(),
    };
    match pool.config.backend {
        Backend::Vllm => vec![Flag::new("--kv-transfer-config", NIXL)],
        Backend::Sglang => {
            let mut flags = vec![
                Flag::new("--disaggregation-mode", &mode),
                Flag::new("--disaggregation-transfer-backend", "nixl"),
            ];
            if pool.role == WorkerRole::Prefill {
                flags.push(Flag::new("--disaggregation-bootstrap-port", bootstrap_port));
            }
            flags
        }
    }
}

/// What a worker under Dynamo is told besides: its part, and whether it publishes what it has cached.
pub(super) fn dynamo_flags(pool: &WorkerPool, version: super::DynamoVersion, kv_router: bool) -> Vec<Flag> {
    let mut flags = match pool.config.backend {
        Backend::Vllm => vllm_role_flags(pool.role, version),
        Backend::Sglang => sglang_role_flags(pool.role),
    };
    // Until 0.9 workers publish unasked.
    if kv_router && pool.has_kv_events() && version.since(1, 0) {
        let events = match pool.config.backend {
            Backend::Vllm => VLLM_EVENTS,
            Backend::Sglang => SGLANG_EVENTS,
        };
        flags.push(Flag::new("--kv-events-config", events));
    }
    flags
}

fn vllm_role_flags(role: WorkerRole, version: super::DynamoVersion) -> Vec<Flag> {
    if role == WorkerRole::Aggregated {
        return Vec::new();
    }
    if version.since(1, 0) {
        return vec![
            Flag::new("--disaggregation-mode", role),
            Flag::new("--kv-transfer-config", NIXL),
        ];
    }
    let mut flags = match role {
        WorkerRole::Prefill => vec![Flag::switch("--is-prefill-worker")],
        // Before 0.7 a worker that is not for prefill is for decode.
        WorkerRole::Decode if version.since(0, 7) => vec![Flag::switch("--is-decode-worker")],
        WorkerRole::Decode | WorkerRole::Aggregated => Vec::new(),
    };
    flags.push(Flag::new("--connector", "nixl"));
    flags
}

fn sglang_role_flags(role: WorkerRole) -> Vec<Flag> {
    if role == WorkerRole::Aggregated {
        return Vec::new();
    }
    vec![
        Flag::new("--disaggregation-mode", role),
        Flag::new("--disaggregation-transfer-backend", "nixl"),
        Flag::new("--disaggregation-bootstrap-port", 12_345),
        Flag::new("--host", "0.0.0.0"),
    ]
}
