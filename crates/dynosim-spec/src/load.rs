//! From a spec to a workload.

use crate::synthetic;
use crate::trace;
use crate::units::BlockSize;
use crate::workload::Workload;
use crate::workload_error::WorkloadError;
use crate::workload_spec::WorkloadSpec;

impl Workload {
    /// Draws a synthetic workload or reads the trace file.
    ///
    /// `block_size` is the engine block size of the aggregated or the prefill workers: a synthetic
    /// prefix is shared in whole blocks of it. A trace states its own content blocks.
    ///
    /// Equal specs give equal workloads on every host.
    ///
    /// # Errors
    ///
    /// If a field of the spec makes no sense, or the trace cannot be read: see [`WorkloadError`].
    pub fn load(spec: &WorkloadSpec, block_size: BlockSize) -> Result<Self, WorkloadError> {
        match spec {
            WorkloadSpec::Synthetic(spec) => synthetic::generate(spec, block_size),
            WorkloadSpec::Trace(spec) => trace::read_trace_file(spec),
        }
    }
}
