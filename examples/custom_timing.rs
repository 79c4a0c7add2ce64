//! Shows step times of your own: in a struct with measurements and in a closure, for a run and for a
//! sweep.
//!
//! ```sh
//! cargo run --release --example custom_timing
//! ```

use std::sync::Arc;

use dynosim::spec::{
    Backend, Deployment, EngineSpec, GpuSpec, HardwareSpec, ModelSpec, ParallelShape, ReplayOptimizeSpec, RunSpec,
    SyntheticLoad, SyntheticWorkload, Topology, WorkloadSpec,
};
use dynosim::sweep::{Mode, Sweep};
use dynosim::timing::{Price, StepShape, TimingError, TimingModel, TimingProvider};
use dynosim::{Error, Report, Run, StepTimes};

/// Step times that grow linearly, as one might fit them to a few measurements.
#[derive(Debug, Clone, Copy)]
struct Linear {
    prefill_ms_per_token: f64,
    decode_ms: f64,
    decode_ms_per_sequence: f64,
}

/// Prices steps: a pure function of what they do.
impl TimingModel for Linear {
    fn prefill(&self, step: &StepShape) -> Price {
        let new_tokens = step.prefill_tokens - step.prefill_prefix_tokens;
        Price::known(self.prefill_ms_per_token * new_tokens as f64)
    }

    fn decode(&self, step: &StepShape) -> Price {
        Price::known(self.decode_ms + self.decode_ms_per_sequence * f64::from(step.decode_seqs))
    }
}

/// Measurements of one accelerator, offered to the simulator.
struct Measured {
    on_one_gpu: Linear,
}

impl TimingProvider for Measured {
    /// Called once for every role and GPU shape; this is the place to load data, and to fail.
    fn bind(&self, deployment: &Deployment) -> Result<Arc<dyn TimingModel>, TimingError> {
        if deployment.shape.tp > 2 {
            let missing = format!("nothing was measured at tp {}", deployment.shape.tp);
            return Err(TimingError::Custom(missing.into()));
        }
        let speedup = f64::from(deployment.shape.tp).powf(0.9);
        Ok(Arc::new(Linear {
            prefill_ms_per_token: self.on_one_gpu.prefill_ms_per_token / speedup,
            decode_ms: self.on_one_gpu.decode_ms / speedup,
            ..self.on_one_gpu
        }))
    }

    /// The shapes that a sweep should try.
    fn tp_shapes(&self, _model: Option<&ModelSpec>, _gpu: &GpuSpec) -> Vec<u32> {
        vec![1, 2]
    }

    /// Known from the engine's log instead of estimated.
    fn kv_capacity_tokens(&self, deployment: &Deployment) -> Result<u64, TimingError> {
        Ok(if deployment.shape.tp == 1 { 240_000 } else { 730_000 })
    }
}

const ON_ONE_GPU: Linear = Linear {
    prefill_ms_per_token: 0.085,
    decode_ms: 19.0,
    decode_ms_per_sequence: 0.05,
};

fn main() -> Result<(), Error> {
    let engine = EngineSpec::new("Qwen/Qwen3-32B", Backend::Vllm);
    let workload = WorkloadSpec::Synthetic(SyntheticWorkload::new(4096, 256, 500, SyntheticLoad::Concurrency(32)));
    let measured = Measured { on_one_gpu: ON_ONE_GPU };
    let closure = |deployment: &Deployment| -> Result<Arc<dyn TimingModel>, TimingError> {
        Ok(Arc::new(Linear {
            decode_ms: ON_ONE_GPU.decode_ms / f64::from(deployment.shape.tp),
            ..ON_ONE_GPU
        }))
    };

    println!("Four workers at tp 2:");
    let topology = Topology::Aggregated {
        workers: 4,
        shape: ParallelShape::tensor(2),
    };
    let spec = RunSpec::new(
        engine.clone(),
        HardwareSpec::new("h200_sxm"),
        topology,
        workload.clone(),
    );
    print("built-in tables", &dynosim::run(&spec)?.report);
    print("struct", &Run::new(&spec).timing(&measured).simulate()?.report);
    print("closure", &Run::new(&spec).timing(&closure).simulate()?.report);

    println!("\nThe best way to split 8 GPUs, by the struct:");
    let spec = ReplayOptimizeSpec::new(engine, HardwareSpec::new("h200_sxm").with_budget(8), workload);
    let scenario = dynosim::sweep_scenario(&spec, &[Mode::Disagg])?;
    let result = Sweep::new(&spec, scenario, &measured)?.optimize_dense_disagg()?;
    println!("{}", dynosim::summary_with_step_times(&result, 3, &StepTimes::Own));
    Ok(())
}

fn print(timing: &str, report: &Report) {
    println!(
        "{timing:<16} {:>6.0} tok/s, TTFT {:>5.0} ms, TPOT {:>5.1} ms",
        report.output_throughput_tok_s(),
        report.ttft.mean,
        report.tpot.mean
    );
}
