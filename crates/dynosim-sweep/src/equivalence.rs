//! Which states are the same simulation.

use dynosim_spec::{Backend, BlockSize, EngineSpec, KvRouterConfig, RouterMode, WorkerRole};

use crate::state::{RouterState, State};

/// Scales within these bounds neither overflow a cost nor make it subnormal.
const ORDINARY_SCALES: std::ops::RangeInclusive<f64> = 1e-30..=1e30;

/// Finds one representative for all states that are provably the same simulation.
///
/// A KV router reads its two knobs in one place, the cost
/// `scale * max(0, prefill_blocks - credit * overlap_blocks) + active_blocks` that workers are
/// compared by. It follows:
///
/// * Round robin ignores both knobs.
/// * The prefill part vanishes if the scale is 0, if prefill tokens are not tracked, or, as far as
///   the choice goes, if there is one worker only. Then both knobs are idle.
/// * Workers that cache no prefixes report none, so overlaps are 0 and the credit is idle.
/// * Where active blocks do not count, as on a prefill pool, the scale multiplies all there is. It
///   changes neither the order of costs nor their relative positions, which is all that a
///   temperature above 0 looks at, unless rounding interferes. It does not between scales whose
///   ratio is a power of two, nor at temperature 0 between any scales if costs are coarse enough.
/// * Decode pools of disaggregated deployments use neither knob.
///
/// This is about the built-in routers only.
#[derive(Debug, Clone)]
pub(crate) struct Equivalence {
    aggregated: PromptPool,
    prefill: PromptPool,
    tracks_prefill_tokens: bool,
    tracks_active_blocks: bool,
    temperature: f64,
}

/// What matters about the workers that compute prompts.
#[derive(Debug, Clone, Copy)]
struct PromptPool {
    block_size: BlockSize,
    caches_prefixes: bool,
}

impl PromptPool {
    fn new(engine: &EngineSpec, role: WorkerRole) -> Self {
        let config = engine.config(role);
        Self {
            block_size: config.block_size,
            caches_prefixes: config.enable_prefix_caching || config.backend == Backend::Sglang,
        }
    }
}

impl Equivalence {
    /// The equivalences of states of these engines behind routers with these base settings.
    pub(crate) fn new(engine: &EngineSpec, base_config: &KvRouterConfig) -> Self {
        Self {
            aggregated: PromptPool::new(engine, WorkerRole::Aggregated),
            prefill: PromptPool::new(engine, WorkerRole::Prefill),
            tracks_prefill_tokens: base_config.router_track_prefill_tokens,
            tracks_active_blocks: base_config.router_track_active_blocks,
            temperature: base_config.router_temperature,
        }
    }

    /// The state that is simulated for all that are the same as `state`.
    pub(crate) fn representative(&self, state: State) -> State {
        if state.router.mode == RouterMode::RoundRobin {
            return state.with_router(RouterState::round_robin());
        }
        let RouterState {
            overlap_score_credit: credit,
            prefill_load_scale: scale,
            ..
        } = state.router;
        let readable = credit.is_finite() && credit >= 0.0 && (scale == 0.0 || ORDINARY_SCALES.contains(&scale));
        let Some(prompt_pool) = state.pools().first().copied().filter(|_| readable) else {
            return state;
        };
        if scale == 0.0 || !self.tracks_prefill_tokens || prompt_pool.workers == 1 {
            return state.with_router(RouterState::kv_router(0.0, 0.0));
        }
        let facts = match prompt_pool.role {
            WorkerRole::Aggregated => self.aggregated,
            WorkerRole::Prefill | WorkerRole::Decode => self.prefill,
        };
        let credit = if facts.caches_prefixes { credit } else { 0.0 };
        let blocks_count = prompt_pool.role == WorkerRole::Aggregated && self.tracks_active_blocks;
        let scale = if blocks_count {
            scale
        } else if self.temperature == 0.0 && costs_are_coarse(credit, facts.block_size) {
            1.0
        } else {
            significand(scale)
        };
        state.with_router(RouterState::kv_router(credit, scale))
    }
}

/// Whether different costs differ by more than rounding can blur: at scale 1 they are exact, with at
/// most 50 significant bits as long as fewer than 2^40 prompt tokens are booked on a worker.
fn costs_are_coarse(credit: f64, block_size: BlockSize) -> bool {
    let tokens = block_size.tokens();
    let steps = credit * 1024.0;
    tokens.is_power_of_two() && tokens <= 1 << 16 && steps.fract() == 0.0 && steps <= 1024.0
}

/// The number between 1 and 2 that is `scale` times a power of two.
fn significand(scale: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    f64::from_bits(scale.to_bits() & FRACTION | 1.0_f64.to_bits())
}

#[cfg(test)]
mod tests {
    use dynosim_spec::{EngineArgs, ParallelShape, Topology};

    use super::*;

    fn engine(block_size: u32) -> EngineSpec {
        EngineSpec {
            base_engine_args: EngineArgs {
                block_size: Some(block_size),
                ..EngineArgs::default()
            },
            ..EngineSpec::new("model", Backend::Vllm)
        }
    }

    fn disaggregated(prefill_workers: u32) -> Topology {
        Topology::Disaggregated {
            prefill_workers,
            decode_workers: 2,
            prefill_shape: ParallelShape::tensor(1),
            decode_shape: ParallelShape::tensor(1),
        }
    }

    const AGGREGATED: Topology = Topology::Aggregated {
        workers: 3,
        shape: ParallelShape::tensor(1),
    };

    /// How many simulations KV routing with these credits and scales comes to.
    #[track_caller]
    fn check(equivalence: &Equivalence, topology: Topology, credits: &[f64], scales: &[f64], expected: usize) {
        let mut simulations: Vec<State> = Vec::new();
        for &credit in credits {
            for &scale in scales {
                let router = RouterState::kv_router(credit, scale);
                let representative = equivalence.representative(State::new(topology, router));
                assert_eq!(
                    equivalence.representative(representative),
                    representative,
                    "represents itself"
                );
                if !simulations.contains(&representative) {
                    simulations.push(representative);
                }
            }
        }
        assert_eq!(simulations.len(), expected);
    }

    const DEFAULT_SCALES: [f64; 6] = [0.0, 0.25, 0.5, 1.0, 2.0, 4.0];

    #[test]
    fn disaggregated_routing_knows_two_scales() {
        let equivalence = Equivalence::new(&engine(512), &KvRouterConfig::default());
        check(&equivalence, disaggregated(3), &[1.0], &DEFAULT_SCALES, 2);
        check(&equivalence, disaggregated(3), &[1.0], &[0.3, 1.0, 3.0, 7.7], 1);
        // Scale 0 leaves nothing to credit, so it is one simulation for all credits.
        check(&equivalence, disaggregated(3), &[0.0, 0.5, 1.0], &DEFAULT_SCALES, 4);
    }

    #[test]
    fn rounding_may_tell_scales_apart() {
        let equivalence = Equivalence::new(&engine(48), &KvRouterConfig::default());
        check(&equivalence, disaggregated(3), &[1.0], &[0.25, 1.0, 4.0, 3.0, 6.0], 2);
        let equivalence = Equivalence::new(&engine(64), &KvRouterConfig::default());
        check(&equivalence, disaggregated(3), &[0.3], &[0.25, 1.0, 4.0, 3.0, 6.0], 2);
        let warm = KvRouterConfig {
            router_temperature: 0.5,
            ..KvRouterConfig::default()
        };
        let equivalence = Equivalence::new(&engine(64), &warm);
        check(&equivalence, disaggregated(3), &[1.0], &[0.25, 1.0, 4.0, 3.0, 6.0], 2);
    }

    #[test]
    fn aggregated_routing_knows_all_scales() {
        let equivalence = Equivalence::new(&engine(512), &KvRouterConfig::default());
        check(&equivalence, AGGREGATED, &[1.0], &DEFAULT_SCALES, 6);
        let blind = KvRouterConfig {
            router_track_active_blocks: false,
            ..KvRouterConfig::default()
        };
        check(
            &Equivalence::new(&engine(512), &blind),
            AGGREGATED,
            &[1.0],
            &DEFAULT_SCALES,
            2,
        );
    }

    #[test]
    fn idle_knobs_do_not_count() {
        let uncached = EngineSpec {
            base_engine_args: EngineArgs {
                enable_prefix_caching: Some(false),
                ..EngineArgs::default()
            },
            ..EngineSpec::new("model", Backend::Vllm)
        };
        let equivalence = Equivalence::new(&uncached, &KvRouterConfig::default());
        check(&equivalence, AGGREGATED, &[0.0, 0.5, 1.0], &[1.0, 2.0], 2);

        let untracked = KvRouterConfig {
            router_track_prefill_tokens: false,
            ..KvRouterConfig::default()
        };
        check(
            &Equivalence::new(&engine(64), &untracked),
            AGGREGATED,
            &[0.0, 1.0],
            &[0.0, 1.0, 2.0],
            1,
        );

        let equivalence = Equivalence::new(&engine(64), &KvRouterConfig::default());
        check(&equivalence, disaggregated(1), &[0.0, 1.0], &[0.0, 1.0, 2.0], 1);
    }

    #[test]
    fn strange_numbers_stand_for_themselves() {
        let equivalence = Equivalence::new(&engine(64), &KvRouterConfig::default());
        let strange = [f64::NAN, f64::INFINITY, -1.0, 1e-310, 1e300];
        check(&equivalence, disaggregated(3), &[1.0], &strange, strange.len());
        check(&equivalence, disaggregated(3), &[f64::NAN, -1.0], &[1.0], 2);
    }

    #[test]
    fn round_robin_ignores_both_knobs() {
        let equivalence = Equivalence::new(&engine(64), &KvRouterConfig::default());
        let router = RouterState {
            overlap_score_credit: 1.0,
            prefill_load_scale: 4.0,
            ..RouterState::round_robin()
        };
        let state = State::new(AGGREGATED, router);
        assert_eq!(equivalence.representative(state).router, RouterState::round_robin());
    }
}
