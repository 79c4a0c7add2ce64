//! Requests that can never run, found before the run begins.

use dynosim_spec::{Backend, EngineConfig, RequestId, WorkerRole, Workload};

use crate::metrics::Rejection;
use crate::rules::{DecodeIntake, EngineRules};

/// What decides whether a request can ever run on the workers of a pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room<'a> {
    pub(crate) config: &'a EngineConfig,
    pub(crate) num_gpu_blocks: u32,
    pub(crate) rules: EngineRules,
}

/// All requests that can never run on these pools, with the reason, in request order.
pub(crate) fn rejections(workload: &Workload, pools: &[Room<'_>]) -> Vec<Rejection> {
    let mut rejections: Vec<Rejection> = Vec::new();
    for (index, request) in (0..).zip(workload.requests()) {
        let id = RequestId::new(index);
        let earlier_turn = rejections.last().filter(|last| last.session == request.session);
        let reason = match earlier_turn {
            Some(earlier) => Some(format!("turn {} of its session is rejected", earlier.turn)),
            None => reason(workload, id, pools),
        };
        if let Some(reason) = reason {
            rejections.push(Rejection {
                request: index,
                session: request.session,
                turn: request.turn,
                reason,
            });
        }
    }
    rejections
}

fn reason(workload: &Workload, id: RequestId, pools: &[Room<'_>]) -> Option<String> {
    let request = workload.request(id);
    if request.output_tokens == 0 {
        return Some("its output length is 0".to_owned());
    }
    pools.iter().find_map(|pool| {
        let output_tokens = output_tokens_on(pool.config.role, request.output_tokens);
        too_large(pool, request.input_tokens, output_tokens).or_else(|| unchunkable(pool, request.input_tokens))
    })
}

/// Tokens that a request generates on a worker of this role.
pub(crate) fn output_tokens_on(role: WorkerRole, output_tokens: u32) -> u32 {
    match role {
        WorkerRole::Prefill => 1,
        WorkerRole::Aggregated | WorkerRole::Decode => output_tokens,
    }
}

fn too_large(pool: &Room<'_>, input_tokens: u32, output_tokens: u32) -> Option<String> {
    let tokens = pool.rules.resident_tokens(input_tokens, output_tokens);
    let block_size = pool.config.block_size;
    let blocks = tokens.div_ceil(u64::from(block_size.tokens()));
    (blocks > u64::from(pool.num_gpu_blocks)).then(|| {
        format!(
            "it needs {blocks} KV blocks of {block_size} tokens ({tokens} tokens), but a worker of the {} pool has {}",
            pool.config.role, pool.num_gpu_blocks
        )
    })
}

fn unchunkable(pool: &Room<'_>, input_tokens: u32) -> Option<String> {
    let arrives_complete = pool.config.role == WorkerRole::Decode && pool.rules.decode_intake == DecodeIntake::Whole;
    if pool.config.backend == Backend::Sglang || pool.config.enable_chunked_prefill || arrives_complete {
        return None;
    }
    let budget = pool.config.max_num_batched_tokens?;
    (input_tokens > budget).then(|| {
        format!(
            "its prompt of {input_tokens} tokens exceeds max_num_batched_tokens {budget} of the {} pool, and \
             chunked prefill is off",
            pool.config.role
        )
    })
}
