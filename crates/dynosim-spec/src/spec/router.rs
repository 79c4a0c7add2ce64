//! How a spec asks for a router.

use serde::{Deserialize, Serialize};

use super::kv_router_config::KvRouterConfig;
use crate::reader::{OneOf, Presence, Real, Section, Whole};
use crate::router::{RouterMode, RouterSettings};

const BASE_CONFIG: (&str, &str) = ("baseConfig", "baseRouterConfig");
/// What an overlap credit must be.
pub(super) const CREDIT: Real = Real::at_least(0.0).at_most(1.0);
/// What a prefill load scale must be.
pub(super) const SCALE: Real = Real::at_least(0.0);

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

    /// Walks the fields.
    pub(super) fn fields(&mut self, section: &mut Section<'_, '_>) {
        section.optional("mode", &mut self.mode, &OneOf);
        section.option("overlapScoreCredit", &mut self.overlap_score_credit, &CREDIT);
        section.option("prefillLoadScale", &mut self.prefill_load_scale, &SCALE);
        section.option("seed", &mut self.seed, &Whole::at_least(0));
        let base_config = &mut self.base_config;
        section.object(BASE_CONFIG, Presence::Optional, |section| base_config.fields(section));
        if self.mode == RouterMode::RoundRobin {
            let idle = [
                ("overlapScoreCredit", self.overlap_score_credit.is_some()),
                ("prefillLoadScale", self.prefill_load_scale.is_some()),
                ("seed", self.seed.is_some()),
            ];
            for (key, _) in idle.into_iter().filter(|(_, given)| *given) {
                section.idle(key, "with mode round_robin");
            }
            if self.base_config != KvRouterConfig::default() {
                section.warn("baseConfig", "has no effect with mode round_robin");
            }
            return;
        }
        let (base, default) = (&self.base_config, KvRouterConfig::default());
        if self.overlap_score_credit.is_some() && differ(base.overlap_score_credit, default.overlap_score_credit) {
            let message = "has no effect beside router.overlapScoreCredit";
            section.warn("baseConfig.overlap_score_credit", message);
        }
        if self.prefill_load_scale.is_some() && differ(base.prefill_load_scale, default.prefill_load_scale) {
            let message = "has no effect beside router.prefillLoadScale";
            section.warn("baseConfig.prefill_load_scale", message);
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

    /// Walks the fields.
    pub(super) fn fields(&mut self, section: &mut Section<'_, '_>) {
        section.optional("mode", &mut self.mode, &OneOf);
        section.list("overlapCredits", &mut self.overlap_credits, &CREDIT);
        section.list("prefillLoadScales", &mut self.prefill_load_scales, &SCALE);
        let base_config = &mut self.base_config;
        section.object(BASE_CONFIG, Presence::Optional, |section| base_config.fields(section));
        let (default, base) = (Self::default(), &self.base_config);
        if self.mode == SweepRouterMode::RoundRobin {
            let idle = [
                ("overlapCredits", self.overlap_credits != default.overlap_credits),
                (
                    "prefillLoadScales",
                    self.prefill_load_scales != default.prefill_load_scales,
                ),
            ];
            for (key, _) in idle.into_iter().filter(|(_, given)| *given) {
                section.idle(key, "with mode round_robin");
            }
            if *base != default.base_config {
                section.warn("baseConfig", "has no effect with mode round_robin");
            }
            return;
        }
        if differ(base.overlap_score_credit, default.base_config.overlap_score_credit) {
            let message = "has no effect in a sweep, which tries the credits of router.overlapCredits";
            section.warn("baseConfig.overlap_score_credit", message);
        }
        if differ(base.prefill_load_scale, default.base_config.prefill_load_scale) {
            let message = "has no effect in a sweep, which tries the scales of router.prefillLoadScales";
            section.warn("baseConfig.prefill_load_scale", message);
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

fn differ(a: f64, b: f64) -> bool {
    a.total_cmp(&b).is_ne()
}
