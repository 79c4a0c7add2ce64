//! The search over states whose figures are made up.

use dynosim_spec::{ParallelShape, Topology};

use super::*;
use crate::budget::Budget;
use crate::record::tests::record_with;
use crate::space::{AggregatedSpace, DisaggregatedSpace, Frame, Sizes};

const SHAPES: [ParallelShape; 4] = [
    ParallelShape::tensor(1),
    ParallelShape::tensor(2),
    ParallelShape::tensor(4),
    ParallelShape::tensor(8),
];
const ROUND_ROBIN: RouterState = RouterState::round_robin();
const KV_ROUTERS: [RouterState; 2] = [RouterState::kv_router(1.0, 0.0), RouterState::kv_router(1.0, 1.0)];

/// Gives every state a throughput.
struct Fake<F> {
    throughput: F,
    /// States in the order in which they were asked for.
    asked: Vec<State>,
}

impl<F: Fn(&State) -> f64> Evaluate for Fake<F> {
    fn evaluate(&mut self, states: &[State]) -> Vec<Record> {
        let mut records = Vec::new();
        for &state in states {
            records.push(record_with(
                state,
                &[("output_throughput_tok_s", (self.throughput)(&state))],
            ));
            self.asked.push(state);
        }
        records
    }
}

/// Searches within 8 GPUs and returns the states in the order of visits.
fn visits(
    space: impl Space + 'static,
    first_router: RouterState,
    beam: usize,
    throughput: impl Fn(&State) -> f64,
) -> Vec<State> {
    let spaces = Spaces::from([(EngineSettings::default(), Box::new(space) as Box<dyn Space>)]);
    visits_of(&spaces, first_router, beam, throughput)
}

fn visits_of(
    spaces: &Spaces,
    first_router: RouterState,
    beam: usize,
    throughput: impl Fn(&State) -> f64,
) -> Vec<State> {
    let mut fake = Fake {
        throughput,
        asked: Vec::new(),
    };
    let records = descend(spaces, first_router, beam, &mut fake);
    let visited: Vec<State> = records.keys().copied().collect();
    assert_eq!(visited, fake.asked, "every state is asked for once and kept");
    visited
}

fn frame(routers: &[RouterState]) -> Frame {
    Frame {
        budget: Budget::up_to(8),
        routers: routers.to_vec(),
        engine: EngineSettings::default(),
        sizes: Sizes::Largest,
    }
}

fn disaggregated_space(routers: &[RouterState]) -> DisaggregatedSpace {
    DisaggregatedSpace::new(frame(routers), SHAPES.to_vec(), SHAPES.to_vec())
}

fn aggregated_space(routers: &[RouterState]) -> AggregatedSpace {
    AggregatedSpace::new(frame(routers), SHAPES.to_vec())
}

/// Prefers small tensor-parallel sizes, then many workers, then these routers, in this order.
fn likes(routers: &[RouterState]) -> impl Fn(&State) -> f64 {
    move |state| {
        let gpus_per_worker: u32 = state.pools().iter().map(|pool| pool.shape.gpus()).sum();
        let workers: u32 = state.pools().iter().map(|pool| pool.workers).sum();
        let place = routers.iter().position(|router| *router == state.router);
        let dislike = place.map_or(9.0, |place| place as f64);
        1000.0 - 100.0 * f64::from(gpus_per_worker) + f64::from(workers) - 0.01 * dislike
    }
}

#[track_caller]
fn check_disaggregated(routers: &[RouterState], liked: &[RouterState], expected: usize) {
    let space = disaggregated_space(routers);
    assert_eq!(visits(space, routers[0], 1, likes(liked)).len(), expected);
}

#[track_caller]
fn check_aggregated(routers: &[RouterState], liked: &[RouterState], expected: usize) {
    let space = aggregated_space(routers);
    assert_eq!(visits(space, routers[0], 1, likes(liked)).len(), expected);
}

/// Nine pairs of sizes fit into 8 GPUs, and the pair of ones has seven splits, one of which is among the shapes.
const ONE_ROUTER: usize = 9 + 7 - 1;

#[test]
fn disaggregated_visits_are_counted() {
    let [idle, active] = KV_ROUTERS;
    check_disaggregated(&[ROUND_ROBIN], &[], ONE_ROUTER);
    // The reference starts at round robin whatever the mode, which adds 15 visits to a search over
    // KV routers only (31 in all): the search here starts at the first KV router.
    check_disaggregated(&KV_ROUTERS, &[idle], ONE_ROUTER + 1);
    check_disaggregated(&KV_ROUTERS, &[active], ONE_ROUTER + 1 + ONE_ROUTER - 1);
    // With both modes the reference visits round robin under two names (credit 1 at the start,
    // credit 0 among the routers), so it comes to 32 where there is one name here.
    let both = [ROUND_ROBIN, idle, active];
    check_disaggregated(&both, &[ROUND_ROBIN], ONE_ROUTER + 2);
    check_disaggregated(&both, &[active], ONE_ROUTER + 2 + ONE_ROUTER - 1);
}

#[test]
fn aggregated_visits_are_counted() {
    let [idle, active] = KV_ROUTERS;
    // Four sizes; then one to eight workers of size 1, eight of which are among the shapes.
    check_aggregated(&[ROUND_ROBIN], &[], 4 + 7);
    // Behind a KV router a single worker of size 8 is left out, and so is a single one of size 1.
    check_aggregated(&KV_ROUTERS, &[idle], 3 + 6 + 1);
    check_aggregated(&KV_ROUTERS, &[active], 3 + 6 + 1 + 3 + 6 - 1);
    let both = [ROUND_ROBIN, idle, active];
    check_aggregated(&both, &[ROUND_ROBIN], 4 + 7 + 2);
    check_aggregated(&both, &[active], 4 + 7 + 2 + 3 + 6 - 1);
}

#[test]
fn a_single_aggregated_worker_keeps_its_router() {
    let both = [ROUND_ROBIN, KV_ROUTERS[0]];
    let large = |state: &State| f64::from(state.pools()[0].shape.tp);
    let visited = visits(aggregated_space(&both), ROUND_ROBIN, 1, large);
    assert_eq!(visited.len(), 4);
    assert!(visited.iter().all(|state| state.router == ROUND_ROBIN));
}

#[test]
fn equals_go_to_the_fewest_gpus_and_then_the_earliest() {
    let both = [ROUND_ROBIN, KV_ROUTERS[0], KV_ROUTERS[1]];
    let visited = visits(disaggregated_space(&both), ROUND_ROBIN, 1, |_| 1.0);
    // Fewest GPUs: the pairs (1, 4) and (4, 1) with a worker each. The first one has one split on the edge.
    assert_eq!(visited.len(), 9 + 1 + 2);
    let only_split = Topology::Disaggregated {
        prefill_workers: 4,
        decode_workers: 1,
        prefill_shape: ParallelShape::tensor(1),
        decode_shape: ParallelShape::tensor(4),
    };
    let behind_others: Vec<Topology> = visited
        .iter()
        .filter(|state| state.router != ROUND_ROBIN)
        .map(|state| state.topology)
        .collect();
    assert_eq!(behind_others, [only_split; 2]);
}

#[test]
fn a_climbing_search_ends_after_three_rounds() {
    // A staircase: behind each router the next size is better, and for each size the next router.
    let routers = [0.0, 1.0, 2.0, 3.0].map(|scale| RouterState::kv_router(1.0, scale));
    let space = aggregated_space(&routers);
    let staircase = |state: &State| {
        let pool = state.pools()[0];
        let router = routers.iter().position(|router| *router == state.router);
        let step = match (pool.shape.tp, router) {
            (4, Some(0)) => 1.0,
            (4, Some(1)) => 2.0,
            (1, Some(1)) => 3.0,
            (1, Some(2)) => 4.0,
            (2, Some(2)) => 5.0,
            (2, Some(3)) => 6.0,
            _ => 0.0,
        };
        step + 0.01 * f64::from(pool.workers)
    };
    let visited = visits(space, routers[0], 1, staircase);
    // Three shapes each, and the splits of sizes 4 (none is new), 1 (six are) and 2 (two are). The
    // last router was tried in front of three incumbents; a fourth round would see splits behind it.
    let behind = |router: &RouterState| visited.iter().filter(|state| state.router == *router).count();
    assert_eq!(routers.each_ref().map(behind), [3, 3 + 6, 3 + 2, 3]);
}

/// Two prefill workers of size 2 and four decode workers are best, but at equal worker counts the
/// pair of ones is ahead.
fn deceptive(state: &State) -> f64 {
    let [prefill, decode] = state.pools()[..] else {
        return 0.0;
    };
    match (prefill.shape.tp, decode.shape.tp, prefill.workers, decode.workers) {
        (2, 1, 2, 4) => 100.0,
        (1, 1, 4, 4) => 50.0,
        (2, 1, 2, 2) => 49.0,
        (1, 1, _, _) => 40.0,
        _ => 10.0,
    }
}

fn best_of(visited: &[State]) -> f64 {
    visited.iter().map(deceptive).fold(0.0, f64::max)
}

#[test]
fn a_wider_beam_sees_behind_equal_splits() {
    let space = || disaggregated_space(&[ROUND_ROBIN]);
    let narrow = visits(space(), ROUND_ROBIN, 1, deceptive);
    let wide = visits(space(), ROUND_ROBIN, 2, deceptive);
    assert_eq!((best_of(&narrow), best_of(&wide)), (50.0, 100.0));
    // The pair (2, 1) has three splits, one, two or three prefill workers; none of them is a shape.
    assert_eq!((narrow.len(), wide.len()), (ONE_ROUTER, ONE_ROUTER + 3));
    assert_eq!(narrow, wide[..narrow.len()], "the best pair's splits come first");
}

#[test]
fn beams_wider_than_the_shapes_take_all() {
    let space = || disaggregated_space(&[ROUND_ROBIN]);
    let all = visits(space(), ROUND_ROBIN, 9, deceptive);
    assert_eq!(visits(space(), ROUND_ROBIN, usize::MAX, deceptive), all);
    // A beam of 0 is taken for 1.
    assert_eq!(
        visits(space(), ROUND_ROBIN, 0, deceptive),
        visits(space(), ROUND_ROBIN, 1, deceptive)
    );
}

#[test]
fn the_winner_of_a_wide_beam_gets_the_routers() {
    let both = [ROUND_ROBIN, KV_ROUTERS[1]];
    let visited = visits(disaggregated_space(&both), ROUND_ROBIN, 3, deceptive);
    let winner = Topology::Disaggregated {
        prefill_workers: 2,
        decode_workers: 4,
        prefill_shape: ParallelShape::tensor(2),
        decode_shape: ParallelShape::tensor(1),
    };
    let behind_kv_router: Vec<&State> = visited.iter().filter(|state| state.router == KV_ROUTERS[1]).collect();
    assert_eq!(behind_kv_router.len(), 1);
    assert_eq!(behind_kv_router[0].topology, winner);
}

#[test]
fn states_without_figures_do_not_stop_the_search() {
    let space = || disaggregated_space(&[ROUND_ROBIN]);
    let mostly_broken = |state: &State| {
        let whole = state.total_gpus() == 8;
        if whole { deceptive(state) } else { f64::NAN }
    };
    assert!(best_of(&visits(space(), ROUND_ROBIN, 9, mostly_broken)) > 99.0);
    assert_eq!(visits(space(), ROUND_ROBIN, 1, |_| f64::NAN).len(), 9 + 1);
}

#[test]
fn nothing_fits_into_an_empty_space() {
    let space = DisaggregatedSpace::new(
        frame(&[ROUND_ROBIN]),
        vec![ParallelShape::tensor(16)],
        vec![ParallelShape::tensor(1)],
    );
    assert!(visits(space, ROUND_ROBIN, 1, |_| 1.0).is_empty());
}

/// Two choices of engine settings; the second one has no workers of size 1.
fn tunable() -> (Spaces, [EngineSettings; 2]) {
    let [plain, tuned] = [64, 32].map(|block_size| EngineSettings {
        block_size: Some(block_size),
        ..EngineSettings::default()
    });
    let space = |engine: EngineSettings, shapes: &[ParallelShape]| -> Box<dyn Space> {
        let frame = Frame {
            engine,
            ..frame(&[ROUND_ROBIN])
        };
        Box::new(AggregatedSpace::new(frame, shapes.to_vec()))
    };
    let spaces = Spaces::from([(plain, space(plain, &SHAPES)), (tuned, space(tuned, &SHAPES[1..]))]);
    (spaces, [plain, tuned])
}

#[test]
fn engine_settings_are_tried_in_front_of_the_winner() {
    let (spaces, [plain, tuned]) = tunable();
    let size = |state: &State| f64::from(state.pools()[0].shape.tp);
    let likes_tuned = |state: &State| size(state) + f64::from(u32::from(state.engine == tuned));
    let visited = visits_of(&spaces, ROUND_ROBIN, 1, likes_tuned);
    // Four sizes and one with other settings; then the sizes that these have, one of them known.
    let with = |settings: EngineSettings| visited.iter().filter(|state| state.engine == settings).count();
    assert_eq!((with(plain), with(tuned)), (4, 3));
    assert_eq!(visited[4].engine, tuned);
}

#[test]
fn workers_that_settings_do_not_allow_are_left_out() {
    let (spaces, [plain, tuned]) = tunable();
    let small = |state: &State| -f64::from(state.pools()[0].shape.tp);
    let visited = visits_of(&spaces, ROUND_ROBIN, 1, small);
    assert!(visited.iter().all(|state| state.engine == plain), "{tuned}: no size 1");
}

#[test]
fn fewer_gpus_are_looked_at_where_they_count() {
    // Three prefill workers of size 1 and a decode worker of size 2 are best, and use five of eight GPUs.
    let frugal = |state: &State| {
        let [prefill, decode] = state.pools()[..] else {
            return 0.0;
        };
        let wanted = (prefill.shape.tp, decode.shape.tp, prefill.workers, decode.workers) == (1, 2, 3, 1);
        if wanted { 100.0 } else { -(state.total_gpus() as f64) }
    };
    let best = |sizes: Sizes| {
        let frame = Frame {
            sizes,
            ..frame(&[ROUND_ROBIN])
        };
        let space = DisaggregatedSpace::new(frame, SHAPES.to_vec(), SHAPES.to_vec());
        let visited = visits(space, ROUND_ROBIN, 3, frugal);
        visited.iter().map(frugal).fold(f64::MIN, f64::max)
    };
    assert!(best(Sizes::All) > 99.0 && best(Sizes::Largest) < 0.0);
}
