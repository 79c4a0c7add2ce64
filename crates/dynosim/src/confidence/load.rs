//! The same workload with more or less load.

use dynosim_spec::{Admission, SyntheticLoad, SyntheticWorkload, TraceWorkload, Workload, WorkloadSpec};
use serde::Serialize;

/// What a load is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadQuantity {
    /// Sessions that arrive per second, on average; without later turns, requests.
    SessionsPerSecond,
    /// Requests in flight at most, in a closed loop.
    RequestsInFlight,
    /// Times as fast as the timestamps of a trace.
    ArrivalSpeedup,
}

/// The workload at `factor` times its load; `None` if all its requests arrive at once, which leaves nothing to scale.
///
/// - Poisson arrivals: the rate is multiplied. Gaps are drawn from the same random numbers, so arrivals are the same
///   ones, closer together.
/// - Equal gaps: the gap is divided.
/// - A trace replayed by its timestamps: its speed-up is multiplied, which divides think times as well.
/// - A closed loop: requests in flight are multiplied and rounded, to at least one. The number of synthetic sessions
///   changes in the same proportion, so that the run has as many rounds: with a fixed number, more of the run would be
///   its beginning and its end, where fewer requests are in flight, and differences would be due to that. A trace keeps
///   its requests, because there are no more.
pub(super) fn scaled(workload: &WorkloadSpec, factor: f64) -> Option<WorkloadSpec> {
    match workload {
        WorkloadSpec::Synthetic(synthetic) => scaled_synthetic(synthetic, factor).map(WorkloadSpec::Synthetic),
        WorkloadSpec::Trace(trace) => Some(WorkloadSpec::Trace(match trace.trace_replay_concurrency {
            Some(concurrency) => TraceWorkload {
                trace_replay_concurrency: Some(scaled_count(concurrency, factor)),
                ..trace.clone()
            },
            None => TraceWorkload {
                arrival_speedup_ratio: trace.arrival_speedup_ratio * factor,
                ..trace.clone()
            },
        })),
    }
}

fn scaled_synthetic(workload: &SyntheticWorkload, factor: f64) -> Option<SyntheticWorkload> {
    let mut scaled = workload.clone();
    scaled.load = match workload.load {
        SyntheticLoad::RequestRate(per_second) => SyntheticLoad::RequestRate(per_second * factor),
        SyntheticLoad::ArrivalIntervalMs(interval_ms) if interval_ms <= 0.0 => return None,
        SyntheticLoad::ArrivalIntervalMs(interval_ms) => SyntheticLoad::ArrivalIntervalMs(interval_ms / factor),
        SyntheticLoad::Concurrency(concurrency) => {
            let in_flight = scaled_count(concurrency, factor);
            let proportion = f64::from(in_flight) / f64::from(concurrency.max(1));
            scaled.request_count = scaled_count(workload.request_count, proportion);
            SyntheticLoad::Concurrency(in_flight)
        }
    };
    Some(scaled)
}

fn scaled_count(count: u32, factor: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and the checks of the workload refuse such counts"
    )]
    let scaled = (f64::from(count) * factor).round() as u32;
    scaled.max(1)
}

/// The load and what it is measured in.
pub(super) fn load_of(workload: &WorkloadSpec) -> (f64, LoadQuantity) {
    match workload {
        WorkloadSpec::Synthetic(synthetic) => match synthetic.load {
            SyntheticLoad::Concurrency(concurrency) => (concurrency.into(), LoadQuantity::RequestsInFlight),
            SyntheticLoad::RequestRate(per_second) => (
                per_second * synthetic.arrival_speedup_ratio,
                LoadQuantity::SessionsPerSecond,
            ),
            SyntheticLoad::ArrivalIntervalMs(interval_ms) => (
                1000.0 / interval_ms * synthetic.arrival_speedup_ratio,
                LoadQuantity::SessionsPerSecond,
            ),
        },
        WorkloadSpec::Trace(trace) => match trace.trace_replay_concurrency {
            Some(concurrency) => (concurrency.into(), LoadQuantity::RequestsInFlight),
            None => (trace.arrival_speedup_ratio, LoadQuantity::ArrivalSpeedup),
        },
    }
}

/// Requests per second that an open loop sends: those of a session times the sessions that arrive per second, from the
/// first arrival to one mean gap after the last. `None` in a closed loop, and if all sessions arrive at once.
pub(super) fn offered_rps(workload: &Workload) -> Option<f64> {
    if workload.admission() != Admission::OpenLoop {
        return None;
    }
    let first_turns = || workload.requests().iter().filter(|request| request.turn == 0);
    let first = first_turns().map(|request| request.delay).min()?;
    let last = first_turns().map(|request| request.delay).max()?;
    let span_seconds = (last.as_ms() - first.as_ms()) / 1000.0;
    let sessions = workload.session_count() as f64;
    let requests_per_session = workload.requests().len() as f64 / sessions;
    (span_seconds > 0.0).then(|| requests_per_session * (sessions - 1.0) / span_seconds)
}

#[cfg(test)]
mod tests {
    use dynosim_spec::BlockSize;

    use super::*;

    fn synthetic(load: SyntheticLoad) -> WorkloadSpec {
        WorkloadSpec::Synthetic(SyntheticWorkload::new(100, 10, 60, load))
    }

    #[track_caller]
    fn check(load: SyntheticLoad, factor: f64, expected: SyntheticLoad, sessions: u32) {
        let Some(WorkloadSpec::Synthetic(scaled)) = scaled(&synthetic(load), factor) else {
            panic!("{load:?} can be scaled");
        };
        assert_eq!((scaled.load, scaled.request_count), (expected, sessions));
    }

    #[test]
    fn open_loops_arrive_faster() {
        check(
            SyntheticLoad::RequestRate(4.0),
            1.5,
            SyntheticLoad::RequestRate(6.0),
            60,
        );
        check(
            SyntheticLoad::ArrivalIntervalMs(30.0),
            1.5,
            SyntheticLoad::ArrivalIntervalMs(20.0),
            60,
        );
        assert_eq!(scaled(&synthetic(SyntheticLoad::ArrivalIntervalMs(0.0)), 2.0), None);
    }

    #[test]
    fn closed_loops_keep_their_rounds() {
        use SyntheticLoad::Concurrency;
        check(Concurrency(12), 1.5, Concurrency(18), 90);
        check(Concurrency(12), 1.0, Concurrency(12), 60);
        // 2.25 is rounded to 2, and sessions go by what came of it.
        check(Concurrency(3), 0.75, Concurrency(2), 40);
        check(Concurrency(1), 0.25, Concurrency(1), 60);
    }

    #[test]
    fn traces_are_sped_up_or_replayed_with_more_in_flight() {
        let mut trace = TraceWorkload::new("trace.jsonl");
        trace.arrival_speedup_ratio = 2.0;
        let load = |trace: &TraceWorkload| {
            let scaled = scaled(&WorkloadSpec::Trace(trace.clone()), 1.5).expect("a trace can be scaled");
            load_of(&scaled)
        };
        assert_eq!(load(&trace), (3.0, LoadQuantity::ArrivalSpeedup));
        trace.trace_replay_concurrency = Some(10);
        assert_eq!(load(&trace), (15.0, LoadQuantity::RequestsInFlight));
    }

    #[test]
    fn offered_requests_count_turns() {
        let block = BlockSize::new(16).expect("not zero");
        let offered = |load, turns_per_session| {
            let spec = SyntheticWorkload {
                turns_per_session,
                ..SyntheticWorkload::new(100, 10, 60, load)
            };
            let workload = Workload::load(&WorkloadSpec::Synthetic(spec), block).expect("is sound");
            offered_rps(&workload)
        };
        let rate = offered(SyntheticLoad::ArrivalIntervalMs(250.0), 3).expect("an open loop");
        assert!((rate - 12.0).abs() < 1e-6, "{rate}");
        assert_eq!(offered(SyntheticLoad::ArrivalIntervalMs(0.0), 1), None);
        assert_eq!(offered(SyntheticLoad::Concurrency(2), 1), None);
    }
}
