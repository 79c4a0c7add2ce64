//! The setup of measured points: what it takes, and the simulations it makes.

use serde_json::{Value, json};

use super::{Change, changed, mistakes, set};
use crate::engine_args::Limit;
use crate::parallel_shape::ParallelShape;
use crate::spec::{LoadPoint, MeasuredSetup, Topology};
use crate::workload_spec::{SyntheticLoad, WorkloadSpec};

fn document() -> Value {
    json!({
        "engine": {"model": "Qwen/Qwen3-32B", "backend": "vllm", "baseEngineArgs": {}},
        "hardware": {"system": "h200_sxm"},
        "workload": {}
    })
}

fn setup(changes: &[Change]) -> MeasuredSetup {
    let read = MeasuredSetup::from_json(&changed(document(), changes)).expect("the document is valid");
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
    read.value.validate().expect("what is read is valid");
    read.value
}

#[track_caller]
fn check(changes: &[Change], expected: &[&str]) {
    let text = changed(document(), changes);
    assert_eq!(mistakes(MeasuredSetup::from_json(&text)), expected, "{text}");
}

#[test]
fn a_point_makes_a_simulation_of_it() {
    let setup = setup(&[set("workload.lengthRangeRatio", json!(0.8)), set("seed", json!(0))]);
    let run = setup.run(&LoadPoint::new(4, 1024, 128, 16), 3);
    run.validate().expect("the simulation is valid");
    assert_eq!(
        run.topology,
        Topology::Aggregated {
            workers: 1,
            shape: ParallelShape::tensor(4),
        }
    );
    assert_eq!(run.engine.base_engine_args.max_num_seqs, Some(Limit::AtMost(16)));
    let WorkloadSpec::Synthetic(workload) = run.workload else {
        panic!("the workload is synthetic");
    };
    assert_eq!((workload.isl, workload.osl, workload.request_count), (1024, 128, 160));
    assert_eq!(workload.load, SyntheticLoad::Concurrency(16));
    assert_eq!((workload.length_range_ratio, workload.length_seed), (0.8, 3));
}

#[test]
fn given_limits_stay() {
    for (given, limit) in [(json!(256), Limit::AtMost(256)), (json!(null), Limit::Unlimited)] {
        let setup = setup(&[set("engine.baseEngineArgs.max_num_seqs", given)]);
        let run = setup.run(&LoadPoint::new(1, 10, 10, 4), 0);
        assert_eq!(run.engine.base_engine_args.max_num_seqs, Some(limit));
    }
}

#[test]
fn it_is_written_as_it_reads() {
    for changes in [
        vec![],
        vec![
            set("topology", json!({"tp": 2})),
            set("workload.lengthRangeRatio", json!(0.7)),
        ],
    ] {
        let setup = setup(&changes);
        let text = serde_json::to_string(&setup).expect("setups have a JSON form");
        assert_eq!(MeasuredSetup::from_json(&text).expect("it is valid").value, setup);
    }
}

#[test]
fn what_the_points_say_is_refused() {
    check(
        &[
            set("workload.isl", json!(10)),
            set("workload.concurrency", json!(10)),
            set("workload.lengthSeed", json!(10)),
            set("workload.lengthRangeRatio", json!(2)),
            set("topology", json!({"workers": 2, "tp": 0, "decodeTp": 1})),
            set("sla", json!({})),
        ],
        &[
            "topology.workers: must be a whole number from 1 to 1, got 2",
            "topology.tp: must be a whole number from 1 to 65536, got 0",
            "topology.decodeTp: unknown key; points are measured on one aggregated worker",
            "workload.lengthRangeRatio: must be a number above 0 and at most 1, got 2",
            "workload.isl: unknown key; the measured points say it",
            "workload.concurrency: unknown key; the measured points say it",
            "workload.lengthSeed: unknown key; every point is simulated with several",
            "sla: unknown key, known are topology, engine, hardware, workload, router, timing, seed",
        ],
    );
}
