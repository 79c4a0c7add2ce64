//! Cases in which the simulator once differed from its twin.

use dynosim::spec::{EngineArgs, Limit, ParallelShape, PreemptionMode, Rules, Topology};
use dynosim::timing::DecodeInputs;

use super::case::{Case, Turn};
use super::differential::check;

#[track_caller]
fn agrees(case: &Case) {
    if let Err(difference) = check(case) {
        panic!("{difference}");
    }
}

/// One worker, and requests of these prompt and output lengths that arrive together.
fn case(rules: Rules, block_size: u32, num_gpu_blocks: u32, lengths: &[(u32, u32)]) -> Case {
    let args = EngineArgs {
        block_size: Some(block_size),
        num_gpu_blocks: Some(num_gpu_blocks),
        ..EngineArgs::default()
    };
    let session = |&(input_tokens, output_tokens): &(u32, u32)| {
        vec![Turn {
            delay_us: 0,
            content: Vec::new(),
            input_tokens,
            output_tokens,
        }]
    };
    Case {
        rules,
        topology: Topology::Aggregated {
            workers: 1,
            shape: ParallelShape::tensor(1),
        },
        closed_loop: None,
        content_block: block_size,
        args: [args.clone(), args],
        toy_timing: None,
        sessions: lengths.iter().map(session).collect(),
    }
}

#[test]
fn a_block_of_one_token_is_partial_until_the_next_one_is_opened() {
    agrees(&case(Rules::Dynosim12, 1, 14, &[(1, 2), (10, 2)]));
    agrees(&case(Rules::VllmV1, 1, 14, &[(1, 4), (10, 2)]));
}

#[test]
fn a_partial_block_is_partial_again_after_a_preemption() {
    let lengths = [(10, 6), (8, 3), (4, 3), (11, 1)];
    let mut crowd = case(Rules::Dynosim12, 2, 15, &lengths);
    crowd.closed_loop = Some(3);
    agrees(&crowd);
}

#[test]
fn a_request_whose_last_token_is_recomputed_takes_a_block_for_it() {
    let mut crowd = case(Rules::Dynosim12, 2, 17, &[(13, 10), (10, 1), (13, 11)]);
    for args in &mut crowd.args {
        args.enable_prefix_caching = Some(false);
        args.max_num_seqs = Some(Limit::AtMost(2));
        args.max_num_batched_tokens = Some(Limit::AtMost(11));
        args.preemption_mode = Some(PreemptionMode::Fifo);
    }
    agrees(&crowd);
}

#[test]
fn a_request_joins_the_right_step_where_steps_cost_nothing() {
    let lengths = [(10, 6), (1, 1), (2, 8), (3, 6), (2, 2), (1, 1)];
    let mut workers = case(Rules::Dynosim12, 2, 21, &lengths);
    workers.topology = Topology::Aggregated {
        workers: 3,
        shape: ParallelShape::tensor(1),
    };
    workers.closed_loop = Some(4);
    workers.toy_timing = Some(DecodeInputs::KvUsage);
    agrees(&workers);
}
