//! Constants fitted to points that were simulated with known ones.

use dynosim::Run;
use dynosim::calibrate::{CalibrationFit, Calibrator};
use dynosim::spec::{Backend, Calibration, Constant, LoadPoint, MeasuredSetup, WeightFormat};
use dynosim::validation::MeasuredPoints;
use serde_json::json;

const HEADER: &str = "tp,isl,osl,concurrency,ttft_mean_ms,tpot_mean_ms,kv_limited";

/// A setup that begins without any constants.
fn setup(rules: &str) -> MeasuredSetup {
    let document = json!({
        "engine": { "model": "Qwen/Qwen3-8B", "backend": "vllm", "rules": rules },
        "hardware": { "system": "h200_sxm" },
        "workload": { "lengthRangeRatio": 0.8 },
        "timing": { "calibration": "none" },
    });
    let read = MeasuredSetup::from_json(&document.to_string());
    read.expect("the setup is valid").value
}

fn loads() -> Vec<LoadPoint> {
    let mut loads = Vec::new();
    for tp in [1, 2] {
        for (isl, osl) in [(500, 60), (3000, 40)] {
            loads.extend([2, 8, 32].map(|concurrency| LoadPoint::new(tp, isl, osl, concurrency)));
        }
    }
    loads
}

/// What an engine with these constants would be measured at, as CSV rows.
fn measured_rows(setup: &MeasuredSetup, constants: &[(&str, f64)]) -> Vec<String> {
    let mut record = Calibration::neutral("truth", Backend::Vllm, WeightFormat::Bfloat16);
    for &(key, value) in constants {
        *record.constants.get_mut(key).expect("the key is known") = Some(Constant::new(value, "made up"));
    }
    loads()
        .iter()
        .map(|load| {
            let run = setup.run(load, 0);
            let report = Run::new(&run)
                .calibration(record.clone())
                .simulate()
                .expect("it can be simulated")
                .report;
            let LoadPoint {
                tp,
                isl,
                osl,
                concurrency,
                ..
            } = load;
            format!(
                "{tp},{isl},{osl},{concurrency},{},{},0",
                report.ttft.mean, report.tpot.mean
            )
        })
        .collect()
}

fn points(setup: &MeasuredSetup, rows: &[String]) -> MeasuredPoints {
    let csv = format!("{HEADER}\n{}\n", rows.join("\n"));
    MeasuredPoints::read(&[("m.csv", &csv)], setup, None).expect("the points are right")
}

fn keys(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

#[track_caller]
fn check(fit: &CalibrationFit, key: &str, expected: f64, within: f64) {
    let constant = fit.constants.iter().find(|constant| constant.key == key);
    let found = constant.expect("it was fitted").after.expect("it has an effect");
    assert!(
        (found - expected).abs() < within,
        "{key} is {found} instead of {expected}"
    );
}

#[test]
fn known_constants_are_found() {
    let setup = setup("vllm-v1-async");
    let truth = [
        ("gemmDerate", 1.25),
        ("stepMs", 0.6),
        ("decodeAttentionBandwidthTbS", 2.2),
    ];
    let rows = measured_rows(&setup, &truth);
    let fit = Calibrator::new(&setup)
        .seeds(1)
        .calibrate(points(&setup, &rows))
        .expect("the points tell the constants");
    assert!(fit.converged, "{fit:?}");
    check(&fit, "gemmDerate", 1.25, 0.02);
    check(&fit, "stepMs", 0.6, 0.03);
    check(&fit, "decodeAttentionBandwidthTbS", 2.2, 0.2);
    let error = |summary: Option<dynosim::validation::ErrorSummary>| summary.expect("there are points").mean_absolute;
    assert!(
        error(fit.before.tpot) > 0.05 && error(fit.after.tpot) < 0.003,
        "{}",
        fit.text()
    );
    let cross_validated = fit.cross_validated.expect("there are two pairs of lengths");
    assert!(
        error(cross_validated.tpot) < 0.01 && error(cross_validated.ttft) < 0.02,
        "{}",
        fit.text()
    );
    assert_eq!(fit.unexplained, []);
    assert_eq!(fit.record.engine_version, "0.19.0", "that of the tables");
    let constant = fit.record.constants.gemm_derate.expect("it was fitted");
    assert!(
        constant.source.starts_with("fitted to 12 measured points of m.csv"),
        "{}",
        constant.source
    );
}

#[test]
fn a_point_out_of_place_is_named_and_hardly_counts() {
    let setup = setup("vllm-v1-async");
    let mut rows = measured_rows(&setup, &[("stepMs", 0.6)]);
    let last = rows.last_mut().expect("there are rows");
    let load: Vec<&str> = last.split(',').take(4).collect();
    *last = format!("{},5000,90,0", load.join(","));
    let fit = Calibrator::new(&setup)
        .seeds(1)
        .fit(&keys(&["stepMs"]))
        .calibrate(points(&setup, &rows))
        .expect("the points tell the constant");
    check(&fit, "stepMs", 0.6, 0.03);
    let lines: Vec<u64> = fit.unexplained.iter().map(|figure| figure.point.line).collect();
    assert_eq!(lines, [13, 13]);
}

#[test]
fn points_of_other_sizes_show_how_constants_carry_over() {
    let setup = setup("vllm-v1-async");
    let mut rows = measured_rows(&setup, &[("stepMs", 0.6)]);
    // At the KV limit, so that it is not fitted.
    rows[0] = "1,500,60,2,99999,999,1".to_owned();
    let fit = Calibrator::new(&setup)
        .seeds(1)
        .tp(1)
        .fit(&keys(&["stepMs", "allReduceCallUs"]))
        .calibrate(points(&setup, &rows))
        .expect("the points tell the constant");
    assert_eq!(fit.points, 5);
    check(&fit, "stepMs", 0.6, 0.03);
    let [before, after] = fit.held_out.expect("there are points of tp 2");
    let worst = |errors: Option<dynosim::validation::ErrorSummary>| errors.expect("there are points").worst.abs();
    assert!(worst(before.tpot) > 0.05 && worst(after.tpot) < 0.01, "{}", fit.text());
    // One GPU has nobody to reduce with.
    assert_eq!(fit.constants[1].after, None);
    assert_eq!(fit.record.constants.all_reduce_call_us, None);
    assert_eq!(
        fit.notes,
        ["allReduceCallUs changes no fitted point, so it stays as it was"]
    );
}

#[test]
fn fits_that_cannot_be_made_say_why() {
    let refused = |setup: &MeasuredSetup, fit: &[&str], rows: &[&str]| {
        let rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
        let calibrator = Calibrator::new(setup).seeds(1).fit(&keys(fit));
        let error = calibrator.calibrate(points(setup, &rows));
        error.expect_err("it cannot be made").to_string()
    };
    let rows = ["1,500,60,2,20,8,0"];
    let plain = setup("vllm-v1");
    assert_eq!(
        refused(&plain, &["stepMs"], &rows),
        "constants only count with engine.backend vllm and engine.rules vllm-v1-async, and the setup has backend vllm \
         and rules vllm-v1; change it there"
    );
    let setup = setup("vllm-v1-async");
    let unknown = refused(&setup, &["kvCapacityFactor"], &rows);
    assert!(
        unknown.starts_with("there is no constant `kvCapacityFactor` to be fitted; there are gemmDerate, "),
        "{unknown}"
    );
    assert_eq!(
        refused(&setup, &["stepMs", "stepMs"], &rows),
        "stepMs is to be fitted more than once; name it once"
    );
    assert_eq!(refused(&setup, &[], &rows), "0 constants are to be fitted; name 1 to 5");
    let floor = refused(&setup, &["decodeAttentionFloorUs"], &rows);
    assert!(floor.contains("decodeAttentionBandwidthTbS"), "{floor}");
    let few = refused(&setup, &["stepMs", "gemmDerate"], &rows);
    assert!(few.starts_with("2 measured latencies do not tell 2 constants"), "{few}");
    let limited = refused(&setup, &["stepMs"], &["1,500,60,2,20,8,1"]);
    assert!(limited.starts_with("0 measured latencies"), "{limited}");
}
