//! Lengths of synthetic requests: drawn from a range, or all equal.

use std::collections::BTreeSet;

use dynosim_spec::{SyntheticLoad, SyntheticWorkload, Workload, WorkloadSpec};
use proptest::prelude::*;
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::support::{block, check_content};
use crate::synthetic::{load, spec};

fn lengths(spec: SyntheticWorkload) -> Vec<(u32, u32)> {
    let workload = load(spec).expect("a sensible spec");
    let requests = workload.requests().iter();
    requests
        .map(|request| (request.input_tokens, request.output_tokens))
        .collect()
}

fn drawn(ratio: f64, seed: u64) -> SyntheticWorkload {
    SyntheticWorkload {
        isl: 1024,
        osl: 100,
        request_count: 6,
        length_range_ratio: ratio,
        length_seed: seed,
        ..spec()
    }
}

#[test]
fn sequences_are_pinned() {
    let first = [(984, 94), (969, 92), (933, 98), (978, 85), (985, 82), (824, 96)];
    assert_eq!(lengths(drawn(0.8, 0)), first);
    assert_ne!(lengths(drawn(0.8, 1)), first);
}

#[test]
fn the_shortest_length_is_rounded_down_to_at_least_one() {
    #[track_caller]
    fn check(most: u32, ratio: f64, least: u32) {
        let spec = SyntheticWorkload {
            length_range_ratio: ratio,
            ..spec()
        };
        assert_eq!(spec.least_tokens(most), least, "{ratio} of {most}");
    }
    check(1024, 0.8, 819);
    check(8192, 0.8, 6553);
    check(10, 0.5, 5);
    check(3, 0.1, 1);
    check(1, 0.01, 1);
    check(u32::MAX, 1.0, u32::MAX);
}

#[test]
fn every_length_of_the_range_occurs() {
    let many = SyntheticWorkload {
        isl: 10,
        osl: 4,
        request_count: 1000,
        ..drawn(0.5, 7)
    };
    let lengths = lengths(many);
    let inputs: BTreeSet<u32> = lengths.iter().map(|&(input, _)| input).collect();
    let outputs: BTreeSet<u32> = lengths.iter().map(|&(_, output)| output).collect();
    assert!(inputs.into_iter().eq(5..=10));
    assert!(outputs.into_iter().eq(2..=4));
}

#[test]
fn arrivals_and_groups_have_streams_of_their_own() {
    let with = |ratio| SyntheticWorkload {
        load: SyntheticLoad::RequestRate(10.0),
        shared_prefix_ratio: 0.5,
        num_prefix_groups: 4,
        ..drawn(ratio, 3)
    };
    let [equal, drawn] = [1.0, 0.8].map(|ratio| load(with(ratio)).expect("a sensible spec"));
    for (one, other) in equal.requests().iter().zip(drawn.requests()) {
        assert_eq!(one.delay, other.delay);
    }
    let groups = |workload: &Workload| -> Vec<Vec<u32>> {
        let paths = crate::support::request_ids(workload).map(|id| workload.prompts().path(id).to_vec());
        paths.collect()
    };
    assert_eq!(groups(&equal), groups(&drawn));
}

/// The lengths as they are documented: all prompts first, then all outputs.
fn written_out(spec: &SyntheticWorkload) -> Vec<(u32, u32)> {
    let mut stream = ChaCha12Rng::seed_from_u64(spec.length_seed);
    let requests = spec.request_count * spec.turns_per_session;
    let mut draw = |most: u32| -> Vec<u32> {
        let bound = f64::from(most) * spec.length_range_ratio;
        let least = (1..=most).find(|&tokens| f64::from(tokens + 1) > bound);
        let least = least.expect("the bound is no more than the most");
        (0..requests).map(|_| stream.random_range(least..=most)).collect()
    };
    let inputs = draw(spec.isl);
    let outputs = draw(spec.osl);
    inputs.into_iter().zip(outputs).collect()
}

/// Content of one token: a place in a group's prefix, or in the rest of one request's prompt.
#[derive(Debug, PartialEq)]
enum Token {
    Shared { group: usize, place: u32 },
    Private { request: usize },
}

/// The prompts token by token: each begins with as much of its group's prefix as it holds.
fn prompts(spec: &SyntheticWorkload, block_tokens: u32, lengths: &[(u32, u32)]) -> Vec<Vec<Token>> {
    let blocks = spec.isl.div_ceil(block_tokens);
    let prefix_blocks = (f64::from(blocks) * spec.shared_prefix_ratio).round();
    let mut draws = ChaCha12Rng::seed_from_u64(42);
    let groups: Vec<Option<usize>> = (0..spec.request_count)
        .map(|_| match spec.num_prefix_groups {
            0 => None,
            count => Some(draws.random_range(0..count as usize)),
        })
        .collect();
    let requests = lengths.iter().enumerate();
    requests
        .map(|(request, &(input_tokens, _))| {
            let group = groups[request / spec.turns_per_session as usize];
            let token = |place| match group {
                Some(group) if f64::from(place / block_tokens) < prefix_blocks => Token::Shared { group, place },
                _ => Token::Private { request },
            };
            (0..input_tokens).map(token).collect()
        })
        .collect()
}

proptest! {
    #[test]
    fn oracle_lengths_and_prompts(
        (isl, osl) in (1_u32..60, 1_u32..60),
        ratio in prop_oneof![Just(1.0), 0.01_f64..=1.0],
        seed in any::<u64>(),
        (block_tokens, engine_block) in (1_u32..9, 1_u32..9),
        shared_prefix_ratio in prop_oneof![Just(0.0), Just(0.9), 0.0_f64..=1.0],
        groups in 0_u32..4,
        (sessions, turns) in (1_u32..7, 1_u32..4),
    ) {
        let spec = SyntheticWorkload {
            isl,
            osl,
            request_count: sessions,
            length_range_ratio: ratio,
            length_seed: seed,
            shared_prefix_ratio,
            num_prefix_groups: groups,
            turns_per_session: turns,
            ..spec()
        };
        let expected = written_out(&spec);
        prop_assert_eq!(&lengths(spec.clone()), &expected);
        let prompts = prompts(&spec, block_tokens, &expected);
        let workload = Workload::load(&WorkloadSpec::Synthetic(spec), block(block_tokens)).expect("a sensible spec");
        check_content(&workload, block(engine_block), &prompts);
    }
}
