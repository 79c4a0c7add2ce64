//! Simulations compared with measurements, by hand and by themselves.

use std::sync::Arc;

use dynosim::spec::{Deployment, LoadPoint, MeasuredSetup};
use dynosim::timing::{Price, StepShape, TimingError, TimingModel};
use dynosim::validation::{Choice, ErrorGroup, MeasuredPoints, PerLatency, Validation, Validator};
use proptest::prelude::*;
use serde_json::{Value, json};

const HEADER: &str = "tp,isl,osl,concurrency,ttft_mean_ms,tpot_mean_ms";

fn setup(workload: &Value) -> MeasuredSetup {
    let document = json!({
        "engine": {
            "model": "some-model", "backend": "vllm", "rules": "vllm-v1", "baseEngineArgs": { "num_gpu_blocks": 10_000 }
        },
        "hardware": { "system": "h200_sxm" },
        "workload": workload,
        "timing": { "provider": "polynomial" },
    });
    MeasuredSetup::from_json(&document.to_string())
        .expect("the setup is valid")
        .value
}

/// A step takes 20 ms for prompts, and 10 ms for decoding on one GPU, less on more.
#[derive(Debug)]
struct Even {
    tp: u32,
}

impl TimingModel for Even {
    fn prefill(&self, _step: &StepShape) -> Price {
        Price::known(20.0)
    }

    fn decode(&self, _step: &StepShape) -> Price {
        Price::known(10.0 / f64::from(self.tp))
    }
}

fn validate_evenly(rows: &str) -> Validation {
    let setup = setup(&json!({}));
    let csv = format!("{HEADER},kv_limited\n{rows}");
    let measured = MeasuredPoints::read(&[("m.csv", &csv)], &setup, None).expect("the points are right");
    let even = |deployment: &Deployment| -> Result<Arc<dyn TimingModel>, TimingError> {
        Ok(Arc::new(Even {
            tp: deployment.shape.tp,
        }))
    };
    Validator::new(&setup)
        .timing(&even)
        .validate(measured)
        .expect("the points can be simulated")
}

#[track_caller]
fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-12, "{found} instead of {expected}");
}

/// One request at a time: TTFT is 20 ms, TPOT 10 or 5 ms.
#[test]
fn statistics_are_those_computed_by_hand() {
    let validation = validate_evenly("1,100,11,1,25,8,0\n2,100,11,1,16,10,0\n2,200,11,1,40,20,1\n");
    let errors: Vec<[f64; 2]> = validation
        .points
        .iter()
        .map(|point| [point.errors.ttft, point.errors.tpot].map(|error| error.expect("both were measured")))
        .collect();
    for (found, expected) in errors.iter().zip([[-0.2, 0.25], [0.25, -0.5], [-0.5, -0.75]]) {
        close(found[0], expected[0]);
        close(found[1], expected[1]);
    }
    let groups: Vec<ErrorGroup> = validation.groups.iter().map(|group| group.group).collect();
    assert_eq!(
        groups,
        [
            ErrorGroup::All,
            ErrorGroup::Tp { tp: 1 },
            ErrorGroup::Tp { tp: 2 },
            ErrorGroup::Shape { isl: 100, osl: 11 },
            ErrorGroup::KvLimited,
        ]
    );
    let all = validation.groups[0].errors.ttft.expect("two points");
    assert_eq!(all.points, 2);
    close(all.bias, 0.025);
    close(all.mean_absolute, 0.225);
    close(all.worst, 0.25);
    let limited = validation.groups[4].errors.tpot.expect("one point");
    close(limited.bias, -0.75);
}

/// Two at a time begin in one pass, so their latencies are those of one.
#[test]
fn curves_are_relative_to_the_lowest_concurrency() {
    let validation = validate_evenly("1,100,11,2,30,8,0\n1,100,11,1,25,10,0\n1,100,11,4,5,50,1\n2,100,11,1,5,5,0\n");
    let [curve] = &validation.curves[..] else {
        panic!("one curve has two points: {:?}", validation.curves);
    };
    let ttft = curve.curves.ttft.as_ref().expect("two points");
    assert_eq!((ttft.base_concurrency, ttft.points.len()), (1, 1));
    close(ttft.points[0].measured, 1.2);
    close(ttft.points[0].simulated, 1.0);
    close(ttft.errors.bias, 1.0 / 1.2 - 1.0);
    let tpot = validation.shape_errors.tpot.expect("one point");
    close(tpot.bias, 0.25);
}

#[test]
fn choices_follow_measurement_and_simulation() {
    let validation = validate_evenly("1,100,11,1,20,20,0\n2,100,11,1,20,30,0\n1,100,11,2,20,40,1\n");
    // Simulated: 10 ms on one GPU and 1000 x 11 / 120 tok/s, 5 ms on two and 1000 x 11 / 70 / 2.
    let at = |bound_ms| {
        let cases = &validation.choices.details;
        *cases.iter().find(|case| case.bound_ms == bound_ms).expect("a bound")
    };
    let on = |tp| Some(Choice { tp, concurrency: 1 });
    assert_eq!((at(9).measured, at(9).simulated, at(9).agrees), (None, on(2), false));
    assert_eq!((at(10).measured, at(10).simulated, at(10).regret), (None, on(1), None));
    close(at(10).exceeds_by.expect("20 ms are more than 10"), 1.0);
    assert_eq!(
        (at(20).measured, at(20).simulated, at(20).regret),
        (on(1), on(1), Some(0.0))
    );
    assert_eq!((validation.choices.cases, validation.choices.agreements), (72, 61));
    assert_eq!(validation.choices.exceedances, 11);
    let with_limited = validation.choices_with_kv_limited.expect("a point is at the KV limit");
    let last = with_limited.details.last().expect("a bound of 80 ms");
    assert_eq!(last.measured.map(|choice| choice.concurrency), Some(2));
}

#[test]
fn a_point_that_fails_is_told_and_counts_for_nothing() {
    // 10,000 blocks of 64 tokens.
    let validation = validate_evenly("1,700000,11,1,20,10,0\n1,100,11,1,20,10,0\n");
    assert!(validation.points[0].failure.is_some());
    assert_eq!(validation.points[0].errors, PerLatency::default());
    assert_eq!(validation.groups[0].errors.ttft.map(|errors| errors.points), Some(1));
    let note = validation.notes.last().expect("a note");
    assert!(
        note.starts_with("m.csv, line 2: not simulated: every request is rejected"),
        "{note}"
    );
    assert!(validation.text().contains("failed"));
}

#[test]
fn nothing_that_can_be_simulated_is_an_error() {
    let setup = setup(&json!({}));
    let csv = format!("{HEADER}\n1,700000,11,1,20,10\n");
    let measured = MeasuredPoints::read(&[("m.csv", &csv)], &setup, None).expect("the point is right");
    let error = Validator::new(&setup).validate(measured).expect_err("it is too long");
    assert!(error.to_string().contains("every request is rejected"), "{error}");
}

#[test]
fn points_of_one_load_are_refused() {
    let setup = setup(&json!({}));
    let csv = format!("{HEADER}\n1,100,11,1,20,10\n1,100,12,1,20,10\n");
    let again = format!("{HEADER}\n1,100,11,1,20,10\n");
    let error = MeasuredPoints::read(&[("a.csv", &csv), ("b.csv", &again)], &setup, None).expect_err("the same load");
    assert_eq!(
        error.to_string(),
        "b.csv, line 2: repeats tp 1, isl 100, osl 11, concurrency 1 of a.csv, line 2; keep one of them, or their mean"
    );
}

/// A CSV file of what simulations give.
fn simulated_csv(setup: &MeasuredSetup, loads: &[LoadPoint], seeds: u32) -> String {
    let blank: Vec<String> = loads
        .iter()
        .map(|load| format!("{},{},{},{},1,1", load.tp, load.isl, load.osl, load.concurrency))
        .collect();
    let blank = blank.join("\n");
    let measured = MeasuredPoints::read(&[("m.csv", &format!("{HEADER}\n{blank}"))], setup, None);
    let validation = Validator::new(setup)
        .seeds(seeds)
        .validate(measured.expect("the points are right"))
        .expect("the points can be simulated");
    let rows = validation.points.iter().map(|point| {
        let LoadPoint {
            tp,
            isl,
            osl,
            concurrency,
            ..
        } = point.measured.load;
        let mean_ms = point.simulated.as_ref().expect("it was simulated").mean_ms;
        let ms =
            |mean: Option<dynosim::validation::SimulatedMean>| mean.map_or(String::new(), |mean| mean.ms.to_string());
        format!(
            "{tp},{isl},{osl},{concurrency},{},{}\n",
            ms(mean_ms.ttft),
            ms(mean_ms.tpot)
        )
    });
    format!("{HEADER}\n{}", rows.collect::<String>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_simulation_agrees_with_itself(
        ratio in prop_oneof![Just(1.0), 0.2_f64..1.0],
        seeds in 1_u32..4,
        mut loads in prop::collection::vec((1_u32..3, 50_u32..400, 4_u32..30, 1_u32..12), 1..6),
    ) {
        loads.sort_unstable();
        loads.dedup();
        let loads: Vec<LoadPoint> =
            loads.into_iter().map(|(tp, isl, osl, concurrency)| LoadPoint::new(tp, isl, osl, concurrency)).collect();
        let setup = setup(&json!({ "lengthRangeRatio": ratio }));
        let csv = simulated_csv(&setup, &loads, seeds);
        let measured = MeasuredPoints::read(&[("m.csv", &csv)], &setup, None).expect("the points are right");
        let validation = Validator::new(&setup).seeds(seeds).validate(measured).expect("it can be simulated");
        for point in &validation.points {
            prop_assert_eq!(point.errors, PerLatency { ttft: Some(0.0), tpot: Some(0.0) });
        }
        prop_assert_eq!(validation.choices.agreements, validation.choices.cases);
        prop_assert!(validation.choices.worst_regret.is_none_or(|regret| regret <= 0.0));
        for errors in [validation.shape_errors.ttft, validation.shape_errors.tpot].into_iter().flatten() {
            prop_assert!(errors.mean_absolute <= 0.0);
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let setup = setup(&json!({ "lengthRangeRatio": 0.5 }));
    let csv = format!("{HEADER}\n1,100,11,1,20,10\n1,100,11,7,20,10\n2,300,5,3,20,10\n");
    let json = |threads: usize| {
        let measured = MeasuredPoints::read(&[("m.csv", &csv)], &setup, None).expect("the points are right");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let validate = || {
            Validator::new(&setup)
                .validate(measured)
                .expect("it can be simulated")
                .to_json()
        };
        pool.expect("threads can be had").install(validate)
    };
    assert_eq!(json(1), json(4));
}

#[test]
fn the_files_say_what_the_result_says() {
    let validation = validate_evenly("1,100,11,1,25,8,0\n2,100,11,1,,10,1\n");
    let document: Value = serde_json::from_str(&validation.to_json()).expect("JSON");
    assert_eq!(
        (&document["format"], &document["version"]),
        (&json!("dynosim-validation"), &json!(1))
    );
    assert_eq!(document["setup"]["engine"]["model"], "some-model");
    assert_eq!(document["points"][0]["simulated"]["mean_ms"]["tpot"]["ms"], 10.0);
    assert_eq!(document["groups"][0]["group"], "all");

    let csv = validation.points_csv();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    assert_eq!((rows.len(), &rows[0][6], &rows[0][7]), (2, "25", "20"));
    assert_eq!((&rows[1][6], &rows[1][8], &rows[1][5]), ("", "", "1"));

    let svg = validation.svg();
    assert_eq!(svg.matches("<title>tp ").count(), 3, "two TPOTs and one TTFT");
    assert_eq!(svg.matches("mark hollow").count(), 1);
    assert!(svg.contains("prefers-color-scheme: dark"));
}
