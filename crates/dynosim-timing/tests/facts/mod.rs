//! Models, the GPU and deployments that the tests use. Sources: public `config.json` files and the
//! GPU's data sheet.

use std::sync::Arc;

use dynosim_spec::{
    Backend, BlockSize, Deployment, EngineConfig, GpuSpec, ModelSpec, MoeSpec, ParallelShape, PreemptionMode,
    SchedulePolicy, SglangConfig, SlidingWindow, WeightFormat, WorkerRole,
};

pub(crate) fn h200_sxm() -> GpuSpec {
    GpuSpec {
        name: "h200_sxm".to_owned(),
        memory_bandwidth: 4.8e12,
        memory_bytes: 151_397_597_184,
        bf16_flops: 989e12,
        fp8_flops: Some(1978e12),
        intra_node_bandwidth: 450e9,
        inter_node_bandwidth: 50e9,
        gpus_per_node: 8,
        multiprocessors: 132,
    }
}

pub(crate) fn model(name: &str) -> ModelSpec {
    let llama = |layers, hidden_size, intermediate_size, attention_heads| ModelSpec {
        name: name.to_owned(),
        layers,
        hidden_size,
        intermediate_size,
        attention_heads,
        kv_heads: 8,
        head_dim: 128,
        vocab_size: 128_256,
        context_length: Some(131_072),
        qk_norm: false,
        weights: WeightFormat::Bfloat16,
        moe: None,
        sliding_window: None,
    };
    let qwen3 = |layers, hidden_size, intermediate_size, attention_heads, weights| ModelSpec {
        vocab_size: 151_936,
        context_length: Some(40_960),
        qk_norm: true,
        weights,
        ..llama(layers, hidden_size, intermediate_size, attention_heads)
    };
    let experts = |experts, top_k, intermediate_size| {
        Some(MoeSpec {
            experts,
            top_k,
            intermediate_size,
        })
    };
    match name {
        "Qwen/Qwen3-30B-A3B" => ModelSpec {
            kv_heads: 4,
            moe: experts(128, 8, 768),
            ..qwen3(48, 2048, 6144, 32, WeightFormat::Bfloat16)
        },
        "Qwen/Qwen3-235B-A22B" => ModelSpec {
            kv_heads: 4,
            moe: experts(128, 8, 1536),
            ..qwen3(94, 4096, 12_288, 64, WeightFormat::Bfloat16)
        },
        "openai/gpt-oss-120b" => ModelSpec {
            head_dim: 64,
            vocab_size: 201_088,
            weights: WeightFormat::Mxfp4Experts,
            moe: experts(128, 4, 2880),
            sliding_window: Some(SlidingWindow {
                tokens: 128,
                layers: 18,
            }),
            ..llama(36, 2880, 2880, 64)
        },
        "Qwen/Qwen3-32B" => qwen3(64, 5120, 25_600, 64, WeightFormat::Bfloat16),
        "Qwen/Qwen3-32B-FP8" => qwen3(64, 5120, 25_600, 64, WeightFormat::Fp8Block),
        "Qwen/Qwen3-8B" => qwen3(36, 4096, 12_288, 32, WeightFormat::Bfloat16),
        "meta-llama/Meta-Llama-3.1-8B" => llama(32, 4096, 14_336, 32),
        "meta-llama/Meta-Llama-3.1-70B" => llama(80, 8192, 28_672, 64),
        "nvidia/Llama-3.3-70B-Instruct-FP8" => ModelSpec {
            weights: WeightFormat::Fp8PerTensor,
            ..llama(80, 8192, 28_672, 64)
        },
        _ => panic!("no facts about {name}"),
    }
}

/// Engine defaults with the memory fraction of the backend.
pub(crate) fn deployment(model: ModelSpec, tp: u32, backend: Backend) -> Deployment {
    Deployment {
        model_name: model.name.clone(),
        model: Some(Arc::new(model)),
        gpu: Arc::new(h200_sxm()),
        shape: ParallelShape::tensor(tp),
        physics: None,
        engine: EngineConfig {
            backend,
            role: WorkerRole::Aggregated,
            block_size: BlockSize::new(64).expect("not zero"),
            num_gpu_blocks: None,
            enable_prefix_caching: true,
            max_num_seqs: Some(256),
            max_num_batched_tokens: Some(8192),
            enable_chunked_prefill: true,
            preemption_mode: PreemptionMode::Lifo,
            speedup_ratio: 1.0,
            decode_speedup_ratio: 1.0,
            kv_bytes_per_token: None,
            kv_transfer_bandwidth: None,
            memory_fraction: match backend {
                Backend::Vllm => 0.9,
                Backend::Sglang => 0.88,
            },
            router_queue_policy: None,
            sglang: SglangConfig {
                schedule_policy: SchedulePolicy::Fifo,
                max_prefill_tokens: 16_384,
                chunked_prefill_size: 8192,
                clip_max_new_tokens: 4096,
                schedule_conservativeness: 1.0,
            },
        },
    }
}
