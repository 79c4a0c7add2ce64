//! From the names in a spec to models, GPUs, requests and step times.

use std::fs;
use std::path::Path;

use dynosim_core::Scenario;
use dynosim_spec::{
    Admission, Calibration, EnginePhysics, EngineSpec, GpuSpec, HardwareSpec, ModelSpec, SpecError, TimingKind,
    TimingSpec, WorkerRole, Workload, WorkloadBuilder, WorkloadSpec,
};
use dynosim_timing::{PolynomialTiming, RooflineTiming, TableTiming, TimingProvider};

use crate::error::Error;

/// The built-in provider that a spec asks for; which tables it uses, and whether impossible measurements are replaced,
/// depends on backend and rules if the spec does not say. `perfdata` is a folder of tables to use instead of the
/// bundled ones.
pub fn timing_provider(timing: &TimingSpec, engine: &EngineSpec, perfdata: Option<&Path>) -> Box<dyn TimingProvider> {
    match timing.provider {
        TimingKind::Polynomial => Box::new(PolynomialTiming),
        TimingKind::Roofline => Box::new(RooflineTiming),
        TimingKind::Table => Box::new(tables(timing, engine, perfdata).repaired(timing.repairs(engine.rules))),
    }
}

/// The tables that a spec asks for, as published.
pub(crate) fn tables(timing: &TimingSpec, engine: &EngineSpec, perfdata: Option<&Path>) -> TableTiming {
    let version = timing.engine_version(engine.backend, engine.rules);
    let tables = TableTiming::new(Some(version.to_owned()));
    match perfdata {
        Some(folder) => tables.with_perfdata(folder),
        None => tables,
    }
}

/// Looks up the model and the GPU and makes the workload for workers of these roles.
///
/// A model that nothing is known about is accepted if every role pins `num_gpu_blocks`; whether
/// step times can be had without its facts is for the timing provider to say.
///
/// # Errors
/// If the GPU system or the model is unknown, or the workload cannot be made or read.
pub fn load_scenario(
    engine: &EngineSpec,
    hardware: &HardwareSpec,
    workload: &WorkloadSpec,
    roles: &[WorkerRole],
) -> Result<Scenario, Error> {
    let first_role = roles.first().copied().unwrap_or_default();
    let workload = Workload::load(workload, engine.config(first_role).block_size)?;
    scenario(engine, hardware, workload, roles)
}

/// The scenario with what `timing` says about the engine's own part in step times: its calibration, and what to
/// leave out. `calibration` is used instead of the one that `timing` names.
///
/// # Errors
/// If the calibration cannot be read.
pub(crate) fn with_timing(
    scenario: Scenario,
    timing: &TimingSpec,
    calibration: Option<Calibration>,
) -> Result<Scenario, Error> {
    let Some(bundled) = scenario.physics() else {
        return Ok(scenario);
    };
    let calibration = match calibration {
        Some(calibration) => calibration,
        None => named_calibration(timing, &bundled.calibration)?,
    };
    Ok(scenario.with_physics(EnginePhysics {
        calibration,
        without: timing.without.clone(),
    }))
}

/// The calibration that `timing` names, the bundled one being at hand.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn named_calibration(timing: &TimingSpec, bundled: &Calibration) -> Result<Calibration, Error> {
    match timing.calibration.as_deref() {
        None => Ok(bundled.clone()),
        Some(TimingSpec::NO_CALIBRATION) => {
            let Calibration { engine, weights, .. } = *bundled;
            Ok(Calibration::neutral(TimingSpec::NO_CALIBRATION, engine, weights))
        }
        Some(path) => read_calibration(Path::new(path)),
    }
}

/// The calibration of an engine on a GPU; `None` where rules or backend know none.
///
/// # Errors
/// If the GPU system or the model is unknown, or the calibration cannot be read.
pub(crate) fn calibration_of(
    engine: &EngineSpec,
    hardware: &HardwareSpec,
    timing: &TimingSpec,
) -> Result<Option<Calibration>, Error> {
    let role = WorkerRole::Aggregated;
    let no_requests = WorkloadBuilder::new(engine.config(role).block_size).build(Admission::OpenLoop);
    let scenario = scenario(engine, hardware, no_requests, &[role])?;
    let bundled = scenario.physics().map(|physics| &physics.calibration);
    bundled.map(|bundled| named_calibration(timing, bundled)).transpose()
}

/// Reads a calibration record from a file.
///
/// # Errors
/// If there is no such file, or it holds no valid record.
pub fn read_calibration(path: &Path) -> Result<Calibration, Error> {
    let text = fs::read_to_string(path).map_err(|source| Error::CalibrationFile {
        path: path.to_owned(),
        source,
    })?;
    let record = Calibration::from_json(&text).map_err(|source| Error::Calibration {
        path: path.to_owned(),
        source,
    })?;
    Ok(record.value)
}

/// As [`load_scenario`], with the requests at hand.
pub(crate) fn scenario(
    engine: &EngineSpec,
    hardware: &HardwareSpec,
    workload: Workload,
    roles: &[WorkerRole],
) -> Result<Scenario, Error> {
    let gpu = GpuSpec::find(&hardware.system)?;
    let blocks_pinned = roles.iter().all(|&role| engine.config(role).num_gpu_blocks.is_some());
    let model = match ModelSpec::find(&engine.model) {
        Ok(model) => Some(model),
        Err(SpecError::UnknownModel { .. }) if blocks_pinned => None,
        Err(error) => return Err(error.into()),
    };
    Ok(Scenario::new(engine.clone(), model, gpu, workload))
}
