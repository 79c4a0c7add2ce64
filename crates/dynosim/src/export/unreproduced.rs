//! What was simulated and real engines cannot be told, and what real engines do and was not simulated.

use dynosim_spec::{Backend, ModelSpec, PreemptionMode, Rules, RunSpec, SglangConfig, StepTerm, WorkerRole};

use super::worker_pool::{TEMPLATE_TOKENS, WorkerPool};
use crate::question::kv_transfer;

/// Sizes of blocks that vLLM's attention kernels have.
const VLLM_BLOCK_SIZES: [u32; 4] = [16, 32, 64, 128];

/// What holds for a deployment by Dynamo and for one without it.
pub(super) fn unreproduced(spec: &RunSpec, pools: &[WorkerPool]) -> Vec<String> {
    let mut notes = Vec::new();
    about_simulation(spec, &mut notes);
    for pool in pools {
        about_pool(pool, &mut notes);
    }
    if pools.iter().any(|pool| pool.role == WorkerRole::Prefill) {
        notes.push(format!(
            "KV transfer was simulated as {}; here it takes as long as NIXL takes",
            kv_transfer(&spec.engine)
        ));
    }
    about_prompts(&pools[0], &mut notes);
    notes
}

fn about_simulation(spec: &RunSpec, notes: &mut Vec<String>) {
    if !ModelSpec::bundled_names().contains(&spec.engine.model) {
        notes.push(format!(
            "engine.model {} is not a name of `dynosim models`; make sure that it leads to the weights where engines run",
            spec.engine.model
        ));
    }
    if spec.engine.backend == Backend::Vllm && spec.engine.rules != Rules::VllmV1Async {
        notes.push(
            "engine.rules were not vllm-v1-async: today's vLLM schedules one step ahead and has one pass per step"
                .to_owned(),
        );
    }
    if !spec.timing.without.is_empty() {
        let terms: Vec<String> = spec.timing.without.iter().map(StepTerm::to_string).collect();
        notes.push(format!(
            "steps were simulated without {}, which engines do not leave out",
            terms.join(", ")
        ));
    }
}

fn about_pool(pool: &WorkerPool, notes: &mut Vec<String>) {
    let (config, role) = (&pool.config, pool.role);
    let mut note = |text: String| notes.push(format!("{role} workers: {text}"));
    for (name, ratio) in [
        ("speedup_ratio", config.speedup_ratio),
        ("decode_speedup_ratio", config.decode_speedup_ratio),
    ] {
        if ratio > 0.0 && (ratio - 1.0).abs() > f64::EPSILON {
            note(format!(
                "{name} {ratio} was simulated, and GPUs are as fast as they are"
            ));
        }
    }
    let groups = pool.shape.attention_dp;
    if groups > 1 {
        note(format!(
            "limits and KV blocks of a worker are divided by its {groups} groups, each of which schedules alone here; \
             they were simulated as one engine"
        ));
    }
    if pool.running_limit().is_none() {
        let most = pool.most_in_flight;
        note(format!(
            "the number of running requests was not limited in the simulation; the limit written here is {most}, as many as \
             there may be at once"
        ));
    }
    match config.backend {
        Backend::Vllm => {
            if config.preemption_mode == PreemptionMode::Fifo {
                note("preemption_mode fifo was simulated; vLLM preempts the request that came last".to_owned());
            }
            let block = config.block_size.tokens();
            if !VLLM_BLOCK_SIZES.contains(&block) {
                note(format!(
                    "block_size {block} may be refused by vLLM, whose kernels have 16, 32, 64 and 128"
                ));
            }
        }
        Backend::Sglang => {
            let clip = config.sglang.clip_max_new_tokens;
            if clip != SglangConfig::default().clip_max_new_tokens {
                note(format!(
                    "sglang.clip_max_new_tokens {clip} was simulated; SGLang has no option for it"
                ));
            }
        }
    }
}

fn about_prompts(pool: &WorkerPool, notes: &mut Vec<String>) {
    if pool.beyond_context {
        notes.push(format!(
            "the longest request has {} tokens, more than the model was made for; engines may refuse it",
            pool.max_model_len
        ));
    }
    notes.push(format!(
        "a chat template adds tokens to each prompt, which were not simulated; engines are given room for {TEMPLATE_TOKENS}"
    ));
    notes.push(
        "engines were simulated warm with empty caches: restart them, or empty their caches, before each benchmark"
            .to_owned(),
    );
}
