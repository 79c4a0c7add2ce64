//! Synthetic workloads: arrivals, groups, turns and shared prefixes.

use dynosim_spec::{
    Admission, BlockSize, PromptSegments, RequestId, SyntheticLoad, SyntheticWorkload, Workload, WorkloadError,
    WorkloadSpec,
};
use proptest::prelude::*;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::support::{block, check_content, request_ids, rows};

/// Three requests of 200 tokens.
pub(crate) fn spec() -> SyntheticWorkload {
    SyntheticWorkload {
        isl: 200,
        osl: 7,
        request_count: 3,
        load: SyntheticLoad::ArrivalIntervalMs(10.0),
        length_range_ratio: 1.0,
        length_seed: 0,
        shared_prefix_ratio: 0.0,
        num_prefix_groups: 0,
        shared_prefix_block_size: None,
        turns_per_session: 1,
        inter_turn_delay_ms: 0.0,
        arrival_seed: 42,
        arrival_speedup_ratio: 1.0,
    }
}

pub(crate) fn load(spec: SyntheticWorkload) -> Result<Workload, WorkloadError> {
    Workload::load(&WorkloadSpec::Synthetic(spec), block(64))
}

fn loaded(spec: SyntheticWorkload) -> Workload {
    load(spec).expect("a sensible spec")
}

fn arrivals(workload: &Workload) -> Vec<u64> {
    let first_turns = workload.requests().iter().filter(|request| request.turn == 0);
    first_turns.map(|request| request.delay.as_nanos()).collect()
}

/// Tokens that the prompts of two single-turn sessions of one group share.
fn shared_tokens(spec: SyntheticWorkload, block_size: BlockSize) -> u32 {
    let workload = Workload::load(&WorkloadSpec::Synthetic(spec), block_size).expect("a sensible spec");
    let single_tokens = PromptSegments::new(&workload, block(1));
    single_tokens.shared_blocks(RequestId::new(0))
}

#[test]
fn equal_intervals_are_exact_multiples() {
    let workload = loaded(spec());
    assert_eq!(workload.admission(), Admission::OpenLoop);
    assert_eq!(
        rows(&workload),
        [
            (0, 0, 200, 7, 0),
            (1, 0, 200, 7, 10_000_000),
            (2, 0, 200, 7, 20_000_000),
        ]
    );
    assert_eq!(workload.prompts().node_count(), 0, "nothing is shared");
}

#[test]
fn sessions_arrive_after_accumulated_gaps() {
    let interval_ms = 1000.0 / 49.0;
    let with_groups = SyntheticWorkload {
        load: SyntheticLoad::ArrivalIntervalMs(interval_ms),
        request_count: 5,
        num_prefix_groups: 1,
        ..spec()
    };
    let gap_ms = 1000.0 / (1000.0 / interval_ms);
    let mut sum_ms = 0.0;
    for arrival in arrivals(&loaded(with_groups)) {
        assert_eq!(
            dynosim_spec::SimDuration::from_ms(sum_ms).map(dynosim_spec::SimDuration::as_nanos),
            Some(arrival)
        );
        sum_ms += gap_ms;
    }
    let burst = SyntheticWorkload {
        load: SyntheticLoad::ArrivalIntervalMs(0.0),
        turns_per_session: 2,
        ..spec()
    };
    assert_eq!(arrivals(&loaded(burst)), [0, 0, 0]);
}

#[test]
fn poisson_arrivals_follow_the_seed() {
    let poisson = SyntheticWorkload {
        load: SyntheticLoad::RequestRate(10.0),
        request_count: 12,
        ..spec()
    };
    let expected = [
        0, 747_725, 1_530_195, 2_542_075, 3_062_786, 3_097_732, 3_633_802, 4_971_018, 6_863_161, 7_003_895, 7_007_152,
        9_697_536,
    ];
    let rounded = |workload: &Workload| -> Vec<u64> {
        let nanos = arrivals(workload).into_iter();
        nanos.map(|nanos| (nanos + 50) / 100).collect()
    };
    assert_eq!(rounded(&loaded(poisson.clone())), expected);
    let with_turns = SyntheticWorkload {
        turns_per_session: 3,
        ..poisson.clone()
    };
    assert_eq!(rounded(&loaded(with_turns)), expected, "sessions arrive like requests");
    let other_seed = SyntheticWorkload {
        arrival_seed: 43,
        ..poisson
    };
    assert_ne!(rounded(&loaded(other_seed)), expected);
}

#[test]
fn a_speed_up_divides_arrivals_and_think_times() {
    let sessions = SyntheticWorkload {
        request_count: 2,
        turns_per_session: 2,
        inter_turn_delay_ms: 500.0,
        arrival_speedup_ratio: 4.0,
        ..spec()
    };
    assert_eq!(
        rows(&loaded(sessions.clone())),
        [
            (0, 0, 200, 7, 0),
            (0, 1, 200, 7, 125_000_000),
            (1, 0, 200, 7, 2_500_000),
            (1, 1, 200, 7, 125_000_000),
        ]
    );
    let closed_loop = SyntheticWorkload {
        load: SyntheticLoad::Concurrency(8),
        arrival_speedup_ratio: f64::NAN,
        ..sessions
    };
    let workload = loaded(closed_loop);
    assert_eq!(workload.admission(), Admission::ClosedLoop { concurrency: 8 });
    assert_eq!(
        rows(&workload),
        [
            (0, 0, 200, 7, 0),
            (0, 1, 200, 7, 500_000_000),
            (1, 0, 200, 7, 0),
            (1, 1, 200, 7, 500_000_000),
        ]
    );
}

#[test]
fn prefixes_are_shared_in_whole_blocks() {
    let check = |isl: u32, ratio: f64, expected_tokens: u32| {
        let one_group = SyntheticWorkload {
            isl,
            shared_prefix_ratio: ratio,
            num_prefix_groups: 1,
            ..spec()
        };
        assert_eq!(
            shared_tokens(one_group, block(64)),
            expected_tokens,
            "isl {isl}, ratio {ratio}"
        );
    };
    check(200, 0.1, 0);
    check(200, 0.25, 64);
    check(200, 0.5, 2 * 64);
    check(200, 0.75, 3 * 64);
    check(200, 0.9, 200);
    check(200, 1.0, 200);
    check(192, 0.1, 0);
    check(192, 0.25, 64);
    check(192, 0.5, 2 * 64);
    check(192, 0.75, 2 * 64);
    check(192, 0.9, 192);
    check(192, 1.0, 192);
}

#[test]
fn sharing_needs_a_ratio_and_a_group() {
    let shared = |ratio, groups| {
        let grouped = SyntheticWorkload {
            shared_prefix_ratio: ratio,
            num_prefix_groups: groups,
            ..spec()
        };
        shared_tokens(grouped, block(64))
    };
    assert_eq!(shared(0.0, 1), 0);
    assert_eq!(shared(0.5, 0), 0);
    assert_eq!(shared(0.5, 1), 128);
}

#[test]
fn a_prefix_costs_one_node_whatever_the_block_size() {
    let single_token_blocks = SyntheticWorkload {
        isl: 100_000,
        request_count: 1000,
        shared_prefix_ratio: 0.9,
        num_prefix_groups: 4,
        ..spec()
    };
    let workload = Workload::load(&WorkloadSpec::Synthetic(single_token_blocks), block(1)).expect("a sensible spec");
    assert_eq!(workload.prompts().node_count(), 4);
    assert!(request_ids(&workload).all(|id| workload.prompts().path(id).len() == 1));
}

/// Content of one token: a group's prefix, or the block of one request.
#[derive(Debug, PartialEq)]
enum Token {
    Shared { group: usize, block: u32 },
    Private { request: usize, block: u32 },
}

/// The prompts written out token by token, as the generator is documented.
fn written_out(spec: &SyntheticWorkload, block_tokens: u32) -> Vec<Vec<Token>> {
    let mut groups = ChaCha12Rng::seed_from_u64(42);
    let blocks = spec.isl.div_ceil(block_tokens);
    let shared = (f64::from(blocks) * spec.shared_prefix_ratio).round();
    let mut prompts = Vec::new();
    for _ in 0..spec.request_count {
        let group = match spec.num_prefix_groups {
            0 => None,
            count => Some(rand::Rng::random_range(&mut groups, 0..count as usize)),
        };
        for _ in 0..spec.turns_per_session {
            let request = prompts.len();
            let token = |at: u32| match (at / block_tokens, group) {
                (block, Some(group)) if f64::from(block) < shared => Token::Shared { group, block },
                (block, _) => Token::Private { request, block },
            };
            prompts.push((0..spec.isl).map(token).collect());
        }
    }
    prompts
}

proptest! {
    #[test]
    fn oracle_prompts_equal_their_tokens(
        isl in 1_u32..60,
        block_tokens in 1_u32..9,
        engine_block in 1_u32..9,
        ratio in prop_oneof![Just(0.0), Just(0.5), Just(1.0), 0.0_f64..1.0],
        groups in 0_u32..4,
        sessions in 1_u32..7,
        turns in 1_u32..4,
    ) {
        let spec = SyntheticWorkload {
            isl,
            request_count: sessions,
            shared_prefix_ratio: ratio,
            num_prefix_groups: groups,
            turns_per_session: turns,
            ..spec()
        };
        let prompts = written_out(&spec, block_tokens);
        let workload = Workload::load(&WorkloadSpec::Synthetic(spec), block(block_tokens)).expect("a sensible spec");
        check_content(&workload, block(engine_block), &prompts);
    }
}

#[test]
fn shared_prefixes_may_consist_of_blocks_of_their_own() {
    let spec = SyntheticWorkload {
        shared_prefix_ratio: 0.3,
        num_prefix_groups: 1,
        ..SyntheticWorkload::new(500, 20, 4, SyntheticLoad::Concurrency(2))
    };
    let shared_tokens = |own: Option<u32>, engine: u32| {
        let spec = WorkloadSpec::Synthetic(SyntheticWorkload {
            shared_prefix_block_size: own,
            ..spec.clone()
        });
        let workload = Workload::load(&spec, BlockSize::new(engine).expect("not zero")).expect("valid");
        workload.prompts().content_block().tokens()
    };
    // 30 % of 8 blocks of 64 tokens, of 32 blocks of 16, of 500 of one.
    assert_eq!(shared_tokens(None, 64), 2 * 64);
    assert_eq!(shared_tokens(None, 16), 10 * 16);
    assert_eq!(shared_tokens(Some(64), 16), 2 * 64);
    assert_eq!(shared_tokens(Some(1), 64), 150);
}
