//! Sweeps, from a spec to their results.

use dynosim_core::Scenario;
use dynosim_spec::{ReplayOptimizeSpec, WorkerRole, WorkloadSpec};
use dynosim_sweep::{Comparison, Mode, OptimizationResult, Sweep};

use crate::error::Error;
use crate::scenario::{load_scenario, timing_provider, with_timing};
use crate::step_times::StepTimes;

/// Searches deployments of one kind, with everything built in.
///
/// # Errors
/// If the spec is not valid, something it names does not exist or cannot be read, or no deployment
/// fits the budget.
///
/// ```
/// use dynosim::spec::ReplayOptimizeSpec;
/// use dynosim::sweep::Mode;
///
/// let spec = ReplayOptimizeSpec::from_json(
///     r#"{
///         "engine": { "model": "Qwen/Qwen3-32B", "backend": "vllm" },
///         "hardware": { "system": "h200_sxm", "totalGpus": 4 },
///         "workload": { "isl": 2000, "osl": 20, "requestCount": 40, "concurrency": 8 },
///         "sla": { "ttft": 1000 }
///     }"#,
/// )?
/// .value;
/// let result = dynosim::sweep(&spec, Mode::Disagg)?;
/// println!("{}", dynosim::summary(&result, 10));
/// # assert!(result.best_feasible.is_some());
/// # Ok::<(), dynosim::Error>(())
/// ```
pub fn sweep(spec: &ReplayOptimizeSpec, mode: Mode) -> Result<OptimizationResult, Error> {
    let provider = timing_provider(&spec.timing, &spec.engine, None);
    let sweep = Sweep::new(spec, sweep_scenario(spec, &[mode])?, provider.as_ref())?;
    let sweep = sweep.with_warnings(sweep_warnings(spec, &[mode], &built_in(spec)));
    Ok(sweep.optimize(&[mode])?)
}

/// Searches both kinds of deployments and chooses between their best states, with everything built in.
///
/// # Errors
/// As [`sweep()`], if that holds for both kinds.
pub fn compare(spec: &ReplayOptimizeSpec) -> Result<Comparison, Error> {
    let provider = timing_provider(&spec.timing, &spec.engine, None);
    let modes = [Mode::Agg, Mode::Disagg];
    let sweep = Sweep::new(spec, sweep_scenario(spec, &modes)?, provider.as_ref())?;
    let sweep = sweep.with_warnings(sweep_warnings(spec, &modes, &built_in(spec)));
    Ok(sweep.compare_agg_and_disagg()?)
}

fn built_in(spec: &ReplayOptimizeSpec) -> StepTimes {
    StepTimes::built_in(&spec.timing, &spec.engine, &spec.hardware, None)
}

/// Looks up what a sweep over deployments of these kinds needs: the model, the GPU and the requests.
///
/// It is for a [`Sweep`] with parts of your own: step times, routers, or somebody to tell about
/// progress. All kinds serve the same requests: where their blocks differ in size, synthetic prefixes are
/// shared in whole blocks of the larger size.
///
/// # Errors
/// If the spec is not valid, the GPU system or the model is unknown, or the workload cannot be made or
/// read.
pub fn sweep_scenario(spec: &ReplayOptimizeSpec, modes: &[Mode]) -> Result<Scenario, Error> {
    spec.validate()?;
    let workload = shared_workload(spec, modes);
    let scenario = load_scenario(&spec.engine, &spec.hardware, &workload, &roles(modes))?;
    with_timing(scenario, &spec.timing, None)
}

/// The workload of a sweep over deployments of these kinds: synthetic prefixes are shared in whole blocks of the largest size
/// of any candidate, so that all serve the same requests.
pub(crate) fn shared_workload(spec: &ReplayOptimizeSpec, modes: &[Mode]) -> WorkloadSpec {
    let mut workload = spec.workload.clone();
    if let WorkloadSpec::Synthetic(synthetic) = &mut workload
        && synthetic.shared_prefix_ratio > 0.0
        && synthetic.shared_prefix_block_size.is_none()
    {
        // Decode workers compute no prompts.
        let roles = roles(modes).into_iter().filter(|&role| role != WorkerRole::Decode);
        let own = roles.map(|role| spec.engine.config(role).block_size.tokens());
        let searched = spec.search.engine_args.block_size.iter().copied();
        synthetic.shared_prefix_block_size = if spec.search.engine_args.block_size.is_empty() {
            own.max()
        } else {
            searched.max()
        };
    }
    workload
}

/// What one ought to know about a sweep over deployments of these kinds with these step times, for
/// [`Sweep::with_warnings`]: engine arguments that it does not read, and step times that nobody has measured.
pub fn sweep_warnings(spec: &ReplayOptimizeSpec, modes: &[Mode], step_times: &StepTimes) -> Vec<String> {
    let mut warnings = spec.unused_engine_args(&roles(modes));
    warnings.extend(step_times.warning());
    warnings
}

fn roles(modes: &[Mode]) -> Vec<WorkerRole> {
    modes.iter().flat_map(|mode| mode.roles()).copied().collect()
}
