//! Shows one simulation from a spec built in code to its key figures.
//!
//! ```sh
//! cargo run --release --example quickstart
//! ```

use dynosim::Error;
use dynosim::spec::{
    Backend, EngineSpec, HardwareSpec, ParallelShape, RunSpec, SyntheticLoad, SyntheticWorkload, Topology, WorkloadSpec,
};

fn main() -> Result<(), Error> {
    // 500 requests of 4,096 prompt and 256 output tokens, 32 of them in flight at any time.
    let workload = SyntheticWorkload::new(4096, 256, 500, SyntheticLoad::Concurrency(32));
    let spec = RunSpec::new(
        EngineSpec::new("Qwen/Qwen3-32B", Backend::Vllm),
        HardwareSpec::new("h200_sxm"),
        Topology::Aggregated {
            workers: 4,
            shape: ParallelShape::tensor(2),
        },
        WorkloadSpec::Synthetic(workload),
    );

    let report = dynosim::run(&spec)?.report;

    println!("GPUs           {}", spec.topology.total_gpus());
    println!("requests       {}", report.completed_requests);
    println!("simulated time {:.1} s", report.duration_ms / 1000.0);
    println!("throughput     {:.0} output tok/s", report.output_throughput_tok_s());
    println!(
        "TTFT           {:.0} ms mean, {:.0} ms p95",
        report.ttft.mean, report.ttft.p95
    );
    println!(
        "TPOT           {:.1} ms mean, {:.1} ms p95",
        report.tpot.mean, report.tpot.p95
    );
    println!(
        "E2E latency    {:.0} ms mean, {:.0} ms p95",
        report.e2e_latency.mean, report.e2e_latency.p95
    );
    for warning in &report.warnings {
        println!("warning: {warning}");
    }
    Ok(())
}
