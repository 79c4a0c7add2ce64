//! What a real engine adds to the latencies of its kernels: figures with their sources.
//!
//! The structure of a step (one fused pass, padding, pipeline) belongs to the engine rules. Every constant
//! that had to be measured stands here, in one named record; a constant that nobody knows is left out
//! and has a neutral value.

mod bundled;

use serde::Serialize;

use crate::engine::Backend;
use crate::error::{Checked, SpecError};
use crate::model::WeightFormat;
use crate::reader::{self, OneOf, Presence, Real, Section, Text};
use crate::spec::StepTerm;

/// One figure and where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Constant {
    /// The figure, in the unit that its key names.
    pub value: f64,
    /// Where it was measured, published or fitted.
    pub source: String,
}

impl Constant {
    /// A figure from this source.
    pub fn new(value: f64, source: impl Into<String>) -> Self {
        Self {
            value,
            source: source.into(),
        }
    }
}

/// Constants of one engine version with weights of one number format.
///
/// As JSON: `name`, `engine`, `engineVersion`, `weights`, `date`, and `constants`, an object of
/// `{"value": ..., "source": ...}` by the names of [`CalibrationConstants`] in lowerCamelCase.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Calibration {
    /// Name by which results refer to it.
    pub name: String,
    /// Engine that the figures hold for.
    pub engine: Backend,
    /// Version or versions of that engine, for people.
    pub engine_version: String,
    /// Number format of the weights that the figures hold for.
    pub weights: WeightFormat,
    /// When the record was made, for people.
    pub date: String,
    /// The figures.
    pub constants: CalibrationConstants,
}

/// How an engine runs its kernels: calibrated constants, and which parts of a step are to be left out.
#[derive(Debug, Clone, PartialEq)]
pub struct EnginePhysics {
    /// The constants.
    pub calibration: Calibration,
    /// Parts that are left out, to see what they are worth.
    pub without: Vec<StepTerm>,
}

impl EnginePhysics {
    /// Everything, with these constants.
    pub fn new(calibration: Calibration) -> Self {
        Self {
            calibration,
            without: Vec::new(),
        }
    }

    /// The tokens of KV cache that fit, where `estimated` were estimated; a fraction of a token is nothing.
    pub fn calibrated_capacity(&self, estimated: u64) -> u64 {
        let factor = CalibrationConstants::value(self.calibration.constants.kv_capacity_factor.as_ref(), 1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole tokens, at least none"
        )]
        let calibrated = (estimated as f64 * factor) as u64;
        calibrated
    }

    /// Whether a part of a step counts.
    pub fn has(&self, term: StepTerm) -> bool {
        !self.without.contains(&term)
    }

    /// The value of a constant that belongs to a part of a step, or what is neutral.
    pub fn value(&self, term: StepTerm, constant: Option<&Constant>, neutral: f64) -> f64 {
        CalibrationConstants::value(constant.filter(|_| self.has(term)), neutral)
    }
}

macro_rules! constants {
    ($($(#[$meta:meta])* $field:ident, $key:literal, $rule:expr;)*) => {
        /// The figures of a [`Calibration`]; an absent one is neutral.
        #[derive(Debug, Clone, PartialEq, Default, Serialize)]
        #[serde(rename_all = "camelCase")]
        pub struct CalibrationConstants {
            $(
                $(#[$meta])*
                #[serde(skip_serializing_if = "Option::is_none", rename = $key)]
                pub $field: Option<Constant>,
            )*
        }

        impl CalibrationConstants {
            /// Every key of the record.
            pub const KEYS: &[&str] = &[$($key),*];

            /// The figure of a key; `None` if the key is unknown.
            pub fn get_mut(&mut self, key: &str) -> Option<&mut Option<Constant>> {
                match key {
                    $($key => Some(&mut self.$field),)*
                    _ => None,
                }
            }

            fn fields(&mut self, section: &mut Section<'_, '_>) {
                $(
                    let blank = Constant::new(0.0, "");
                    section.optional_object($key, &mut self.$field, blank, |constant, section| {
                        section.required("value", &mut constant.value, &$rule);
                        section.required("source", &mut constant.source, &Text);
                    });
                )*
            }
        }
    };
}

constants! {
    /// Factor by which large matrix multiplications of real data are slower than in the tables, reached at 8192
    /// tokens; neutral: 1.
    gemm_derate, "gemmDerate", Real::at_least(0.1).at_most(10.0);
    /// Microseconds that each all-reduce costs beyond the tables; neutral: 0.
    all_reduce_call_us, "allReduceCallUs", Real::at_least(0.0).at_most(1e6);
    /// Bandwidth in TB/s (1e12 bytes per second) at which attention of generated tokens reads the KV cache of one
    /// GPU; neutral: as in the tables.
    decode_attention_bandwidth_tb_s, "decodeAttentionBandwidthTbS", Real::above(0.0).at_most(1e6);
    /// Microseconds that this attention takes in a layer even if there is nothing to read; only counts beside the
    /// bandwidth; neutral: 0.
    decode_attention_floor_us, "decodeAttentionFloorUs", Real::at_least(0.0).at_most(1e6);
    /// Milliseconds of every step beside its kernels; neutral: 0.
    step_ms, "stepMs", Real::at_least(0.0).at_most(1e6);
    /// Milliseconds between a request's leaving the client and the scheduler's seeing it; neutral: 0.
    ingress_ms, "ingressMs", Real::at_least(0.0).at_most(1e9);
    /// Microseconds of that per prompt token; neutral: 0.
    ingress_us_per_token, "ingressUsPerToken", Real::at_least(0.0).at_most(1e6);
    /// Milliseconds between the end of a step and its tokens' reaching the client; neutral: 0.
    egress_ms, "egressMs", Real::at_least(0.0).at_most(1e9);
    /// Milliseconds that a closed-loop client takes from a last token to its next request; neutral: 0.
    resend_ms, "resendMs", Real::at_least(0.0).at_most(1e9);
    /// Factor on the estimated KV capacity; neutral: 1.
    kv_capacity_factor, "kvCapacityFactor", Real::above(0.0).at_most(100.0);
}

impl CalibrationConstants {
    /// The value of a constant, or what is neutral.
    pub fn value(constant: Option<&Constant>, neutral: f64) -> f64 {
        constant.map_or(neutral, |constant| constant.value)
    }
}

impl Calibration {
    /// A record of this name in which nothing is known.
    pub fn neutral(name: impl Into<String>, engine: Backend, weights: WeightFormat) -> Self {
        Self {
            name: name.into(),
            engine,
            engine_version: "any".to_owned(),
            weights,
            date: String::new(),
            constants: CalibrationConstants::default(),
        }
    }

    /// Name of the record of an engine that nothing is known about.
    pub const UNKNOWN: &str = "unknown";

    /// The bundled record for an engine with weights of this format; if there is none, a neutral one with the name
    /// [`Calibration::UNKNOWN`].
    pub fn bundled(engine: Backend, weights: WeightFormat) -> Self {
        bundled::texts()
            .filter_map(|text| Some(Self::from_json(text).ok()?.value))
            .find(|record| record.engine == engine && record.weights == weights)
            .unwrap_or_else(|| Self::neutral(Self::UNKNOWN, engine, weights))
    }

    /// Reads a record from JSON.
    ///
    /// # Errors
    ///
    /// [`SpecError::Syntax`] if the text is not JSON, [`SpecError::Invalid`] with all its mistakes otherwise.
    pub fn from_json(text: &str) -> Result<Checked<Self>, SpecError> {
        reader::read(
            text,
            Self::neutral("", Backend::Vllm, WeightFormat::Bfloat16),
            Self::fields,
        )
    }

    fn fields(&mut self, section: &mut Section<'_, '_>) {
        section.required("name", &mut self.name, &Text);
        section.required("engine", &mut self.engine, &OneOf);
        section.required("engineVersion", &mut self.engine_version, &Text);
        section.required("weights", &mut self.weights, &OneOf);
        section.required("date", &mut self.date, &Text);
        section.object("constants", Presence::Required, |section| {
            self.constants.fields(section);
            if self.constants.decode_attention_floor_us.is_some()
                && self.constants.decode_attention_bandwidth_tb_s.is_none()
            {
                section.violation(
                    "decodeAttentionFloorUs",
                    "only counts beside decodeAttentionBandwidthTbS; give that, too, or leave it out",
                );
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{"name": "mine", "engine": "vllm", "engineVersion": "0.10.2", "weights": "fp8_per_tensor",
        "date": "2026-01-31", "constants": {"gemmDerate": {"value": 1.25, "source": "own sweep"}}}"#;

    #[test]
    fn a_record_is_read_and_written_back() {
        let record = Calibration::from_json(RECORD).expect("the record is valid").value;
        assert_eq!(record.constants.gemm_derate, Some(Constant::new(1.25, "own sweep")));
        assert_eq!(record.constants.step_ms, None);
        let text = serde_json::to_string(&record).expect("a record is JSON");
        assert_eq!(Calibration::from_json(&text).expect("it is valid").value, record);
    }

    #[test]
    fn capacity_is_calibrated() {
        let mut physics = EnginePhysics::new(Calibration::neutral("mine", Backend::Vllm, WeightFormat::Bfloat16));
        assert_eq!(physics.calibrated_capacity(1001), 1001);
        physics.calibration.constants.kv_capacity_factor = Some(Constant::new(0.5, "test"));
        assert_eq!(physics.calibrated_capacity(1001), 500);
    }

    #[test]
    fn mistakes_name_their_place() {
        let check = |from: &str, to: &str, message: &str| {
            let error = Calibration::from_json(&RECORD.replace(from, to)).expect_err("there is a mistake");
            assert!(error.to_string().contains(message), "{error}");
        };
        check("1.25", "-1", "constants.gemmDerate.value");
        check("gemmDerate", "gemmDerat", "did you mean `gemmDerate`");
        check(
            "gemmDerate",
            "decodeAttentionFloorUs",
            "only counts beside decodeAttentionBandwidthTbS",
        );
        check(
            r#", "source": "own sweep""#,
            "",
            "constants.gemmDerate.source: is missing",
        );
    }

    #[test]
    fn every_key_leads_to_its_constant() {
        let mut constants = CalibrationConstants::default();
        for key in CalibrationConstants::KEYS {
            *constants.get_mut(key).expect("the key is known") = Some(Constant::new(1.0, "test"));
        }
        let json = serde_json::to_value(&constants).expect("constants are JSON");
        let keys: Vec<&str> = json
            .as_object()
            .expect("an object")
            .keys()
            .map(String::as_str)
            .collect();
        let mut known = CalibrationConstants::KEYS.to_vec();
        known.sort_unstable();
        let mut found = keys.clone();
        found.sort_unstable();
        assert_eq!(found, known);
        assert_eq!(constants.get_mut("noSuchKey"), None);
    }

    #[cfg(feature = "bundled")]
    #[test]
    fn bundled_records_are_valid_and_found() {
        for text in bundled::texts() {
            let record = Calibration::from_json(text).expect("bundled records are valid").value;
            assert_eq!(Calibration::bundled(record.engine, record.weights), record);
        }
        let unknown = Calibration::bundled(Backend::Sglang, WeightFormat::Bfloat16);
        assert_eq!(unknown.constants, CalibrationConstants::default());
    }
}
