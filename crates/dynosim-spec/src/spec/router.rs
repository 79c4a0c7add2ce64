//! How a spec asks for a router.

use serde::{Deserialize, Serialize};

use crate::engine::QueuePolicy;
use crate::router::{RouterMode, RouterSettings};

/// KV router settings of the `baseConfig` object, in the names of ai-dynamo's `KvRouterConfig`.
///
/// Only those that change a simulation are here. Reading a spec accepts the others, which only
/// matter to a live system, and says in a warning that they are ignored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KvRouterConfig {
    /// Share of each cached prefix block that is subtracted from the prefill load, 0 to 1.
    pub overlap_score_credit: f64,
    /// Weight of the prefill load against active blocks, at least 0.
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

impl KvRouterConfig {
    /// These settings under a routing strategy.
    pub fn settings(&self, mode: RouterMode) -> RouterSettings {
        RouterSettings {
            mode,
            overlap_score_credit: self.overlap_score_credit,
            prefill_load_scale: self.prefill_load_scale,
            router_temperature: self.router_temperature,
            router_queue_threshold: self.router_queue_threshold,
            router_queue_policy: self.router_queue_policy,
            router_track_active_blocks: self.router_track_active_blocks,
            router_assume_kv_reuse: self.router_assume_kv_reuse,
            router_track_prefill_tokens: self.router_track_prefill_tokens,
        }
    }
}

impl Default for KvRouterConfig {
    fn default() -> Self {
        let settings = RouterSettings::default();
        Self {
            overlap_score_credit: settings.overlap_score_credit,
            prefill_load_scale: settings.prefill_load_scale,
            router_temperature: settings.router_temperature,
            router_queue_threshold: settings.router_queue_threshold,
            router_queue_policy: settings.router_queue_policy,
            router_track_active_blocks: settings.router_track_active_blocks,
            router_assume_kv_reuse: settings.router_assume_kv_reuse,
            router_track_prefill_tokens: settings.router_track_prefill_tokens,
        }
    }
}

/// The router of one simulation.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRouterSpec {
    /// Strategy.
    pub mode: RouterMode,
    /// Wins over the one of `base_config`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_score_credit: Option<f64>,
    /// Wins over the one of `base_config`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill_load_scale: Option<f64>,
    /// Seed of the router's streams; absent, the seed of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// All other settings.
    pub base_config: KvRouterConfig,
}

impl RunRouterSpec {
    /// The settings of every pool's router.
    pub fn settings(&self) -> RouterSettings {
        let base = self.base_config.settings(self.mode);
        RouterSettings {
            overlap_score_credit: self.overlap_score_credit.unwrap_or(base.overlap_score_credit),
            prefill_load_scale: self.prefill_load_scale.unwrap_or(base.prefill_load_scale),
            ..base
        }
    }
}

/// The routers that a sweep tries.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SweepRouterSpec {
    /// Strategies to try.
    pub mode: SweepRouterMode,
    /// Overlap credits to try with the KV router, each 0 to 1, at least one.
    pub overlap_credits: Vec<f64>,
    /// Prefill load scales to try with the KV router, each at least 0, at least one.
    pub prefill_load_scales: Vec<f64>,
    /// All other settings; its own credit and scale give way to the lists above.
    pub base_config: KvRouterConfig,
}

impl SweepRouterSpec {
    /// The settings of the routers of one candidate.
    pub fn settings(&self, mode: RouterMode, overlap_score_credit: f64, prefill_load_scale: f64) -> RouterSettings {
        RouterSettings {
            overlap_score_credit,
            prefill_load_scale,
            ..self.base_config.settings(mode)
        }
    }
}

impl Default for SweepRouterSpec {
    fn default() -> Self {
        Self {
            mode: SweepRouterMode::default(),
            overlap_credits: vec![1.0],
            prefill_load_scales: vec![0.0, 0.25, 0.5, 1.0, 2.0, 4.0],
            base_config: KvRouterConfig::default(),
        }
    }
}

/// Routing strategies that a sweep tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SweepRouterMode {
    /// KV routing with every credit and scale.
    #[default]
    KvRouter,
    /// Round robin, which knows neither.
    RoundRobin,
    /// Round robin and KV routing.
    Both,
}
