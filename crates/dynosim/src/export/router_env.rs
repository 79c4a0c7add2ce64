//! How a simulated router is asked for in the environment of Dynamo's frontend, which differs between versions.

use std::fmt;

use dynosim_spec::{Backend, QueuePolicy, RouterMode, RouterSettings};

use super::dynamo_version::DynamoVersion;
use super::worker_pool::WorkerPool;

/// A threshold that no queue of prompts exceeds, for versions whose default queues and which know no "never".
const NEVER: f64 = 1e6;

/// Variables of the frontend, and what they cannot say.
#[derive(Debug, Default)]
pub(super) struct RouterEnv {
    pub(super) variables: Vec<(&'static str, String)>,
    pub(super) warnings: Vec<String>,
}

/// The environment for these settings in front of `pool`, the pool that requests arrive at.
pub(super) fn router_env(settings: &RouterSettings, pool: &WorkerPool, version: DynamoVersion) -> RouterEnv {
    let mut env = RouterEnv::default();
    if settings.mode == RouterMode::RoundRobin {
        env.set("DYN_ROUTER_MODE", "round-robin");
        return env;
    }
    env.set("DYN_ROUTER_MODE", "kv");
    env.set("DYN_KV_CACHE_BLOCK_SIZE", pool.config.block_size.tokens());
    env.set_overlap(settings, version);
    env.set("DYN_ROUTER_TEMPERATURE", settings.router_temperature);
    env.set_queue(settings, pool, version);
    env.set_tracking(settings, version);
    if version.since(1, 6) {
        env.warn(
            "the environment variables that set up the router (DYN_ROUTER_…) are deprecated in 1.6 and gone in 1.7",
        );
    }
    env
}

impl RouterEnv {
    fn set(&mut self, name: &'static str, value: impl fmt::Display + Copy) {
        self.variables.push((name, value.to_string()));
    }

    fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    fn set_overlap(&mut self, settings: &RouterSettings, version: DynamoVersion) {
        let (credit, scale) = (settings.overlap_score_credit, settings.prefill_load_scale);
        if version.since(1, 2) {
            self.set("DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT", credit);
            self.set("DYN_ROUTER_PREFILL_LOAD_SCALE", scale);
            return;
        }
        let name = if version.since(1, 0) {
            "DYN_ROUTER_KV_OVERLAP_SCORE_WEIGHT"
        } else {
            "DYN_KV_OVERLAP_SCORE_WEIGHT"
        };
        self.set(name, scale);
        // With scale 0 no prompt counts, so the credit does not matter.
        if scale > 0.0 && credit < 1.0 {
            self.warn(format!(
                "Dynamo {version} has no overlap_score_credit (1.2 brought it): its router credits a cached block with 1, \
                 and {credit} was simulated"
            ));
        }
    }

    fn set_queue(&mut self, settings: &RouterSettings, pool: &WorkerPool, version: DynamoVersion) {
        let Some(threshold) = settings.router_queue_threshold else {
            if version.since(1, 1) && !version.since(1, 4) {
                self.set("DYN_ROUTER_QUEUE_THRESHOLD", NEVER);
            }
            return;
        };
        if !version.since(1, 0) {
            self.warn(format!(
                "the router of Dynamo {version} never queues, and router_queue_threshold {threshold} was simulated"
            ));
            return;
        }
        self.set("DYN_ROUTER_QUEUE_THRESHOLD", threshold * threshold_scale(pool));
        let policy = pool.config.router_queue_policy.unwrap_or(settings.router_queue_policy);
        let name = match policy {
            QueuePolicy::Fcfs => "fcfs",
            QueuePolicy::Wspt => "wspt",
            QueuePolicy::Lcfs => {
                self.warn(
                    "Dynamo's router has no queue policy lcfs, which was simulated: it serves first come, first served",
                );
                return;
            }
        };
        if version.since(1, 1) {
            self.set("DYN_ROUTER_QUEUE_POLICY", name);
        } else if policy != QueuePolicy::Fcfs {
            self.warn(format!(
                "Dynamo {version} has no queue policies, and {name} was simulated"
            ));
        }
    }

    fn set_tracking(&mut self, settings: &RouterSettings, version: DynamoVersion) {
        for (name, key, on) in [
            (
                "DYN_ROUTER_TRACK_ACTIVE_BLOCKS",
                "router_track_active_blocks",
                settings.router_track_active_blocks,
            ),
            (
                "DYN_ROUTER_TRACK_PREFILL_TOKENS",
                "router_track_prefill_tokens",
                settings.router_track_prefill_tokens,
            ),
            (
                "DYN_ROUTER_ASSUME_KV_REUSE",
                "router_assume_kv_reuse",
                settings.router_assume_kv_reuse,
            ),
        ] {
            if on {
                continue;
            }
            self.set(name, "false");
            if !version.since(1, 6) {
                self.warn(format!("{key} false is not known to exist in Dynamo {version}"));
            }
        }
    }
}

/// The simulation counts steps of `max_num_batched_tokens`. So does Dynamo with vLLM; with SGLang, it counts steps of
/// `--max-prefill-tokens`.
fn threshold_scale(pool: &WorkerPool) -> f64 {
    let config = &pool.config;
    match (config.backend, config.max_num_batched_tokens) {
        (Backend::Sglang, Some(tokens)) => f64::from(tokens) / f64::from(config.sglang.max_prefill_tokens),
        (Backend::Vllm, _) | (_, None) => 1.0,
    }
}
