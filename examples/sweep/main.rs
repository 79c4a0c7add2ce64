//! Shows a sweep: the example of NVIDIA's DynoSim guide, and how its published figures come about.
//!
//! Which disaggregated deployment of Qwen3-32B on 16 H200 GPUs serves prompts of 32,768 tokens, half of
//! them shared, with the most output tokens per second within latency bounds?
//!
//! ```sh
//! cargo run --release --example sweep
//! cargo run --release --example sweep -- --num-gpu-blocks 20000
//! cargo run --release --example sweep -- --trace-file trace.jsonl --arrival-speedup-ratio 2
//! ```

mod published;
mod question;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use dynosim::spec::{Objective, SweepRouterMode};
use dynosim::sweep::{Mode, Sweep};
use dynosim::{Error, StepTimes, summary, sweep_scenario, sweep_warnings, timing_provider};
use indicatif::{ProgressBar, ProgressStyle};
use serde::de::DeserializeOwned;

/// Searches deployments of Qwen3-32B on 16 H200 GPUs
#[derive(Debug, Parser)]
struct Flags {
    /// Replay this Mooncake-style trace instead of the synthetic workload
    #[arg(long)]
    trace_file: Option<PathBuf>,
    /// Divide the arrival times of the trace by this
    #[arg(long, requires = "trace_file", value_name = "RATIO")]
    arrival_speedup_ratio: Option<f64>,
    /// Simulations to run at the same time [default: one per core, at most 8]
    #[arg(long, value_name = "N")]
    max_parallel_evals: Option<u32>,
    /// Give every worker this many KV blocks of 512 tokens instead of as many as fit
    #[arg(long, value_name = "BLOCKS")]
    num_gpu_blocks: Option<u32>,
    /// Routers to try: `kv_router`, `round_robin` or `both`
    #[arg(long, value_name = "MODE", default_value = "both", value_parser = named::<SweepRouterMode>)]
    router_mode: SweepRouterMode,
    /// What to rank by: `throughput`, `mean_ttft` or `mean_e2e_latency`
    #[arg(long, value_name = "TARGET", default_value = "throughput", value_parser = named::<Objective>)]
    objective: Objective,
}

fn main() -> ExitCode {
    match search(&Flags::parse()) {
        // Whoever closes standard output has seen enough.
        Ok(text) => match io::stdout().write_all(text.as_bytes()) {
            Ok(()) | Err(_) => ExitCode::SUCCESS,
        },
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn search(flags: &Flags) -> Result<String, Error> {
    let spec = question::spec(flags);
    let scenario = sweep_scenario(&spec, &[Mode::Disagg])?;
    let provider = timing_provider(&spec.timing, &spec.engine, None);
    // Drawn on a terminal only.
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} simulations, {elapsed}") {
        bar.set_style(style);
    }
    let show_progress = |done: usize, planned: usize| {
        bar.set_length(planned as u64);
        bar.set_position(done as u64);
    };
    let step_times = StepTimes::built_in(&spec.timing, &spec.engine, &spec.hardware, None);
    let warnings = sweep_warnings(&spec, &[Mode::Disagg], &step_times);
    let sweep = Sweep::new(&spec, scenario, provider.as_ref())?
        .with_warnings(warnings)
        .with_progress(&show_progress);

    let result = sweep.optimize_dense_disagg()?;
    let mut text = summary(&result, 10);
    if flags.trace_file.is_none() {
        text.push_str(&published::comparison(&sweep, &result, provider.as_ref())?);
    }
    bar.finish_and_clear();

    for warning in &result.warnings {
        eprintln!("warning: {warning}");
    }
    let seconds = result.host_time.as_secs_f64();
    eprintln!("{} simulations took {seconds:.2} s on this host", result.simulations);
    Ok(text)
}

/// A value by its name in specs.
fn named<T: DeserializeOwned>(name: &str) -> Result<T, String> {
    serde_json::from_value(name.into()).map_err(|error| error.to_string())
}
