//! Routing decisions worked out by hand.

use dynosim_spec::{QueuePolicy, RouterSettings, WorkerRole};

use super::scenario::Step::{self, Drained, Finished, Holds, PrefillDone, Released, Routed, Waits};
use super::scenario::{Prompt, W0, W1, check, check_pool, kv_router, repeated};

#[test]
fn equal_prompts_spread_by_booked_work_and_share_blocks() {
    check(
        &kv_router(),
        &repeated::<5>((16, &[1, 2, 3, 4])),
        &[
            Routed(0, [8.0, 8.0], W0),
            Routed(1, [12.0, 8.0], W1),
            Routed(2, [12.0, 12.0], W0),
            Routed(3, [16.0, 12.0], W1),
            Routed(4, [16.0, 16.0], W1),
        ],
    );
}

#[test]
fn without_assumed_reuse_every_request_counts_whole() {
    let settings = RouterSettings {
        router_assume_kv_reuse: false,
        ..kv_router()
    };
    check(
        &settings,
        &repeated::<2>((16, &[1, 2, 3, 4])),
        &[Routed(0, [8.0, 8.0], W0), Routed(1, [16.0, 8.0], W1)],
    );
}

#[test]
fn partial_hits_and_started_blocks() {
    check(
        &kv_router(),
        &[
            (16, &[1, 2, 3, 4]),
            (16, &[1, 2, 3, 4]),
            (16, &[1, 2, 5, 6]),
            (18, &[7, 8, 9, 10, 11]),
        ],
        &[
            Routed(0, [8.0, 8.0], W0),
            Routed(1, [12.0, 8.0], W1),
            Holds(W0, 0, 4),
            Holds(W1, 1, 4),
            Routed(2, [12.0, 12.0], W1),
            Routed(3, [16.5, 20.5], W0),
        ],
    );
}

#[test]
fn credit_and_scale_weigh_the_prefill_load() {
    let settings = RouterSettings {
        overlap_score_credit: 0.5,
        prefill_load_scale: 2.0,
        ..kv_router()
    };
    check(
        &settings,
        &[(16, &[1, 2, 3, 4]), (18, &[1, 2, 3, 4, 5]), (18, &[1, 2, 3, 4, 5])],
        &[
            Routed(0, [12.0, 12.0], W0),
            Holds(W0, 0, 4),
            Finished(W0, 0),
            Routed(1, [9.0, 13.0], W0),
            Routed(2, [10.0, 13.0], W0),
        ],
    );
}

#[test]
fn load_may_cancel_an_overlap() {
    check(
        &kv_router(),
        &repeated::<3>((16, &[1, 2, 3, 4])),
        &[
            Routed(0, [8.0, 8.0], W1),
            Holds(W1, 0, 4),
            Routed(1, [8.0, 8.0], W1),
            // The full hit has booked nothing.
            Routed(2, [8.0, 8.0], W0),
        ],
    );
}

#[test]
fn decoding_requests_keep_their_blocks() {
    let settings = RouterSettings {
        prefill_load_scale: 4.0,
        ..kv_router()
    };
    check(
        &settings,
        &[
            (16, &[1, 2, 3, 4]),
            (24, &[1, 2, 3, 4, 5, 6]),
            (24, &[1, 2, 3, 4, 7, 8]),
            (16, &[9, 10, 11, 12]),
        ],
        &[
            Routed(0, [20.0, 20.0], W1),
            Holds(W1, 0, 4),
            PrefillDone(W1, 0),
            Routed(1, [30.0, 14.0], W1),
            PrefillDone(W1, 1),
            Routed(2, [30.0, 16.0], W1),
            PrefillDone(W1, 2),
            Routed(3, [20.0, 28.0], W0),
            Finished(W0, 3),
            // What the other two still hold stays.
            Finished(W1, 0),
            Routed(3, [20.0, 28.0], W0),
        ],
    );
}

#[test]
fn prefill_pools_count_tokens_only() {
    let settings = RouterSettings {
        prefill_load_scale: 2.0,
        ..kv_router()
    };
    check_pool(
        &settings,
        WorkerRole::Prefill,
        &[(18, &[1, 2, 3, 4]), (16, &[5, 6, 7, 8]), (16, &[9, 10, 11, 12])],
        &[
            Routed(0, [9.0, 9.0], W0),
            Routed(1, [17.0, 8.0], W1),
            Routed(2, [17.0, 16.0], W1),
        ],
    );
}

#[test]
fn decode_pools_count_blocks_only() {
    check_pool(
        &kv_router(),
        WorkerRole::Decode,
        &[
            (19, &[1, 2, 3, 4]),
            (8, &[1, 2]),
            (8, &[1, 2]),
            (8, &[1, 2]),
            (8, &[1, 2]),
        ],
        &[
            Routed(0, [4.0, 4.0], W0),
            // Not published to decode routers, and no matter to them.
            Holds(W0, 0, 4),
            Routed(1, [6.0, 2.0], W1),
            Routed(2, [6.0, 4.0], W1),
            Routed(3, [6.0, 6.0], W0),
            Finished(W0, 0),
            Routed(4, [4.0, 6.0], W0),
        ],
    );
}

/// Requests of 16, 32, 8, 24, 40 and 4 tokens, the last three of which find both workers busy.
fn check_queue(router_queue_policy: QueuePolicy, then: &[Step]) {
    let settings = RouterSettings {
        router_queue_threshold: Some(1.0),
        router_queue_policy,
        ..kv_router()
    };
    let prompts: [Prompt; 6] = [(16, &[]), (32, &[]), (8, &[]), (24, &[]), (40, &[]), (4, &[])];
    let arrivals = [
        Routed(0, [8.0, 8.0], W1),
        Routed(1, [16.0, 24.0], W0),
        // Worker 1 has 16 tokens booked, which is not more than the threshold.
        Routed(2, [20.0, 12.0], W1),
        Waits(3, 1),
        Waits(4, 2),
        Waits(5, 3),
        Drained(&[]),
        PrefillDone(W1, 0),
    ];
    check(&settings, &prompts, &[&arrivals, then].concat());
}

#[test]
fn busy_workers_keep_requests_waiting() {
    check_queue(
        QueuePolicy::Fcfs,
        &[
            Released(3, [28.0, 20.0], W1),
            Drained(&[]),
            PrefillDone(W0, 1),
            Drained(&[4]),
            PrefillDone(W1, 3),
            Drained(&[5]),
        ],
    );
    check_queue(
        QueuePolicy::Lcfs,
        &[PrefillDone(W0, 1), PrefillDone(W1, 2), Drained(&[5, 4, 3])],
    );
    check_queue(
        QueuePolicy::Wspt,
        &[PrefillDone(W0, 1), PrefillDone(W1, 2), Drained(&[5, 3, 4])],
    );
}

#[test]
fn waiting_requests_keep_the_overlaps_of_their_arrival() {
    let settings = RouterSettings {
        router_queue_threshold: Some(0.0),
        ..kv_router()
    };
    check(
        &settings,
        &[(16, &[1, 2, 3, 4]), (16, &[5, 6, 7, 8]), (16, &[1, 2, 3, 4])],
        &[
            Routed(0, [8.0, 8.0], W0),
            Routed(1, [16.0, 8.0], W1),
            Waits(2, 0),
            Holds(W0, 0, 4),
            PrefillDone(W0, 0),
            Released(2, [8.0, 16.0], W0),
        ],
    );
}

#[test]
fn short_prompts_cost_part_of_a_block() {
    check(
        &kv_router(),
        &[(3, &[1]), (7, &[2, 3]), (7, &[2, 3])],
        &[
            Routed(0, [0.75, 0.75], W0),
            Finished(W0, 0),
            Routed(1, [2.75, 2.75], W0),
            Holds(W0, 1, 1),
            Finished(W0, 1),
            Routed(2, [1.75, 2.75], W0),
        ],
    );
}

#[test]
fn each_part_of_the_load_can_be_left_out() {
    let prompts: [Prompt; 2] = [(16, &[1, 2, 3, 4]); 2];
    let tokens_only = RouterSettings {
        router_track_active_blocks: false,
        ..kv_router()
    };
    check(
        &tokens_only,
        &prompts,
        &[Routed(0, [4.0, 4.0], W0), Routed(1, [8.0, 4.0], W1)],
    );
    let blocks_only = RouterSettings {
        router_track_prefill_tokens: false,
        ..kv_router()
    };
    check(
        &blocks_only,
        &prompts,
        &[Routed(0, [4.0, 4.0], W0), Routed(1, [4.0, 4.0], W0)],
    );
}

#[test]
fn chunks_count_as_soon_as_they_are_announced() {
    check(
        &kv_router(),
        &repeated::<2>((32, &[1, 2, 3, 4, 5, 6, 7, 8])),
        &[
            Routed(0, [16.0, 16.0], W0),
            Holds(W0, 0, 2),
            Routed(1, [22.0, 16.0], W1),
        ],
    );
}

#[test]
fn evicted_blocks_no_longer_count() {
    check(
        &kv_router(),
        &[(16, &[1, 2, 3, 4]), (16, &[1, 2, 3, 4]), (8, &[1, 2])],
        &[
            Routed(0, [8.0, 8.0], W0),
            Finished(W0, 0),
            Holds(W0, 0, 4),
            Routed(1, [4.0, 8.0], W0),
            Finished(W0, 1),
            Holds(W0, 0, 2),
            Routed(1, [6.0, 8.0], W0),
            Finished(W0, 1),
            Holds(W0, 0, 0),
            Routed(1, [8.0, 8.0], W0),
        ],
    );
}
