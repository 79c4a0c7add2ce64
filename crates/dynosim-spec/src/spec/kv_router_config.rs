//! The settings of a KV router under the names that ai-dynamo gives them.

use serde::Serialize;

use super::router::{CREDIT, SCALE};
use crate::engine::QueuePolicy;
use crate::reader::{Flag, OneOf, OrNull, Real, Section, Text};
use crate::router::{RouterMode, RouterSettings};

const NOT_NEGATIVE: Real = Real::at_least(0.0);

/// Settings that exist in ai-dynamo but change nothing in a simulation.
const LIVE_ONLY: [&str; 15] = [
    "host_cache_hit_weight",
    "disk_cache_hit_weight",
    "use_kv_events",
    "durable_kv_events",
    "router_replica_sync",
    "router_track_output_blocks",
    "router_snapshot_threshold",
    "router_reset_states",
    "router_ttl_secs",
    "router_event_threads",
    "skip_initial_worker_wait",
    "use_remote_indexer",
    "serve_indexer",
    "shared_cache_multiplier",
    "shared_cache_type",
];

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

    /// Walks the fields.
    pub(super) fn fields(&mut self, section: &mut Section<'_, '_>) {
        section.optional("overlap_score_credit", &mut self.overlap_score_credit, &CREDIT);
        section.optional("prefill_load_scale", &mut self.prefill_load_scale, &SCALE);
        self.deprecated_weight(section);
        section.optional("router_temperature", &mut self.router_temperature, &NOT_NEGATIVE);
        section.optional(
            "router_queue_threshold",
            &mut self.router_queue_threshold,
            &OrNull(NOT_NEGATIVE),
        );
        section.optional("router_queue_policy", &mut self.router_queue_policy, &OneOf);
        section.optional(
            "router_track_active_blocks",
            &mut self.router_track_active_blocks,
            &Flag,
        );
        section.optional("router_assume_kv_reuse", &mut self.router_assume_kv_reuse, &Flag);
        section.optional(
            "router_track_prefill_tokens",
            &mut self.router_track_prefill_tokens,
            &Flag,
        );
        refuse_load_model(section);
        let live = section.present(&LIVE_ONLY);
        if !live.is_empty() {
            let message = format!(
                "ignored, because they only matter to a live system: {}",
                live.join(", ")
            );
            section.warn("", &message);
        }
        section.accept(&LIVE_ONLY);
    }

    /// The old name of the prefill load scale; 0 used to switch overlap off as well.
    fn deprecated_weight(&mut self, section: &mut Section<'_, '_>) {
        let mut weight = None;
        section.option("overlap_score_weight", &mut weight, &SCALE);
        let Some(weight) = weight else {
            return;
        };
        self.prefill_load_scale = weight;
        let message = if weight > 0.0 {
            "is deprecated and sets prefill_load_scale; use that instead"
        } else {
            self.overlap_score_credit = 0.0;
            "is deprecated and sets prefill_load_scale and overlap_score_credit to 0; use those instead"
        };
        section.warn("overlap_score_weight", message);
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

fn refuse_load_model(section: &mut Section<'_, '_>) {
    let mut load_model = "none".to_owned();
    if section.optional("router_prefill_load_model", &mut load_model, &Text) && load_model != "none" {
        let message = format!("only none is supported, got {load_model:?}");
        section.violation("router_prefill_load_model", message);
    }
}
