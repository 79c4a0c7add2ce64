//! The constants that can be fitted, and within what.

use dynosim_spec::{Calibration, CalibrationConstants, Constant, GpuSpec};

use super::robust_fit::Parameter;

/// Factors that one fit may have.
pub(super) const MOST_FACTORS: usize = 5;

/// A constant of a calibration record that measurements of latencies can tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Factor {
    /// Its key in the record.
    pub(super) key: &'static str,
    /// What it is without a record; `None` is a third of the GPU's memory bandwidth.
    neutral: Option<f64>,
    /// Bounds; for a bandwidth, shares of the GPU's memory bandwidth.
    bounds: (f64, f64),
    /// A small change, as a share of the value if the factor is logarithmic.
    step: f64,
    /// Whether equal ratios rather than equal differences are alike.
    logarithmic: bool,
}

const fn factor(key: &'static str, neutral: f64, bounds: (f64, f64), step: f64, logarithmic: bool) -> Factor {
    Factor {
        key,
        neutral: Some(neutral),
        bounds,
        step,
        logarithmic,
    }
}

/// All of them. `kvCapacityFactor` is none: points at the KV limit are left out of fits, and it shows nowhere else.
const FACTORS: [Factor; 9] = [
    factor("gemmDerate", 1.0, (0.5, 3.0), 0.02, true),
    factor("allReduceCallUs", 0.0, (0.0, 50.0), 0.5, false),
    Factor {
        key: "decodeAttentionBandwidthTbS",
        neutral: None,
        bounds: (0.02, 1.0),
        step: 0.03,
        logarithmic: true,
    },
    factor("decodeAttentionFloorUs", 0.0, (0.0, 200.0), 0.5, false),
    factor("stepMs", 0.0, (0.0, 10.0), 0.05, false),
    factor("ingressMs", 0.0, (0.0, 200.0), 0.5, false),
    factor("ingressUsPerToken", 0.0, (0.0, 50.0), 0.2, false),
    factor("egressMs", 0.0, (0.0, 50.0), 0.5, false),
    factor("resendMs", 0.0, (0.0, 200.0), 0.5, false),
];

/// Keys of all constants that can be fitted.
pub(super) fn keys() -> Vec<&'static str> {
    FACTORS.iter().map(|factor| factor.key).collect()
}

/// The factor of a key.
pub(super) fn find(key: &str) -> Option<Factor> {
    FACTORS.into_iter().find(|factor| factor.key == key)
}

impl Factor {
    /// The value in a record, if it is there.
    pub(super) fn value_in(self, record: &Calibration) -> Option<f64> {
        let mut constants = record.constants.clone();
        self.place(&mut constants).as_ref().map(|constant| constant.value)
    }

    /// Puts a value into a record.
    pub(super) fn put(self, record: &mut Calibration, value: f64, source: &str) {
        *self.place(&mut record.constants) = Some(Constant::new(value, source));
    }

    /// What the search is told: where it begins, between which bounds, and what is a small change.
    pub(super) fn parameter(self, record: &Calibration, gpu: &GpuSpec) -> Parameter {
        let bandwidth_tb_s = gpu.memory_bandwidth / 1e12;
        let unit = if self.neutral.is_some() { 1.0 } else { bandwidth_tb_s };
        let start = self.value_in(record).or(self.neutral).unwrap_or(bandwidth_tb_s / 3.0);
        // A record may hold what the search would not look for; the search must not make it worse by that.
        Parameter {
            start: self.place_of(start),
            least: self.place_of(start.min(self.bounds.0 * unit)),
            most: self.place_of(start.max(self.bounds.1 * unit)),
            step: self.step,
        }
    }

    /// A value as the search sees it.
    fn place_of(self, value: f64) -> f64 {
        if self.logarithmic { value.ln() } else { value }
    }

    /// A value that the search found.
    pub(super) fn value_at(self, place: f64) -> f64 {
        if self.logarithmic { place.exp() } else { place }
    }

    /// The standard error of a value that the search found.
    pub(super) fn error_of(self, value: f64, error: f64) -> f64 {
        if self.logarithmic { value * error } else { error }
    }

    fn place(self, constants: &mut CalibrationConstants) -> &mut Option<Constant> {
        constants
            .get_mut(self.key)
            .expect("a test looks for every key in a record")
    }
}

#[cfg(test)]
mod tests {
    use dynosim_spec::{Backend, WeightFormat};

    use super::*;

    #[test]
    fn every_factor_has_its_place_in_a_record_that_admits_its_bounds() {
        let gpu = GpuSpec::find("h200_sxm").expect("it is known");
        for factor in FACTORS {
            let mut record = Calibration::neutral("n", Backend::Vllm, WeightFormat::Bfloat16);
            record.date = "today".to_owned();
            let parameter = factor.parameter(&record, &gpu);
            assert!(
                (parameter.least..=parameter.most).contains(&parameter.start),
                "{factor:?}"
            );
            for place in [parameter.least, parameter.start, parameter.most] {
                let value = factor.value_at(place);
                factor.put(&mut record, value, "a test");
                assert_eq!(factor.value_in(&record), Some(value));
                // The floor only counts beside it.
                record.constants.decode_attention_bandwidth_tb_s = Some(Constant::new(2.0, "a test"));
                let text = serde_json::to_string(&record).expect("a record is JSON");
                Calibration::from_json(&text).expect("the record is valid");
            }
        }
    }

    #[test]
    fn the_search_begins_with_the_record() {
        let gpu = GpuSpec::find("h200_sxm").expect("it is known");
        let mut record = Calibration::neutral("n", Backend::Vllm, WeightFormat::Bfloat16);
        let derate = find("gemmDerate").expect("it is one of them");
        derate.put(&mut record, 1.3, "a test");
        let start = derate.value_at(derate.parameter(&record, &gpu).start);
        assert!((start - 1.3).abs() < 1e-12);
        assert!((derate.error_of(1.3, 0.1) - 0.13).abs() < 1e-12);
        assert_eq!(find("kvCapacityFactor"), None);
        derate.put(&mut record, 9.0, "a test");
        let parameter = derate.parameter(&record, &gpu);
        assert!(parameter.least < parameter.start && parameter.start <= parameter.most);
    }
}
