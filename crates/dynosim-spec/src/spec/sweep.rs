//! A sweep over deployments.

use std::thread;

use serde::Serialize;

use super::engine::{EngineSpec, Pools};
use super::idle;
use super::objective::Objective;
use super::parts::{HardwareSpec, TimingSpec};
use super::router::{SweepRouterMode, SweepRouterSpec};
use super::search::SearchSpec;
use super::sla::SlaSpec;
use crate::engine::{Backend, WorkerRole};
use crate::error::{Checked, SpecError};
use crate::reader::{self, OneOf, Presence, Section, Text, Whole};
use crate::workload_spec::WorkloadSpec;

/// Metrics of the usual trade-off: what the GPUs yield against what a user sees.
const DEFAULT_PARETO: [&str; 2] = ["throughput_per_gpu_tok_s", "mean_tpot_ms"];

/// A sweep: which deployment within a GPU budget serves a load best under latency bounds.
///
/// Serialising leaves `max_parallel_evals` out, because results do not depend on it and a written
/// spec should not depend on the host, and `search.stopHopeless` unless it is on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayOptimizeSpec {
    /// Model and engine settings.
    pub engine: EngineSpec,
    /// The GPU and the budget, which must be given.
    pub hardware: HardwareSpec,
    /// The load.
    pub workload: WorkloadSpec,
    /// Latency bounds.
    pub sla: SlaSpec,
    /// Routers to try.
    pub router: SweepRouterSpec,
    /// What the best deployment is best at.
    pub objective: Objective,
    /// Two or three metrics between which trade-offs are shown, by the names of result columns.
    pub pareto: Vec<String>,
    /// Simulations run at the same time, at least 1; see [`parallel_evals`](Self::parallel_evals).
    #[serde(skip)]
    pub max_parallel_evals: Option<u32>,
    /// Where step times come from.
    pub timing: TimingSpec,
    /// How widely to search.
    pub search: SearchSpec,
    /// Seed of router ties and router temperature.
    pub seed: u64,
}

impl ReplayOptimizeSpec {
    /// A sweep over a budget of `hardware.total_gpus` without latency bounds; everything else is default.
    pub fn new(engine: EngineSpec, hardware: HardwareSpec, workload: WorkloadSpec) -> Self {
        Self {
            engine,
            hardware,
            workload,
            sla: SlaSpec::default(),
            router: SweepRouterSpec::default(),
            objective: Objective::default(),
            pareto: DEFAULT_PARETO.map(str::to_owned).to_vec(),
            max_parallel_evals: None,
            timing: TimingSpec::default(),
            search: SearchSpec::default(),
            seed: 0,
        }
    }

    /// Reads a sweep from JSON.
    ///
    /// # Errors
    ///
    /// [`SpecError::Syntax`] if the text is not JSON, [`SpecError::Invalid`] with all its mistakes otherwise.
    pub fn from_json(text: &str) -> Result<Checked<Self>, SpecError> {
        reader::read(text, Self::blank(), Self::fields)
    }

    /// Checks a sweep built in code by the rules that hold for JSON.
    ///
    /// # Errors
    ///
    /// [`SpecError::Invalid`] with all its mistakes.
    pub fn validate(&self) -> Result<(), SpecError> {
        reader::check(self, Self::fields)
    }

    /// Simulations run at the same time: as asked for, else one per core of this host and at most 8.
    pub fn parallel_evals(&self) -> usize {
        match self.max_parallel_evals {
            Some(most) => usize::try_from(most).unwrap_or(usize::MAX).max(1),
            None => thread::available_parallelism().map_or(1, |cores| cores.get().min(8)),
        }
    }

    /// What is said about engine arguments that no worker reads when the sweep tries workers of these roles only.
    ///
    /// A spec does not say which topologies a sweep tries, so reading one does not warn about this.
    ///
    /// ```
    /// use dynosim_spec::{ReplayOptimizeSpec, WorkerRole};
    ///
    /// let text = r#"{
    ///     "engine": {"model": "Qwen/Qwen3-32B", "backend": "vllm", "prefillEngineArgs": {"max_num_seqs": 8}},
    ///     "hardware": {"system": "h200_sxm", "totalGpus": 8},
    ///     "workload": {"isl": 4000, "osl": 500, "requestCount": 100, "concurrency": 16}
    /// }"#;
    /// let spec = ReplayOptimizeSpec::from_json(text)?.value;
    /// assert_eq!(spec.unused_engine_args(&[WorkerRole::Prefill, WorkerRole::Decode]), [""; 0]);
    /// assert_eq!(
    ///     spec.unused_engine_args(&[WorkerRole::Aggregated]),
    ///     ["engine.prefillEngineArgs: has no effect, because the sweep has no prefill workers"]
    /// );
    /// # Ok::<(), dynosim_spec::SpecError>(())
    /// ```
    pub fn unused_engine_args(&self, roles: &[WorkerRole]) -> Vec<String> {
        self.engine.unused_args(roles)
    }

    /// What reading begins with; whatever has no default is replaced.
    fn blank() -> Self {
        Self::new(
            EngineSpec::new("model", Backend::Vllm),
            HardwareSpec::new("system"),
            WorkloadSpec::blank(),
        )
    }

    fn fields(&mut self, section: &mut Section<'_, '_>) {
        let Self {
            engine,
            hardware,
            workload,
            sla,
            router,
            objective,
            pareto,
            max_parallel_evals,
            timing,
            search,
            seed,
        } = self;
        section.object("engine", Presence::Required, |section| {
            engine.fields(section, Pools::Any);
        });
        section.object("hardware", Presence::Required, |section| {
            hardware.fields(section, Presence::Required);
        });
        section.object("workload", Presence::Required, |section| workload.fields(section));
        section.object("sla", Presence::Optional, |section| sla.fields(section));
        section.object("router", Presence::Optional, |section| router.fields(section));
        section.optional("objective", objective, &OneOf);
        if section.list("pareto", pareto, &Text) {
            check_pareto(section, pareto);
        }
        section.option("maxParallelEvals", max_parallel_evals, &Whole::at_least(1));
        section.object("timing", Presence::Optional, |section| timing.fields(section));
        let arguments = engine.all_args();
        section.object("search", Presence::Optional, |section| {
            search.fields(section, engine.backend, &arguments);
        });
        section.optional("seed", seed, &Whole::at_least(0));
        let only_round_robin = router.mode == SweepRouterMode::RoundRobin;
        if only_round_robin && *seed != 0 {
            section.idle("seed", "with router mode round_robin");
        }
        if search.stop_hopeless && sla.active_bounds().next().is_none() {
            section.idle("search.stopHopeless", "without a bound in sla");
        }
        if *objective == Objective::Goodput && sla.per_request.is_none() {
            section.violation(
                "sla.perRequest",
                "is missing; objective goodput counts the requests that meet it",
            );
        }
        if *objective == Objective::Cost && hardware.gpu_hour_price.is_none() {
            section.violation("hardware.gpuHourPrice", "is missing; objective cost needs it");
        }
        idle::warn_about_queue_policies(section, engine, Pools::Any, only_round_robin, &router.base_config);
        idle::warn_about_shared_prefixes(section, engine, Pools::Any, workload);
        idle::warn_about_physics(section, engine);
        section.hint("topology", "a sweep searches for it; a single run needs it");
    }
}

/// A front is about two or three different metrics. Whether there are such metrics is for the sweep to say.
fn check_pareto(section: &mut Section<'_, '_>, metrics: &[String]) {
    if !(2..=3).contains(&metrics.len()) {
        let message = format!("must name two or three metrics, got {}", metrics.len());
        section.violation("pareto", message);
    }
    let repeated = (1..metrics.len()).find(|&index| metrics[..index].contains(&metrics[index]));
    if let Some(index) = repeated {
        section.violation("pareto", format!("names {} twice", metrics[index]));
    }
}
