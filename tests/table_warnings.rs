//! What is wrong with tables gets into reports, and what is done about it depends on the spec.

use dynosim::spec::{
    Backend, EngineSpec, HardwareSpec, ParallelShape, ReplayOptimizeSpec, Rules, RunSpec, SyntheticLoad,
    SyntheticWorkload, Topology, WorkloadSpec,
};
use dynosim::sweep::Mode;
use dynosim::{Report, StepTimes};

fn workload() -> WorkloadSpec {
    WorkloadSpec::Synthetic(SyntheticWorkload::new(2000, 10, 8, SyntheticLoad::Concurrency(4)))
}

/// One worker of eight GPUs, whose all-reduce falls in vLLM 0.14.0.
fn spec(system: &str) -> RunSpec {
    let engine = EngineSpec::new("Qwen/Qwen3-8B", Backend::Vllm);
    let topology = Topology::Aggregated {
        workers: 1,
        shape: ParallelShape::tensor(8),
    };
    RunSpec::new(engine, HardwareSpec::new(system), topology, workload())
}

#[track_caller]
fn report(rules: Rules, repair: Option<bool>, warning: &str) -> Report {
    let mut spec = spec("h200_sxm");
    spec.engine.rules = rules;
    spec.timing.repair = repair;
    let report = dynosim::run(&spec).expect("tables cover the model").report;
    let [found] = &report.warnings[..] else {
        panic!("{:?}", report.warnings);
    };
    assert!(found.starts_with("table custom_allreduce of vllm 0.14.0 "), "{found}");
    assert!(found.ends_with(warning), "{found}");
    report
}

#[test]
fn reports_say_what_was_repaired() {
    let (replaced, kept) = ("the figures of vllm 0.19.0 are used instead", "because repair is off");
    let repaired = report(Rules::VllmV1, None, replaced);
    let published = report(Rules::VllmV1, Some(false), kept);
    assert!(repaired.duration_ms < published.duration_ms);
    // Parity with another simulator needs the figures that it uses.
    report(Rules::Dynosim12, None, kept);
    report(Rules::Dynosim12, Some(true), replaced);
}

#[test]
fn reports_say_what_was_scaled() {
    let report = dynosim::run(&spec("h100_sxm")).expect("is scaled").report;
    assert_eq!(report.warnings.len(), 2, "{:?}", report.warnings);
    assert!(report.warnings[0].starts_with("no tables of h100_sxm: h200_sxm scaled"));
    assert!(report.extrapolated_share > 0.7, "{}", report.extrapolated_share);
    let hardware = HardwareSpec::new("h100_sxm");
    let step_times = StepTimes::built_in(&spec("h100_sxm").timing, &spec("h100_sxm").engine, &hardware, None);
    assert_eq!(
        step_times.to_string(),
        "tables of vllm 0.19.0 measured on h200_sxm, scaled to h100_sxm"
    );
}

#[test]
fn sweeps_say_it_once_for_every_table() {
    let engine = EngineSpec::new("Qwen/Qwen3-8B", Backend::Vllm);
    let hardware = HardwareSpec::new("h200_sxm").with_budget(8);
    let mut spec = ReplayOptimizeSpec::new(engine, hardware, workload());
    spec.timing.engine_version = Some("0.19.0".to_owned());
    let result = dynosim::sweep(&spec, Mode::Disagg).expect("tables cover the model");
    let expected = "table context_attention of vllm 0.19.0 has latencies that cannot be right; the figures of vllm \
                    0.14.0 are used instead";
    assert_eq!(result.warnings, [expected]);
}
