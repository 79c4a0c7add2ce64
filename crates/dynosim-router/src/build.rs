//! From settings to a router.

use std::borrow::Cow;

use dynosim_spec::{RouterMode, RouterSettings, WorkerRole};

use crate::kv_overlap::KvOverlap;
use crate::pool::Pool;
use crate::round_robin::RoundRobin;
use crate::router::Router;

/// The router of a pool.
///
/// In a disaggregated deployment a KV router does half the work in each pool. Prefill
/// workers do not keep their blocks, so that pool counts prompt tokens and cached prefixes only. Decode workers
/// receive prompts computed, so that pool counts blocks only, each request's as its own. The `settings` are those of
/// the deployment; what the pool's role rules out is changed here.
///
/// Random choices depend on `seed` and the role, so the pools of a deployment may be given the same seed.
///
/// # Panics
/// If the pool has no workers.
pub fn build(settings: &RouterSettings, pool: Pool, seed: u64) -> Box<dyn Router> {
    match settings.mode {
        RouterMode::RoundRobin => Box::new(RoundRobin::new(pool.workers)),
        RouterMode::KvRouter => Box::new(KvOverlap::new(&settings_for_role(settings, pool.role), pool, seed)),
    }
}

fn settings_for_role(settings: &RouterSettings, role: WorkerRole) -> Cow<'_, RouterSettings> {
    match role {
        WorkerRole::Aggregated => Cow::Borrowed(settings),
        WorkerRole::Prefill => Cow::Owned(RouterSettings {
            router_track_active_blocks: false,
            ..settings.clone()
        }),
        WorkerRole::Decode => Cow::Owned(RouterSettings {
            overlap_score_credit: 0.0,
            router_assume_kv_reuse: false,
            router_track_prefill_tokens: false,
            ..settings.clone()
        }),
    }
}
