//! What a router must bear although no engine does it.

use dynosim_spec::{RequestId, SegmentId, SimTime, WorkerId, WorkerRole};

use super::scenario::Step::{Finished, Routed};
use super::scenario::{W0, W1, check, kv_router, pool, repeated};
use crate::kv_overlap::KvOverlap;
use crate::pool::Pool;
use crate::router::{RouteQuery, Router, WorkerReport};

#[test]
fn empty_prompts_cost_nothing() {
    check(
        &kv_router(),
        &repeated::<2>((0, &[])),
        &[Routed(0, [0.0, 0.0], W0), Routed(1, [0.0, 0.0], W1)],
    );
}

#[test]
fn a_request_routed_again_leaves_its_former_worker() {
    check(
        &kv_router(),
        &[(16, &[1, 2, 3, 4]), (16, &[5, 6, 7, 8])],
        &[
            Routed(0, [8.0, 8.0], W0),
            Routed(0, [8.0, 8.0], W1),
            Routed(1, [8.0, 16.0], W0),
            // Too late: the request is elsewhere.
            Finished(W0, 0),
            Routed(1, [8.0, 16.0], W0),
        ],
    );
}

#[test]
fn reports_about_strangers_are_ignored() {
    let mut router = KvOverlap::new(
        &kv_router(),
        pool(WorkerRole::Aggregated, &repeated::<2>((16, &[1, 2]))),
        0,
    );
    for (worker, request) in [(W0, 0), (W0, 1), (WorkerId::new(9), 0), (W1, u32::MAX)] {
        let request = RequestId::new(request);
        router.observe(SimTime::ZERO, WorkerReport::PrefillDone { worker, request });
        router.observe(SimTime::ZERO, WorkerReport::Finished { worker, request });
    }
    for (worker, segment) in [(WorkerId::new(9), 0), (W0, 77)] {
        let segment = SegmentId::new(segment);
        let report = WorkerReport::Cached {
            worker,
            segment,
            blocks: 1,
        };
        router.observe(SimTime::ZERO, report);
    }
    let strange_prompt = [SegmentId::new(77)];
    let query = RouteQuery::new(RequestId::new(0), 16, &strange_prompt);
    assert!(router.route(SimTime::ZERO, &query).is_some());
    assert_eq!(router.costs, [8.0, 8.0]);
}

#[test]
fn one_worker_takes_everything() {
    let only = Pool {
        workers: 1,
        ..pool(WorkerRole::Aggregated, &repeated::<8>((16, &[1, 2, 3, 4])))
    };
    let mut router = KvOverlap::new(&kv_router(), only, 0);
    for request in 0..4 {
        let query = RouteQuery::new(RequestId::new(request), 16, &[]);
        assert_eq!(router.route(SimTime::ZERO, &query), Some(W0));
    }
}
