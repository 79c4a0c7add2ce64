//! Sweeps of the reference: every state that it visited, and which one it found best.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use dynosim::spec::{ParallelShape, ReplayOptimizeSpec, RouterMode, Topology, WorkerRole};
use dynosim::sweep::{Mode, Record, RouterState, State, Sweep};
use dynosim::{load_scenario, timing_provider};

use super::support::{Golden, golden_dir, goldens};

/// A state that the reference evaluated, with its figures.
struct Row {
    state: State,
    figures: Vec<(String, f64)>,
}

/// Seeds tried where the reference decided ties at random: it is one draw, and one of ours must come near.
const SEEDS: u64 = 20;

#[test]
fn every_visited_state_agrees() {
    let mut differences = Vec::new();
    for golden in goldens(&golden_dir().join("sweeps")) {
        let mut spec = sweep_spec(&golden);
        let mut left = rows(&golden);
        for seed in 0..SEEDS {
            spec.seed = seed;
            let states: Vec<State> = left.iter().map(|row| row.state).collect();
            let records = with_sweep(&spec, mode(&golden), |sweep| sweep.evaluate_states(&states));
            let mut records = records.iter();
            left.retain(|row| !agrees(row, records.next().expect("a record per row")));
        }
        differences.extend(
            left.iter()
                .map(|row| format!("{}: {} agrees with no seed", golden.name, row.state)),
        );
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn searches_visit_the_same_states_and_find_the_same_best() {
    for golden in goldens(&golden_dir().join("sweeps")) {
        let spec = sweep_spec(&golden);
        let mode = mode(&golden);
        let result = with_sweep(&spec, mode, |sweep| match mode {
            Mode::Disagg => sweep.optimize_dense_disagg(),
            Mode::Agg => sweep.optimize_dense_agg(),
        });
        let result = result.unwrap_or_else(|error| panic!("{}: {error}", golden.name));
        let ours: BTreeSet<String> = result.evaluated.iter().map(|record| key(&record.state)).collect();
        let theirs: BTreeSet<String> = rows(&golden).iter().map(|row| key(&row.state)).collect();
        if golden.name == "default_disagg_both" {
            // Its second round exists by a lucky draw among ties.
            assert!(
                ours.is_subset(&theirs),
                "{}: {:?}",
                golden.name,
                ours.difference(&theirs)
            );
        } else {
            assert_eq!(ours, theirs, "{}", golden.name);
        }
        for (best, expected) in [
            (&result.best_feasible, &golden.json["best_feasible"]),
            (&result.best_infeasible, &golden.json["best_infeasible"]),
        ] {
            assert_eq!(best.is_none(), expected.is_null(), "{}: {best:?}", golden.name);
            let Some(best) = best else { continue };
            let figure = |name: &str| expected[name].as_f64();
            assert_eq!(Some(best.state.topology), topology(&figure), "{}", golden.name);
            let (ours, score) = (best.score.expect("a report"), figure("score").expect("a score"));
            assert!(
                (ours / score - 1.0).abs() < 0.01,
                "{}: {} or {score}",
                golden.name,
                ours
            );
        }
    }
}

fn sweep_spec(golden: &Golden) -> ReplayOptimizeSpec {
    let checked = ReplayOptimizeSpec::from_json(&golden.json["spec"].to_string());
    checked.unwrap_or_else(|error| panic!("{}: {error}", golden.name)).value
}

fn mode(golden: &Golden) -> Mode {
    if golden.json["mode"] == "agg" {
        Mode::Agg
    } else {
        Mode::Disagg
    }
}

fn with_sweep<T>(spec: &ReplayOptimizeSpec, mode: Mode, work: impl FnOnce(&Sweep<'_>) -> T) -> T {
    let roles: &[WorkerRole] = mode.roles();
    let scenario = load_scenario(&spec.engine, &spec.hardware, &spec.workload, roles).expect("a scenario");
    let provider = timing_provider(&spec.timing, &spec.engine, None);
    let sweep = Sweep::new(spec, scenario, provider.as_ref()).expect("a sweep");
    work(&sweep)
}

fn rows(golden: &Golden) -> Vec<Row> {
    let path = golden_dir()
        .join("sweeps")
        .join(Path::new(&golden.name).with_extension("csv"));
    let text = fs::read_to_string(path).expect("the table of a sweep");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().expect("a header").clone();
    let rows = reader.records().map(|row| {
        let row = row.expect("a row");
        let cells = || headers.iter().zip(row.iter());
        let figures: Vec<(String, f64)> = cells()
            .filter_map(|(name, cell)| Some((name.to_owned(), cell.parse().ok()?)))
            .collect();
        let figure = |name: &str| figures.iter().find(|(key, _)| key == name).map(|&(_, value)| value);
        let kv_router = cells().any(|(name, cell)| name == "router_mode" && cell == "kv_router");
        let router = if kv_router {
            RouterState {
                mode: RouterMode::KvRouter,
                overlap_score_credit: figure("overlap_score_credit").expect("a credit"),
                prefill_load_scale: figure("prefill_load_scale").expect("a scale"),
            }
        } else {
            RouterState::round_robin()
        };
        let topology = topology(&figure).expect("a topology");
        Row {
            state: State::new(topology, router),
            figures,
        }
    });
    rows.collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts written as numbers"
)]
fn topology(figure: &impl Fn(&str) -> Option<f64>) -> Option<Topology> {
    let count = |name: &str| figure(name).map(|value| value as u32);
    match (count("tp"), count("workers")) {
        (Some(tp), Some(workers)) => Some(Topology::Aggregated {
            workers,
            shape: ParallelShape::tensor(tp),
        }),
        _ => Some(Topology::Disaggregated {
            prefill_workers: count("prefill_workers")?,
            decode_workers: count("decode_workers")?,
            prefill_shape: ParallelShape::tensor(count("prefill_tp")?),
            decode_shape: ParallelShape::tensor(count("decode_tp")?),
        }),
    }
}

/// What the visited sets are compared by: the reference keeps router settings that make no difference apart.
fn key(state: &State) -> String {
    format!("{:?} {:?}", state.topology, state.router.mode)
}

fn agrees(row: &Row, record: &Record) -> bool {
    let within = |tolerance: &dyn Fn(&str) -> Option<f64>| {
        row.figures
            .iter()
            .all(|(name, expected)| match (record.metric(name), tolerance(name)) {
                (Some(ours), Some(tolerance)) => (ours - expected).abs() <= 1e-9 + tolerance * expected.abs(),
                _ => true,
            })
    };
    match row.state.router.mode {
        RouterMode::RoundRobin => within(&|name| Some(if name.starts_with("std_") { 1e-4 } else { 1e-6 })),
        RouterMode::KvRouter => within(&|name| match name {
            "output_throughput_tok_s" => Some(0.01),
            "mean_ttft_ms" => Some(0.02),
            _ => None,
        }),
    }
}
