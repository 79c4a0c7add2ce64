//! Synthetic workloads that cannot be.

use dynosim_spec::{SyntheticLoad, SyntheticWorkload};

use crate::synthetic::{load, spec};

#[test]
fn impossible_fields_are_named() {
    let check = |spec: SyntheticWorkload, expected: &str| match load(spec) {
        Ok(_) => panic!("loaded although {expected}"),
        Err(error) => assert_eq!(error.to_string(), expected),
    };
    check(
        SyntheticWorkload { isl: 0, ..spec() },
        "`workload.isl` is 0; it must be at least 1",
    );
    check(
        SyntheticWorkload { osl: 0, ..spec() },
        "`workload.osl` is 0; it must be at least 1",
    );
    check(
        SyntheticWorkload {
            request_count: 0,
            ..spec()
        },
        "`workload.requestCount` is 0; it must be at least 1",
    );
    check(
        SyntheticWorkload {
            turns_per_session: 0,
            ..spec()
        },
        "`workload.turnsPerSession` is 0; it must be at least 1",
    );
    for (ratio, shown) in [(0.0, "0"), (1.1, "1.1"), (f64::NAN, "NaN")] {
        check(
            SyntheticWorkload {
                length_range_ratio: ratio,
                ..spec()
            },
            &format!("`workload.lengthRangeRatio` is {shown}; it must be above 0 and at most 1"),
        );
    }
    check(
        SyntheticWorkload {
            shared_prefix_ratio: 1.5,
            ..spec()
        },
        "`workload.sharedPrefixRatio` is 1.5; it must be from 0 to 1",
    );
    check(
        SyntheticWorkload {
            inter_turn_delay_ms: f64::NAN,
            ..spec()
        },
        "`workload.interTurnDelayMs` is NaN; it must be a finite number of milliseconds from 0",
    );
    check(
        SyntheticWorkload {
            arrival_speedup_ratio: 0.0,
            ..spec()
        },
        "`workload.arrivalSpeedupRatio` is 0; it must be a finite number above 0",
    );
    check(
        SyntheticWorkload {
            load: SyntheticLoad::Concurrency(0),
            ..spec()
        },
        "`workload.concurrency` is 0; it must be at least 1",
    );
    check(
        SyntheticWorkload {
            load: SyntheticLoad::RequestRate(-1.0),
            ..spec()
        },
        "`workload.requestRate` is -1; it must be a finite number above 0",
    );
    check(
        SyntheticWorkload {
            load: SyntheticLoad::ArrivalIntervalMs(-1.0),
            ..spec()
        },
        "`workload.arrivalIntervalMs` is -1; it must be a finite number of milliseconds from 0",
    );
    check(
        SyntheticWorkload {
            request_count: u32::MAX,
            turns_per_session: u32::MAX,
            ..spec()
        },
        "the workload has more than 100000000 requests; lower `requestCount` or `turnsPerSession`, or shorten the trace",
    );
}

#[test]
fn times_beyond_the_clock_are_refused() {
    let beyond = |load_by, delay_ms| {
        let endless = SyntheticWorkload {
            load: load_by,
            inter_turn_delay_ms: delay_ms,
            ..spec()
        };
        load(endless).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let cure = "it must be such that no time exceeds the 584 years of the clock";
    assert_eq!(
        beyond(SyntheticLoad::ArrivalIntervalMs(1e14), 0.0),
        format!("`workload.arrivalIntervalMs` is 100000000000000; {cure}")
    );
    assert_eq!(
        beyond(SyntheticLoad::RequestRate(1e-12), 0.0),
        format!("`workload.requestRate` is 0.000000000001; {cure}")
    );
    assert_eq!(
        beyond(SyntheticLoad::Concurrency(1), 1e14),
        format!("`workload.interTurnDelayMs` is 100000000000000; {cure}")
    );
}
