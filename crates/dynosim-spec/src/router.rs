//! How requests are spread over workers.

use serde::{Deserialize, Serialize};

use crate::engine::QueuePolicy;

/// Routing strategy of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouterMode {
    /// Workers in turn.
    #[default]
    RoundRobin,
    /// The worker with the least uncached prompt work and the fewest active blocks.
    KvRouter,
}

/// Settings of a pool's router with every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RouterSettings {
    /// Strategy.
    pub mode: RouterMode,
    /// Share of each cached prefix block that is subtracted from the prefill load.
    pub overlap_score_credit: f64,
    /// Weight of the prefill load against active blocks.
    pub prefill_load_scale: f64,
    /// 0 picks the cheapest worker; above 0 draws from a softmax over range-normalised costs.
    pub router_temperature: f64,
    /// Prefill tokens booked per token of step budget beyond which a worker counts as busy; `None` never queues.
    pub router_queue_threshold: Option<f64>,
    /// Order of the router's queue.
    pub router_queue_policy: QueuePolicy,
    /// Whether resident prompt blocks of running requests count towards the cost.
    pub router_track_active_blocks: bool,
    /// Whether running requests are assumed to share equal prompt blocks.
    pub router_assume_kv_reuse: bool,
    /// Whether prompt tokens not yet computed count towards the cost.
    pub router_track_prefill_tokens: bool,
}

impl Default for RouterSettings {
    fn default() -> Self {
        Self {
            mode: RouterMode::RoundRobin,
            overlap_score_credit: 1.0,
            prefill_load_scale: 1.0,
            router_temperature: 0.0,
            router_queue_threshold: Some(4.0),
            router_queue_policy: QueuePolicy::Fcfs,
            router_track_active_blocks: true,
            router_assume_kv_reuse: true,
            router_track_prefill_tokens: true,
        }
    }
}
