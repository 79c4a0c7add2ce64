//! What measured points have in common: a simulation without its lengths, its load and its size.

use serde::Serialize;

use super::engine::{EngineSpec, Pools};
use super::idle;
use super::parts::{HardwareSpec, TimingSpec};
use super::router::RunRouterSpec;
use super::run::{RunSpec, warn_about_idle_routing};
use super::topology::Topology;
use crate::engine::Backend;
use crate::engine_args::Limit;
use crate::error::{Checked, SpecError};
use crate::parallel_shape::ParallelShape;
use crate::reader::{self, Presence, Real, Section, Whole};
use crate::workload_spec::{SyntheticLoad, SyntheticWorkload, WorkloadSpec};

/// What is said about keys whose values come with the measured points.
const BY_POINT: &str = "the measured points say it";

/// Engine, GPU and timing that measured points have in common; [`run`](Self::run) puts a point to it.
///
/// ```
/// use dynosim_spec::{LoadPoint, MeasuredSetup};
///
/// let setup = MeasuredSetup::from_json(
///     r#"{
///         "engine": { "model": "Qwen/Qwen3-32B", "backend": "vllm" },
///         "hardware": { "system": "h200_sxm" },
///         "workload": { "lengthRangeRatio": 0.8 }
///     }"#,
/// )?
/// .value;
/// let run = setup.run(&LoadPoint::new(4, 1024, 128, 16), 0);
/// assert_eq!(run.topology.total_gpus(), 4);
/// run.validate()?;
/// # Ok::<(), dynosim_spec::SpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredSetup {
    /// Model and engine settings.
    pub engine: EngineSpec,
    /// The GPU.
    pub hardware: HardwareSpec,
    /// GPUs of the worker, for points that do not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<MeasuredTopology>,
    /// Routing.
    pub router: RunRouterSpec,
    /// How lengths vary.
    pub workload: MeasuredWorkload,
    /// Where step times come from.
    pub timing: TimingSpec,
    /// Seed of router ties and router temperature, unless the router has its own.
    pub seed: u64,
}

/// The one worker that points were measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MeasuredTopology {
    /// GPUs of the worker (tensor parallel), at least 1.
    pub tp: u32,
}

/// What the workloads of measured points have in common.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredWorkload {
    /// Shortest length as a share of the longest, above 0 and at most 1; see [`SyntheticWorkload`].
    pub length_range_ratio: f64,
}

/// One measured load: a closed loop on one aggregated worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct LoadPoint {
    /// GPUs of the worker.
    pub tp: u32,
    /// Prompt tokens, the most if lengths differ.
    pub isl: u32,
    /// Output tokens, the most if lengths differ.
    pub osl: u32,
    /// Requests in flight.
    pub concurrency: u32,
    /// Requests in all.
    pub requests: u32,
}

impl LoadPoint {
    /// A load of ten requests for each one in flight.
    pub fn new(tp: u32, isl: u32, osl: u32, concurrency: u32) -> Self {
        Self {
            tp,
            isl,
            osl,
            concurrency,
            requests: concurrency.saturating_mul(10),
        }
    }
}

impl MeasuredSetup {
    /// Equal lengths, round robin, table timing and seed 0.
    pub fn new(engine: EngineSpec, hardware: HardwareSpec) -> Self {
        Self {
            engine,
            hardware,
            topology: None,
            router: RunRouterSpec::default(),
            workload: MeasuredWorkload {
                length_range_ratio: 1.0,
            },
            timing: TimingSpec::default(),
            seed: 0,
        }
    }

    /// Reads a setup from JSON.
    ///
    /// # Errors
    ///
    /// [`SpecError::Syntax`] if the text is not JSON, [`SpecError::Invalid`] with all its mistakes otherwise.
    pub fn from_json(text: &str) -> Result<Checked<Self>, SpecError> {
        let blank = Self::new(EngineSpec::new("model", Backend::Vllm), HardwareSpec::new("system"));
        reader::read(text, blank, Self::fields)
    }

    /// Checks a setup built in code by the rules that hold for JSON.
    ///
    /// # Errors
    ///
    /// [`SpecError::Invalid`] with all its mistakes.
    pub fn validate(&self) -> Result<(), SpecError> {
        reader::check(self, Self::fields)
    }

    /// The simulation of a point, its lengths drawn with this seed.
    ///
    /// One aggregated worker starts cold; all requests are ready at once, and as many as the concurrency are in
    /// flight. `max_num_seqs` is the concurrency, unless the setup gives it.
    pub fn run(&self, point: &LoadPoint, length_seed: u64) -> RunSpec {
        let mut engine = self.engine.clone();
        let max_num_seqs = &mut engine.base_engine_args.max_num_seqs;
        *max_num_seqs = max_num_seqs.or(Some(Limit::AtMost(point.concurrency)));
        let topology = Topology::Aggregated {
            workers: 1,
            shape: ParallelShape::tensor(point.tp),
        };
        RunSpec {
            router: self.router.clone(),
            timing: self.timing.clone(),
            seed: self.seed,
            ..RunSpec::new(
                engine,
                self.hardware.clone(),
                topology,
                WorkloadSpec::Synthetic(self.requests(point, length_seed)),
            )
        }
    }

    /// The requests of a point, their lengths drawn with this seed.
    pub fn requests(&self, point: &LoadPoint, length_seed: u64) -> SyntheticWorkload {
        let load = SyntheticLoad::Concurrency(point.concurrency);
        SyntheticWorkload {
            length_range_ratio: self.workload.length_range_ratio,
            length_seed,
            ..SyntheticWorkload::new(point.isl, point.osl, point.requests, load)
        }
    }

    fn fields(&mut self, section: &mut Section<'_, '_>) {
        let Self {
            engine,
            hardware,
            topology,
            router,
            workload,
            timing,
            seed,
        } = self;
        section.optional_object(
            "topology",
            topology,
            MeasuredTopology { tp: 1 },
            MeasuredTopology::fields,
        );
        section.object("engine", Presence::Required, |section| {
            engine.fields(section, Pools::Aggregated);
        });
        section.object("hardware", Presence::Required, |section| {
            hardware.fields(section, Presence::Optional);
        });
        section.object("workload", Presence::Optional, |section| workload.fields(section));
        section.object("router", Presence::Optional, |section| router.fields(section));
        section.object("timing", Presence::Optional, |section| timing.fields(section));
        section.optional("seed", seed, &Whole::at_least(0));
        warn_about_idle_routing(section, engine, Pools::Aggregated, router, *seed);
        idle::warn_about_physics(section, engine);
    }
}

impl MeasuredTopology {
    fn fields(&mut self, section: &mut Section<'_, '_>) {
        const ONE: Whole = Whole::at_least(1).at_most(1);
        section.optional("workers", &mut 1_u32, &ONE);
        section.required("tp", &mut self.tp, &Whole::at_least(1).at_most(65_536));
        for key in ["prefillWorkers", "decodeWorkers", "prefillTp", "decodeTp"] {
            section.hint(key, "points are measured on one aggregated worker");
        }
    }
}

impl MeasuredWorkload {
    fn fields(&mut self, section: &mut Section<'_, '_>) {
        let rule = Real::above(0.0).at_most(1.0);
        section.optional("lengthRangeRatio", &mut self.length_range_ratio, &rule);
        for key in ["isl", "osl", "concurrency", "requestCount"] {
            section.hint(key, BY_POINT);
        }
        section.hint("lengthSeed", "every point is simulated with several");
    }
}
