//! Equal simulations are made once.

use dynosim_spec::Topology;
use dynosim_timing::PolynomialTiming;

use super::*;

/// Evaluates all these states with and without simulating equal ones once.
fn check_equivalence(spec: &ReplayOptimizeSpec, topology: Topology, expected_simulations: usize) {
    let mut states = vec![RouterState::round_robin()];
    for credit in [0.0, 0.3, 0.5, 1.0] {
        states.extend([0.0, 0.25, 1.0, 4.0, 3.0, 0.7].map(|scale| RouterState::kv_router(credit, scale)));
    }
    let states: Vec<State> = states.into_iter().map(|router| State::new(topology, router)).collect();
    let collapsed = sweep(spec, &PolynomialTiming).evaluate_states(&states);
    let plain = sweep(spec, &PolynomialTiming)
        .with_router_factory(&dynosim_router::build)
        .evaluate_states(&states);
    for (collapsed, plain) in collapsed.iter().zip(&plain) {
        let simulation = plain.simulation;
        let renumbered = Record {
            simulation,
            ..collapsed.clone()
        };
        assert_eq!(&renumbered, plain, "{}", plain.state);
    }
    assert_eq!(plain.last().map(|record| record.simulation), Some(states.len() - 1));
    let differs = plain.iter().any(|record| record.metrics != plain[0].metrics);
    assert!(differs, "routing matters to this load");
    let simulations = collapsed.iter().map(|record| record.simulation + 1).max();
    assert_eq!(simulations, Some(expected_simulations));
}

const TWO_AND_TWO: Topology = Topology::Disaggregated {
    prefill_workers: 2,
    decode_workers: 2,
    prefill_shape: ParallelShape::tensor(1),
    decode_shape: ParallelShape::tensor(1),
};

#[test]
fn differential_equal_states_are_equal_simulations() {
    let spec = small_spec();
    // Round robin; scale 0; one per credit, of which 0.3 is not exact, so that 3 and 0.7 stand alone.
    check_equivalence(&spec, TWO_AND_TWO, 1 + 1 + 4 + 2);
    check_equivalence(
        &spec,
        Topology::Aggregated {
            workers: 3,
            shape: ParallelShape::tensor(1),
        },
        1 + 1 + 4 * 5,
    );
    let one_prefill_worker = Topology::Disaggregated {
        prefill_workers: 1,
        decode_workers: 3,
        prefill_shape: ParallelShape::tensor(1),
        decode_shape: ParallelShape::tensor(1),
    };
    check_equivalence(&spec, one_prefill_worker, 2);

    let mut uncached = small_spec();
    uncached.engine.base_engine_args.enable_prefix_caching = Some(false);
    check_equivalence(&uncached, TWO_AND_TWO, 1 + 1 + 1);

    let mut warm = small_spec();
    warm.router.base_config.router_temperature = 0.5;
    check_equivalence(&warm, TWO_AND_TWO, 1 + 1 + 4 * 3);

    let mut untracked = small_spec();
    untracked.router.base_config.router_track_active_blocks = false;
    check_equivalence(
        &untracked,
        Topology::Aggregated {
            workers: 3,
            shape: ParallelShape::tensor(1),
        },
        1 + 1 + 4 + 2,
    );
    untracked.router.base_config.router_track_prefill_tokens = false;
    check_equivalence(&untracked, TWO_AND_TWO, 2);
}

#[test]
fn a_search_simulates_equal_states_once() {
    let spec = small_spec();
    let result = sweep(&spec, &PolynomialTiming)
        .optimize_dense_disagg()
        .expect("there are candidates");
    let of_winner =
        |record: &&Record| record.state.topology == result.evaluated.last().expect("not empty").state.topology;
    let routers = result.evaluated.iter().filter(of_winner).count();
    assert_eq!(routers, 1 + 2 * 4, "every router state is recorded");
    assert!(result.simulations < result.evaluated.len());
    let used = result.evaluated.iter().map(|record| record.simulation + 1).max();
    assert_eq!(used, Some(result.simulations));
}
