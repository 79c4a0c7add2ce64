//! Where step times come from, for people.

use std::fmt;
use std::path::{Path, PathBuf};

use dynosim_spec::{Backend, EngineSpec, GpuSpec, HardwareSpec, TimingKind, TimingSpec};

use crate::scenario::tables;

/// The system that the roofline was calibrated on.
const CALIBRATED_SYSTEM: &str = "h200_sxm";

/// Where the step times of a run or a sweep come from; shown as half a sentence.
///
/// ```
/// use dynosim::StepTimes;
/// use dynosim::spec::{Backend, EngineSpec, HardwareSpec, TimingSpec};
///
/// let engine = EngineSpec::new("Qwen/Qwen3-32B", Backend::Vllm);
/// let step_times = StepTimes::built_in(&TimingSpec::default(), &engine, &HardwareSpec::new("h200_sxm"), None);
/// assert_eq!(step_times.to_string(), "measured tables of vllm 0.19.0 on h200_sxm");
/// assert_eq!(step_times.warning(), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepTimes {
    /// From measured tables.
    Tables {
        /// Serving engine.
        engine: &'static str,
        /// Its version.
        version: String,
        /// GPU system.
        system: String,
        /// The system that was measured, if its figures are scaled to the other.
        scaled_from: Option<String>,
        /// Folder of the tables, if they are not the bundled ones.
        folder: Option<PathBuf>,
    },
    /// From the peak rates of a GPU system.
    Roofline {
        /// GPU system.
        system: String,
    },
    /// From the reference's polynomial.
    Polynomial,
    /// From a provider that is not built in.
    Own,
}

impl StepTimes {
    /// Those of the provider that [`timing_provider`](crate::timing_provider) gives.
    pub fn built_in(
        timing: &TimingSpec,
        engine: &EngineSpec,
        hardware: &HardwareSpec,
        perfdata: Option<&Path>,
    ) -> Self {
        match timing.provider {
            TimingKind::Table => Self::Tables {
                engine: match engine.backend {
                    Backend::Vllm => "vllm",
                    Backend::Sglang => "sglang",
                },
                version: timing.engine_version(engine.backend, engine.rules).to_owned(),
                system: hardware.system.clone(),
                scaled_from: scaled_from(timing, engine, hardware, perfdata),
                folder: perfdata.map(Path::to_owned),
            },
            TimingKind::Roofline => Self::Roofline {
                system: hardware.system.clone(),
            },
            TimingKind::Polynomial => Self::Polynomial,
        }
    }

    /// What a reader of results ought to know about step times that nobody has measured. Models bound to
    /// tables say themselves what is wrong with those.
    pub fn warning(&self) -> Option<String> {
        let measured = match self {
            Self::Tables { .. } | Self::Own => true,
            Self::Roofline { system } => system == CALIBRATED_SYSTEM,
            Self::Polynomial => false,
        };
        (!measured).then(|| format!("step times are estimates: {self}"))
    }

    /// Whether a share of extrapolation says how far results are from measurements.
    pub const fn rest_on_measurements(&self) -> bool {
        matches!(self, Self::Tables { .. } | Self::Own)
    }
}

/// The system whose tables are scaled, if the one that was asked for has none. What is wrong with tables or
/// names, binding says.
fn scaled_from(
    timing: &TimingSpec,
    engine: &EngineSpec,
    hardware: &HardwareSpec,
    perfdata: Option<&Path>,
) -> Option<String> {
    let gpu = GpuSpec::find(&hardware.system).ok()?;
    let measured = tables(timing, engine, perfdata)
        .measured_system(&gpu, engine.backend)
        .ok()?;
    (measured != gpu.name).then_some(measured)
}

impl fmt::Display for StepTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tables {
                engine,
                version,
                system,
                scaled_from,
                folder,
            } => {
                match scaled_from {
                    None => write!(f, "measured tables of {engine} {version} on {system}")?,
                    Some(measured) => {
                        write!(
                            f,
                            "tables of {engine} {version} measured on {measured}, scaled to {system}"
                        )?;
                    }
                }
                match folder {
                    Some(folder) => write!(f, ", from {}", folder.display()),
                    None => Ok(()),
                }
            }
            Self::Roofline { system } if system == CALIBRATED_SYSTEM => {
                write!(f, "roofline of {system}, calibrated on measurements of it")
            }
            Self::Roofline { system } => {
                write!(f, "roofline of {system}, calibrated on H200; not measured on this GPU")
            }
            Self::Polynomial => f.write_str("polynomial, the same for every model and GPU"),
            Self::Own => f.write_str("a timing provider of your own"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(provider: TimingKind, system: &str, text: &str, warned: bool) {
        let timing = TimingSpec {
            provider,
            ..TimingSpec::default()
        };
        let engine = EngineSpec::new("model", Backend::Sglang);
        let step_times = StepTimes::built_in(&timing, &engine, &HardwareSpec::new(system), None);
        assert_eq!(step_times.to_string(), text);
        let warning = warned.then(|| format!("step times are estimates: {text}"));
        assert_eq!(step_times.warning(), warning);
    }

    #[test]
    fn what_nobody_measured_is_warned_about() {
        check(
            TimingKind::Table,
            "h200_sxm",
            "measured tables of sglang 0.5.6.post2 on h200_sxm",
            false,
        );
        // Models bound to scaled tables warn about it.
        check(
            TimingKind::Table,
            "h100_sxm",
            "tables of sglang 0.5.6.post2 measured on h200_sxm, scaled to h100_sxm",
            false,
        );
        check(
            TimingKind::Roofline,
            "h200_sxm",
            "roofline of h200_sxm, calibrated on measurements of it",
            false,
        );
        check(
            TimingKind::Roofline,
            "h100_sxm",
            "roofline of h100_sxm, calibrated on H200; not measured on this GPU",
            true,
        );
        check(
            TimingKind::Polynomial,
            "h200_sxm",
            "polynomial, the same for every model and GPU",
            true,
        );
    }

    #[test]
    fn tables_of_a_folder_say_so() {
        let engine = EngineSpec::new("model", Backend::Vllm);
        let hardware = HardwareSpec::new("l40s");
        let folder = Some(Path::new("mine"));
        let step_times = StepTimes::built_in(&TimingSpec::default(), &engine, &hardware, folder);
        assert_eq!(
            step_times.to_string(),
            "measured tables of vllm 0.19.0 on l40s, from mine"
        );
    }
}
