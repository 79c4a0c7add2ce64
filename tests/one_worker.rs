//! One aggregated worker on one GPU, whose requests and step times a test brings along.

use dynosim::spec::{
    EngineSpec, HardwareSpec, ParallelShape, RunSpec, SyntheticLoad, SyntheticWorkload, TimingKind, Topology,
    WorkloadSpec,
};

/// The run of such a worker.
pub(crate) fn one_worker(engine: EngineSpec) -> RunSpec {
    let load = SyntheticLoad::ArrivalIntervalMs(0.0);
    let mut spec = RunSpec::new(
        engine,
        HardwareSpec::new("h200_sxm"),
        Topology::Aggregated {
            workers: 1,
            shape: ParallelShape::tensor(1),
        },
        WorkloadSpec::Synthetic(SyntheticWorkload::new(1, 1, 1, load)),
    );
    spec.timing.provider = TimingKind::Polynomial;
    spec
}
