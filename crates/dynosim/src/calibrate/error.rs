//! What can be wrong with the wish for a calibration.

use dynosim_spec::Rules;
use thiserror::Error;

/// Why nothing can be fitted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// Under these rules, or with this backend, no constant has an effect.
    #[error(
        "constants only count with engine.backend vllm and engine.rules vllm-v1-async, and the setup has {found}; \
         change it there"
    )]
    NoPhysics {
        /// What the setup has.
        found: String,
    },
    /// A constant that cannot be fitted.
    #[error("there is no constant `{key}` to be fitted; there are {}", known.join(", "))]
    UnknownFactor {
        /// What was asked for.
        key: String,
        /// What can be fitted.
        known: Vec<&'static str>,
    },
    /// A constant asked for twice.
    #[error("{key} is to be fitted more than once; name it once")]
    RepeatedFactor {
        /// The constant.
        key: String,
    },
    /// No constants, or too many.
    #[error("{given} constants are to be fitted; name 1 to {most}")]
    FactorCount {
        /// How many were asked for.
        given: usize,
        /// How many there may be.
        most: usize,
    },
    /// The floor only counts beside a bandwidth.
    #[error(
        "decodeAttentionFloorUs only counts beside decodeAttentionBandwidthTbS, which the calibration of the setup does \
         not have; fit that, too"
    )]
    FloorWithoutBandwidth,
    /// Fewer figures than constants, or as many.
    #[error(
        "{figures} measured latencies do not tell {factors} constants; points at the KV limit, of other GPU counts \
         and those that cannot be simulated do not count"
    )]
    TooFewFigures {
        /// Measured latencies.
        figures: usize,
        /// Constants to be fitted.
        factors: usize,
    },
}

impl CalibrationError {
    pub(super) fn no_physics(rules: Rules, backend: dynosim_spec::Backend) -> Self {
        let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let [backend, rules] = [serde_json::json!(backend), serde_json::json!(rules)].map(word);
        Self::NoPhysics {
            found: format!("backend {backend} and rules {rules}"),
        }
    }
}
