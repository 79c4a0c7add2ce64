//! What is said about a bound, against the figure of a report.

use dynosim_router::Pool;
use dynosim_spec::{
    Backend, EngineArgs, EngineSpec, GpuSpec, ParallelShape, RouterSettings, SimTime, SyntheticLoad, SyntheticWorkload,
    WorkerRole, Workload, WorkloadSpec,
};
use dynosim_timing::PolynomialTiming;
use proptest::prelude::*;

use super::*;
use crate::metrics::{Distribution, Report};
use crate::{Outcome, Scenario, SimError};

fn record(wait_nanos: u64, decode_nanos: u64, output_tokens: u32) -> RequestRecord {
    let first_token = SimTime::from_nanos(wait_nanos);
    RequestRecord {
        arrival: Some(SimTime::ZERO),
        first_admission: Some(SimTime::ZERO),
        first_token,
        last_token: first_token + SimDuration::from_nanos(decode_nanos),
        output_tokens,
        ..RequestRecord::default()
    }
}

/// Nanoseconds: some that round to a different limit, some of a real run, some that no float holds exactly.
fn span() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..50, 0_u64..10_000_000_000, 0_u64..1_000_000_000_000_000_000]
}

prop_compose! {
    fn any_record()(
        wait_nanos in span(),
        decode_nanos in span(),
        output_tokens in 1_u32..9,
    ) -> RequestRecord {
        record(wait_nanos, decode_nanos, output_tokens)
    }
}

fn any_latency() -> impl Strategy<Value = Latency> {
    prop::sample::select(Latency::ALL.to_vec())
}

fn any_statistic() -> impl Strategy<Value = Statistic> {
    prop_oneof![
        Just(Statistic::Mean),
        Just(Statistic::Percentile(95)),
        (0_u8..=100).prop_map(Statistic::Percentile)
    ]
}

/// Factors between a figure and a limit, many of them close to 1.
fn factor() -> impl Strategy<Value = f64> {
    let near = (-30_i32..30).prop_map(|steps| 1.0 + f64::from(steps) * 1e-7);
    prop_oneof![
        near,
        Just(1.0),
        Just(1.0 + f64::EPSILON),
        Just(1.0 - f64::EPSILON),
        0.0..2.0
    ]
}

/// The figure that a report has for these records.
fn figure(records: &[RequestRecord], latency: Latency, statistic: Statistic) -> f64 {
    let mut values: Vec<f64> = records.iter().filter_map(|record| latency.ms(record)).collect();
    let distribution = Distribution::of(&mut values);
    values.sort_by(f64::total_cmp);
    match statistic {
        Statistic::Mean => distribution.mean,
        Statistic::Percentile(_) if values.is_empty() => 0.0,
        Statistic::Percentile(95) => distribution.p95,
        Statistic::Percentile(percent) => {
            let rank = rank(values.len() as u64, u64::from(percent));
            values[usize::try_from(rank).expect("an index")]
        }
    }
}

/// After how many of these records, of `absent` more that may come, the bound is missed for certain.
fn missed_after(bound: LatencyBound, records: &[RequestRecord], absent: u64) -> Option<usize> {
    let with = |tokens: u32| records.iter().filter(|record| record.output_tokens >= tokens).count() as u64;
    let mut watch = Watch::new(&[bound], |tokens| with(tokens) + absent);
    let missed = records.iter().position(|record| watch.finished(record).is_some())?;
    Some(missed + 1)
}

proptest! {
    #[test]
    fn a_bound_that_is_kept_is_never_given_up(
        records in prop::collection::vec(any_record(), 1..40),
        absent in prop_oneof![3 => Just(0_u64), 1 => 1_u64..40],
        latency in any_latency(),
        statistic in any_statistic(),
        factor in factor(),
    ) {
        let figure = figure(&records, latency, statistic);
        let bound = LatencyBound { statistic, latency, limit_ms: figure * factor };
        if missed_after(bound, &records, absent).is_some() {
            prop_assert!(figure / bound.limit_ms - 1.0 > 0.0, "{:?} is not missed by {}", bound, figure);
        }
    }

    #[test]
    fn what_is_missed_by_more_than_the_margin_is_given_up_by_the_last_request(
        records in prop::collection::vec(any_record(), 1..40),
        latency in any_latency(),
        statistic in any_statistic(),
        factor in factor(),
    ) {
        let figure = figure(&records, latency, statistic);
        let limit_ms = figure * factor;
        // Twice the margin, and a nanosecond each for the limit's rounding, its margin and the latency's rounding.
        if figure > limit_ms * (1.0 + 2.0 * Tally::MARGIN) + 3e-6 {
            let bound = LatencyBound { statistic, latency, limit_ms };
            prop_assert!(missed_after(bound, &records, 0).is_some(), "{:?} is missed by {}", bound, figure);
        }
    }
}

/// Of ten requests with a TTFT of 100 ms, the bound is missed after so many.
#[track_caller]
fn check_of_ten(statistic: Statistic, limit_ms: f64, expected: Option<usize>) {
    let records = [record(100_000_000, 0, 1); 10];
    let bound = LatencyBound {
        statistic,
        latency: Latency::Ttft,
        limit_ms,
    };
    assert_eq!(missed_after(bound, &records, 0), expected, "{bound:?}");
}

#[test]
fn bounds_are_missed_as_early_as_they_can_be() {
    check_of_ten(Statistic::Mean, 9.9, Some(1));
    check_of_ten(Statistic::Mean, 10.0, Some(2));
    check_of_ten(Statistic::Mean, 54.0, Some(6));
    check_of_ten(Statistic::Mean, 100.0, None);
    // Ranks of ten values: 0, 5, 9 and 9.
    check_of_ten(Statistic::Percentile(0), 99.9, Some(10));
    check_of_ten(Statistic::Percentile(50), 99.9, Some(5));
    check_of_ten(Statistic::Percentile(95), 99.9, Some(1));
    check_of_ten(Statistic::Percentile(100), 99.9, Some(1));
    check_of_ten(Statistic::Percentile(255), 99.9, Some(1));
    check_of_ten(Statistic::Percentile(95), 100.0, None);
}

#[test]
fn limits_that_are_no_times_prove_nothing() {
    for limit_ms in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
        check_of_ten(Statistic::Mean, limit_ms, None);
        check_of_ten(Statistic::Percentile(95), limit_ms, None);
    }
    check_of_ten(Statistic::Mean, 0.0, Some(1));
}

#[test]
fn a_limit_between_nanoseconds_is_not_rounded_down() {
    let records = [2, 2, 3].map(|nanos| record(nanos, 0, 1));
    let bound = |limit_ms: f64| LatencyBound {
        statistic: Statistic::Mean,
        latency: Latency::Ttft,
        limit_ms,
    };
    let mean = figure(&records, Latency::Ttft, Statistic::Mean);
    assert_eq!(missed_after(bound(mean), &records, 0), None);
    assert_eq!(missed_after(bound(mean / 4.0), &records, 0), Some(3));
}

#[test]
fn requests_without_a_latency_prove_nothing() {
    let alone = [record(5, 0, 1); 3];
    for statistic in [Statistic::Mean, Statistic::Percentile(50)] {
        let bound = LatencyBound {
            statistic,
            latency: Latency::Tpot,
            limit_ms: 0.0,
        };
        assert_eq!(missed_after(bound, &alone, 0), None);
        assert_eq!(missed_after(bound, &alone, 2), None);
    }
}

#[test]
fn the_metrics_that_can_be_bounded() {
    let metrics = Report::default().metrics();
    let bounds: Vec<LatencyBound> = metrics
        .keys()
        .filter_map(|metric| {
            let bound = LatencyBound::on_metric(metric, 1.0)?;
            assert_eq!(&bound.metric(), metric);
            Some(bound)
        })
        .collect();
    assert_eq!(bounds.len(), Statistic::REPORTED.len() * Latency::ALL.len());
}

/// Sixty requests at once on one worker.
fn crowd(bounds: &[LatencyBound]) -> Result<Outcome, SimError> {
    let mut engine = EngineSpec::new("some-model", Backend::Vllm);
    engine.base_engine_args = EngineArgs {
        num_gpu_blocks: Some(100),
        ..EngineArgs::default()
    };
    let role = WorkerRole::Aggregated;
    let load = SyntheticWorkload::new(500, 20, 60, SyntheticLoad::Concurrency(60));
    let block_size = engine.config(role).block_size;
    let workload = Workload::load(&WorkloadSpec::Synthetic(load), block_size).expect("the workload is valid");
    let gpu = GpuSpec::find("h200_sxm").expect("the system is known");
    let scenario = Scenario::new(engine, None, gpu, workload);
    let worker = scenario.worker_shape(role, ParallelShape::tensor(1), &PolynomialTiming)?;
    let router = |settings: &RouterSettings, pool: Pool, seed: u64| dynosim_router::build(settings, pool, seed);
    scenario
        .simulation(
            &[(&worker, 1)],
            &scenario.prompts(role),
            &RouterSettings::default(),
            0,
            &router,
        )?
        .giving_up_beyond(bounds)
        .run(Vec::new())
}

#[test]
fn a_hopeless_run_is_given_up_early() {
    let report = crowd(&[]).expect("nothing is bounded").report;
    for (metric, value) in [
        ("mean_ttft_ms", report.ttft.mean),
        ("p95_ttft_ms", report.ttft.p95),
        ("mean_tpot_ms", report.tpot.mean),
        ("p95_tpot_ms", report.tpot.p95),
        ("mean_e2e_latency_ms", report.e2e_latency.mean),
        ("p95_e2e_latency_ms", report.e2e_latency.p95),
    ] {
        let kept = LatencyBound::on_metric(metric, value).expect("a latency");
        assert_eq!(crowd(&[kept]).expect("all bounds are kept").report, report);
        let missed = LatencyBound::on_metric(metric, value / 4.0).expect("a latency");
        let error = crowd(&[kept, missed]).expect_err("the bound is missed");
        let SimError::GivenUp {
            bound,
            finished,
            requests,
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!((bound, requests), (missed, 60));
        assert!((1..50).contains(&finished), "{metric} after {finished}");
        assert_eq!(
            error.to_string(),
            format!(
                "given up after {finished} of 60 requests: {metric} exceeds {} whatever comes",
                value / 4.0
            )
        );
    }
}
