//! One simulation, from a spec to its outcome.

use std::fmt;
use std::path::PathBuf;

use dynosim_core::{Outcome, RouterFactory, Stepping, WorkerShape};
use dynosim_router::{Pool, Router};
use dynosim_spec::{Admission, Calibration, RouterSettings, RunSpec, WorkerRole, Workload};
use dynosim_timing::TimingProvider;

use crate::error::Error;
use crate::error_bands::error_bands;
use crate::overload::overload_warning;
use crate::scenario::{load_scenario, scenario, timing_provider, with_timing};
use crate::step_times::StepTimes;

/// One simulation of which single parts can be replaced before it starts.
pub struct Run<'a> {
    spec: &'a RunSpec,
    timing: Option<&'a dyn TimingProvider>,
    perfdata: Option<PathBuf>,
    calibration: Option<Calibration>,
    build_router: RouterFactory<'a>,
    workload: Option<Workload>,
    warnings: Vec<String>,
    keep_token_times: bool,
    keep_breakdown: bool,
    keep_details: bool,
    stepping: Stepping,
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("spec", self.spec).finish_non_exhaustive()
    }
}

impl<'a> Run<'a> {
    /// The simulation that a spec describes.
    pub fn new(spec: &'a RunSpec) -> Self {
        Self {
            spec,
            timing: None,
            perfdata: None,
            calibration: None,
            build_router: &build_router,
            workload: None,
            warnings: Vec::new(),
            keep_token_times: false,
            keep_breakdown: false,
            keep_details: false,
            stepping: Stepping::default(),
        }
    }

    /// Prices steps with this provider instead of the one that the spec names.
    #[must_use]
    pub fn timing(mut self, provider: &'a dyn TimingProvider) -> Self {
        self.timing = Some(provider);
        self
    }

    /// Reads measured tables from this folder instead of the bundled ones.
    #[must_use]
    pub fn perfdata(mut self, folder: impl Into<PathBuf>) -> Self {
        self.perfdata = Some(folder.into());
        self
    }

    /// Adds to kernels what this record says instead of the one that the spec names; rules `vllm-v1-async` only, under
    /// others without effect.
    #[must_use]
    pub fn calibration(mut self, calibration: Calibration) -> Self {
        self.calibration = Some(calibration);
        self
    }

    /// Routes with routers of your own, one per pool.
    #[must_use]
    pub fn routers(mut self, build_router: RouterFactory<'a>) -> Self {
        self.build_router = build_router;
        self
    }

    /// Serves these requests instead of those that the spec describes.
    #[must_use]
    pub fn workload(mut self, workload: Workload) -> Self {
        self.workload = Some(workload);
        self
    }

    /// Puts these warnings into the report, ahead of its own.
    #[must_use]
    pub fn warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    /// Keeps the time of every token, for [`Outcome::token_times`]; costs memory.
    #[must_use]
    pub fn keep_token_times(mut self) -> Self {
        self.keep_token_times = true;
        self
    }

    /// Notes what time is spent on, for [`Report::breakdown`](crate::Report::breakdown); slow.
    #[must_use]
    pub fn keep_breakdown(mut self) -> Self {
        self.keep_breakdown = true;
        self
    }

    /// Keeps the phases of every request and the state of every pool over time, for [`Outcome::details`]; the results
    /// are the same, and so, nearly, is the speed.
    #[must_use]
    pub fn keep_details(mut self) -> Self {
        self.keep_details = true;
        self
    }

    /// Computes decode steps in this way; the results are the same.
    #[doc(hidden)]
    #[must_use]
    pub fn stepping(mut self, stepping: Stepping) -> Self {
        self.stepping = stepping;
        self
    }

    /// Runs the simulation.
    ///
    /// # Errors
    /// If the spec is not valid, something it names does not exist or cannot be read, or the run
    /// cannot be set up or finished.
    pub fn simulate(self) -> Result<Outcome, Error> {
        let spec = self.spec;
        spec.validate()?;
        let pools = spec.topology.pools();
        let roles: Vec<WorkerRole> = pools.iter().map(|pool| pool.role).collect();
        let scenario = match self.workload {
            Some(workload) => scenario(&spec.engine, &spec.hardware, workload, &roles)?,
            None => load_scenario(&spec.engine, &spec.hardware, &spec.workload, &roles)?,
        };
        let scenario = with_timing(scenario, &spec.timing, self.calibration)?;
        let perfdata = self.perfdata.as_deref();
        let built_in = timing_provider(&spec.timing, &spec.engine, perfdata);
        let provider = self.timing.unwrap_or(built_in.as_ref());
        let step_times = match self.timing {
            Some(_) => StepTimes::Own,
            None => StepTimes::built_in(&spec.timing, &spec.engine, &spec.hardware, perfdata),
        };
        let shapes = pools
            .iter()
            .map(|pool| scenario.worker_shape(pool.role, pool.shape, provider))
            .collect::<Result<Vec<WorkerShape>, _>>()?;
        let mut warnings = self.warnings;
        warnings.extend(step_times.warning());
        warnings.extend(scenario.warnings(&shapes.iter().collect::<Vec<_>>(), spec.router.mode));
        let workers: Vec<(&WorkerShape, u32)> = shapes.iter().zip(pools.iter().map(|pool| pool.workers)).collect();
        let prompts = scenario.prompts(pools[0].role);
        let settings = spec.router.settings();
        let mut simulation =
            scenario.simulation(&workers, &prompts, &settings, spec.router_seed(), self.build_router)?;
        if self.keep_token_times {
            simulation = simulation.keep_token_times();
        }
        simulation = simulation.stepping(self.stepping);
        if self.keep_breakdown {
            simulation = simulation.keep_breakdown();
        }
        if self.keep_details {
            simulation = simulation.keep_details();
        }
        let mut outcome = simulation.run(warnings)?;
        if scenario.workload().admission() == Admission::OpenLoop {
            let overload = overload_warning(&outcome);
            outcome.report.warnings.extend(overload);
        }
        outcome.report.calibration = scenario.physics().map(|physics| physics.calibration.name.clone());
        if self.timing.is_none() {
            outcome.report.error_bands = error_bands(spec, &scenario, &outcome);
        }
        Ok(outcome)
    }
}

/// Simulates what a spec describes, with everything built in.
///
/// # Errors
/// As [`Run::simulate`].
pub fn run(spec: &RunSpec) -> Result<Outcome, Error> {
    Run::new(spec).simulate()
}

fn build_router(settings: &RouterSettings, pool: Pool, seed: u64) -> Box<dyn Router> {
    dynosim_router::build(settings, pool, seed)
}
