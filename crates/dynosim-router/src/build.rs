//! From settings to a router.

use std::borrow::Cow;

use dynosim_spec::{RouterMode, RouterSettings, WorkerRole};

use crate::kv_overlap::KvOverlap;
use crate::pool::Pool;
use crate::round_robin::RoundRobin;
use crate::router::Router;

/// The router of a pool.
///
/// `settings` are those of the deployment; what the pool's role rules out is changed here. In a disaggregated
/// deployment each pool has a router that does half the work: prefill workers do not keep a request's blocks, so
/// their router counts prompt tokens and cached prefixes only; decode workers receive prompts computed, so their
/// router counts blocks only, each request's as its own.
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

/// The settings as a pool of this role uses them.
pub(crate) fn settings_for_role(settings: &RouterSettings, role: WorkerRole) -> Cow<'_, RouterSettings> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dynosim_spec::{Admission, BlockSize, PromptSegments, RequestId, SimTime, WorkerId, WorkloadBuilder};

    use super::*;
    use crate::router::RouteQuery;

    fn pool(role: WorkerRole) -> Pool {
        let block_size = BlockSize::new(16).expect("not zero");
        let workload = WorkloadBuilder::new(block_size).build(Admission::OpenLoop);
        Pool {
            role,
            workers: 3,
            block_size,
            max_num_batched_tokens: None,
            prompts: Arc::new(PromptSegments::new(&workload, block_size)),
        }
    }

    fn kv_router(overlap_score_credit: f64) -> RouterSettings {
        RouterSettings {
            mode: RouterMode::KvRouter,
            overlap_score_credit,
            ..RouterSettings::default()
        }
    }

    #[test]
    fn kv_events_are_wanted_where_they_matter() {
        let wants = |settings: &RouterSettings, role| build(settings, pool(role), 0).wants_kv_events();
        assert!(wants(&kv_router(1.0), WorkerRole::Aggregated));
        assert!(wants(&kv_router(0.5), WorkerRole::Prefill));
        assert!(!wants(&kv_router(1.0), WorkerRole::Decode));
        assert!(
            wants(&kv_router(0.0), WorkerRole::Aggregated),
            "bookings know overlaps whatever the credit"
        );
        assert!(
            !wants(&RouterSettings::default(), WorkerRole::Aggregated),
            "round robin"
        );
    }

    /// The first workers that 60 requests of no length go to, all of which are ties.
    fn ties(role: WorkerRole, seed: u64) -> Vec<WorkerId> {
        let mut router = build(&kv_router(1.0), pool(role), seed);
        (0..60)
            .filter_map(|request| router.route(SimTime::ZERO, &RouteQuery::new(RequestId::new(request), 0, &[])))
            .collect()
    }

    #[test]
    fn equal_seeds_route_equally() {
        for role in [WorkerRole::Aggregated, WorkerRole::Prefill, WorkerRole::Decode] {
            assert_eq!(ties(role, 5), ties(role, 5));
            assert_ne!(ties(role, 5), ties(role, 6));
        }
        assert_ne!(
            ties(WorkerRole::Prefill, 5),
            ties(WorkerRole::Decode, 5),
            "streams of their own"
        );
    }
}
